package fault

import (
	"bytes"

	"tapir/rdmap"
	"tapir/wire/iscsi"
)

// pdu is what an item is of iSCSI.
type pdu struct {
	bhs     iscsi.BHS
	digests iscsi.Digests
}

// pduKinds are the PDUs of iSCSI that rules strike.
func pduKinds() []kind {
	all := []kind{{"iscsi", ofPDU, func(*thing) bool { return true }, "any PDU of iSCSI"}}
	for _, k := range []struct {
		what What
		op   iscsi.Opcode
		text string
	}{
		{"iscsi-login", iscsi.LoginReq, "a Login Request"},
		{"iscsi-login-response", iscsi.LoginRsp, "a Login Response"},
		{"iscsi-text", iscsi.TextReq, "a Text Request"}, {"iscsi-text-response", iscsi.TextRsp, "a Text Response"},
		{"iscsi-command", iscsi.Command, "a SCSI Command"}, {"iscsi-response", iscsi.Response, "a SCSI Response"},
		{"iscsi-data-out", iscsi.DataOut, "a SCSI Data-Out"}, {"iscsi-data-in", iscsi.DataIn, "a SCSI Data-In"},
		{"iscsi-r2t", iscsi.R2T, "an R2T"}, {"iscsi-task", iscsi.TaskRequest, "a Task Management Request"},
		{"iscsi-task-response", iscsi.TaskResponse, "a Task Management Response"},
		{"iscsi-nop-out", iscsi.NopOut, "a NOP-Out"}, {"iscsi-nop-in", iscsi.NopIn, "a NOP-In"},
		{"iscsi-logout", iscsi.LogoutReq, "a Logout Request"},
		{"iscsi-logout-response", iscsi.LogoutRsp, "a Logout Response"},
		{"iscsi-async", iscsi.Async, "an Asynchronous Message"}, {"iscsi-reject", iscsi.Reject, "a Reject"},
	} {
		all = append(all, kind{k.what, ofPDU, func(t *thing) bool { return t.item.pdu.bhs.Opcode() == k.op }, k.text})
	}
	return all
}

// byInitiator, byTarget and ofData tell which PDUs have a field (RFC 7143 section 11).
func byInitiator(i *item) bool { return i.pdu.bhs[0]&0x20 == 0 }
func byTarget(i *item) bool    { return !byInitiator(i) }
func ofData(i *item) bool {
	op := i.pdu.bhs.Opcode()
	return op == iscsi.DataIn || op == iscsi.DataOut
}
func isR2T(i *item) bool   { return i.pdu.bhs.Opcode() == iscsi.R2T }
func hasData(i *item) bool { return i.pdu.bhs.DataLen() > 0 }

// digested tells of a PDU without additional header segments that its header has a digest.
func digested(i *item) bool { return i.pdu.digests.Header && i.pdu.bhs[4] == 0 }

// pduFields are those of PDUs of iSCSI.
var pduFields = []field{
	{"opcode", 0, 1, nil},
	{"flags", 1, 1, nil},
	{"data-length", 5, 3, nil},
	{"lun", 8, 8, nil},
	{"itt", int(iscsi.ITT), 4, nil},
	{"ttt", int(iscsi.TTT), 4, nil},
	{"cmdsn", int(iscsi.CmdSN), 4, byInitiator},
	{"expstatsn", int(iscsi.ExpStatSN), 4, byInitiator},
	{"statsn", int(iscsi.StatSN), 4, byTarget},
	{"expcmdsn", int(iscsi.ExpCmdSN), 4, byTarget},
	{"maxcmdsn", int(iscsi.MaxCmdSN), 4, byTarget},
	{"datasn", int(iscsi.DataSN), 4, ofData},
	{"r2tsn", int(iscsi.R2TSN), 4, isR2T},
	{"offset", int(iscsi.Offset), 4, func(i *item) bool { return ofData(i) || isR2T(i) }},
	{"desired", int(iscsi.Desired), 4, isR2T},
	{"header-digest", iscsi.HeaderLen, 4, digested},
	{"data", iscsi.HeaderLen + 4, 0, func(i *item) bool { return digested(i) && hasData(i) }},
	{"data", iscsi.HeaderLen, 0, func(i *item) bool {
		return !i.pdu.digests.Header && i.pdu.bhs[4] == 0 && hasData(i)
	}},
	{"data-digest", -4, 4, func(i *item) bool { return i.pdu.digests.Data && hasData(i) }},
}

// session is what a direction of a connection of iSCSI has agreed.
type session struct {
	digests iscsi.Digests
	full    bool // the target has said that the login is over
	text    []byte
}

// beginsLogin tells whether a stream begins with a Login Request, or its answer (RFC 7143 section 11.12,
// 11.13): of versions 0 alone.
func beginsLogin(b []byte) bool {
	return len(b) >= 4 && (b[0] == 0x40|byte(iscsi.LoginReq) || b[0] == byte(iscsi.LoginRsp)) && b[2] == 0 && b[3] == 0
}

// feedPDU takes octets of one PDU.
func (f *follower) feedPDU(b []byte, visit func(i *item, from, to uint64)) int {
	if f.item == nil {
		f.fpdus++
		f.item = &item{start: f.at, pdu: new(pdu), number: f.fpdus, opcode: rdmap.NumOpcodes}
		if f.peer.session.full {
			f.item.pdu.digests = f.peer.session.digests
		} else if f.session.full {
			f.item.pdu.digests = f.session.digests
		}
	}
	i, n := f.item, 0
	if i.end == 0 {
		n = copy(i.pdu.bhs[i.got:], b)
		if i.got += n; i.got < iscsi.HeaderLen {
			return n
		}
		i.end = i.start + uint64(i.pdu.length())
		visit(i, f.at, f.at+uint64(n))
		b = b[n:]
	}
	k := min(len(b), int(i.end-f.at)-n)
	if at := f.at + uint64(n); k > 0 {
		visit(i, at, at+uint64(k))
	}
	if i.pdu.bhs.Opcode() == iscsi.LoginRsp {
		f.session.text = append(f.session.text, b[:min(k, mostText-len(f.session.text))]...)
	}
	if f.at+uint64(n+k) == i.end {
		f.session.login(&i.pdu.bhs)
		f.item = nil
	}
	return n + k
}

// mostText is how much of what a target answers in a login is looked at.
const mostText = 1 << 14

// login takes the answer of a target.
func (s *session) login(h *iscsi.BHS) {
	if h.Opcode() != iscsi.LoginRsp || h[36] != 0 || h[1]&iscsi.Transit == 0 || h[1]&3 != 3 {
		return
	}
	s.full = true
	s.digests.Header = bytes.Contains(s.text, []byte("HeaderDigest=CRC32C\x00"))
	s.digests.Data = bytes.Contains(s.text, []byte("DataDigest=CRC32C\x00"))
	s.text = nil
}

// length is that of the PDU in octets.
func (p *pdu) length() int {
	data := p.bhs.DataLen()
	n := iscsi.HeaderLen + int(p.bhs[4])*4 + data + -data&3
	if p.digests.Header {
		n += 4
	}
	if p.digests.Data && data > 0 {
		n += 4
	}
	return n
}
