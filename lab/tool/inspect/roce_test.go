package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/roce"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// roceTalk builds a capture of RoCE packets by hand. Side 0 is the client, queue pair 0x100 with
// requests from PSN 0xFFFFFE on, side 1 the server, queue pair 0x200 with requests from 50 on.
type roceTalk struct {
	list []Packet
	id   uint16
}

var roceEnds = [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}

const (
	psn0   = 0xfffffe
	psn1   = 50
	retry0 = 2
)

// raw adds transport octets without ICRC.
func (k *roceTalk) raw(side int, b []byte) {
	k.id++
	n := ip.HeaderLen4 + udp.HeaderLen
	h := ip.Header{Version: 4, TTL: 64, ID: k.id, DF: true, Proto: ip.ProtoUDP, Src: roceEnds[side], Dst: roceEnds[1-side],
		PayloadLen: udp.HeaderLen + len(b) + ib.ICRCLen}
	d := make([]byte, n, n+len(b)+ib.ICRCLen)
	h.Put(d)
	binary.BigEndian.PutUint16(d[20:], 0xc000)
	binary.BigEndian.PutUint16(d[22:], ib.UDPPort)
	binary.BigEndian.PutUint16(d[24:], uint16(h.PayloadLen))
	d = append(d, b...)
	c := ib.ICRCIPv4(d).Headers(b[:ib.BTHLen]).Payload(b[ib.BTHLen:])
	d = append(d, 0, 0, 0, 0)
	c.Put(d[len(d)-4:])
	k.add(d)
}

func (k *roceTalk) add(d []byte) {
	k.list = append(k.list, Packet{Number: len(k.list) + 1, Time: int64(len(k.list)+1) * 1000, Link: linkRaw, Data: d,
		OrigLen: len(d)})
}

// send adds a packet.
func (k *roceTalk) send(side int, p ib.Packet) {
	if p.PKey == 0 {
		p.PKey = ib.PKeyDefault
	}
	if p.DestQP == 0 {
		p.DestQP = [2]uint32{0x200, 0x100}[side]
	}
	k.raw(side, p.Append(nil))
}

// req adds a request of the client with n octets.
func (k *roceTalk) req(op ib.Opcode, psn uint32, n int) {
	k.send(0, ib.Packet{BTH: ib.BTH{Opcode: op, PSN: psn}, RETH: ib.RETH{VA: 0x1000, RKey: 7, Len: uint32(n)},
		Payload: make([]byte, n)})
}

func (k *roceTalk) read(psn uint32, va uint64, n int) {
	k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpReadRequest, PSN: psn}, RETH: ib.RETH{VA: va, RKey: 7, Len: uint32(n)}})
}

// resp adds a response of the server.
func (k *roceTalk) resp(op ib.Opcode, s ib.Syndrome, psn, msn uint32, n int) {
	k.send(1, ib.Packet{BTH: ib.BTH{Opcode: op, PSN: psn}, AETH: ib.AETH{Syndrome: s, MSN: msn}, Payload: make([]byte, n)})
}

func (k *roceTalk) ack(psn, msn uint32) { k.resp(ib.OpAcknowledge, ib.SyndromeACK, psn, msn, 0) }

func (k *roceTalk) nak(s ib.Syndrome, psn, msn uint32) { k.resp(ib.OpAcknowledge, s, psn, msn, 0) }

// mad adds a message of communication management.
func (k *roceTalk) mad(side int, attr uint16, tid uint64, put func(data []byte), change ...func(mad []byte)) {
	h := ib.Header{BaseVersion: 1, Class: ib.ClassCM, ClassVersion: ib.CMVersion, Method: ib.MethodSend, TID: tid,
		Attr: attr}
	mad, data := h.AppendMAD(nil)
	put(data)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: ib.QP1}, DETH: ib.DETH{QKey: ib.QKeyQP1, SrcQP: ib.QP1}}
	for _, f := range change {
		f(mad)
	}
	p.Payload = mad
	k.send(side, p)
}

func roceGID(side int) [16]byte { return roceEnds[side].As16() }

