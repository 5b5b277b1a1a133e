package scsi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tapir/lab/tool/inspect/clause"
	"tapir/wire/iscsi"
)

// msg is a PDU of a conversation.
type msg struct {
	iscsi.BHS
	side int // 0: the initiator
	data []byte
	flip int // octet of the PDU that is changed after its digests were made, from 1
	cut  int // octets that are missing at its end
	ahs  []byte
	then counters // before it
}

// talk is a conversation: one packet for each PDU.
type talk struct {
	list    []*msg
	late    bool
	digests iscsi.Digests // behind the login
	full    int           // PDUs of the login
	window  uint32
	counters
	findings []finding
	unseen   bool
	part     string
}

type counters struct{ statSN, cmdSN, itt uint32 }

type finding struct {
	rule   *clause.Rule
	packet int
	detail string
}

// Violate implements Reporter.
func (k *talk) Violate(_, packet int, r *clause.Rule, detail string) {
	k.findings = append(k.findings, finding{r, packet, detail})
}

// PDU implements Reporter.
func (k *talk) PDU(int, int, string, string, int) {}

// Part implements Reporter.
func (k *talk) Part(_ int, why string) { k.part = why }

// Seen implements Reporter.
func (k *talk) Seen(int) bool { return !k.unseen }

// stream is one direction of a conversation: Octets.
type stream struct {
	b       []byte
	begins  []int // segments
	packets []int
	done    int
}

func (s *stream) Bytes() []byte       { return s.b[s.done:] }
func (s *stream) Known(int, int) bool { return true }
func (s *stream) Begins(at int) bool  { return slices.Contains(s.begins, s.done+at) }
func (s *stream) Packet(at int) (n int) {
	for i, b := range s.begins {
		if b <= s.done+at {
			n = s.packets[i]
		}
	}
	return n
}

func (s *stream) Next(at int) int {
	for _, b := range s.begins {
		if b > s.done+at {
			return b - s.done
		}
	}
	return len(s.b) - s.done
}

// judge judges the conversation.
func (k *talk) judge() *talk {
	c := New(k, 0, k.late)
	var half [2]stream
	for n, m := range k.list {
		var d iscsi.Digests
		if n >= k.full {
			d = k.digests
		}
		m.SetDataLen(len(m.data))
		b := d.Tail(append(append(d.Head(nil, &m.BHS), m.ahs...), m.data...), m.data)
		if m.flip > 0 {
			b[m.flip-1] ^= 4
		}
		s := &half[m.side]
		s.begins, s.packets = append(s.begins, len(s.b)), append(s.packets, n+1)
		s.b = append(s.b, b[:len(b)-m.cut]...)
		s.done += c.Take(m.side, s)
	}
	for side := range half {
		c.Ended(side, len(k.list), len(half[side].Bytes()))
	}
	return k
}

func (k *talk) add(side int, op iscsi.Opcode, flags byte) *msg {
	m := &msg{side: side, then: k.counters}
	m.BHS[0], m.BHS[1] = byte(op), flags
	m.Put(iscsi.ITT, k.itt)
	if side == 0 {
		m.Put(iscsi.CmdSN, k.cmdSN)
		m.Put(iscsi.ExpStatSN, k.statSN)
	} else {
		m.Put(iscsi.StatSN, k.statSN)
		m.Put(iscsi.ExpCmdSN, k.cmdSN)
		m.Put(iscsi.MaxCmdSN, k.cmdSN+k.window-1)
	}
	k.list = append(k.list, m)
	return m
}

// status is an answer with a status of its own.
func (k *talk) status(op iscsi.Opcode, flags byte) *msg {
	m := k.add(1, op, flags)
	k.statSN++
	return m
}

// request is a request that is not immediate.
func (k *talk) request(op iscsi.Opcode, flags byte) *msg {
	k.itt++
	m := k.add(0, op, flags)
	m.then.itt--
	k.cmdSN++
	return m
}

