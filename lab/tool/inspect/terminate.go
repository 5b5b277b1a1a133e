package inspect

import (
	"fmt"

	"tapir/ddp"
	"tapir/rdmap"
)

// terminate judges a Terminate and returns it in a line.
func (h *half) terminate(s *seg) string {
	t, rest, err := rdmap.ParseTerminate(s.payload)
	if err != nil {
		h.violate(termShort, s.packet, "%d octets", len(s.payload))
		return ""
	}
	text := fmt.Sprintf("%d/%d/%d", t.Layer, t.Type, t.Code)
	if name := rdmap.Name(t.Layer, t.Type, t.Code); name != "" {
		text += fmt.Sprintf(": %v, %s", t.Layer, name)
	} else {
		h.violate(termUnknown, s.packet, "%s", text)
	}
	if t.Order == rdmap.OrderSiw {
		h.violate(termLayout, s.packet, "%s", text)
	}
	if t.Reserved != 0 {
		h.violate(termReserved, s.packet, "%#x", t.Reserved)
	}
	if len(rest) > 0 {
		h.violate(termExtra, s.packet, "%d", len(rest))
	}
	h.termHeaders(s, &t)
	if t.HasDDP {
		h.quoted(s, &t)
	}
	return text
}

// termHeaders holds M, D and R against RFC 5040 figure 10.
func (h *half) termHeaders(s *seg, t *rdmap.Terminate) {
	may, must, read := false, false, false
	switch t.Layer {
	case rdmap.LayerRDMA:
		may, read = t.Type != rdmap.TypeCatastrophic, t.Type == rdmap.TypeProtection
	case rdmap.LayerDDP:
		may, must = true, true
	}
	if t.HasDDP && !may || !t.HasDDP && must || t.HasDDP != t.HasLength || t.HasRead && !read {
		h.violate(termHeaders, s.packet, "M %v, D %v, R %v", t.HasLength, t.HasDDP, t.HasRead)
	}
}

// quoted holds the headers of a Terminate against what the peer has sent.
func (h *half) quoted(s *seg, t *rdmap.Terminate) {
	sent, swapped := h.find(t)
	switch {
	case sent == nil && h.c.blind:
		return
	case sent == nil:
		h.violate(termQuote, s.packet, "%+v", t.DDP)
		return
	case swapped:
		h.violate(termMSN, s.packet, "%d instead of %d", t.DDP.MSN, sent.h.MSN)
	}
	headers := sent.h.Len() + rdmap.ParseControl(sent.h.ULP).Opcode.HeaderLen()
	switch length := int(t.SegmentLength); {
	case !t.HasLength || length == sent.length:
	case length == sent.length-headers:
		h.violate(termLength, s.packet, "%d instead of %d", t.SegmentLength, sent.length)
	default:
		h.violate(termSegment, s.packet, "%d instead of %d", t.SegmentLength, sent.length)
	}
	if t.HasRead && t.Read != sent.read {
		h.violate(termRead, s.packet, "%+v", t.Read)
	}
	h.termCode(s, t, sent)
}

// termCode names codes that the quoted segment proves wrong.
func (h *half) termCode(s *seg, t *rdmap.Terminate, x *sent) {
	n := uint64(x.length - x.h.Len())
	switch code := [3]uint8{uint8(t.Layer), t.Type, t.Code}; {
	case code == [3]uint8{uint8(rdmap.LayerDDP), ddp.TypeUntagged, ddp.NoBuffer} && x.h.MO > 0:
		h.violate(termTooLong, s.packet, "the quoted segment's MO is %d", x.h.MO)
	case t.Layer == rdmap.LayerDDP && t.Type == ddp.TypeCatastrophic && x.h.Tagged && n > 0 && x.h.TO+n-1 < x.h.TO:
		h.violate(termWrap, s.packet, "TO %#x", x.h.TO)
	}
}

// find looks for the segment that a Terminate quotes, the latest first: among
// those that the peer has sent and, in a lab, those that have arrived at another
// link end. swapped tells that the size of a Read stands in place of its MSN.
func (h *half) find(t *rdmap.Terminate) (x *sent, swapped bool) {
	if x, swapped = h.peer().rdma.find(t); x != nil {
		return x, swapped
	}
	for _, c := range h.c.flow.first().sights {
		if x, swapped = c.half[1-h.side].rdma.find(t); x != nil {
			return x, swapped
		}
	}
	return nil, false
}

func (r *rdmaState) find(t *rdmap.Terminate) (x *sent, swapped bool) {
	list := r.sent
	for k := len(list) - 1; k >= 0; k-- {
		if list[k].h == t.DDP {
			return &list[k], false
		}
	}
	for k := len(list) - 1; k >= 0 && t.HasRead; k-- {
		want := list[k].h
		want.MSN = list[k].read.Size
		if want == t.DDP {
			return &list[k], true
		}
	}
	return nil, false
}