func goodREQ() ib.REQ {
	q := ib.REQ{LocalID: 1, ServiceID: ib.PortSpaceTCP.ServiceID(7), QPN: 0x100, PSN: psn1, Retry: retry0, MTU: 1,
		PKey:    0xffff,
		Primary: ib.Path{LocalGID: roceGID(0), RemoteGID: roceGID(1)}, Private: make([]byte, ib.REQPrivate)}
	(&ib.CMA{Src: netip.AddrPortFrom(roceEnds[0], 9), Dst: roceEnds[1]}).Put(q.Private)
	return q
}

func (k *roceTalk) reqREP(side int, tid uint64, m ib.REP) { k.mad(side, ib.AttrREP, tid, m.Put) }

// connected begins with a connection whose path MTU is 256.
func connected() *roceTalk {
	k := &roceTalk{}
	q := goodREQ()
	k.mad(0, ib.AttrREQ, 5, q.Put)
	k.reqREP(1, 5, ib.REP{LocalID: 2, RemoteID: 1, QPN: 0x200, PSN: psn0})
	k.mad(0, ib.AttrRTU, 5, (&ib.IDs{LocalID: 1, RemoteID: 2}).Put)
	return k
}

// roceAccusations has for each rule of RoCE what breaks it.
var roceAccusations = []struct {
	rule *Rule
	talk func(k *roceTalk)
}{
	{roceUDPLength, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.list[3].Data[25]++ }},
	{roceOptions, func(k *roceTalk) {
		h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoUDP, Src: roceEnds[0], Dst: roceEnds[1], Options: []byte{1, 1, 1,
			1}, PayloadLen: 28}
		d := make([]byte, h.HeaderLen()+28)
		h.Put(d)
		binary.BigEndian.PutUint16(d[26:], ib.UDPPort)
		d[29] = 28
		k.add(d)
	}},
	{roceGRH, func(k *roceTalk) {
		b := make([]byte, 14+ib.GRHLen+20)
		b[12], b[13], b[14] = 0x89, 0x15, 0x60
		k.add(b)
		k.list[3].Link = 1
	}},
	{roceShort, func(k *roceTalk) {
		k.raw(0, (&ib.Packet{BTH: ib.BTH{Opcode: ib.OpReadRequest, DestQP: 0x200}}).Append(nil)[:16])
	}},
	{roceICRC, func(k *roceTalk) {
		k.req(ib.OpSendOnly, psn0, 8)
		d := k.list[3].Data
		d[len(d)-1] ^= 8
	}},
	{roceVersion, func(k *roceTalk) { k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PSN: psn0, Version: 1}}) }},
	{roceOpcode, func(k *roceTalk) { k.send(0, ib.Packet{BTH: ib.BTH{Opcode: 0x1f, PSN: psn0}}) }},
	{roceReserved, func(k *roceTalk) { k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PSN: psn0, Reserved: 1}}) }},
	{rocePad, func(k *roceTalk) {
		k.raw(0, append((&ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PSN: psn0, PKey: 0xffff, DestQP: 0x200}}).Append(nil),
			1))
	}},
	{rocePKey, func(k *roceTalk) {
		k.req(ib.OpSendOnly, psn0, 8)
		k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PSN: 0xffffff, PKey: 0x8001}})
	}},
	{roceDestQP, func(k *roceTalk) { k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PSN: psn0, DestQP: 1}}) }},
	{roceCNP, func(k *roceTalk) { k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.CNP, PSN: 3}}) }},
	{roceNoPayload, func(k *roceTalk) { k.resp(ib.OpAcknowledge, ib.SyndromeACK, psn0, 0, 4) }},
	{roceDMALen, func(k *roceTalk) {
		k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpWriteFirst, PSN: psn0}, RETH: ib.RETH{Len: 1<<31 + 1},
			Payload: make([]byte, 256)})
	}},
	{roceFull, func(k *roceTalk) { k.req(ib.OpSendFirst, psn0, 252) }},
	{roceRest, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 260) }},
	{roceRest, func(k *roceTalk) { k.req(ib.OpSendFirst, psn0, 256); k.req(ib.OpSendLast, 0xffffff, 0) }},
	{roceLength, func(k *roceTalk) {
		k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.OpWriteOnly, PSN: psn0}, RETH: ib.RETH{Len: 9}, Payload: make([]byte, 8)})
	}},
	{rocePSN, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0-1, 8) }},
	{rocePSN, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.req(ib.OpSendOnly, 0x300000, 8) }},
	{roceChanged, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.req(ib.OpSendOnly, psn0, 12) }},
	{roceChanged, func(k *roceTalk) { k.read(psn0, 0x1000, 600); k.read(0xffffff, 0x1000, 344) }},
	{roceOrder, func(k *roceTalk) { k.req(ib.OpSendMiddle, psn0, 256) }},
	{roceOrder, func(k *roceTalk) { k.req(ib.OpSendFirst, psn0, 256); k.req(ib.OpSendOnly, 0xffffff, 8) }},
	{roceOrder, func(k *roceTalk) { k.req(ib.OpSendFirst, psn0, 256); k.req(ib.OpWriteLast, 0xffffff, 8) }},
	{roceRetry, func(k *roceTalk) {
		for range retry0 + 2 {
			k.req(ib.OpSendOnly, psn0, 8)
		}
	}},
	{roceSyndrome, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.nak(0x65, psn0, 0) }},
	{roceSyndrome, func(k *roceTalk) { k.read(psn0, 0x1000, 8); k.resp(ib.OpReadResponseOnly, 0x62, psn0, 1, 8) }},
	{roceAckPSN, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.ack(0x400000, 1) }},
	{roceAckPSN, func(k *roceTalk) {
		k.req(ib.OpSendOnly, psn0, 8)
		k.ack(0xffffff, 1)
		k.req(ib.OpSendOnly, 0xffffff, 8)
	}},
	{roceMSN, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.ack(psn0, 2) }},
	{roceMSN, func(k *roceTalk) { k.req(ib.OpSendFirst, psn0, 256); k.ack(psn0, 1); k.req(ib.OpSendLast, 0xffffff, 8) }},
	{roceNAK, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.nak(ib.NAKSequence, psn0, 0) }},
	{roceNAKTwice, func(k *roceTalk) {
		k.req(ib.OpSendOnly, psn0, 8)
		k.req(ib.OpSendOnly, 0xffffff, 8)
		k.nak(ib.NAKSequence, psn0, 0)
		k.nak(ib.NAKSequence, psn0, 0)
	}},
	{roceRNR, func(k *roceTalk) { k.read(psn0, 0x1000, 8); k.nak(ib.SyndromeRNR+3, psn0, 0) }},
	{roceAccess, func(k *roceTalk) { k.req(ib.OpSendOnly, psn0, 8); k.nak(ib.NAKRemoteAccess, psn0, 0) }},
	{roceAfterNAK, func(k *roceTalk) {
		k.req(ib.OpWriteOnly, psn0, 8)
		k.nak(ib.NAKInvalidRequest, psn0, 0)
		k.ack(psn0, 1)
	}},
	{roceAfterNAK, func(k *roceTalk) {
		k.req(ib.OpWriteOnly, psn0, 8)
		k.ack(psn0, 1)
		k.nak(ib.NAKRemoteOperation, psn0, 0)
	}},
	{roceUnasked, func(k *roceTalk) {
		k.req(ib.OpSendOnly, psn0, 8)
		k.resp(ib.OpReadResponseOnly, ib.SyndromeACK, psn0, 1, 8)
	}},
	{roceUnasked, func(k *roceTalk) {
		k.read(psn0, 0x1000, 8)
		k.resp(ib.OpAtomicAcknowledge, ib.SyndromeACK, psn0, 1,
			0)
	}},
	{roceResponse, func(k *roceTalk) {
		k.read(psn0, 0x1000, 300)
		k.resp(ib.OpReadResponseOnly, ib.SyndromeACK, psn0, 1, 256)
	}},
	{roceResponse, func(k *roceTalk) {
		k.read(psn0, 0x1000, 8)
		k.resp(ib.OpReadResponseOnly, ib.SyndromeACK, psn0, 1,
			12)
	}},

	{roceQKey, func(k *roceTalk) {
		k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: 1}, DETH: ib.DETH{QKey: 1}, Payload: make([]byte,
			256)})
	}},
	{roceMADLength, func(k *roceTalk) {
		k.send(0, ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQP: 1}, DETH: ib.DETH{QKey: ib.QKeyQP1},
			Payload: make([]byte, 252)})
	}},
	{roceMADHeader, func(k *roceTalk) { k.mad(0, ib.AttrRTU, 5, (&ib.IDs{}).Put, func(b []byte) { b[2] = 1 }) }},
	{roceREQChanged, func(k *roceTalk) { q := goodREQ(); q.QPN++; k.mad(0, ib.AttrREQ, 5, q.Put) }},
	{roceREPChanged, func(k *roceTalk) { k.reqREP(1, 5, ib.REP{LocalID: 2, RemoteID: 1, QPN: 0x201, PSN: psn0}) }},
	{roceREQMTU, func(k *roceTalk) { q := goodREQ(); q.LocalID, q.MTU = 9, 6; k.mad(0, ib.AttrREQ, 6, q.Put) }},
	{roceREQService, func(k *roceTalk) {
		q := goodREQ()
		q.LocalID, q.Service = 9, ib.ServiceRD
		k.mad(0, ib.AttrREQ, 6, q.Put)
	}},
	{roceREQPath, func(k *roceTalk) {
		q := goodREQ()
		q.LocalID, q.Primary.LocalGID = 9, roceGID(1)
		k.mad(0, ib.AttrREQ, 6, q.Put)
	}},
	{roceCMA, func(k *roceTalk) { q := goodREQ(); q.LocalID, q.Private[1] = 9, 0x50; k.mad(0, ib.AttrREQ, 6, q.Put) }},
	{roceTID, func(k *roceTalk) { k.mad(0, ib.AttrRTU, 8, (&ib.IDs{LocalID: 1, RemoteID: 2}).Put) }},
	{roceTID, func(k *roceTalk) {
		k.mad(0, ib.AttrDREQ, 8, (&ib.DREQ{LocalID: 1, RemoteID: 2, RemoteQPN: 0x200}).Put)
		k.mad(1, ib.AttrDREP, 9, (&ib.IDs{LocalID: 2, RemoteID: 1}).Put)
	}},
	{roceCommID, func(k *roceTalk) { k.reqREP(1, 5, ib.REP{LocalID: 3, RemoteID: 4, QPN: 0x200, PSN: psn0}) }},
	{roceCommID, func(k *roceTalk) { k.mad(0, ib.AttrRTU, 5, (&ib.IDs{LocalID: 1, RemoteID: 3}).Put) }},
	{roceReject, func(k *roceTalk) { k.mad(1, ib.AttrREJ, 5, (&ib.REJ{LocalID: 2, RemoteID: 1, Reason: 99}).Put) }},
	{roceDREQ, func(k *roceTalk) { k.mad(0, ib.AttrDREQ, 8, (&ib.DREQ{LocalID: 1, RemoteID: 2, RemoteQPN: 0x100}).Put) }},
}

