package inspect

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// startup is a request and a reply with the words w and a.
func startup(w, a mpa.Enhanced) (q, r mpa.Frame) {
	q = mpa.Frame{Kind: mpa.Request, CRC: true, Enhanced: true, Rev: 2, PrivateData: w.AppendTo(nil)}
	r = mpa.Frame{Kind: mpa.Reply, CRC: true, Enhanced: true, Rev: 2, PrivateData: a.AppendTo(nil)}
	return q, r
}

// begun is a conversation of which the start-up is over.
func begun() *talk {
	k := &talk{}
	k.start(startup(mpa.Enhanced{IRD: 4, ORD: 4}, mpa.Enhanced{IRD: 4, ORD: 4}))
	return k
}

// terminated adds a Terminate that quotes h, a segment of length octets.
func (k *talk) terminated(side int, t rdmap.Terminate) {
	k.untagged(side, rdmap.TerminateOp, t.AppendTo(nil))
}

// bad adds a segment and the Terminate of its receiver.
func (k *talk) bad(h ddp.Header, payload []byte, layer rdmap.Layer, typ, code uint8) {
	k.fpdu(0, h, payload)
	k.terminated(1, rdmap.Terminate{Layer: layer, Type: typ, Code: code}.WithSegment(h, h.Len()+len(payload)))
}

// only fails unless the rules of the findings, notes aside, are exactly those, in
// packets of side 0.
func only(t *testing.T, name string, r *Report, rules ...*Rule) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		if !f.Note {
			got = append(got, f.Clause+": "+f.Says)
		}
		if strings.ContainsAny(f.Detail, "{}") || strings.Contains(f.Detail, "%!") {
			t.Errorf("%s: a raw value: %v", name, f)
		}
	}
	var want []string
	for _, r := range rules {
		want = append(want, r.Clause+": "+r.Says)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %q\nwant %q", name, r.Findings, want)
	}
}

// The receiver of a bad segment says which it was. Nobody but the sender is
// accused, and of one thing.
func TestTerminateQuotesTheBadSegment(t *testing.T) {
	t.Parallel()
	write, send := rdmap.TaggedHeader(rdmap.Write, true, 7, 0), rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0)
	read := rdmap.ReadRequest{Size: 10}
	tagged, untagged := func(f func(*ddp.Header)) ddp.Header { h := write; f(&h); return h },
		func(f func(*ddp.Header)) ddp.Header { h := send; f(&h); return h }
	for _, c := range []struct {
		rule      *Rule
		h         ddp.Header
		payload   []byte
		layer     rdmap.Layer
		typ, code uint8
	}{
		{ddpVersion, tagged(func(h *ddp.Header) { h.Version = 2 }), nil, rdmap.LayerDDP, ddp.TypeTagged, ddp.TaggedVersion},
		{ddpVersion, untagged(func(h *ddp.Header) { h.Version = 3 }), nil, rdmap.LayerDDP, ddp.TypeUntagged, ddp.UntaggedVersion},
		{rdmapVersion, tagged(func(h *ddp.Header) { h.ULP |= 0x80 }), nil, rdmap.LayerRDMA, rdmap.TypeOperation, rdmap.InvalidVersion},
		{rdmapOpcode, tagged(func(h *ddp.Header) { h.ULP |= 0x0f }), nil, rdmap.LayerRDMA, rdmap.TypeOperation, rdmap.UnexpectedOpcode},
		{rdmapTagged, tagged(func(h *ddp.Header) { h.ULP |= 0x03 }), nil, rdmap.LayerRDMA, rdmap.TypeOperation, rdmap.UnexpectedOpcode},
		{rdmapQueue, untagged(func(h *ddp.Header) { h.QN = 9 }), []byte("x"), rdmap.LayerDDP, ddp.TypeUntagged, ddp.InvalidQN},
		{ddpMSN, untagged(func(h *ddp.Header) { h.MSN = 9 }), []byte("x"), rdmap.LayerDDP, ddp.TypeUntagged, ddp.InvalidMSN},
		{ddpMO, untagged(func(h *ddp.Header) { h.MO = 9 }), []byte("x"), rdmap.LayerDDP, ddp.TypeUntagged, ddp.InvalidMO},
		{ddpMO, untagged(func(h *ddp.Header) { h.MO = 9 }), nil, rdmap.LayerDDP, ddp.TypeUntagged, ddp.InvalidMO},
		{respUnasked, tagged(func(h *ddp.Header) { h.ULP |= 0x02 }), []byte("x"), rdmap.LayerDDP, ddp.TypeTagged, ddp.InvalidSTag},
		{ddpWrap, tagged(func(h *ddp.Header) { h.TO = ^uint64(0) }), []byte("xy"), rdmap.LayerDDP, ddp.TypeTagged, ddp.TOWrap},
		{readLength, rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), read.AppendTo(nil)[:20],
			rdmap.LayerRDMA, rdmap.TypeOperation, rdmap.CatastrophicStream},
	} {
		k := begun()
		k.bad(c.h, c.payload, c.layer, c.typ, c.code)
		r := judge(k.finish())
		only(t, c.rule.Says, r, c.rule)
		if n := r.Flows[0].Sides[1].Messages["Terminate"]; n != 1 {
			t.Errorf("%s: %d Terminates", c.rule.Says, n)
		}
	}
}