func text(pairs ...string) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = iscsi.AppendText(b, pairs[i], pairs[i+1])
	}
	return b
}

// begin is a conversation with its login.
func begin(offers, answers []byte) *talk {
	k := &talk{counters: counters{20, 10, 100}, window: 32}
	m := k.add(0, iscsi.LoginReq|0x40, iscsi.Transit|1<<2|3)
	m.data = append(text("InitiatorName", "iqn.x:i", "TargetName", "iqn.x:t", "SessionType", "Normal"), offers...)
	r := k.status(iscsi.LoginRsp, iscsi.Transit|1<<2|3)
	r.BHS[15] = 7
	r.data = append(text("TargetPortalGroupTag", "1"), answers...)
	k.full = 2
	return k
}

// normal is a login with unsolicited data of at most 1024 octets and bursts of 2048.
func normal() *talk {
	keys := text("InitialR2T", "No", "ImmediateData", "Yes", "MaxBurstLength", "2048", "FirstBurstLength", "1024",
		"MaxRecvDataSegmentLength", "1024", "DataPDUInOrder", "Yes")
	return begin(keys, text("InitialR2T", "No", "ImmediateData", "Yes", "MaxBurstLength", "2048",
		"FirstBurstLength", "1024", "MaxRecvDataSegmentLength", "1024"))
}

func (k *talk) cdb(flags byte, op byte, expect uint32) *msg {
	m := k.request(iscsi.Command, flags)
	m.BHS[9], m.BHS[32] = 1, op
	m.Put(iscsi.Expected, expect)
	return m
}

func (k *talk) readData(n, sn, offset uint32, flags byte) *msg {
	m := k.add(1, iscsi.DataIn, flags)
	m.Put(iscsi.TTT, iscsi.Unassigned)
	m.Put(iscsi.DataSN, sn)
	m.Put(iscsi.Offset, offset)
	m.data = make([]byte, n)
	if flags&iscsi.Status != 0 {
		k.statSN++
	}
	return m
}

func (k *talk) ask(sn, offset, desired uint32) *msg {
	m := k.add(1, iscsi.R2T, iscsi.Final)
	m.BHS[9] = 1
	m.Put(iscsi.TTT, 0x100+sn)
	m.Put(iscsi.R2TSN, sn)
	m.Put(iscsi.Offset, offset)
	m.Put(iscsi.Desired, desired)
	return m
}

func (k *talk) written(tag, n, sn, offset uint32, flags byte) *msg {
	m := k.add(0, iscsi.DataOut, flags)
	if tag != iscsi.Unassigned {
		m.BHS[9] = 1
	}
	m.Put(iscsi.TTT, tag)
	m.Put(iscsi.CmdSN, 0)
	m.Put(iscsi.DataSN, sn)
	m.Put(iscsi.Offset, offset)
	m.data = make([]byte, n)
	return m
}

func (k *talk) good(sn uint32) *msg {
	m := k.status(iscsi.Response, iscsi.Final)
	m.Put(iscsi.ExpDataSN, sn)
	return m
}

func (k *talk) nop(data []byte) *msg {
	m := k.request(iscsi.NopOut, iscsi.Final)
	m.Put(iscsi.TTT, iscsi.Unassigned)
	m.data = data
	return m
}

