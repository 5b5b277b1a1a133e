package inspect

import (
	"bytes"
	"slices"
	"testing"

	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/tcp"
)

// part adds a TCP segment out of order: with another sequence number, window or
// options than those that come next.
func (k *talk) part(side int, flags tcp.Flags, payload []byte, change func(*tcp.Header)) {
	seq := k.seq[side]
	k.segmentAs(side, flags, payload, change)
	k.seq[side] = seq
}

// What TCP allows is no fault of its sender.
func TestTCPThatConforms(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(k *talk){
		"a keep-alive probe with an octet": func(k *talk) {
			k.untagged(0, rdmap.Send, []byte("words"))
			k.part(0, tcp.ACK, []byte{0xa5}, func(h *tcp.Header) { h.Seq-- })
		},
		"a keep-alive probe with an octet behind the FIN": func(k *talk) {
			k.untagged(0, rdmap.Send, []byte("words"))
			k.segment(0, tcp.ACK|tcp.FIN, nil)
			k.segment(1, tcp.ACK, nil)
			k.part(0, tcp.ACK, []byte{0}, func(h *tcp.Header) { h.Seq-- })
		},
		"octets into a window that is shut": func(k *talk) {
			k.untagged(0, rdmap.Send, []byte("words"))
			k.part(1, tcp.ACK, nil, func(h *tcp.Header) { h.Window = 0 })
			k.untagged(0, rdmap.Send, bytes.Repeat([]byte("more"), 50))
			k.part(1, tcp.ACK, nil, func(h *tcp.Header) { h.Ack, h.Window = h.Ack-230, 0 })
		},
	} {
		k := begun()
		f(k)
		only(t, name, judge(k.list))
	}
}

// A window is scaled as both SYNs say; of a capture that lacks one it is not known.
func TestWindowOfMissingSYN(t *testing.T) {
	t.Parallel()
	k := &talk{change: func(h *tcp.Header) {
		if h.Window = 1; h.Flags.Has(tcp.SYN) {
			h.Opts.HasWS, h.Opts.WS, h.Window = true, 14, 100
		}
	}}
	k.start(startup(mpa.Enhanced{IRD: 4, ORD: 4}, mpa.Enhanced{IRD: 4, ORD: 4}))
	k.untagged(0, rdmap.Send, bytes.Repeat([]byte("more"), 300))
	k.segment(1, tcp.ACK, nil)
	only(t, "whole", judge(k.list))
	k.untagged(0, rdmap.Send, bytes.Repeat([]byte("more"), 300)) // that nobody acknowledges
	k.part(1, tcp.ACK, nil, func(h *tcp.Header) { h.Ack -= 1000 })
	only(t, "without the SYN", judge(renumbered(slices.Clone(k.list[1:])...)))
}

// A host that has lost its connection takes the same ports for another.
func TestPortsUsedAgainWithoutAnEnd(t *testing.T) {
	t.Parallel()
	k := begun()
	k.untagged(0, rdmap.Send, []byte("words"))
	first := k.list
	k = &talk{list: first, isn: 1 << 30}
	k.start(startup(mpa.Enhanced{IRD: 4, ORD: 4}, mpa.Enhanced{IRD: 4, ORD: 4}))
	k.untagged(0, rdmap.Send, []byte("others"))
	r := judge(k.finish())
	only(t, "again", r)
	if len(r.Flows) != 2 || r.Flows[1].Sides[0].Messages["Send"] != 1 {
		t.Errorf("%d flows", len(r.Flows))
	}
}

