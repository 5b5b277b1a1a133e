package script

import (
	"fmt"
	"slices"

	"tapir/ddp"
	"tapir/rdmap"
)

// decode takes a segment apart into the fields of its headers and what
// follows them. kind is nil if its opcode has none or its header is cut off.
func decode(ulpdu []byte) (v map[string]uint64, kind *pduKind, body []byte, err error) {
	h, body, err := ddp.Parse(ulpdu)
	if err != nil {
		return nil, nil, nil, err
	}
	c := rdmap.ParseControl(h.ULP)
	v = map[string]uint64{
		"op": uint64(c.Opcode), "rv": uint64(c.Version), "rsvdulp": uint64(c.Reserved), "dv": uint64(h.Version),
		"rsvd": uint64(h.Reserved), "t": bit(h.Tagged), "l": bit(h.Last), "stag": uint64(h.STag), "to": h.TO,
		"inv": uint64(h.ULPWord), "qn": uint64(h.QN), "msn": uint64(h.MSN), "mo": uint64(h.MO),
	}
	for i := range pduKinds {
		if k := &pduKinds[i]; k.op == c.Opcode && !k.raw {
			kind = k
		}
	}
	switch c.Opcode {
	case rdmap.ReadRequestOp:
		var r rdmap.ReadRequest
		if r, err = rdmap.ParseReadRequest(body); err == nil {
			body = body[rdmap.ReadRequestLen:]
			v["size"], v["sink-stag"], v["sink-to"] = uint64(r.Size), uint64(r.SinkSTag), r.SinkTO
			v["src-stag"], v["src-to"] = uint64(r.SourceSTag), r.SourceTO
		}
	case rdmap.AtomicRequestOp:
		var r rdmap.AtomicRequest
		if r, err = rdmap.ParseAtomicRequest(body); err == nil {
			body = body[rdmap.AtomicRequestLen:]
			v["aop"], v["id"], v["at-stag"], v["at-to"] = uint64(r.Op), uint64(r.ID), uint64(r.STag), r.TO
			v["add"], v["mask"], v["compare"], v["compare-mask"] = r.Data, r.Mask, r.Compare, r.CompareMask
			v["atomic-reserved"] = uint64(r.Reserved)
		}
	case rdmap.AtomicResponseOp:
		var r rdmap.AtomicResponse
		if r, err = rdmap.ParseAtomicResponse(body); err == nil {
			body = body[rdmap.AtomicResponseLen:]
			v["id"], v["original"] = uint64(r.ID), r.Original
		}
	}
	if err != nil {
		kind = nil
	}
	return v, kind, body, nil
}

func bit(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// describe writes a segment of connection e as scripts do; out tells whether
// it came out of the NIC.
func (w *world) describe(ulpdu []byte, e *endpoint, out bool) string {
	v, kind, body, err := decode(ulpdu)
	if err != nil || kind == nil {
		return "fpdu" + octetsText(ulpdu)
	}
	text := kind.name
	quoted := &e.seen
	if out {
		quoted = &e.built
	}
	if kind.op == rdmap.TerminateOp {
		if t, rest, err := rdmap.ParseTerminate(body); err == nil {
			text += terminationText(&t, quoted)
			body = rest
		}
	}
	if v["t"] == 1 {
		text += w.fieldText("stag", v) + w.fieldText("to", v)
	}
	for _, f := range kind.header {
		text += w.fieldText(f, v)
	}
	text += w.deviations(v, kind)
	if len(body) > 0 {
		text += octetsText(body)
	}
	return text
}

func (w *world) fieldText(f string, v map[string]uint64) string {
	switch {
	case f == "stag" || f == "sink-stag" || f == "src-stag" || f == "at-stag" || f == "inv":
		return " " + f + " " + w.nameSTag(uint32(v[f]))
	case f == "to" || f == "sink-to" || f == "src-to" || f == "at-to":
		return " " + f + " " + w.nameTO(v[f])
	}
	return fmt.Sprintf(" %s %d", f, v[f])
}

// deviations are the fields of the DDP header that are not as the protocol
// has them for a message of its kind, and where the segment stands.
func (w *world) deviations(v map[string]uint64, kind *pduKind) (text string) {
	usual := map[string]uint64{"t": bit(kind.op.Tagged()), "dv": ddp.Version, "rv": rdmap.Version,
		"qn": uint64(kind.op.Queue())}
	for _, f := range []string{"t", "dv", "rv", "rsvd", "rsvdulp", "qn", "inv"} {
		untagged := f == "qn" || f == "inv"
		if v[f] != usual[f] && !(untagged && v["t"] == 1) {
			text += w.fieldText(f, v)
		}
	}
	if v["t"] == 0 {
		text += fmt.Sprintf(" msn %d", v["msn"])
		if v["mo"] != 0 {
			text += fmt.Sprintf(" mo %d", v["mo"])
		}
	}
	if v["l"] == 0 {
		text += " more"
	}
	return text
}

// compare implements message.
func (m *pdu) compare(r *runner, p *peer, got *packet) (diffs []difference) {
	if got.unit == nil || got.unit.ulpdu == nil {
		return []difference{{"message: not an FPDU", m.word}}
	}
	u := got.unit
	if m.kind.raw {
		if wrong := m.data.differs(r.world, u.ulpdu, 0, m.word); wrong != nil {
			return []difference{*wrong}
		}
		return nil
	}
	want, wrong := m.values(r.world, &u.begun)
	if wrong != nil {
		return []difference{*wrong}
	}
	have, _, body, err := decode(u.ulpdu)
	if err != nil {
		return []difference{{"header: " + err.Error(), m.word}}
	}
	if have["op"] != want["op"] {
		return []difference{{"opcode", m.word}}
	}
	for _, f := range fieldOrder(m.kind, have["t"] == 1) {
		n, given := want[f]
		if !given || have[f] == n {
			continue
		}
		at := m.word
		if e, ok := m.given[f]; ok {
			at = e.word
		}
		diffs = append(diffs, difference{f, at})
	}
	if m.term != nil {
		return append(diffs, m.term.compare(body, p.end)...)
	}
	h := header(have)
	if wrong := m.data.differs(r.world, body, m.position(r.world, &h), m.word); wrong != nil {
		diffs = append(diffs, *wrong)
	}
	return diffs
}

// fieldOrder is the order in which fields are compared.
func fieldOrder(kind *pduKind, tagged bool) []string {
	order := []string{"t", "l", "dv", "rv", "rsvd", "rsvdulp"}
	if tagged {
		order = append(order, "stag", "to")
	} else {
		order = append(order, "qn", "msn", "mo", "inv")
	}
	return slices.Concat(order, kind.header)
}