// everything is a conversation with each kind of PDU, numbered in the table.
func everything() *talk {
	k := normal()                                           // 1, 2
	k.cdb(iscsi.Final|iscsi.Read, 0x28, 3072)               // 3
	k.readData(1024, 0, 0, 0)                               // 4
	k.readData(1024, 1, 1024, iscsi.Final)                  // 5
	k.readData(1024, 2, 2048, iscsi.Final|iscsi.Status)     // 6
	k.cdb(iscsi.Write, 0x2a, 4096).data = make([]byte, 512) // 7
	k.written(iscsi.Unassigned, 512, 0, 512, iscsi.Final)   // 8
	k.ask(0, 1024, 2048)                                    // 9
	k.written(0x100, 1024, 0, 1024, 0)                      // 10
	k.written(0x100, 1024, 1, 2048, iscsi.Final)            // 11
	k.ask(1, 3072, 1024)                                    // 12
	k.written(0x101, 1024, 0, 3072, iscsi.Final)            // 13
	k.good(2)                                               // 14
	k.nop([]byte("ping"))                                   // 15
	n := k.status(iscsi.NopIn, iscsi.Final)                 // 16
	n.Put(iscsi.TTT, iscsi.Unassigned)
	n.data = []byte("ping")
	k.cdb(iscsi.Final|iscsi.Read, 0x12, 255)                             // 17
	in := k.readData(36, 0, 0, iscsi.Final|iscsi.Status|iscsi.Underflow) // 18
	in.Put(iscsi.Residual, 219)
	k.cdb(iscsi.Final, 0x00, 0) // 19
	e := k.good(0)              // 20
	e.BHS[3], e.data = checkCondition, append([]byte{0, 18}, make([]byte, 18)...)
	itt := k.itt
	k.itt = iscsi.Unassigned
	p := k.add(1, iscsi.NopIn, iscsi.Final) // 21
	p.Put(iscsi.TTT, 0x77)
	p = k.add(0, iscsi.NopOut|0x40, iscsi.Final) // 22
	p.Put(iscsi.TTT, 0x77)
	k.itt = itt
	t := k.request(iscsi.TextReq, iscsi.Final) // 23
	t.Put(iscsi.TTT, iscsi.Unassigned)
	t.data = text("SendTargets", "")
	t = k.status(iscsi.TextRsp, iscsi.Final) // 24
	t.Put(iscsi.TTT, iscsi.Unassigned)
	k.cdb(iscsi.Final|iscsi.Read, 0x28, 512) // 25
	about := k.itt
	m := k.request(iscsi.TaskRequest, iscsi.Final|1) // 26
	m.BHS[9] = 1
	m.Put(iscsi.RefTag, about)
	k.status(iscsi.TaskResponse, iscsi.Final) // 27
	k.cdb(iscsi.Final, 0x00, 0)               // 28
	j := k.status(iscsi.Reject, iscsi.Final)  // 29
	j.Put(iscsi.ITT, iscsi.Unassigned)
	j.data = k.list[27].BHS[:]
	k.good(0)                               // 30
	k.request(iscsi.LogoutReq, iscsi.Final) // 31
	k.status(iscsi.LogoutRsp, iscsi.Final)  // 32
	return k
}

// TestEverything: a conversation without a fault breaks no rule, from its start on or from any PDU on,
// with and without digests.
func TestEverything(t *testing.T) {
	for _, d := range []iscsi.Digests{{}, {Header: true}, {Data: true}, {Header: true, Data: true}} {
		for from := range 31 {
			k := everything()
			k.digests = d
			if d.Header {
				k.keys("HeaderDigest")
			}
			if d.Data {
				k.keys("DataDigest")
			}
			if from > 0 {
				from = max(from, k.full)
				k.list, k.full, k.late = k.list[from:], 0, true
			}
			for _, f := range k.judge().findings {
				t.Errorf("%+v from PDU %d: packet %d: %s: %s: %s", d, from+1, f.packet, f.rule.Clause, f.rule.Says, f.detail)
			}
		}
	}
}

// keys agrees on a digest in the login.
func (k *talk) keys(name string) {
	k.list[0].data = append(k.list[0].data, text(name, "CRC32C,None")...)
	k.list[1].data = append(k.list[1].data, text(name, "CRC32C")...)
}

// at changes PDU n of a conversation.
func at(n int, change func(m *msg)) func(k *talk) {
	return func(k *talk) { change(k.list[n-1]) }
}

func put(n int, f iscsi.Field, v uint32) func(k *talk) {
	return at(n, func(m *msg) { m.Put(f, v) })
}