// Each rule of RoCE is broken by what breaks it, and nothing else is.
func TestRoCERules(t *testing.T) {
	t.Parallel()
	seen := map[*Rule]bool{}
	for n, c := range roceAccusations {
		k := connected()
		c.talk(k)
		only(t, fmt.Sprintf("case %d: %s", n, c.rule.Says), judge(k.list), c.rule)
		seen[c.rule] = true
	}
	for _, r := range Rules() {
		if strings.HasPrefix(r.Clause, "IBTA") && !seen[r] {
			t.Errorf("nothing breaks %s: %s", r.Clause, r.Says)
		}
	}
	k := connected()
	k.req(ib.OpSendOnly, psn0, 8)
	k.req(ib.OpWriteFirst, 0xffffff, 256)
	only(t, "a message under way", judge(k.list[:len(k.list)-1]))
}

// A capture may lack the request by which a Read is asked again from its middle. The responder is not
// accused then, and the flow is not judged as a whole. What suits no such request is a violation.
func TestRoCERepeatedReadIsMissing(t *testing.T) {
	t.Parallel()
	begin := func() *roceTalk {
		k := connected()
		k.read(psn0, 0x1000, 600)
		k.resp(ib.OpReadResponseFirst, ib.SyndromeACK, psn0, 1, 256)
		return k
	}
	for name, talk := range map[string]func(k *roceTalk){
		"two packets again": func(k *roceTalk) {
			k.resp(ib.OpReadResponseFirst, ib.SyndromeACK, 0xffffff, 1, 256)
			k.resp(ib.OpReadResponseLast, ib.SyndromeACK, 0, 1, 88)
		},
		"one packet again": func(k *roceTalk) {
			k.resp(ib.OpReadResponseMiddle, 0, 0xffffff, 0, 256)
			k.resp(ib.OpReadResponseOnly, ib.SyndromeACK, 0, 1, 88)
		},
	} {
		k := begin()
		talk(k)
		r := judge(k.list)
		only(t, name, r)
		const why = "a repeated Read request is missing from the capture"
		if !slices.ContainsFunc(r.Flows, func(f *Flow) bool { return f.State != Replayed && strings.HasPrefix(f.Why, why) }) {
			t.Errorf("%s: no flow says that %s", name, why)
		}
	}
	for name, talk := range map[string]func(k *roceTalk){
		"one packet that is too short": func(k *roceTalk) {
			k.resp(ib.OpReadResponseOnly, ib.SyndromeACK, 0, 1, 80)
		},
		"a first packet in the place of the last": func(k *roceTalk) {
			k.resp(ib.OpReadResponseFirst, ib.SyndromeACK, 0, 1, 256)
		},
	} {
		k := begin()
		talk(k)
		only(t, name, judge(k.list), roceResponse)
	}
}

