package script

import (
	"net/netip"

	"tapir/wire/ib"
)

// Fields of messages of communication management.
var (
	roceIDs = []fieldSpec{
		{name: "tid", form: numberForm(64, true)},
		{name: "local", form: numberForm(32, false), usual: uint64(9)},
		{name: "remote", form: numberForm(32, false)},
		{name: "version", form: numberForm(8, false), in: true}, {name: "qkey", form: numberForm(32, true), in: true},
		{name: "pkey", form: numberForm(16, true), in: true},
		{name: "attr", form: numberForm(16, true), in: true}, {name: "method", form: numberForm(8, true), in: true},
		{name: "badicrc", form: flagForm, in: true}, {name: "lose", form: numberForm(8, false), in: true},
	}
	roceStarts = []fieldSpec{
		{name: "qpn", form: numberForm(24, true), usual: uint64(0x55)},
		{name: "psn", form: numberForm(24, false), usual: uint64(rocePSN)},
		{name: "reads", form: numberForm(8, false), usual: uint64(4)},
		{name: "depth", form: numberForm(8, false), usual: uint64(4)},
		{name: "rnr-retry", form: numberForm(3, false), usual: uint64(3)},
	}
	roceREQ = []fieldSpec{
		{name: "port", form: numberForm(16, false), usual: uint64(7174)},
		{name: "space", form: numberForm(16, true), usual: uint64(ib.PortSpaceTCP)},
		{name: "mtu", form: numberForm(4, false), usual: uint64(3)},
		{name: "retry", form: numberForm(3, false), usual: uint64(3)},
		{name: "transport", form: numberForm(2, false), usual: uint64(0)},
		{name: "guid", form: numberForm(64, true), usual: uint64(0x77)},
		{name: "cma", form: numberForm(8, true), usual: uint64(0)},
	}
)

func madKind(name string, more ...[]fieldSpec) *messageKind {
	k := &messageKind{name: name, fields: append([]fieldSpec(nil), roceIDs...)}
	for _, f := range more {
		k.fields = append(k.fields, f...)
	}
	return k
}

// roceMADs are the messages by their attributes.
var roceMADs = map[uint16]*messageKind{
	ib.AttrREQ: madKind("req", roceStarts, roceREQ),
	ib.AttrREP: madKind("rep", roceStarts),
	ib.AttrRTU: madKind("rtu"),
	ib.AttrREJ: madKind("rej", []fieldSpec{{name: "reason", form: numberForm(16, false),
		usual: uint64(ib.RejectConsumer)},
		{name: "about", form: numberForm(2, false), usual: uint64(0)}}),
	ib.AttrMRA: madKind("mra", []fieldSpec{{name: "about", form: numberForm(2, false), usual: uint64(0)},
		{name: "service", form: numberForm(5, false), usual: uint64(20)}}),
	ib.AttrDREQ: madKind("dreq", roceStarts[:1]),
	ib.AttrDREP: madKind("drep"),
	ib.AttrLAP:  madKind("lap"),
	ib.AttrAPR:  madKind("apr", []fieldSpec{{name: "status", form: numberForm(8, false), usual: uint64(0)}}),
	ib.AttrSIDRREQ: madKind("sidr-req", []fieldSpec{{name: "port", form: numberForm(16, false), usual: uint64(7174)},
		{name: "space", form: numberForm(16, true), usual: uint64(ib.PortSpaceUDP)}}),
	ib.AttrSIDRREP: madKind("sidr-rep", []fieldSpec{{name: "status", form: numberForm(8, false), usual: uint64(0)}}),
}

// roceMADNames are their attributes by name.
var roceMADNames = map[string]uint16{}

// sentMAD takes a datagram of the NIC's queue pair 1.
func (b *roceBench) sentMAD(mad []byte) {
	h, data, err := ib.ParseMAD(mad)
	kind := roceMADs[h.Attr]
	if err != nil || kind == nil || h.Class != ib.ClassCM || h.ClassVersion != ib.CMVersion {
		b.r.observed(roceMessages["cnp"], nil, "a datagram that is none of communication management")
		return
	}
	ids := ib.ParseIDs(data)
	b.tid = h.TID
	v := map[string]any{"tid": h.TID, "local": uint64(ids.LocalID), "remote": uint64(ids.RemoteID - b.salt)}
	switch h.Attr {
	case ib.AttrREQ:
		m := ib.ParseREQ(data)
		_, port, _ := ib.ServicePort(m.ServiceID)
		v["qpn"], v["psn"], v["reads"], v["depth"] = uint64(m.QPN), uint64(m.PSN), uint64(m.Responder),
			uint64(m.Initiator)
		v["rnr-retry"], v["port"], v["mtu"], v["retry"] = uint64(m.RNRRetry), uint64(port), uint64(m.MTU),
			uint64(m.Retry)
		v["transport"] = uint64(m.Service)
		delete(v, "remote")
	case ib.AttrREP:
		m := ib.ParseREP(data)
		v["qpn"], v["psn"], v["reads"], v["depth"] = uint64(m.QPN), uint64(m.PSN), uint64(m.Responder),
			uint64(m.Initiator)
		v["rnr-retry"] = uint64(m.RNRRetry)
	case ib.AttrREJ:
		m := ib.ParseREJ(data)
		v["reason"], v["about"] = uint64(m.Reason), uint64(m.About)
	case ib.AttrMRA:
		m := ib.ParseMRA(data)
		v["about"], v["service"] = uint64(m.About), uint64(m.Timeout)
	case ib.AttrDREQ:
		v["qpn"] = uint64(ib.ParseDREQ(data).RemoteQPN)
	case ib.AttrAPR:
		v["status"] = uint64(ib.ParseAPR(data).Status)
	case ib.AttrSIDRREP:
		v["status"] = uint64(ib.ParseSIDRREP(data).Status)
		delete(v, "remote")
	}
	if h.Attr != ib.AttrREJ || ids.LocalID != 0 {
		b.peerID = ids.LocalID
	}
	b.r.observed(kind, v, "")
}

