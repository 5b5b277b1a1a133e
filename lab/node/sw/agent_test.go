package sw

import (
	"testing"

	"tapir/lab/conf/swconf"
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// asked sends a subnet management packet to everybody and returns the switch's answer,
// which leaves by the same port; nil: there was none.
func (b *bed) asked(framing opa.Framing, slid opa.LID, s mad.SMP, data []byte) (answer *mad.SMP, attribute []byte) {
	b.t.Helper()
	s.BaseVersion, s.Class, s.ClassVersion, s.TID = mad.BaseVersion, mad.ClassSubnDirected, mad.BaseVersion, 77
	p := make([]byte, s.Len())
	s.Put(p)
	f := b.pool.Get(1000)
	f.Extend(opa.HeaderLen9B + opa.MaxOverhead)
	f.TrimFront(opa.HeaderLen9B + opa.MaxOverhead)
	f.Append(append(p, data...))
	r := frame.DropNone
	if slid < 0x10000 || slid == opa.Permissive {
		h := opa.Header9B{SLID: slid, DLID: opa.Permissive, SC: opa.SCManagement, PKey: opa.PKeyManagement}
		if r = opa.Encapsulate9B(f, &h, opa.ICRCv1); r == frame.DropNone {
			r = framing.Wrap9B(f)
		}
	} else {
		h := opa.Header{SLID: slid, DLID: opa.Permissive, SC: opa.SCManagement, PKey: opa.PKeyManagement}
		if r = opa.EncapsulateMAD(f, &h, opa.QPSubnet, opa.QPSubnet, opa.ICRCv1); r == frame.DropNone {
			r = framing.Wrap16B(f)
		}
	}
	if r != frame.DropNone {
		b.t.Fatal(r)
	}
	b.s.Receive(0, []*frame.Frame{f}, b.now)
	b.run(0)
	if n := len(b.wires[1].take()); n != 1 {
		b.t.Errorf("%d frames pass the switch", n)
	}
	answers := b.wires[0].take()
	if len(answers) == 0 {
		return nil, nil
	}
	q := b.pool.Get(len(answers[0].b))
	defer q.Release()
	q.Append([]byte(answers[0].b))
	_, r = opa.Unwrap(q)
	p9, why := opa.Parse9B(q.Bytes(), opa.ICRCv1)
	if r != frame.DropNone || why != frame.DropNone || p9.DLID() != slid && (slid < 0x10000 || p9.DLID() != opa.Permissive) {
		b.t.Fatalf("%v, %v, to %v", r, why, p9.DLID())
	}
	got, attribute, err := mad.ParseSMP(append([]byte(nil), p9.Payload()...))
	if err != nil || got.Method != mad.MethodGetResp || got.TID != 77 || len(answers) > 1 {
		b.t.Fatalf("%+v, %v, %d answers", got, err, len(answers))
	}
	return &got, attribute
}

// A switch answers subnet management packets for everybody in each framing, and those for
// its GUID; what it does not know is refused, and what is for others passes.
func TestAgent(t *testing.T) {
	for _, c := range []struct {
		framing opa.Framing
		slid    opa.LID
	}{{opa.FramingNSH, 5}, {opa.FramingGeneve, 5}, {opa.FramingNSH, 0x20000}, {opa.FramingGeneve, 0x20000},
		{opa.FramingNSH, opa.Permissive}} {
		b := newBed(t, 2, swconf.Config{Name: "core", Queue: 16, FECNThreshold: 3, FECNSize: 100, FECNRate: 7})
		get, set := mad.SMP{Header: mad.Header{Method: mad.MethodGet}}, mad.SMP{Header: mad.Header{Method: mad.MethodSet}}
		with := func(s mad.SMP, guid uint64, attr uint16, modifier uint32) mad.SMP {
			s.GUID, s.Attr, s.Modifier = guid, attr, modifier
			return s
		}
		ask := func(s mad.SMP, data []byte) (*mad.SMP, []byte) { return b.asked(c.framing, c.slid, s, data) }
		a, data := ask(with(get, 0, mad.AttrNodeInfo, 0), nil)
		if a == nil {
			t.Fatalf("%+v: no answer", c)
		}
		info := mad.ParseNodeInfo(data)
		if info.Type != mad.NodeSwitch || info.Ports != 2 || info.NodeGUID == 0 || a.GUID != info.NodeGUID {
			t.Errorf("%+v", info)
		}
		guid := info.NodeGUID
		if _, data = ask(with(get, guid, mad.AttrNodeDescription, 0), nil); mad.ParseNodeDescription(data) != "core" {
			t.Errorf("%q", data)
		}
		_, data = ask(with(get, guid, mad.AttrSwitchCongestionSetting, 0), nil)
		if s := mad.ParseSwitchCongestion(data); s.Threshold != 0x30 || s.PacketSize != 2 || s.MarkingRate != 7 {
			t.Errorf("as it is set up: %+v", s)
		}
		var octets [mad.SwitchCongestionLen]byte
		want := mad.SwitchCongestionSetting{ControlMap: mad.SwitchMarkingValid, Threshold: 0xf0, MarkingRate: 9}
		want.Put(octets[:])
		_, data = ask(with(set, guid, mad.AttrSwitchCongestionSetting, 0), octets[:])
		if s := mad.ParseSwitchCongestion(data); s.Threshold != 0x30 || s.MarkingRate != 9 || b.s.ports[0].marking != (marking{3, 128, 9}) {
			t.Errorf("fields that do not count: %+v", s)
		}
		own := mad.SwitchPortCongestion{Threshold: mad.SwitchPortValid | 5, PacketSize: 1, MarkingRate: 2}
		own.Put(octets[:])
		ask(with(set, guid, mad.AttrSwitchPortCongestion, mad.SwitchPort(2)), octets[:mad.SwitchPortCongestionLen])
		if b.s.ports[1].marking != (marking{5, 64, 2}) || b.s.ports[0].marking != (marking{3, 128, 9}) {
			t.Errorf("a port of its own: %+v and %+v", b.s.ports[0].marking, b.s.ports[1].marking)
		}
		for what, s := range map[string]mad.SMP{"a port that is not there": with(get, guid, mad.AttrSwitchPortCongestion, mad.SwitchPort(3)),
			"port 0":    with(set, guid, mad.AttrSwitchPortCongestion, mad.SwitchPort(0)),
			"port info": with(get, guid, mad.AttrPortInfo, mad.OnePort), "a modifier": with(set, guid, mad.AttrSwitchCongestionSetting, 1),
			"a name to set": with(set, guid, mad.AttrNodeDescription, 0)} {
			if a, _ := ask(s, octets[:]); a == nil || a.Status&^mad.StatusDirection == mad.StatusOK {
				t.Errorf("%s: %+v", what, a)
			}
		}
		for what, s := range map[string]mad.SMP{"another's GUID": with(get, guid+1, mad.AttrNodeInfo, 0),
			"everybody's setting": with(set, 0, mad.AttrSwitchCongestionSetting, 0), "an answer": with(mad.SMP{Header: mad.Header{Method: mad.MethodGetResp}}, guid, mad.AttrNodeInfo, 0)} {
			if a, _ := ask(s, octets[:]); a != nil {
				t.Errorf("%s: %+v", what, a)
			}
		}
		if b.s.ports[1].marking != (marking{5, 64, 2}) {
			t.Errorf("what was refused changed something: %+v", b.s.ports[1].marking)
		}
	}
}
