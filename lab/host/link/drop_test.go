package link

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// Of the long frames that cross a lossy port about as many vanish as asked
// for, of the short ones none.
func TestDrop(t *testing.T) {
	n := newNet(t)
	var taps [2]*tap.TAP
	must(t, n.AddBridge("br0"))
	for i, name := range []string{"tap0", "tap1"} {
		q, err := n.OpenTAP(tap.Config{Name: name})
		must(t, err)
		t.Cleanup(func() { q.Close() })
		taps[i] = q
		must(t, n.Join(name, "br0"), n.Up(name))
	}
	if err := n.Drop("tap1", 100_000, 500); errors.Is(err, unix.EPERM) {
		t.Logf("%v: only a privileged user may load programs", err)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	for tries := 0; cross(t, taps, 60, 1) == 0; tries++ { // the bridge's ports come up
		if tries == 3000 {
			t.Fatal("no frame crosses the bridge")
		}
		time.Sleep(time.Millisecond)
	}
	const frames = 4000
	long, short := crossAll(t, taps, 1000, frames), crossAll(t, taps, 100, frames)
	if short != frames || long < frames*86/100 || long > frames*94/100 { // six standard deviations
		t.Errorf("of %d frames %d long and %d short ones have crossed", frames, long, short)
	}
}

// cross sends frames of the length given from one TAP to the other and counts
// those that arrive.
func cross(t *testing.T, taps [2]*tap.TAP, length, frames int) (arrived int) {
	t.Helper()
	out, in := broadcast(length), frame.New(make([]byte, 4096), nil)
	for range frames {
		must(t, taps[0].Write(out))
		for in.Reset(); taps[1].Read(in) == nil; in.Reset() {
			if in.Len() == length {
				arrived++
			}
		}
	}
	return arrived
}

// crossAll is cross, but waits for a last short frame, as the kernel may deliver
// frames later than it takes them.
func crossAll(t *testing.T, taps [2]*tap.TAP, length, frames int) (arrived int) {
	t.Helper()
	arrived = cross(t, taps, length, frames)
	last, in := broadcast(61), frame.New(make([]byte, 4096), nil)
	must(t, taps[0].Write(last))
	for tries := 0; tries < 30_000; tries++ {
		for in.Reset(); taps[1].Read(in) == nil; in.Reset() {
			switch in.Len() {
			case length:
				arrived++
			case last.Len():
				return arrived
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the last frame does not arrive")
	return 0
}

// broadcast is a frame of the length given.
func broadcast(length int) *frame.Frame {
	f := frame.New(make([]byte, 2048), nil)
	f.Append(append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, length-14)...))
	return f
}
