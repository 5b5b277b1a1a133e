package refclock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout of ntpd's struct shmTime on 64-bit machines, in native byte order
// ("Shared Memory Driver", type 28, of the NTP documentation).
const (
	shmMode        = 0 // 1: the reader checks that count did not change
	shmCount       = 4
	shmClockSec    = 8
	shmClockUsec   = 16
	shmSystemSec   = 24
	shmSystemUsec  = 32
	shmLeap        = 36
	shmPrecision   = 40 // log2 of seconds
	shmValid       = 48
	shmClockNsec   = 52
	shmSystemNsec  = 56
	shmLen         = 96
	shmKey         = 0x4e545030 // "NTP0"
	shmMaxUnit     = 255
	nanosecond     = -30 // as log2 of seconds
	privateUnits   = 2   // units 0 and 1 are root's
	privateSegment = 0o600
	publicSegment  = 0o666
)

// SHM writes samples into ntpd's shared memory of one unit.
type SHM struct{ mem []byte }

// OpenSHM attaches to the segment of a unit, which it makes if the daemon has
// not done so. Segments of units 0 and 1 are for root alone, as ntpd has it.
func OpenSHM(unit int) (*SHM, error) {
	if unit < 0 || unit > shmMaxUnit {
		return nil, fmt.Errorf("shared memory unit %d: 0 to %d are possible", unit, shmMaxUnit)
	}
	mode := publicSegment
	if unit < privateUnits {
		mode = privateSegment
	}
	id, err := unix.SysvShmGet(shmKey+unit, shmLen, unix.IPC_CREAT|mode)
	switch {
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("shared memory unit %d: %w: units 0 and 1 are root's, use 2 or more", unit, err)
	case err != nil:
		return nil, fmt.Errorf("shared memory unit %d: %w", unit, err)
	}
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("attach shared memory unit %d: %w", unit, err)
	}
	return &SHM{mem}, nil
}

func (m *SHM) word(offset int) *uint32 { return (*uint32)(unsafe.Pointer(&m.mem[offset])) }

// Write puts a sample there; one that the daemon has not read yet is lost.
func (m *SHM) Write(s Sample) error {
	count, valid := m.word(shmCount), m.word(shmValid)
	atomic.StoreUint32(valid, 0)
	atomic.AddUint32(count, 1)
	m.put(s)
	atomic.AddUint32(count, 1)
	atomic.StoreUint32(valid, 1)
	return nil
}

func (m *SHM) put(s Sample) {
	clock, system := unix.NsecToTimespec(s.Clock), unix.NsecToTimespec(s.System)
	binary.NativeEndian.PutUint64(m.mem[shmClockSec:], uint64(clock.Sec))
	binary.NativeEndian.PutUint64(m.mem[shmSystemSec:], uint64(system.Sec))
	precision := int32(nanosecond)
	for _, f := range []struct {
		at    int
		value uint32
	}{
		{shmMode, 1}, {shmLeap, uint32(s.Leap)}, {shmPrecision, uint32(precision)},
		{shmClockUsec, uint32(clock.Nsec / 1000)}, {shmClockNsec, uint32(clock.Nsec)},
		{shmSystemUsec, uint32(system.Nsec / 1000)}, {shmSystemNsec, uint32(system.Nsec)},
	} {
		binary.NativeEndian.PutUint32(m.mem[f.at:], f.value)
	}
}

// Close detaches. The segment stays, as the daemon may still use it; its last
// sample is no longer valid.
func (m *SHM) Close() error {
	atomic.StoreUint32(m.word(shmValid), 0)
	return unix.SysvShmDetach(m.mem)
}
