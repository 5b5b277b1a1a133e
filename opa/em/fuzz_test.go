package em

import (
	"container/heap"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
)

// FuzzReceive throws octets at a manager in the midst of its work, as answers
// to what it has just asked and otherwise. It must neither fail nor stop: when
// the fabric speaks again it ends as declared. Of MAC tables nothing false is
// said: what it has read of one it believes.
func FuzzReceive(f *testing.F) {
	b := make([]byte, 400)
	for _, attr := range []uint16{1, 2, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x20} {
		mad.PutVEMA(b, mad.MethodGetResp, 1, attr, 1)
		f.Add(uint8(attr), slices.Clone(b), true)
		s := smp(mad.MethodGetResp, 1, attr, 0, 7)
		s.Put(b)
		f.Add(uint8(attr*16), slices.Clone(b), true)
	}
	mad.PutVEMA(b, mad.MethodTrap, 1, mad.AttrNotice, 1)
	sum := func(octets []byte) uint8 { return uint8(crc32.ChecksumIEEE(octets) % 32) }
	f.Add(32+sum(b), slices.Clone(b), false)
	f.Add(sum(nil), []byte(nil), true) // every port is called nothing
	f.Fuzz(func(t *testing.T, steps uint8, octets []byte, fits bool) {
		w := fabric(21, 2)
		cfg := twoVESWs()
		m := w.nodes[0].manage(cfg, Options{})
		w.run(700*time.Millisecond + time.Duration(steps)*time.Millisecond)
		asked := 0
		w.watch = func(from *node, to mad.Address, b []byte) bool {
			if from != w.nodes[0] || kindOf(b).method != mad.MethodGet && kindOf(b).method != mad.MethodSet || asked == 30 ||
				kindOf(b).attr == mad.AttrMACEntries {
				return false
			}
			asked++
			w.inject(w.nodes[0], to, answerOf(octets, b, fits))
			return true
		}
		w.run(2 * time.Second)
		if w.watch = nil; steps%32 != sum(octets) {
			return
		}
		if !w.runUntil(w.now.Add(10*time.Minute), func() bool { return m.InSync() && w.check(&cfg) == nil }) {
			dump(t, m)
			t.Fatalf("in sync %v, %v", m.InSync(), w.check(&cfg))
		}
	})
}

// inject lets a MAD arrive at n from whom it was sent to.
func (w *world) inject(n *node, from mad.Address, b []byte) {
	if from.LID == opa.Permissive {
		from.LID = 2
	}
	w.seq++
	heap.Push(&w.queue, delivery{at: w.now.Add(time.Microsecond), seq: w.seq, to: n, from: from, pkey: opa.PKeyManagement, b: b})
}

// answerOf makes octets an answer to the request b: with fits the header is
// that of an answer and the octets are the attribute.
func answerOf(octets, b []byte, fits bool) []byte {
	if !fits {
		return octets
	}
	at := mad.VEMAHeaderLen
	if h, _ := mad.Parse(b); h.Class != mad.ClassVEMA {
		at = mad.DirectedHeaderLen
	}
	answer := append(slices.Clone(b[:min(at, len(b))]), octets...)
	answer[3] = uint8(mad.MethodGetResp)
	return answer[:min(len(answer), mad.MaxLen)]
}