func octet(n, i int, v byte) func(k *talk) { return at(n, func(m *msg) { m.BHS[i] = v }) }

// only keeps the PDUs up to n.
func only(n int, more ...func(k *talk)) func(k *talk) {
	return func(k *talk) {
		if n < len(k.list) {
			k.counters = k.list[n].then
		}
		k.list = k.list[:n]
		for _, f := range more {
			f(k)
		}
	}
}

func loginOf(offers, answers []byte) func(k *talk) {
	return func(k *talk) { *k = *begin(offers, answers) }
}

// drop takes PDU n out.
func drop(n int) func(k *talk) { return func(k *talk) { k.list = slices.Delete(k.list, n-1, n) } }

// fresh is a login after which a conversation goes on.
func fresh(then func(k *talk)) func(k *talk) {
	return func(k *talk) { *k = *normal(); then(k) }
}

// cases: each change of everything breaks a rule in a packet, and no other.
var cases = []struct {
	rule   *clause.Rule
	packet int
	change func(k *talk)
}{
	{pduOpcode, 4, only(4, octet(4, 0, byte(iscsi.Command)))},
	{pduOpcode, 4, only(4, octet(4, 0, 0x2a))},
	{pduAHS, 9, only(9, at(9, func(m *msg) { m.BHS[4], m.ahs = 1, make([]byte, 4) }))},
	{pduNoData, 9, only(9, at(9, func(m *msg) { m.data = []byte("data") }))},
	{pduLong, 3, fresh(func(k *talk) { k.nop(make([]byte, 1028)) })},
	{headerDigest, 9, only(9, func(k *talk) { k.digests.Header = true; k.keys("HeaderDigest"); k.list[8].flip = 30 })},
	{dataDigest, 5, only(6, func(k *talk) { k.digests.Data = true; k.keys("DataDigest"); k.list[4].flip = 60 })},
	{pduPad, 15, only(15, at(15, func(m *msg) { m.data = []byte("pings"); m.flip = 48 + 7 }))},
	{streamEnd, 15, only(15, at(15, func(m *msg) { m.cut = 2 }))},

	{loginFirst, 2, only(2, func(k *talk) {
		k.list = k.list[1:]
		k.list[0] = normal().list[0]
		k.cmdSN = 10
		k.itt++
		k.list = append(k.list[:1], everything().list[2])
	})},
	{loginAgain, 3, fresh(func(k *talk) { k.add(0, iscsi.LoginReq|0x40, iscsi.Transit|1<<2|3) })},
	{loginTwo, 2, only(1, func(k *talk) { k.list = append(k.list, k.list[0]); k.list[1] = &msg{BHS: k.list[0].BHS} })},
	{loginUnasked, 1, func(k *talk) { k.list = k.list[1:2] }},
	{loginContinue, 1, only(1, octet(1, 1, iscsi.Transit|iscsi.Continue|1<<2|3))},
	{loginStage, 1, only(1, octet(1, 1, iscsi.Transit|1<<2|2))},
	{loginBack, 3, twoLogins(octet(3, 1, iscsi.Transit|3))},
	{loginVersion, 1, only(1, octet(1, 3, 1))},
	{loginTSIH, 3, twoLogins(at(3, func(m *msg) { m.BHS[15] = 1 }))},
	{loginCID, 3, twoLogins(at(3, func(m *msg) { m.BHS[21] = 1 }))},
	{loginCmdSN, 3, twoLogins(at(3, func(m *msg) { m.Put(iscsi.CmdSN, 11) }))},
	{loginNames, 1, only(1, at(1, func(m *msg) { m.data = text("InitiatorName", "iqn.x:i") }))},
	{loginTransit, 2, only(2, octet(1, 1, 1<<2))},
	{loginNSG, 2, only(2, octet(1, 1, iscsi.Transit|1), octet(2, 1, iscsi.Transit|3))},
	{loginTSIHZero, 2, only(2, octet(2, 15, 0))},
	{loginStatus, 2, only(2, octet(2, 36, 4))},
	{loginAfterFail, 3, only(3, octet(2, 36, 2))},

	{keyFormat, 1, only(1, at(1, func(m *msg) { m.data = append(m.data, 'x') }))},
	{keyAgain, 1, loginOf(text("MaxBurstLength", "512", "MaxBurstLength", "1024"), text("MaxBurstLength", "512"))},
	{keyRange, 1, loginOf(text("MaxBurstLength", "511"), text("MaxBurstLength", "Reject"))},
	{keyChoice, 2, loginOf(text("HeaderDigest", "None"), text("HeaderDigest", "CRC32C"))},
	{keyResult, 2, loginOf(text("MaxBurstLength", "1024"), text("MaxBurstLength", "2048"))},
	{keyResult, 2, loginOf(text("ImmediateData", "No"), text("ImmediateData", "Yes"))},
	{keyResult, 2, loginOf(text("InitialR2T", "Yes"), text("InitialR2T", "No"))},
	{keyResult, 2, loginOf(text("DefaultTime2Wait", "5"), text("DefaultTime2Wait", "2"))},
	{keyUnknown, 2, loginOf(text("TaskReporting", "RFC3720"), text("TaskReporting", "NotUnderstood"))},
	{keyUnanswered, 2, loginOf(text("MaxBurstLength", "1024"), nil)},
	{keyBursts, 2, loginOf(text("MaxBurstLength", "512", "FirstBurstLength", "1024"),
		text("MaxBurstLength", "512", "FirstBurstLength", "1024"))},
	{keyDiscovery, 2, only(2, at(1, func(m *msg) {
		m.data = text("InitiatorName", "iqn.x:i", "SessionType", "Discovery", "ErrorRecoveryLevel", "1")
	}), at(2, func(m *msg) { m.data = text("ErrorRecoveryLevel", "1") }))},

	{cmdSNNext, 15, only(15, put(15, iscsi.CmdSN, 14))},
	{cmdSNOrder, 15, only(15, put(15, iscsi.CmdSN, 10))},
	{cmdSNCurrent, 22, only(22, put(22, iscsi.CmdSN, 1))},
	{cmdSNWindow, 3, func(k *talk) { k.window = 32; only(3, put(2, iscsi.MaxCmdSN, 9))(k) }},
	{expCmdSN, 4, only(4, put(4, iscsi.ExpCmdSN, 12))},
	{expCmdSNLate, 14, only(14, put(14, iscsi.ExpCmdSN, 11))},
	{maxCmdSN, 4, only(4, put(4, iscsi.MaxCmdSN, 2))},
	{statSNNext, 14, only(14, put(14, iscsi.StatSN, 30))},
	{statSNNext, 9, only(9, put(9, iscsi.StatSN, 30))},
	{expStatSN, 15, only(15, put(15, iscsi.ExpStatSN, 30))},
	{tagReserved, 3, only(3, put(3, iscsi.ITT, iscsi.Unassigned))},
	{tagInUse, 4, fresh(func(k *talk) { k.cdb(iscsi.Final, 0, 0); k.itt--; k.cdb(iscsi.Final, 0, 0) })},
	{tagUnknown, 14, only(14, put(14, iscsi.ITT, 5))},
	{tagUnknown, 8, only(8, put(8, iscsi.ITT, 5))},
	{logoutMore, 32, only(31, func(k *talk) { k.cdb(iscsi.Final, 0, 0) })},
	{logoutTheEnd, 33, func(k *talk) { k.readData(512, 0, 0, 0) }},
	{snackLevel, 3, fresh(func(k *talk) { k.add(0, iscsi.SNACK, iscsi.Final) })},
	{afterTaskMgmt, 28, only(27, func(k *talk) { k.good(0).Put(iscsi.ITT, k.list[24].U32(iscsi.ITT)) })},

	{cmdFlags, 3, fresh(func(k *talk) { k.cdb(iscsi.Read, 0x28, 512) })},
	{cmdFlags, 3, fresh(func(k *talk) { k.cdb(iscsi.Final, 0x28, 512) })},
	{cmdUnsol, 3, func(k *talk) { loginOf(nil, nil)(k); k.cdb(iscsi.Write, 0x2a, 512) }},
	{cmdImmediate, 3, func(k *talk) {
		loginOf(text("ImmediateData", "No"), nil)(k)
		k.cdb(iscsi.Final|iscsi.Write, 0x2a, 512).data = make([]byte, 512)
	}},
	{cmdFirstBurst, 8, only(8, at(7, func(m *msg) { m.data = make([]byte, 1000) }), put(8, iscsi.Offset, 1000))},
	{cmdTooMuch, 3, fresh(func(k *talk) { k.cdb(iscsi.Final|iscsi.Write, 0x2a, 512).data = make([]byte, 516) })},
	{outUnsol, 10, only(10, put(10, iscsi.TTT, iscsi.Unassigned))},
	{outPart, 8, only(8, at(8, func(m *msg) { m.data = m.data[:4] }))},
	{outOrder, 5, fresh(func(k *talk) {
		k.cdb(iscsi.Write, 0x2a, 512)
		k.cdb(iscsi.Write, 0x2a, 512)
		k.written(iscsi.Unassigned, 512, 0, 0, iscsi.Final)
	})},
	{outTag, 10, only(10, put(10, iscsi.TTT, 0x999))},
	{outLUN, 10, only(10, octet(10, 9, 2))},
	{outSN, 11, only(11, put(11, iscsi.DataSN, 2))},
	{outOffset, 11, only(11, put(11, iscsi.Offset, 2052))},
	{outRange, 11, only(11, put(9, iscsi.Desired, 2040))},
	{outFinal, 10, only(10, octet(10, 1, iscsi.Final))},
	{outFinal, 11, only(11, octet(11, 1, 0))},
	{nopImmediate, 22, only(22, octet(22, 0, byte(iscsi.NopOut)))},
	{nopTag, 22, only(22, put(22, iscsi.TTT, 0x78))},
	{taskFunction, 26, only(26, octet(26, 1, iscsi.Final|9))},
	{logoutReason, 31, only(31, octet(31, 1, iscsi.Final|3))},

	{inKind, 8, only(7, func(k *talk) { k.readData(512, 0, 0, iscsi.Final) })},
	{inSN, 5, only(6, put(5, iscsi.DataSN, 2))},
	{inSN, 12, only(12, put(12, iscsi.R2TSN, 2))},
	{inOffset, 5, only(6, put(5, iscsi.Offset, 1028))},
	{inTooMuch, 6, only(6, put(3, iscsi.Expected, 3000))},
	{inBurst, 6, only(6, octet(5, 1, 0))},
	{inStatus, 6, only(6, octet(6, 1, iscsi.Status))},
	{r2tKind, 4, only(3, func(k *talk) { k.ask(0, 0, 512) })},
	{r2tTag, 9, only(9, put(9, iscsi.TTT, iscsi.Unassigned))},
	{r2tDesired, 9, only(9, put(9, iscsi.Desired, 0))},
	{r2tDesired, 9, only(9, put(9, iscsi.Desired, 2052))},
	{r2tRange, 12, only(12, put(12, iscsi.Desired, 1028))},
	{r2tOffset, 12, only(12, put(12, iscsi.Offset, 2048))},
	{r2tMany, 10, only(9, func(k *talk) { k.ask(1, 3072, 1024) })},
	{r2tLUN, 9, only(9, octet(9, 9, 2))},
	{rspFlags, 20, only(20, octet(20, 1, iscsi.Final|iscsi.Overflow|iscsi.Underflow))},
	{rspCode, 14, only(14, octet(14, 2, 2))},
	{rspSense, 20, only(20, at(20, func(m *msg) { m.data = nil }))},
	{rspExpSN, 14, only(14, put(14, iscsi.ExpDataSN, 1))},
	{rspResidual, 18, only(18, put(18, iscsi.Residual, 218))},
	{rspResidual, 12, func(k *talk) { drop(13)(k); drop(12)(k); only(12, put(12, iscsi.ExpDataSN, 1))(k) }},
	{rspKind, 16, only(15, func(k *talk) { k.good(0) })},
	{nopEcho, 16, only(16, at(16, func(m *msg) { m.data = []byte("pong") }))},
	{nopUnasked, 21, only(21, at(21, func(m *msg) { m.data = []byte("data") }))},
	{nopUnasked, 16, only(16, put(16, iscsi.TTT, 4))},
	{textFlags, 24, only(24, put(24, iscsi.TTT, 4))},
	{textFlags, 23, only(23, octet(23, 1, iscsi.Final|iscsi.Continue))},
	{textMany, 24, only(23, func(k *talk) { k.request(iscsi.TextReq, iscsi.Final).Put(iscsi.TTT, iscsi.Unassigned) })},
	{rejectBHS, 29, only(29, at(29, func(m *msg) { m.data = m.data[:44] }))},
}

