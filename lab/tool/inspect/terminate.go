package inspect

import (
	"fmt"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// terminate judges a Terminate and returns it in a line.
func (h *half) terminate(s *seg) string {
	t, rest, err := rdmap.ParseTerminate(s.payload)
	if err != nil {
		h.violate(termShort, s.packet, "%d octets", len(s.payload))
		return ""
	}
	var swapped *Rule
	if t.Order == rdmap.OrderSiw {
		swapped = termLayout
	} else if x := turned(t); !suits(h, &t) && suits(h, &x) {
		if t, swapped = x, termSwapped; !t.HasLength && !t.HasDDP && !t.HasRead {
			swapped = termLayout // siw's three bits would not show
		}
	}
	text := fmt.Sprintf("%d/%d/%d", t.Layer, t.Type, t.Code)
	if name := rdmap.Name(t.Layer, t.Type, t.Code); name != "" {
		text += fmt.Sprintf(": %v, %s", t.Layer, name)
	} else {
		h.violate(termUnknown, s.packet, "%s", text)
	}
	if swapped != nil {
		h.violate(swapped, s.packet, "%s", text)
	}
	if t.Reserved != 0 {
		h.violate(termReserved, s.packet, "%#x", t.Reserved)
	}
	if len(rest) > 0 {
		h.violate(termExtra, s.packet, "%d", len(rest))
	}
	if !headersSuit(&t) {
		h.violate(termHeaders, s.packet, "M %v, D %v, R %v", t.HasLength, t.HasDDP, t.HasRead)
	}
	if t.HasDDP {
		h.quoted(s, &t)
	}
	return text
}

// turned is t with layer and type in each other's place.
func turned(t rdmap.Terminate) rdmap.Terminate {
	t.Layer, t.Type = rdmap.Layer(t.Type), uint8(t.Layer)
	return t
}

// headersSuit holds M, D and R against RFC 5040 figure 10. Where it asks for
// headers "if possible", none will do; DDP's local catastrophic errors have none
// by the text before it.
func headersSuit(t *rdmap.Terminate) bool {
	may, must, read := false, false, false
	switch t.Layer {
	case rdmap.LayerRDMA:
		may, read = t.Type != rdmap.TypeCatastrophic, t.Type == rdmap.TypeProtection
	case rdmap.LayerDDP:
		may, must = true, t.Type != ddp.TypeCatastrophic
	}
	return (may || !t.HasDDP) && (t.HasDDP || !must) && t.HasDDP == t.HasLength && (read || !t.HasRead)
}

// suits tells whether t can be what its sender h means: an error with a name, with
// the headers that belong to it, that something could cause which was sent.
func suits(h *half, t *rdmap.Terminate) bool {
	if rdmap.Name(t.Layer, t.Type, t.Code) == "" || !headersSuit(t) {
		return false
	}
	o, c := h.peer(), h.c
	if !o.recorded() || c.req == nil {
		return true
	}
	const invalidate = 1<<rdmap.SendInvalidate | 1<<rdmap.SendSEInvalidate
	switch [2]uint8{uint8(t.Layer), t.Type} {
	case [2]uint8{uint8(rdmap.LayerRDMA), rdmap.TypeProtection}:
		return o.rdma.ops&(1<<rdmap.ReadRequestOp|1<<rdmap.AtomicRequestOp|invalidate) != 0
	case [2]uint8{uint8(rdmap.LayerRDMA), rdmap.TypeOperation}:
		return o.rdma.ops != 0
	}
	if t.Layer != rdmap.LayerLLP || mpa.Code(t.Code) < mpa.InsufficientIRD {
		return true
	}
	// RFC 6581 sections 9.1 and 9.2: the end of a start-up.
	mine := h.side == c.initiator || c.reply.Reject
	return c.req.Enhanced && mine && len(h.rdma.sent) == 1
}

// quoted holds the headers of a Terminate against what the peer has sent.
func (h *half) quoted(s *seg, t *rdmap.Terminate) {
	sent, swapped := h.c.find(t, 1-h.side)
	q := seg{Header: t.DDP, c: rdmap.ParseControl(t.DDP.ULP)}
	switch o := h.peer(); {
	case !o.recorded() || sent == nil && o.rdma.older:
		return
	case sent == nil:
		h.violate(termQuote, s.packet, "%s", q.text())
		return
	case swapped:
		h.violate(termMSN, s.packet, "%d instead of %d", t.DDP.MSN, sent.h.MSN)
	}
	headers := sent.h.Len() + q.c.Opcode.HeaderLen()
	switch length := int(t.SegmentLength); {
	case !t.HasLength || length == sent.length:
	case length == sent.length-headers:
		h.violate(termLength, s.packet, "%d instead of %d", t.SegmentLength, sent.length)
	default:
		h.violate(termSegment, s.packet, "%d instead of %d", t.SegmentLength, sent.length)
	}
	if t.HasRead && !underWay(&t.Read, &sent.read) {
		h.violate(termRead, s.packet, "%s", readText(&t.Read))
	}
	h.termCode(s, t, sent)
}

// underWay tells whether r is the Read Request sent, or what is left of it when
// some of it has been answered.
func underWay(r, sent *rdmap.ReadRequest) bool {
	n := sent.Size - r.Size
	return r.Size <= sent.Size && r.SinkSTag == sent.SinkSTag && r.SourceSTag == sent.SourceSTag &&
		r.SinkTO == sent.SinkTO+uint64(n) && r.SourceTO == sent.SourceTO+uint64(n)
}

// termCode names codes that the quoted segment proves wrong. Of a message whose
// segments overtook each other, a later one may be the first that finds no buffer.
func (h *half) termCode(s *seg, t *rdmap.Terminate, x *sent) {
	n := uint64(x.length - x.h.Len())
	o := h.peer().stat
	switch code := [3]uint8{uint8(t.Layer), t.Type, t.Code}; {
	case code == [3]uint8{uint8(rdmap.LayerDDP), ddp.TypeUntagged, ddp.NoBuffer} && x.h.MO > 0 &&
		o.OutOfOrder+o.Retransmissions == 0:
		h.violate(termTooLong, s.packet, "the quoted segment's MO is %d", x.h.MO)
	case t.Layer == rdmap.LayerDDP && t.Type == ddp.TypeCatastrophic && x.h.Tagged && n > 0 && x.h.TO+n-1 < x.h.TO:
		h.violate(termWrap, s.packet, "TO %#x", x.h.TO)
	}
}

// find looks for the segment that a Terminate quotes, the latest first: among
// those that side has sent and, in a lab, those that have arrived at another link
// end. swapped tells that the size of a Read stands in place of its MSN.
func (c *conn) find(t *rdmap.Terminate, side int) (x *sent, swapped bool) {
	for _, c := range append([]*conn{c}, c.flow.first().sights...) {
		if x, swapped = c.half[side].rdma.find(t); x != nil {
			break
		}
	}
	return x, swapped
}

// find prefers, of several segments with the quoted header, one of the quoted length.
func (r *rdmaState) find(t *rdmap.Terminate) (x *sent, swapped bool) {
	list := r.sent
	for k := len(list) - 1; k >= 0; k-- {
		if y := &list[k]; y.h == t.DDP && (x == nil || y.length == int(t.SegmentLength)) {
			if x = y; x.length == int(t.SegmentLength) {
				break
			}
		}
	}
	for k := len(list) - 1; x == nil && k >= 0 && t.HasRead; k-- {
		want := list[k].h
		want.MSN = list[k].read.Size
		if want == t.DDP && underWay(&t.Read, &list[k].read) {
			x, swapped = &list[k], true
		}
	}
	return x, swapped
}