// TestRoCEREQAtOneEnd: of the ends of a link, one capture has the REQ and the other the REP.
func TestRoCEREQAtOneEnd(t *testing.T) {
	t.Parallel()
	k := connected()
	k.list[1].Interface = 1
	only(t, "REP at the other end", judge(k.list))
}

// What is right, and what the capture does not show, breaks nothing.
func TestRoCEGoodTalks(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(k *roceTalk){
		"a gap that is filled": func(k *roceTalk) {
			k.req(ib.OpSendOnly, psn0, 8)
			k.req(ib.OpSendOnly, 0, 8)
			k.nak(ib.NAKSequence, 0xffffff, 1)
			k.req(ib.OpSendOnly, 0xffffff, 8)
			k.ack(0, 3)
		},
		"a Read that is asked again from its middle": func(k *roceTalk) {
			k.read(psn0, 0x1000, 600)
			k.resp(ib.OpReadResponseFirst, ib.SyndromeACK, psn0, 1, 256)
			k.read(0xffffff, 0x1100, 344)
			k.resp(ib.OpReadResponseFirst, ib.SyndromeACK, 0xffffff, 1, 256)
			k.resp(ib.OpReadResponseLast, ib.SyndromeACK, 0, 1, 88)
			k.req(ib.OpSendOnly, 1, 8)
			k.ack(1, 2)
		},
	} {
		k := connected()
		talk(k)
		r := judge(k.list)
		only(t, name, r)
		for _, f := range r.Flows {
			if f.State != Replayed {
				t.Errorf("%s: %s, %s", name, f.State, f.Why)
			}
		}
	}
	k := connected()
	k.req(ib.OpSendOnly, psn0, 8)
	k.req(ib.OpSendOnly, 0, 8)
	k.ack(0, 3)
	if r := judge(k.list); r.Verdict() != NotJudged || !strings.Contains(r.Flows[1].Why, "missing from the capture") {
		t.Errorf("a packet that the capture lacks: %s, %+v", r.Verdict(), r.Flows[1])
	}
}

