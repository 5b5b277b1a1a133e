package mpa

import (
	"bytes"
	"os"
	"testing"

	"tapir/wire/wiretest"
)

func FuzzParseFrame(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "start.hex") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []Kind{Request, Reply} {
			frame, n, err := ParseFrame(b, kind)
			if err != nil || n == 0 {
				continue
			}
			if again := frame.AppendTo(nil); !bytes.Equal(again, b[:n]) {
				t.Fatalf("%x encodes as %x", b[:n], again)
			}
			if e, rest, err := ParseEnhanced(frame.PrivateData); err == nil {
				if again := append(e.AppendTo(nil), rest...); !bytes.Equal(again, frame.PrivateData) {
					t.Fatalf("%x encodes as %x", frame.PrivateData, again)
				}
			}
		}
	})
}

// FuzzNegotiate feeds both sides what a peer might send; whatever is agreed
// must respect the limits.
func FuzzNegotiate(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "start.hex") {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		cfg := DefaultConfig()
		r := NewResponder(cfg)
		for rest := b; len(rest) > 0; {
			piece := rest[:min(len(rest), int(step)+1)]
			n, done, err := r.Receive(piece)
			if n > len(piece) {
				t.Fatalf("took %d of %d octets", n, len(piece))
			}
			if err != nil {
				break
			}
			if done {
				reply, err := r.AppendAccept(nil, nil)
				if _, n, perr := ParseFrame(reply, Reply); err != nil || perr != nil || n != len(reply) {
					t.Fatalf("reply %x: %v, %v", reply, err, perr)
				}
				if res := r.Result(); res.ORD > cfg.ORD || res.IRD > cfg.IRD || !res.CRC {
					t.Fatalf("granted %+v", res)
				}
				break
			}
			rest = rest[n:]
		}
		i, err := NewInitiator(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, done, err := i.Receive(b); err == nil && done {
			if res := i.Result(); res.ORD > cfg.ORD || res.IRD > cfg.IRD || !res.CRC {
				t.Fatalf("agreed %+v", res)
			}
		}
	})
}

// FuzzReceiver compares a stream received whole with the same one in pieces.
func FuzzReceiver(f *testing.F) {
	for _, s := range wiretest.Seeds(os.DirFS("testdata"), "stream.hex") {
		f.Add(s, uint8(0), uint8(7))
	}
	f.Add(stream(Layout{CRC: true, Markers: true}, make([]byte, 600)), uint8(3), uint8(100))
	f.Fuzz(func(t *testing.T, b []byte, mode, step uint8) {
		l := Layout{CRC: mode&1 != 0, Markers: mode&2 != 0}
		whole, pieces := &sink{}, &sink{}
		mem := &lender{t: t}
		r1, r2 := NewReceiver(l, nil), NewReceiver(l, mem)
		err1 := r1.Receive(b, whole)
		var err2 error
		for i := 0; i < len(b); i += int(step) + 1 {
			err2 = r2.Receive(b[i:min(i+int(step)+1, len(b))], pieces)
		}
		if (err1 == nil) != (err2 == nil) || len(whole.got) != len(pieces.got) {
			t.Fatalf("whole: %d ULPDUs, %v; in pieces: %d, %v", len(whole.got), err1, len(pieces.got), err2)
		}
		for i := range whole.got {
			if !bytes.Equal(whole.got[i], pieces.got[i]) {
				t.Fatalf("ULPDU %d differs", i)
			}
		}
		if r2.Partial() == 0 && mem.lent != 0 {
			t.Fatalf("%d buffers held", mem.lent)
		}
	})
}
