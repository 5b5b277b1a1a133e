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
	return with(c, arg, func(r *unix.PtpExttsRequest) error {
		const strict, valid = unix.PTP_STRICT_FLAGS, unix.PTP_EXTTS_V1_VALID_FLAGS | unix.PTP_STRICT_FLAGS
		second, on := req == unix.PTP_EXTTS_REQUEST2, r.Flags&unix.PTP_ENABLE_FEATURE != 0
		switch {
		case second && (r.Flags&^valid != 0 || r.Rsv != [2]uint32{}),
			second && on && r.Flags&strict != 0 && r.Flags&unix.PTP_EXTTS_EDGES == 0,
			r.Index >= f.dev.extTS():
			return unix.EINVAL
		case on:
			f.enableExtTS()
		default:
			f.extTS.disable()
		}
		return nil
	})
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
