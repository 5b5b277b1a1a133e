package tunnel

import (
	"testing"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// Whatever datagrams come, alone or joined by the kernel, the frames that are read lie in them.
func FuzzDatagrams(f *testing.F) {
	sealed, other := pair(f, VXLAN, keyFile(f), free(f, "127.0.0.1"), free(f, "127.0.0.2"))
	open, _ := pair(f, VXLAN, "", free(f, "127.0.0.1"), free(f, "127.0.0.2"))
	f.Add(append(open.header(nil), make([]byte, 60)...), uint16(0))
	f.Add(other.seal.seal(other.header(nil), make([]byte, 60), sealed.seal.own.id), uint16(0))
	f.Add(append(open.header(nil), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), uint16(10))
	f.Add([]byte{vxlanFlags}, uint16(1))
	out := frame.New(make([]byte, 1<<17), nil)
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		if len(b) == 0 {
			return
		}
		for _, w := range []*Wire{open, sealed} {
			copy(w.in, b)
			w.at, w.end, w.inLen = 0, min(len(b), len(w.in)), int(size)
			if size == 0 {
				w.inLen = w.end
			}
			octets := 0
			for w.at < w.end {
				out.Reset()
				if err := w.Read(out); err == nil {
					octets += out.Len()
				} else if err != tap.ErrRefused {
					break // only after what is in hand
				}
			}
			if octets > len(b) {
				t.Fatalf("%x: %d octets of frames", b, octets)
			}
		}
	})
}