// What the standards of RDMA allow is no fault, however rare it is.
func TestRDMAThatConforms(t *testing.T) {
	t.Parallel()
	four := mpa.Enhanced{IRD: 4, ORD: 4}
	read := rdmap.ReadRequest{SinkSTag: 9, SinkTO: 64, Size: 3000, SourceSTag: 5, SourceTO: 128}
	request := rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0)
	write := rdmap.TaggedHeader(rdmap.Write, true, 7, 0)
	for name, f := range map[string]func(k *talk){
		"RFC 5044 appendix C: a reply of another revision": func(k *talk) {
			q, r := startup(four, four)
			q.Enhanced, r.Enhanced, r.Rev = false, false, 1
			k.start(q, r)
		},
		"RFC 5044 appendix C: the RDMA Consortium's protocols": func(k *talk) {
			q, r := startup(four, four)
			q.Enhanced, r.Enhanced, q.Rev, r.Rev = false, false, 0, 0
			k.start(q, r)
			h := write
			h.Version, h.ULP = 0, 0
			k.fpdu(0, h, []byte("words"))
		},
		"RFC 6581 section 9.2: an initiator without an indication": func(k *talk) {
			k.start(startup(mpa.Enhanced{IRD: 4, ORD: 4, P2P: true}, mpa.Enhanced{IRD: 4, ORD: 4, P2P: true, RTRSend: true}))
			k.terminated(0, rdmap.Terminate{Layer: rdmap.LayerLLP, Code: uint8(mpa.NoRTR)})
		},
		"RFC 5040 section 4.8: what is left of a Read Request": func(k *talk) {
			k.start(startup(four, four))
			k.untagged(0, rdmap.ReadRequestOp, read.AppendTo(nil))
			k.fpdu(1, rdmap.TaggedHeader(rdmap.ReadResponse, false, 9, 64), make([]byte, 1000))
			left := read
			left.SinkTO, left.SourceTO, left.Size = 1064, 1128, 2000
			k.terminated(1, rdmap.Terminate{Type: rdmap.TypeProtection}.
				WithSegment(request, request.Len()+rdmap.ReadRequestLen).WithRead(left))
		},
		"RFC 5040 section 4.8: no header, if none is possible": func(k *talk) {
			k.start(startup(four, four))
			k.untagged(0, rdmap.ReadRequestOp, read.AppendTo(nil))
			k.terminated(1, rdmap.Terminate{Type: rdmap.TypeProtection, Code: rdmap.AccessRights})
		},
		"RFC 5040 section 4.8: one of several Writes to one place": func(k *talk) {
			k.start(startup(four, four))
			for n := range 4 {
				k.fpdu(0, write, make([]byte, 40+n))
			}
			k.terminated(1, rdmap.Terminate{Layer: rdmap.LayerDDP, Type: 1}.WithSegment(write, write.Len()+41))
		},
		"RFC 5041 section 5.3: the segments of messages in another order": func(k *talk) {
			k.start(startup(four, four))
			piece := func(side int, o rdmap.Opcode, to uint64, last bool) {
				k.fpdu(side, rdmap.TaggedHeader(o, last, 9, to), make([]byte, 100))
			}
			for _, at := range []uint64{300, 100, 500, 200, 400} {
				piece(0, rdmap.Write, at, at == 400)
			}
			for _, at := range []uint32{200, 0, 300, 100, 400} {
				k.fpdu(0, rdmap.UntaggedHeader(rdmap.Send, at == 400, 0, 1, at), make([]byte, 100))
			}
			small := read
			small.Size = 300
			for n, at := range []uint64{264, 64, 164} {
				if n == 0 {
					k.untagged(0, rdmap.ReadRequestOp, small.AppendTo(nil))
				}
				piece(1, rdmap.ReadResponse, at, n == 2)
			}
		},
		"RFC 5044 section 4.5: segments that get shorter": func(k *talk) {
			k.start(startup(four, four))
			k.tagged(0, rdmap.Write, 7, 0, make([]byte, 1000), make([]byte, 1000))
			k.tagged(0, rdmap.Write, 7, 0, make([]byte, 500), make([]byte, 500))
		},
		"RFC 5040 section 4.8: a segment of long ago": func(k *talk) {
			k.start(startup(four, four))
			for n := range uint64(2*mostSent + 10) {
				k.fpdu(0, rdmap.TaggedHeader(rdmap.Write, true, 7, n), nil)
			}
			k.terminated(1, rdmap.Terminate{Layer: rdmap.LayerDDP, Type: 1}.WithSegment(write, write.Len()))
		},
	} {
		k := &talk{}
		f(k)
		only(t, name, judge(k.finish()))
	}
}
