package loop

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

// desk is a Bell whose ringers follow its protocol.
type desk struct {
	event  int
	rung   atomic.Int64 // times that nobody has served
	looks  atomic.Bool
	served chan int64
	signed atomic.Int64 // signals sent
}

func (d *desk) Rung() bool     { return d.rung.Load() != 0 }
func (d *desk) Looks(yes bool) { d.looks.Store(yes) }
func (d *desk) Serve() {
	if n := d.rung.Swap(0); n > 0 {
		d.served <- n
	}
}

func (d *desk) ring() {
	d.rung.Add(1)
	if !d.looks.Load() {
		d.signed.Add(1)
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(d.event), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Whether the loop is going to sleep, sleeps, wakes up, has yielded or no longer
// looks by itself: who rings is served, by a signal or without.
func TestBell(t *testing.T) {
	w := prepare(t, 0)
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	must(t, err)
	defer unix.Close(event)
	const total = 5000
	d := &desk{event: event, served: make(chan int64, total)}
	remove := w.AddBell(event, d, func() {})
	w.run(t)
	for i := range total {
		if i%5 == 0 {
			w.far.send(t, []byte("frame"))
		}
		for range rand.IntN(2000) * (i % 3) { // meanwhile the loop goes to sleep
			d.rung.Load()
		}
		if i%1000 == 3 { // while the loop is certainly awake
			must(t, w.DoWait(func(frame.Time) { d.ring() }))
		} else {
			d.ring()
		}
		select {
		case <-d.served:
		case <-time.After(time.Minute):
			t.Fatalf("ring %d was not heard", i)
		}
		if i%5 == 0 {
			w.far.receive(t)
		}
		if i%1000 == 1 { // nobody rings for long
			for range quietFor + 1 {
				must(t, w.DoWait(func(frame.Time) {}))
			}
		}
	}
	if n := d.signed.Load(); n == 0 || n == total {
		t.Errorf("%d signals for %d rings", n, total)
	}
	near := -1
	must(t, w.DoWait(func(frame.Time) {
		remove()
		near = len(w.bells.near)
	}))
	if d.ring(); near != 0 || w.DoWait(func(frame.Time) {}) != nil || len(d.served) != 0 {
		t.Errorf("removed: %d bells, served %d times", near, len(d.served))
	}
}

// A bell that nobody rings for long has to signal.
func TestQuietBell(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	must(t, err)
	defer unix.Close(event)
	d := &desk{event: event, served: make(chan int64, 9)}
	w.AddBell(event, d, func() {})
	turn := func() {
		t.Helper()
		must(t, w.sleep(w.Now().Add(50*time.Microsecond)))
		_, _, err := w.iterate()
		must(t, err)
	}
	d.ring()
	turn()
	if len(d.served) != 1 || !d.looks.Load() {
		t.Errorf("served %d times, the loop looks: %v", len(d.served), d.looks.Load())
	}
	d.ring()
	turn()
	if n := d.signed.Load(); len(d.served) != 2 || n != 1 {
		t.Errorf("served %d times, %d signals", len(d.served), n)
	}
	for range 100 * quietFor { // in some the time may be over before the sleep
		if d.looks.Load() {
			turn()
		}
	}
	if d.looks.Load() || len(w.bells.near) != 0 {
		t.Error("the loop still looks by itself")
	}
	d.ring()
	turn()
	if n := d.signed.Load(); len(d.served) != 3 || n != 2 {
		t.Errorf("served %d times, %d signals", len(d.served), n)
	}
}