// twoLogins is a login in two steps.
func twoLogins(change func(k *talk)) func(k *talk) {
	return func(k *talk) {
		*k = talk{counters: counters{20, 10, 100}, window: 32}
		m := k.add(0, iscsi.LoginReq|0x40, 1<<2)
		m.data = text("InitiatorName", "iqn.x:i", "TargetName", "iqn.x:t")
		k.status(iscsi.LoginRsp, 1<<2)
		k.add(0, iscsi.LoginReq|0x40, iscsi.Transit|1<<2|3)
		change(k)
	}
}

// TestRules: each rule is broken by a conversation that breaks no other, in the packet that breaks it.
func TestRules(t *testing.T) {
	broken := map[*clause.Rule]bool{}
	for _, x := range cases {
		k := everything()
		x.change(k)
		got := k.judge().findings
		broken[x.rule] = true
		if len(got) != 1 || got[0].rule != x.rule || got[0].packet != x.packet {
			s := ""
			for _, f := range got {
				s += fmt.Sprintf("\n\tpacket %d: %s: %s: %s", f.packet, f.rule.Clause, f.rule.Says, f.detail)
			}
			t.Errorf("packet %d: %s: %s: found:%s", x.packet, x.rule.Clause, x.rule.Says, s)
		}
	}
	for _, r := range Rules() {
		if !broken[r] && strings.HasPrefix(r.Clause, "RFC 7143") {
			t.Errorf("no conversation breaks %s: %s", r.Clause, r.Says)
		}
	}
}

