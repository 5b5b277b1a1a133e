package roce

import (
	"bytes"
	"testing"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ib"
)

// TestMessagesShareFrames: messages of one packet and equal length go in one super-frame, others
// in frames of their own. All are carried out in their order.
func TestMessagesShareFrames(t *testing.T) {
	for _, typ := range []qpattr.Type{qpattr.RC, qpattr.UC} {
		w := newSim(t, 3, false, false)
		w.segments = 8
		a, _ := w.pair(typ)
		from, to := w.end[0], w.end[1]
		fillBytes(from.mem)
		sizes := []int{8, 8, 8, 9, 9, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 2000, 8}
		frames := uint64(8) // of 3, 2, 2, 8, 1 messages, the two packets of the longer one, 1 message
		if typ == qpattr.RC {
			sizes = append(sizes, 8, 8) // a Read, and a Write behind it
			frames += 2
		}
		off := 0
		for i, n := range sizes {
			wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: from.sge(off, n),
				RKey: to.mr.RKey(), RemoteAddr: to.mr.Addr() + uint64(off)}
			if i == 18 {
				wr.Opcode, wr.SGEs = verbs.OpRead, from.sge(off, 8)
			}
			_, err := a.PostSend(wr)
			from.must(err)
			off += n
		}
		want := bytes.Clone(from.mem[:off])
		w.until("requests", func() bool { return len(from.wcs) == len(sizes) })
		w.until("the last frame", func() bool { return len(w.flights) == 0 })
		for i, wc := range from.wcs {
			if wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess {
				t.Errorf("%v: completion %d: %d, %v", typ, i, wc.ID, wc.Status)
			}
		}
		if read := off - 16; typ == qpattr.RC {
			copy(want[read:], make([]byte, 8))
		}
		if !bytes.Equal(to.mem[:off], want) {
			t.Errorf("%v: not what was written", typ)
		}
		if got := from.e.stats.FramesOut; got != frames {
			t.Errorf("%v: %d frames with %d packets", typ, got, from.e.stats.PacketsOut)
		}
	}
}

// TestRefusedRequestWaits: a request that the queue pair cannot carry out fails when those before
// it are complete, and nothing of it is sent before.
func TestRefusedRequestWaits(t *testing.T) {
	for _, segments := range []int{1, 8} {
		r := newRig(t, qpattr.RC)
		r.segments = segments
		r.write(1)
		r.write(1)
		r.a.Attr().MaxRdAtomic = 0
		_, err := r.a.PostSend(verbs.SendWR{ID: 3, Opcode: verbs.OpRead, Flags: verbs.Signaled,
			SGEs: r.end[0].sge(0, 8), RKey: r.end[1].mr.RKey(), RemoteAddr: r.end[1].mr.Addr()})
		r.end[0].must(err)
		r.write(1)
		r.sentBy()
		r.reply(ib.OpAcknowledge, 0, ib.SyndromeACK, nil)
		r.sentBy()
		if sent := r.end[0].e.stats.PacketsOut; sent != 2 || r.a.State() != verbs.RTS {
			t.Errorf("%d segments: %d packets, %v", segments, sent, r.a.State())
		}
		r.reply(ib.OpAcknowledge, 1, ib.SyndromeACK, nil)
		r.sentBy()
		if wcs := r.end[0].wcs; r.a.State() != verbs.Err || len(wcs) != 4 || wcs[1].Status != verbs.StatusSuccess ||
			wcs[2].Status != verbs.StatusLocalQPOp || wcs[3].Status != verbs.StatusFlushed {
			t.Errorf("%d segments: %v, %s", segments, r.a.State(), last(wcs))
		}
	}
}
