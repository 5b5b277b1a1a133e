package loop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

// A loop with sources that has moved a lot lingers before it sleeps, if its last sleep was
// short: it then finds a frame, a source's event or a bell without a sleep.
func TestLinger(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	w.AddSource(r, func(frame.Time, bool) { unix.Read(r, make([]byte, 8)) }, func() {})
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	must(t, err)
	defer unix.Close(event)
	d := &desk{event: event, served: make(chan int64, 8)}
	w.AddBell(event, d, func() {})
	once := func() {
		t.Helper()
		must(t, w.sleep(0))
		_, _, err := w.iterate()
		must(t, err)
	}
	d.ring()
	once() // it looks at the bell by itself from now on
	for name, bring := range map[string]func(){
		"frame":   func() { w.far.send(t, make([]byte, 1500)) },
		"source":  func() { unix.Write(in, []byte("x")) },
		"bell":    func() { d.ring() },
		"mailbox": func() { w.Do(func(frame.Time) {}) },
	} {
		w.lingerer = lingerer{moved: lingerFrom}
		w.policy = waitPolicy{spinAlone: true}
		if !w.lingers(w.Now()) {
			t.Fatalf("%s: the loop does not linger", name)
		}
		if w.lingerer.moved != lingerFrom/2 {
			t.Errorf("%d octets count on, want half of them", w.lingerer.moved)
		}
		bring()
		if !w.linger(w.Now(), w.Now().Add(time.Hour)) && w.lingerer.pause == 0 {
			t.Errorf("%s: not found", name)
		}
		once()
	}
	if w.linger(w.Now(), w.Now().Add(time.Hour)) {
		t.Error("found what is not there")
	}
	for name, l := range map[string]lingerer{"little moved": {moved: lingerFrom - 1}, "in vain": {lingerFrom, 0, frame.Never}} {
		w.lingerer = l
		if w.lingers(w.Now()) {
			t.Errorf("%s: the loop lingers", name)
		}
	}
	w.lingerer, w.policy.spinAlone = lingerer{moved: lingerFrom}, false
	if w.lingers(w.Now()) {
		t.Error("the loop lingers after a long sleep")
	}
}

// Who loses the processor each time lingers less and less.
func TestLingerInVain(t *testing.T) {
	var l lingerer
	for _, want := range []time.Duration{noSpinFor, 2 * noSpinFor, 4 * noSpinFor} {
		if l.inVain(0); l.pause != want || l.again != frame.Time(want) {
			t.Errorf("pause %v until %v, want %v", l.pause, l.again, want)
		}
	}
	for range 20 {
		l.inVain(0)
	}
	if l.pause != maxPause {
		t.Errorf("pause %v, want %v", l.pause, maxPause)
	}
}
