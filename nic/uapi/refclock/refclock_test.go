package refclock

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var sample = Sample{System: 1_262_304_000_123_456_789, Clock: 1_262_304_000_623_456_789, Leap: InsertSecond}

func TestSockDatagram(t *testing.T) {
	b := sample.sock()
	// 1262304000 = 0x4b3d3b00, 123456 = 0x1e240, 0.5 = 0x3fe0000000000000
	const want = "003b3d4b00000000" + "40e2010000000000" + "000000000000e03f" + "00000000" + "01000000" + "00000000" + "4b434f53"
	if got := hex.EncodeToString(b[:]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	before := Sample{System: -1, Clock: -2}.sock()
	if got := hex.EncodeToString(before[:16]); got != "ffffffffffffffff"+"3f420f0000000000" {
		t.Errorf("1 ns before the epoch: %s", got)
	}
}

func TestSockIsFoundAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	s := OpenSock(path)
	if err := s.Write(sample); err == nil || !strings.Contains(err.Error(), "refclock SOCK "+path) {
		t.Errorf("without chronyd: %v", err)
	}
	for range 2 { // the daemon, and the daemon started anew
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(sample); err != nil {
			t.Fatal(err)
		}
		var b [sockLen + 1]byte
		n, err := l.Read(b[:])
		if err != nil || [sockLen]byte(b[:sockLen]) != sample.sock() || n != sockLen {
			t.Errorf("read %d octets, %v", n, err)
		}
		l.Close()
		os.Remove(path)
		if err := s.Write(sample); err == nil {
			t.Error("written to nobody")
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// freeUnit makes the segment of a unit that nobody uses.
func freeUnit(t *testing.T) int {
	t.Helper()
	for unit := shmMaxUnit; unit >= privateUnits; unit-- {
		id, err := unix.SysvShmGet(shmKey+unit, shmLen, unix.IPC_CREAT|unix.IPC_EXCL|publicSegment)
		if err == nil {
			t.Cleanup(func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
			return unit
		}
	}
	t.Fatal("all units of shared memory are in use")
	return 0
}

func TestSharedMemory(t *testing.T) {
	unit := freeUnit(t)
	m, err := OpenSHM(unit)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := OpenSHM(unit)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Write(sample); err != nil {
		t.Fatal(err)
	}
	const want = "01000000" + "02000000" + // mode, count
		"003b3d4b00000000" + "60830900" + "00000000" + // clock: s, us, padding
		"003b3d4b00000000" + "40e20100" + "01000000" + // system: s, us; leap
		"e2ffffff" + "00000000" + "01000000" + // precision, samples, valid
		"15322925" + "15cd5b07" // clock and system: ns
	if got := hex.EncodeToString(reader.mem[:60]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if *reader.word(shmValid) != 0 {
		t.Error("the last sample outlives its writer")
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []int{-1, 256} {
		if _, err := OpenSHM(bad); err == nil {
			t.Errorf("unit %d was opened", bad)
		}
	}
}

type fakeSink struct {
	fail map[int]bool
	n    int
	done func()
}

func (f *fakeSink) Write(Sample) error {
	f.n++
	if f.n == 4 {
		f.done()
	}
	if f.fail[f.n] {
		return errors.New("nobody there")
	}
	return nil
}

func (f *fakeSink) Close() error { return nil }

func TestFeed(t *testing.T) {
	read := func(context.Context) (Sample, error) { return sample, nil }
	feed := func(fail ...int) (Stats, error) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakeSink{fail: map[int]bool{}, done: cancel}
		for _, n := range fail {
			f.fail[n] = true
		}
		return Feed(ctx, time.Microsecond, read, f)
	}
	if s, err := feed(2, 3); err != nil || s != (Stats{Written: 2, Lost: 2}) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := feed(1); err == nil || s != (Stats{}) {
		t.Errorf("first sample lost: %+v, %v", s, err)
	}
	broken := errors.New("no clock")
	_, err := Feed(t.Context(), time.Microsecond, func(context.Context) (Sample, error) { return Sample{}, broken }, &fakeSink{})
	if !errors.Is(err, broken) {
		t.Errorf("a clock that cannot be read: %v", err)
	}
	if _, err := Feed(t.Context(), 0, read, &fakeSink{}); err == nil {
		t.Error("an interval of 0")
	}
}