// RFC 6581 sections 9.1 and 9.2: an initiator that cannot go on sends a Terminate
// first.
func TestTerminateInPlaceOfTheIndication(t *testing.T) {
	t.Parallel()
	for code := uint8(5); code <= 7; code++ {
		k := &talk{}
		k.start(startup(mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRSend: true},
			mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRRead: true}))
		k.terminated(0, rdmap.Terminate{Layer: rdmap.LayerLLP, Code: code})
		only(t, fmt.Sprint("code ", code), judge(k.finish()))
	}
	k := &talk{}
	k.start(startup(mpa.Enhanced{IRD: 1, ORD: 1}, mpa.Enhanced{IRD: 1, ORD: 1}))
	k.terminated(1, rdmap.Terminate{Layer: rdmap.LayerLLP, Code: 5}) // RFC 6581 section 9.3
	only(t, "of the responder", judge(k.finish()))
}

// What is wrong with the initiator's first FPDU does not make its receiver speak
// first.
func TestAnswerToABadFirstFPDU(t *testing.T) {
	t.Parallel()
	for _, r := range []*Rule{fpduTooLong, fpduCRC} {
		k := begun()
		k.fpdu(0, rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0), bytes.Repeat([]byte{1}, 100))
		b := k.list[len(k.list)-1].Data
		if r == fpduTooLong {
			be.PutUint16(b[payloadAt:], 0xfff0)
		} else {
			b[len(b)-1]++
		}
		mendTCP(b)
		k.terminated(1, rdmap.Terminate{Layer: rdmap.LayerLLP, Code: uint8(mpa.CRC)})
		only(t, r.Says, judge(k.finish()), r)
	}
}

// Each Terminate of the standards, its control field in the RFC's order, in siw's
// and half swapped. Without M, D and R some read well both ways.
func TestTerminateControlField(t *testing.T) {
	t.Parallel()
	write, read := rdmap.TaggedHeader(rdmap.Write, true, 7, 0), rdmap.ReadRequest{Size: 10}
	request := rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0)
	for n := range 3 << 16 {
		layer, typ, code := rdmap.Layer(n>>16), uint8(n>>8), uint8(n)
		if layer == rdmap.LayerRDMA && typ == 0 && code > 0 || rdmap.Name(layer, typ, code) == "" {
			continue
		}
		x := rdmap.Terminate{Layer: layer, Type: typ, Code: code}
		switch {
		case layer == rdmap.LayerRDMA && typ == rdmap.TypeProtection:
			x = x.WithSegment(request, request.Len()+rdmap.ReadRequestLen).WithRead(read)
		case typ != 0:
			x = x.WithSegment(write, write.Len()+1)
		}
		swapped, siw := []*Rule{termSwapped}, []*Rule{termLayout}
		switch {
		case layer == rdmap.LayerDDP && typ == ddp.TypeTagged:
			swapped = nil // the same
		case x.HasDDP:
		case layer == rdmap.Layer(typ), layer == rdmap.LayerDDP, code >= uint8(mpa.LocalCatastrophic):
			swapped, siw = nil, nil
		default:
			swapped = siw
		}
		for _, c := range []struct {
			order   string
			control func([]byte)
			rules   []*Rule
		}{
			{"as it is", func([]byte) {}, nil},
			{"swapped", func(b []byte) { b[0] = b[0]<<4 | b[0]>>4 }, swapped},
			{"siw", func(b []byte) { b[0], b[2] = b[0]<<4|b[0]>>4, b[2]>>7|b[2]>>5&2|b[2]>>3&4 }, siw},
		} {
			if layer == rdmap.LayerLLP && code > uint8(mpa.LocalCatastrophic) && c.rules == nil {
				continue // of start-up: below
			}
			b := x.AppendTo(nil)
			c.control(b)
			k := begun()
			k.fpdu(0, write, []byte("x"))
			k.untagged(0, rdmap.ReadRequestOp, read.AppendTo(nil))
			k.untagged(1, rdmap.TerminateOp, b)
			only(t, fmt.Sprintf("%d/%d/%d %s", layer, typ, code, c.order), judge(k.finish()), c.rules...)
		}
	}
}

// What has happened tells how a control field is meant that reads well both ways.
func TestAmbiguousControlField(t *testing.T) {
	t.Parallel()
	w := mpa.Enhanced{IRD: 1, ORD: 1, P2P: true, RTRSend: true}
	for _, c := range []struct {
		side  int
		b     string
		means string // "": as it reads
	}{
		{0, "\x20\x07\x00\x00", ""},
		{0, "\x02\x07\x00\x00", "2/0/7: MPA, no matching RTR option"},
		{0, "\x02\x06\x00\x00", "2/0/6: MPA, insufficient IRD resources"},
		{1, "\x20\x06\x00\x00", "0/2/6: RDMAP, unexpected opcode"},
		{1, "\x02\x06\x00\x00", ""},
		{1, "\x01\x00\x00\x00", "1/0/0: DDP, local catastrophic error"},
	} {
		k := &talk{}
		k.start(startup(w, w))
		if c.side == 1 {
			k.untagged(0, rdmap.Send, nil)
		}
		k.untagged(c.side, rdmap.TerminateOp, []byte(c.b))
		r := judge(k.finish())
		if c.means == "" {
			only(t, fmt.Sprintf("%x", c.b), r)
		} else if only(t, fmt.Sprintf("%x", c.b), r, termLayout); len(r.Findings) == 1 && r.Findings[0].Detail != c.means {
			t.Errorf("%x: %v", c.b, r.Findings)
		}
	}
}
