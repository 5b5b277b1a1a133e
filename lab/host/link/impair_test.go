package link_test

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// tcpFrame is a frame that looks like a TCP segment and carries number n.
func tcpFrame(n int) []byte {
	b := make([]byte, 100)
	b[12], b[13], b[14], b[23] = 8, 0, 0x45, 6
	b[60], b[61], b[70], b[71] = byte(n>>8), byte(n), byte(n>>8), byte(n)
	return b
}

// through sends n segments through the cable, outbound or inbound, waits
// until nothing comes any more and returns what came.
func through(t *testing.T, n int, in, out link.Impairment, inbound bool, seed uint64) (got [][]byte, c *link.Impaired) {
	t.Helper()
	a, b, err := link.NewWire("a", "b", false)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = link.Impair(a, in, out, seed); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer b.Close()
	var from, to tap.Queue = c, b
	if inbound {
		from, to = b, c
	}
	buf := frame.New(make([]byte, 4096), nil)
	read := func() {
		for buf.Reset(); to.Read(buf) == nil; buf.Reset() {
			got = append(got, bytes.Clone(buf.Bytes()))
		}
	}
	for i := range n {
		buf.Reset()
		buf.Append(tcpFrame(i))
		if err := from.Write(buf); err != nil {
			t.Fatal(err)
		}
		read()
	}
	// Only the descriptor says that there is more to do.
	for {
		fds := []unix.PollFd{{Fd: int32(c.Fd()), Events: unix.POLLIN}}
		if k, err := unix.Poll(fds, 50); err == nil && k == 0 {
			return got, c
		}
		if inbound {
			read()
			continue
		}
		for buf.Reset(); c.Read(buf) == nil; buf.Reset() {
		}
		read()
	}
}

func number(b []byte) int { return int(b[60])<<8 | int(b[61]) }

func TestImpairKeepsOrderUnderJitter(t *testing.T) {
	for _, inbound := range []bool{false, true} {
		i := link.Impairment{Delay: 100 * time.Microsecond, Jitter: time.Millisecond}
		got, _ := through(t, 500, i, i, inbound, 1)
		if len(got) != 500 {
			t.Fatalf("inbound %v: %d frames", inbound, len(got))
		}
		for i, b := range got {
			if !bytes.Equal(b, tcpFrame(i)) {
				t.Fatalf("inbound %v: frame %d is % x", inbound, i, b)
			}
		}
	}
}

func TestImpairFaults(t *testing.T) {
	for _, inbound := range []bool{false, true} {
		i := link.Impairment{Loss: 100_000, Duplicate: 50_000, Corrupt: 30_000, Reorder: 20_000, Depth: 50}
		got, c := through(t, 5000, i, i, inbound, 7)
		count, other := c.Faults()
		if !inbound {
			count, other = other, count
		}
		if other != (link.FaultCount{}) || count.Segments != 5000 {
			t.Errorf("counted %+v and %+v", count, other)
		}
		if want := int(5000 - count.Lost + count.Duplicated); len(got) != want {
			t.Errorf("%d frames, counted %d", len(got), want)
		}
		for name, n := range map[string][2]uint64{"lost": {count.Lost, 500}, "duplicated": {count.Duplicated, 225}, "corrupted": {count.Corrupted, 135}, "reordered": {count.Reordered, 90}} {
			if n[0] < n[1]*2/3 || n[0] > n[1]*3/2 {
				t.Errorf("%s: %d, expected about %d", name, n[0], n[1])
			}
		}
		late, most, seen := 0, 0, -1
		for _, b := range got {
			flipped := 0
			for j, x := range tcpFrame(number(b)) {
				for d := x ^ b[j]; d != 0; d &= d - 1 {
					flipped++
				}
			}
			if flipped > 1 || !bytes.Equal(b[:14], tcpFrame(0)[:14]) {
				continue // the number itself may have been hit
			}
			if n := number(b); n < seen && flipped == 0 {
				late, most = late+1, max(most, seen-n)
			} else if flipped == 0 {
				seen = n
			}
		}
		if late < 60 || most < 20 || most > 75 {
			t.Errorf("inbound %v: %d frames came late, by up to %d places", inbound, late, most)
		}
	}
}

func TestImpairReplays(t *testing.T) {
	i := link.Impairment{Loss: 100_000, Duplicate: 50_000, Corrupt: 30_000, Reorder: 20_000, Depth: 3}
	run := func(seed uint64) []byte {
		got, _ := through(t, 300, i, i, false, seed)
		return bytes.Join(got, nil)
	}
	if !bytes.Equal(run(3), run(3)) {
		t.Error("the same seed did other things")
	}
	if bytes.Equal(run(3), run(4)) {
		t.Error("the seed does not matter")
	}
}

// Frames without TCP pass, and super-frames to which nothing happens.
func TestImpairLeavesTheRestAlone(t *testing.T) {
	a, b, err := link.NewWire("a", "b", true)
	if err != nil {
		t.Fatal(err)
	}
	c, err := link.Impair(a, link.Impairment{}, link.Impairment{Loss: 1_000_000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer b.Close()
	f, g := frame.New(make([]byte, 8192), nil), frame.New(make([]byte, 8192), nil)
	f.Append(make([]byte, 60))
	if err := c.Write(f); err != nil || b.Read(g) != nil || g.Len() != 60 {
		t.Errorf("%v, %d octets", err, g.Len())
	}
	f.Reset()
	f.Append(tcpFrame(1))
	if err := c.Write(f); err != nil || b.Read(g) != tap.ErrAgain {
		t.Errorf("a segment came through: %v", err)
	}
	f.Reset()
	super := append(tcpFrame(0)[:14], 0x45, 0, 0x0b, 0xe0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	super = append(super, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0)
	f.Append(append(super, make([]byte, 3000)...))
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: 34, CsumOffset: 16, GSO: frame.GSOTCPv4, GSOSize: 1000, HdrLen: 54}
	if err := b.Write(f); err != nil {
		t.Fatal(err)
	}
	g.Reset()
	if err := c.Read(g); err != nil || g.Len() != 3054 || g.Offload != f.Offload {
		t.Errorf("%v, %d octets, %+v", err, g.Len(), g.Offload)
	}
}