// roceEnd is a RoCE engine whose packets a capture sees.
type roceEnd struct {
	b    *roceBench
	side int
	gid  verbs.GID
	dev  *verbs.Device
	e    *roce.Engine
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	qp   *verbs.QP
	left int
}

// roceBench is two of them. Packets get lost, doubled and late on both sides of the capture.
type roceBench struct {
	t     testing.TB
	r     *rand.Rand
	now   frame.Time
	pool  *buf.Pool
	ends  [2]*roceEnd
	list  []Packet
	queue []roceFlight
	loss  int
}

type roceFlight struct {
	at   frame.Time
	to   *roceEnd
	data []byte
	seen bool
}

func (s *roceEnd) Room() int { return 64 }

func (s *roceEnd) Transmit(f *frame.Frame, _ *roce.Hop, _ frame.Time) {
	data := bytes.Clone(f.Bytes())
	f.Release()
	s.b.fly(s.b.ends[1-s.side], data, false)
}

func (b *roceBench) fly(to *roceEnd, data []byte, seen bool) {
	if b.r.IntN(1000) < b.loss {
		return
	}
	for range 1 + b.r.IntN(100)/99 {
		at := b.now.Add(time.Microsecond)
		if b.loss > 0 && b.r.IntN(20) == 0 {
			at = at.Add(time.Duration(b.r.IntN(30)) * time.Microsecond)
		}
		b.queue = append(b.queue, roceFlight{at, to, data, seen})
	}
}