// sendMAD sends a message of communication management.
func (b *roceBench) sendMAD(m *fields, attr uint16) string {
	h := ib.Header{BaseVersion: 1, Class: ib.ClassCM, ClassVersion: ib.CMVersion, Method: ib.MethodSend, TID: b.tid,
		Attr: attr}
	for name, to := range map[string]func(n uint64){
		"tid":     func(n uint64) { h.TID = n },
		"version": func(n uint64) { h.ClassVersion = uint8(n) },
		"method":  func(n uint64) { h.Method = uint8(n) },
		"attr":    func(n uint64) { h.Attr = uint16(n) },
	} {
		if n, ok := m.given[name].(uint64); ok {
			to(n)
		}
	}
	local, remote := uint32(m.num("local"))+b.salt, b.peerID
	if n, ok := m.given["remote"].(uint64); ok {
		remote = uint32(n)
	}
	mad, data := h.AppendMAD(nil)
	qpn, psn := uint32(m.num("qpn")), uint32(m.num("psn"))
	switch attr {
	case ib.AttrREQ:
		b.putREQ(m, data)
	case ib.AttrREP:
		(&ib.REP{LocalID: local, RemoteID: remote, QPN: qpn, PSN: psn, Responder: uint8(m.num("reads")),
			Initiator: uint8(m.num("depth")), RNRRetry: uint8(m.num("rnr-retry")), CAGUID: b.guid(0x77)}).Put(data)
	case ib.AttrREJ:
		(&ib.REJ{LocalID: local, RemoteID: remote, Reason: ib.RejectReason(m.num("reason")),
			About: uint8(m.num("about"))}).Put(data)
	case ib.AttrMRA:
		(&ib.MRA{LocalID: local, RemoteID: remote, About: uint8(m.num("about")),
			Timeout: uint8(m.num("service"))}).Put(data)
	case ib.AttrDREQ:
		if b.qpn != 0 && m.given["qpn"] == nil {
			qpn = b.qpn
		}
		(&ib.DREQ{LocalID: local, RemoteID: remote, RemoteQPN: qpn}).Put(data)
	case ib.AttrSIDRREQ:
		q := ib.SIDRREQ{RequestID: local, PKey: ib.PKeyDefault, ServiceID: b.service(m), Private: make([]byte,
			ib.SIDRREQPrivate)}
		(&ib.CMA{Src: netip.AddrPortFrom(b.r.remote, 40000), Dst: b.r.local}).Put(q.Private)
		q.Put(data)
	default:
		(&ib.IDs{LocalID: local, RemoteID: remote}).Put(data)
	}
	mad = mad[:len(mad)-int(m.num("lose"))]
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QP1, PKey: ib.PKeyDefault},
		DETH: ib.DETH{QKey: ib.QKeyQP1, SrcQP: ib.QP1}, Payload: mad}
	if n, ok := m.given["qkey"].(uint64); ok {
		p.DETH.QKey = uint32(n)
	}
	if n, ok := m.given["pkey"].(uint64); ok {
		p.PKey = uint16(n)
	}
	b.packet(m, p.Append(nil))
	return ""
}

// service is the service id of a message.
func (b *roceBench) service(m *fields) uint64 {
	port := uint16(m.num("port"))
	if port == rocePort {
		port = b.r.port
	}
	return ib.PortSpace(m.num("space")).ServiceID(port)
}

// guid is a GUID of the peer that no other run has.
func (b *roceBench) guid(n uint64) uint64 { return n + uint64(b.salt)<<32 }

// putREQ writes a REQ.
func (b *roceBench) putREQ(m *fields, data []byte) {
	q := ib.REQ{LocalID: uint32(m.num("local")) + b.salt, ServiceID: b.service(m), CAGUID: b.guid(m.num("guid")),
		QPN:       uint32(m.num("qpn")),
		Responder: uint8(m.num("reads")), Initiator: uint8(m.num("depth")), RemoteTimeout: 20, LocalTimeout: 20,
		Service: uint8(m.num("transport")), PSN: uint32(m.num("psn")), Retry: uint8(m.num("retry")),
		PKey: ib.PKeyDefault,
		MTU:  uint8(m.num("mtu")), RNRRetry: uint8(m.num("rnr-retry")), MaxCMRetries: 15, Private: make([]byte,
			ib.REQPrivate),
		Primary: ib.Path{LocalLID: ib.LIDRoCE, RemoteLID: ib.LIDRoCE, LocalGID: b.r.remote.As16(),
			RemoteGID: b.r.local.As16(),
			HopLimit:  64, AckTimeout: 19}}
	(&ib.CMA{Src: netip.AddrPortFrom(b.r.remote, 40000), Dst: b.r.local}).Put(q.Private)
	q.Private[0] |= byte(m.num("cma"))
	q.Put(data)
}