// FuzzConn: whatever two sides send, judging it ends.
func FuzzConn(f *testing.F) {
	for _, m := range everything().list {
		m.SetDataLen(len(m.data))
		f.Add(append(m.BHS[:], m.data...), m.side == 1, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, target, late bool) {
		k := everything()
		c := New(k, 0, late)
		var half [2]stream
		for n, m := range k.list[:12] {
			m.SetDataLen(len(m.data))
			s := &half[m.side]
			octets := iscsi.Digests{}.Tail(append(iscsi.Digests{}.Head(nil, &m.BHS), m.data...), m.data)
			if n == 6 {
				octets = append(octets, b...)
			}
			s.begins, s.packets = append(s.begins, len(s.b)), append(s.packets, n+1)
			s.b = append(s.b, octets...)
			s.done += c.Take(m.side, s)
		}
		side := 0
		if target {
			side = 1
		}
		s := &half[side]
		s.begins, s.packets = append(s.begins, len(s.b)), append(s.packets, 99)
		s.b = append(s.b, b...)
		if s.done += c.Take(side, s); s.done > len(s.b) {
			t.Fatalf("%d of %d octets taken", s.done, len(s.b))
		}
		c.Gap(side, 100)
		c.Ended(side, 101, len(s.Bytes()))
		_ = c.Agreed()
	})
}
