package phc

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// clockExtChannels is PTP_MAX_CHANNELS of the kernel.
const clockExtChannels = 2048

// extTS is the queue of external time stamps of one open device. The edges
// are those of a pulse per second that the system's clock makes.
type extTS struct {
	mu     sync.Mutex
	stop   chan struct{} // nil while disabled
	masked bool          // channel 0, by PTP_MASK_CLEAR_ALL
}

func (f *file) requestExtTS(c *trap.Call, req uint32, arg uint64) trap.Answer {
	r, err := trap.Get[unix.PtpExttsRequest](c, arg)
	if err != nil {
		return fail(err)
	}
	valid := uint32(unix.PTP_EXTTS_V1_VALID_FLAGS)
	if req == unix.PTP_EXTTS_REQUEST2 {
		valid = unix.PTP_EXTTS_V1_VALID_FLAGS | unix.PTP_STRICT_FLAGS
		if r.Flags&^valid != 0 || r.Rsv != [2]uint32{} {
			return trap.Fail(unix.EINVAL)
		}
		edges := r.Flags & unix.PTP_EXTTS_EDGES
		if r.Flags&unix.PTP_ENABLE_FEATURE != 0 && r.Flags&unix.PTP_STRICT_FLAGS != 0 && edges == 0 {
			return trap.Fail(unix.EINVAL)
		}
	}
	if r.Index >= f.dev.extTS() {
		return trap.Fail(unix.EINVAL)
	}
	if r.Flags&valid&unix.PTP_ENABLE_FEATURE != 0 {
		f.enableExtTS()
	} else {
		f.extTS.disable()
	}
	return trap.Return(0)
}

func (f *file) enableExtTS() {
	e := &f.extTS
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop == nil {
		e.stop = make(chan struct{})
		go f.pulse(e.stop)
	}
}

func (e *extTS) disable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		close(e.stop)
		e.stop = nil
	}
}

func (e *extTS) mask(channel uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.masked = channel == 0
}

func (e *extTS) unmask(channel uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.masked = e.masked && channel != 0
}

// pulse stamps the edges. It comes late for each, which does not matter: the
// clock tells what it showed then.
func (f *file) pulse(stop <-chan struct{}) {
	edge := time.Now().Truncate(time.Second)
	for {
		edge = edge.Add(time.Second)
		timer := time.NewTimer(time.Until(edge))
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		if ns, err := f.dev.Clock.At(edge.UnixNano()); err == nil {
			f.stamp(ns)
		}
	}
}

// stamp queues an event. If the program does not read, the newest is lost.
func (f *file) stamp(ns int64) {
	f.extTS.mu.Lock()
	defer f.extTS.mu.Unlock()
	if f.extTS.stop != nil && !f.extTS.masked {
		ev := unix.PtpExttsEvent{T: clockTime(ns), Index: 0}
		_ = f.Put((*[unsafe.Sizeof(ev)]byte)(unsafe.Pointer(&ev))[:])
	}
}
