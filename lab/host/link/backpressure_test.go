package link_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/wire/frame"
)

// rest waits until one of the wires may have something to do.
func rest(all ...tap.Wire) {
	var fds []unix.PollFd
	ready := false
	for _, w := range all {
		if s, ok := w.(tap.Sleeper); ok {
			ready = s.Ready(true, false) || ready
		}
		fds = append(fds, unix.PollFd{Fd: int32(w.Fd()), Events: unix.POLLIN})
	}
	if !ready {
		_, _ = unix.Poll(fds, 5)
	}
}

// A reader that is slow makes the sender wait, through the cable and either of its ends: no
// frame is lost.
func TestCableHoldsBack(t *testing.T) {
	for _, kind := range []string{"shm", "stream"} {
		for from := range 2 {
			t.Run(fmt.Sprint(kind, " from ", from), func(t *testing.T) {
				dir := t.TempDir()
				var inner, outer [2]tap.Wire
				for i := range inner {
					text := fmt.Sprintf("%s:%s", kind, filepath.Join(dir, fmt.Sprint("wire", i)))
					for _, w := range []*tap.Wire{&inner[i], &outer[i]} {
						var err error
						if *w, err = wires.Open(text, true); err != nil {
							t.Fatal(err)
						}
					}
					defer outer[i].Close()
				}
				c, err := link.NewCable(link.CableConfig{A: inner[0], B: inner[1], MTU: 1500})
				if err != nil {
					t.Fatal(err)
				}
				passThrough(t, outer[from], outer[1-from])
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				a, b := c.Faults()
				if n := a.Refused + b.Refused + a.Lost + b.Lost; n > 0 {
					t.Errorf("%d frames lost", n)
				}
			})
		}
	}
}

// passThrough sends more than all rings and pools hold before it reads, and compares.
func passThrough(t *testing.T, out, in tap.Wire) {
	t.Helper()
	const frames, octets, patience = 12000, 1500, 50
	f, g := frame.New(make([]byte, 4096), nil), frame.New(make([]byte, 4096), nil)
	payload := func(i int) []byte {
		b := bytes.Repeat([]byte{byte(i)}, octets)
		b[0], b[1] = byte(i>>8), byte(i)
		return b
	}
	sent, got, waited := 0, 0, 0
	end := time.Now().Add(60 * time.Second)
	// The ends of the cable meet their peers on a thread of their own, and refuse what comes
	// before: a probe that has arrived says that the way is open.
	probe := bytes.Repeat([]byte{0xff}, 60)
	for f.Append(probe); in.Read(g) != nil; g.Reset() {
		if err := out.Write(f); err != nil && err != tap.ErrRefused && err != tap.ErrAgain {
			t.Fatal(err)
		}
		if rest(out, in); time.Now().After(end) {
			t.Fatal("the ends do not meet")
		}
	}
	for got < frames {
		if time.Now().After(end) {
			t.Fatalf("%d frames sent, %d came", sent, got)
		}
		if sent < frames {
			f.Reset()
			f.Append(payload(sent))
			switch err := out.Write(f); {
			case err == nil:
				sent++
				continue
			case err != tap.ErrAgain:
				t.Fatal(err)
			}
		}
		if waited++; waited < patience {
			rest(out)
			continue
		}
		for g.Reset(); in.Read(g) == nil; g.Reset() {
			if bytes.Equal(g.Bytes(), probe) {
				continue
			}
			if !bytes.Equal(g.Bytes(), payload(got)) {
				t.Fatalf("frame %d: % x", got, g.Bytes()[:8])
			}
			got++
		}
		rest(in, out)
	}
	if waited < patience {
		t.Error("the sender never waited")
	}
}