func newRoCEBench(t testing.TB, seed uint64, typ qpattr.Type) *roceBench {
	b := &roceBench{t: t, r: rand.New(rand.NewPCG(seed, 22)), now: frame.Time(time.Second), pool: buf.NewPool(1<<12, 0)}
	b.loss = []int{0, 5, 30}[b.r.IntN(3)]
	mtu := 256 << b.r.IntN(5)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range b.ends {
		s := &roceEnd{b: b, side: i, gid: verbs.GIDFromAddr(roceEnds[i]), left: 30}
		s.dev = verbs.NewDevice(verbs.Limits{}, rand.NewPCG(seed, uint64(i)))
		s.dev.SetGIDs([]verbs.GIDEntry{{GID: s.gid, Type: verbs.RoCEv2}})
		s.e = roce.New(s.dev, roce.Env{Pool: b.pool, Out: s, MTU: func() int { return 4096 },
			Segments: func() int { return 1 }})
		var err error
		s.pd, err = s.dev.AllocPD()
		must(err)
		s.cq, err = s.dev.CreateCQ(1024, nil)
		must(err)
		s.mr, err = s.pd.RegMR(make([]byte, 32<<10), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
		must(err)
		s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 64, MaxRecv: 256})
		must(err)
		b.ends[i] = s
	}
	first := [2]uint32{b.r.Uint32() & ib.PSNMask, b.r.Uint32() & ib.PSNMask}
	for i, s := range b.ends {
		o := b.ends[1-i]
		a := qpattr.Attr{Access: uint8(verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic), Port: 1, PathMTU: mtu,
			DestQPN: o.qp.QPN(),
			RQPSN:   first[1-i], SQPSN: first[i], MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1, Timeout: 5, RetryCount: 7,
			RNRRetry: 7, Path: qpattr.Path{DGID: o.gid, HopLimit: 64}}
		m := [3]qpattr.Mask{qpattr.State | qpattr.PKeyIndex | qpattr.Port | qpattr.Access,
			qpattr.State | qpattr.AV | qpattr.PathMTU | qpattr.DestQPN | qpattr.RQPSN,
			qpattr.State | qpattr.SQPSN}
		if typ == qpattr.RC {
			m[1] |= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
			m[2] |= qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.MaxRdAtomic
		} else {
			a.Access = uint8(verbs.RemoteWrite)
		}
		for n, state := range []verbs.State{verbs.Init, verbs.RTR, verbs.RTS} {
			must(s.qp.ModifyAttr(state, &a, m[n]))
		}
	}
	return b
}

