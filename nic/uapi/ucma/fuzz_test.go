package ucma

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"tapir/nic/uapi/abi"
)

// FuzzCommand writes what it is given, commands of two octets of length and
// themselves, into a channel with ids in many states. Nothing panics, an error
// is one that the interface has, and closing leaves nothing.
func FuzzCommand(f *testing.F) {
	add := func(cmds ...[]byte) {
		var in []byte
		for _, c := range cmds {
			in = append(order.AppendUint16(in, uint16(len(c))), c...)
		}
		f.Add(in)
	}
	for cmd, h := range handlers {
		for _, out := range []uint16{0, eventLen} {
			b := order.AppendUint32(nil, uint32(cmd))
			b = order.AppendUint16(b, uint16(h.size))
			b = order.AppendUint16(b, out)
			add(append(b, make([]byte, h.size)...))
		}
	}
	f.Add([]byte{0, 0, 255, 255, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		p := newPair(t, rand.New(rand.NewPCG(1, 1)))
		c, s, l := p.connected("0.0.0.0:7471", "10.0.0.2:7471")
		if _, err := p.s.create(l.ch); err != nil {
			t.Fatal(err)
		}
		for n := 0; len(in) >= 2 && n < 64; n++ {
			size := min(int(order.Uint16(in)), len(in)-2)
			b := slices.Clone(in[2 : 2+size])
			in = in[2+size:]
			aim(b, p.s.addr)
			err := l.ch.Command(p.s, b)
			if _, ok := err.(syscall.Errno); err != nil && err != abi.Later && !ok {
				t.Fatalf("command %x: %v", b, err)
			}
			p.w.run(1e5)
		}
		must(t, s.qp.Destroy())
		c.ch.close()
		l.ch.close()
		p.w.run(1e9)
		if len(p.server.dev.CM.Listeners())+len(p.server.d.s.ports.owners) > 0 {
			t.Error("something is left")
		}
	})
}

// aim has answers written where the program has memory.
func aim(b []byte, addr uint64) {
	at := headerLen
	if len(b) > 4 && b[0] == cmdCreateID {
		at += 8
	}
	if len(b) >= at+8 && b[at] != 0xff {
		order.PutUint64(b[at:], addr)
	}
}
