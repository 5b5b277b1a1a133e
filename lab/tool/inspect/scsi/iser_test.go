package scsi

import (
	"encoding/binary"
	"testing"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/message"
	"tapir/wire/iscsi"
)

// iserTalk is a conversation in iSER: PDUs in Sends, and what moves between them.
type iserTalk struct {
	talk
	list []message.Message
}

func (k *iserTalk) judge() []finding {
	c := NewISER(k, 0)
	for n := range k.list {
		k.list[n].Packet, k.list[n].Octets = n+1, max(k.list[n].Octets, uint64(len(k.list[n].Data)))
		c.Message(&k.list[n])
	}
	return k.findings
}

// send sends the PDU that was made last.
func (k *iserTalk) send(a iscsi.Advert) *message.Message {
	m := k.talk.list[len(k.talk.list)-1]
	k.list = append(k.list, message.Message{Side: m.side, Data: iscsi.AppendISER(nil, &a, &m.BHS, m.data)})
	return &k.list[len(k.list)-1]
}

func (k *iserTalk) moves(kind message.Kind, side int, key uint32, addr uint64, octets uint64) {
	k.list = append(k.list, message.Message{Kind: kind, Side: side, Key: key, Addr: addr, Octets: octets})
}

func (k *iserTalk) hello(reply bool) {
	b, side := iscsi.AppendHello(nil, 4), 0
	if reply {
		b, side = iscsi.AppendHelloReply(nil, 4), 1
	}
	k.list = append(k.list, message.Message{Side: side, Data: b})
}

// iserEverything is a conversation with each kind of message, numbered in the table.
func iserEverything() *iserTalk {
	keys := text("RDMAExtensions", "Yes", "InitialR2T", "No", "ImmediateData", "Yes", "TargetRecvDataSegmentLength", "4096")
	k := &iserTalk{talk: *begin(keys, keys)}
	k.talk.list, k.list = k.talk.list[:1:1], nil
	k.send(iscsi.Advert{}) // 1
	k.talk.list = begin(keys, keys).list
	k.send(iscsi.Advert{})                                              // 2
	k.hello(false)                                                      // 3
	k.hello(true)                                                       // 4
	k.cdb(iscsi.Final|iscsi.Read, 0x28, 8192)                           //
	k.send(iscsi.Advert{Read: true, ReadSTag: 7, ReadBase: 1 << 40})    // 5
	k.moves(message.Write, 1, 7, 1<<40, 4096)                           // 6
	k.moves(message.Write, 1, 7, 1<<40+4096, 4096)                      // 7
	k.good(0)                                                           //
	m := k.send(iscsi.Advert{})                                         // 8
	m.Kind, m.Key = message.SendInvalidate, 7                           //
	k.cdb(iscsi.Final|iscsi.Write, 0x2a, 8192).data = make([]byte, 512) //
	k.send(iscsi.Advert{Write: true, WriteSTag: 9, WriteBase: 64})      // 9
	k.moves(message.Read, 1, 9, 64+512, 7680)                           // 10
	k.moves(message.Answer, 0, 0, 0, 7680)                              // 11
	k.good(0)                                                           //
	k.send(iscsi.Advert{})                                              // 12
	k.cdb(iscsi.Final, 0, 0)                                            //
	k.send(iscsi.Advert{})                                              // 13
	k.good(0)                                                           //
	k.send(iscsi.Advert{})                                              // 14
	return k
}

