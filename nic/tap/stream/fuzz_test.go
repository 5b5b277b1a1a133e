package stream

import (
	"path/filepath"
	"testing"

	"tapir/nic/tap"
	"tapir/wire/ether"
)

// Whatever octets come, each frame that is read has a length that frames have, and lies in them.
func FuzzRecords(f *testing.F) {
	f.Add(record(newFrame(60).Bytes()))
	f.Add(append(record(newFrame(60).Bytes()), 0, 0, 0, 13))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	w, err := Open(filepath.Join(f.TempDir(), "wire"), true)
	must(f, err)
	f.Cleanup(func() { w.Close() })
	out := newFrame(0)
	f.Fuzz(func(t *testing.T, b []byte) {
		w.up, w.at = true, 0
		w.end = copy(w.in, b)
		octets := 0
		for {
			out.Reset()
			err := w.Read(out)
			if err == nil {
				octets += prefix + out.Len()
			}
			if err == nil && (out.Len() < ether.HeaderLen || octets > len(b)) {
				t.Fatalf("a frame of %d octets in %x", out.Len(), b)
			}
			if err == tap.ErrAgain || err == tap.ErrRefused {
				return
			}
		}
	})
}