// post lets a side post a request and a receive.
func (s *roceEnd) post(typ qpattr.Type) {
	b, o := s.b, s.b.ends[1-s.side]
	sge := func(x *roceEnd, n int) []verbs.SGE {
		return []verbs.SGE{{Addr: x.mr.Addr(), Length: uint32(n), LKey: x.mr.LKey()}}
	}
	n := pick(b.r, 0, 1, 8, b.r.IntN(300), b.r.IntN(9000))
	ops := []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompSwap,
		verbs.OpFetchAdd}
	if typ == qpattr.UC {
		ops = ops[:4]
	}
	wr := verbs.SendWR{Opcode: ops[b.r.IntN(len(ops))], SGEs: sge(s, n), RKey: o.mr.RKey(), RemoteAddr: o.mr.Addr(),
		Flags: verbs.Signaled}
	if wr.Opcode >= verbs.OpCompSwap {
		wr.SGEs = sge(s, 8)
	}
	if s.left == 1 && b.r.IntN(3) == 0 && typ == qpattr.RC { // the end
		wr.RKey ^= 0x100
	}
	if _, err := s.qp.PostSend(wr); err == nil {
		s.left--
	}
	if b.r.IntN(4) > 0 || s.left == 0 {
		_, _ = o.qp.PostRecv(verbs.RecvWR{SGEs: sge(o, 16<<10)})
	}
}

func (b *roceBench) step() {
	due := slices.Clone(b.queue)
	b.queue = b.queue[:0]
	slices.SortStableFunc(due, func(x, y roceFlight) int { return int(x.at - y.at) })
	for _, f := range due {
		switch {
		case f.at > b.now:
			b.queue = append(b.queue, f)
		case f.seen:
			f.to.e.Receive(f.data, 0, ether.Tag{}, b.now)
		default:
			b.list = append(b.list, Packet{Number: len(b.list) + 1, Time: int64(b.now), Link: linkRaw, Data: f.data,
				OrigLen: len(f.data)})
			b.fly(f.to, f.data, true)
		}
	}
	next := b.now.Add(time.Millisecond)
	for _, s := range b.ends {
		next = min(next, s.e.Poll(b.now))
		s.dev.Dispatch(b.now)
		var wcs [64]verbs.WC
		s.cq.Poll(wcs[:])
		next = min(next, s.e.Deadline())
	}
	for _, f := range b.queue {
		next = min(next, f.at)
	}
	b.now = max(next, b.now+1)
}

// Traces of our own engine, under loss, doubling and reordering on both sides of the capture, break
// no rule.
func TestRoCEEngineTraces(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if n, err := strconv.ParseUint(os.Getenv("SOAK_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	seen := map[string]int{}
	for seed := range seeds {
		typ := []qpattr.Type{qpattr.RC, qpattr.RC, qpattr.UC}[seed%3]
		b := newRoCEBench(t, seed, typ)
		for end := b.now.Add(400 * time.Millisecond); b.now < end; b.step() {
			for _, s := range b.ends {
				if s.left > 0 && b.r.IntN(4) == 0 {
					s.post(typ)
				}
			}
		}
		r := judge(b.list)
		for _, f := range r.Findings {
			if !f.Note {
				t.Errorf("seed %d, loss %d: %v", seed, b.loss, f)
			}
		}
		for _, f := range r.Flows {
			if seeds <= 60 && b.loss == 0 && f.State != Replayed {
				t.Errorf("seed %d: %s: %s, %s", seed, f.Protocol, f.State, f.Why)
			}
		}
		count(seen, r)
	}
	for _, what := range []string{"RDMA WRITE", "SEND with Immediate", "RDMA READ Request", "RDMA READ response Only",
		"RDMA READ response Last", "ATOMIC Acknowledge",
		"NAK PSN sequence error", "NAK remote access error", "RNR NAK", "with retransmissions"} {
		if seen[what] == 0 {
			t.Errorf("no trace has %s: %v", what, seen)
		}
	}
}