// iserCases: each change of everything breaks a rule in a packet, and no other.
var iserCases = []struct {
	rule   *clause.Rule
	packet int
	only   int // messages that are left; 0: all
	change func(m []message.Message)
}{
	{iserShort, 13, 13, func(m []message.Message) { m[12].Data = m[12].Data[:20] }},
	{iserShort, 13, 13, func(m []message.Message) { m[12].Data = m[12].Data[:70] }},
	{iserOpcode, 13, 13, func(m []message.Message) { m[12].Data[0] = 0x70 }},
	{iserZero, 13, 0, func(m []message.Message) { m[12].Data[2] = 1 }},
	{iserZero, 5, 0, func(m []message.Message) { m[4].Data[9] = 1 }},
	{iserHello, 4, 3, func(m []message.Message) { m[3] = m[2]; m[2].Data[0] = 0x20 }},
	{iserVersion, 3, 3, func(m []message.Message) { m[2].Data[1] = 0xa9 }},
	{iserVersion, 4, 0, func(m []message.Message) { m[3].Data = append(m[3].Data, 0) }},
	{iserORD, 4, 0, func(m []message.Message) { m[3].Data[3] = 5 }},
	{iserData, 8, 8, func(m []message.Message) { m[7].Data[iscsi.ISERLen] = byte(iscsi.DataIn) }},
	{iserData, 12, 12, func(m []message.Message) { m[11].Data[iscsi.ISERLen] = byte(iscsi.R2T) }},
	{iserNoSTag, 5, 5, func(m []message.Message) { clear(m[4].Data[1:iscsi.ISERLen]); m[4].Data[0] = 0x10 }},
	{iserNoSTag, 9, 9, func(m []message.Message) { clear(m[8].Data[1:iscsi.ISERLen]); m[8].Data[0] = 0x10 }},
	{iserAdvert, 13, 0, func(m []message.Message) { m[12].Data[0] |= 0x08 }},
	{iserAdvert, 14, 0, func(m []message.Message) { m[13].Data[0] |= 0x04 }},
	{iserDriver, 6, 6, func(m []message.Message) { m[5].Side = 0 }},
	{iserSink, 6, 7, func(m []message.Message) { m[5].Key = 8 }},
	{iserSource, 10, 11, func(m []message.Message) { m[9].Key = 7 }},
	{iserRange, 7, 7, func(m []message.Message) { m[6].Addr += 4 }},
	{iserRange, 10, 10, func(m []message.Message) { m[9].Addr = 0 }},
	{iserRange, 10, 10, func(m []message.Message) { m[9].Addr = 64 + 8191 }},
	{iserEarly, 11, 12, func(m []message.Message) { m[10], m[11] = m[11], m[10] }},
	{iserInv, 8, 0, func(m []message.Message) { m[7].Key = 9 }},
	{iserInv, 14, 0, func(m []message.Message) { m[13].Kind = message.SendInvalidate; m[13].Key = 9 }},
	{rspResidual, 8, 8, func(m []message.Message) { m[6].Octets = 0 }},
	{rspResidual, 12, 0, func(m []message.Message) { m[9].Octets = 0 }},
	{pduLong, 9, 9, func(m []message.Message) {
		binary.BigEndian.PutUint32(m[8].Data[iscsi.ISERLen+4:], 4100)
		m[8].Data = append(m[8].Data, make([]byte, 4100-512)...)
	}},
}

// TestISER: a conversation in iSER breaks no rule, and each change of it one, in the packet that does.
func TestISER(t *testing.T) {
	broken := map[*clause.Rule]bool{iserKey: true}
	for _, f := range iserEverything().judge() {
		t.Errorf("packet %d: %s: %s: %s", f.packet, f.rule.Clause, f.rule.Says, f.detail)
	}
	for _, x := range iserCases {
		k := iserEverything()
		x.change(k.list)
		if x.only > 0 {
			k.list = k.list[:max(x.only, x.packet)]
		}
		got := k.judge()
		broken[x.rule] = true
		if len(got) != 1 || got[0].rule != x.rule || got[0].packet != x.packet {
			t.Errorf("packet %d: %s: %s: found %d", x.packet, x.rule.Clause, x.rule.Says, len(got))
			for _, f := range got {
				t.Errorf("\tpacket %d: %s: %s: %s", f.packet, f.rule.Clause, f.rule.Says, f.detail)
			}
		}
	}
	k := &iserTalk{talk: *begin(nil, nil)}
	all := k.talk.list
	for n := range all {
		k.talk.list = all[:n+1]
		k.send(iscsi.Advert{})
	}
	if got := k.judge(); len(got) != 1 || got[0].rule != iserKey {
		t.Errorf("without RDMAExtensions: %v", got)
	}
	for _, r := range Rules() {
		if r.Clause[:8] == "RFC 7145" && !broken[r] {
			t.Errorf("no conversation breaks %s: %s", r.Clause, r.Says)
		}
	}
	late := iserEverything()
	late.unseen = true
	if got := late.judge(); len(got) > 0 || late.part == "" {
		t.Errorf("with packets missing: %v, %q", got, late.part)
	}
}

// FuzzISER: whatever two sides send, judging it ends.
func FuzzISER(f *testing.F) {
	for _, m := range iserEverything().list {
		f.Add(m.Data, uint8(m.Kind), m.Side == 1, m.Key)
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, target bool, key uint32) {
		k := iserEverything()
		m := message.Message{Kind: message.Kind(kind % 5), Data: b, Key: key, Octets: uint64(len(b))}
		if target {
			m.Side = 1
		}
		k.list = append(k.list[:10], m, k.list[11])
		_ = k.judge()
	})
}
