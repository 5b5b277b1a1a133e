package nvmf

import (
	"encoding/binary"
	"testing"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/message"
	"tapir/wire/nvme"
)

type finding struct {
	rule   *clause.Rule
	packet int
	detail string
}

// talk is a conversation of an I/O queue: message.Reporter.
type talk struct {
	private  []byte
	exact    bool
	list     []message.Message
	findings []finding
	unseen   bool
	part     string
	pdus     int
}

// Violate implements message.Reporter.
func (k *talk) Violate(_, packet int, r *clause.Rule, detail string) {
	k.findings = append(k.findings, finding{r, packet, detail})
}

// PDU implements message.Reporter.
func (k *talk) PDU(int, int, string, string, int) { k.pdus++ }

// Part implements message.Reporter.
func (k *talk) Part(_ int, why string) { k.part = why }

// Seen implements message.Reporter.
func (k *talk) Seen(int) bool { return !k.unseen }

func (k *talk) judge() []finding {
	c := New(k, 0, 0, k.private, k.exact)
	for n := range k.list {
		k.list[n].Packet, k.list[n].Octets = n+1, max(k.list[n].Octets, uint64(len(k.list[n].Data)))
		c.Message(&k.list[n])
	}
	_ = c.Agreed()
	return k.findings
}

func (k *talk) command(c *nvme.Command, data []byte) {
	k.list = append(k.list, message.Message{Data: append(c[:], data...)})
}

func (k *talk) completion(e nvme.Completion, key uint32) {
	m := message.Message{Side: 1, Data: e.Append(nil)}
	if key != 0 {
		m.Kind, m.Key = message.SendInvalidate, key
	}
	k.list = append(k.list, m)
}

func (k *talk) moves(kind message.Kind, side int, key uint32, addr, octets uint64) {
	k.list = append(k.list, message.Message{Kind: kind, Side: side, Key: key, Addr: addr, Octets: octets})
}

func io(op nvme.Opcode, id uint16, blocks int, s nvme.SGL) *nvme.Command {
	c := &nvme.Command{}
	c.Set(op, id)
	c.SetNSID(1)
	c.SetLBA(8, blocks)
	c.SetSGL(s)
	return c
}

// everything is a conversation with each kind of message, numbered in the table.
func everything(qid uint16) *talk {
	k := &talk{exact: true, private: (&nvme.Request{QID: qid, HRQSize: 4, HSQSize: 3}).Append(nil)}
	c := io(nvme.Fabrics, 1, 1, nvme.SGL{Kind: nvme.Keyed, Address: 1 << 40, Length: nvme.ConnectLen, Key: 5})
	clear(c[40:])
	c.SetFabricsType(nvme.Connect)
	c.SetConnect(nvme.ConnectFields{QID: qid, SQSize: 3})
	k.command(c, nil)                                                                                // 1
	k.moves(message.Read, 1, 5, 1<<40, nvme.ConnectLen)                                              // 2
	k.moves(message.Answer, 0, 0, 0, nvme.ConnectLen)                                                // 3
	k.completion(nvme.Completion{SQHead: 1, SQID: qid, ID: 1, Result: 1}, 0)                         // 4
	k.command(io(nvme.Read, 2, 16, nvme.SGL{Kind: nvme.KeyedInvalidate, Length: 8192, Key: 7}), nil) // 5
	k.moves(message.Write, 1, 7, 0, 8192)                                                            // 6
	k.completion(nvme.Completion{SQHead: 2, SQID: qid, ID: 2}, 7)                                    // 7
	k.command(io(nvme.Write, 3, 16, nvme.SGL{Kind: nvme.Keyed, Length: 8192, Key: 9}), nil)          // 8
	k.command(io(nvme.Write, 4, 1, nvme.SGL{Kind: nvme.InCapsule, Length: 512}), make([]byte, 512))  // 9
	k.completion(nvme.Completion{SQHead: 3, SQID: qid, ID: 4}, 0)                                    // 10
	k.moves(message.Read, 1, 9, 0, 8192)                                                             // 11
	k.moves(message.Answer, 0, 0, 0, 8192)                                                           // 12
	k.completion(nvme.Completion{SQHead: 0, SQID: qid, ID: 3, Status: nvme.LBAOutOfRange}, 0)        // 13
	list := binary.LittleEndian.AppendUint64(nil, 4096)                                              //
	list = append(binary.LittleEndian.AppendUint32(list, 512), 11, 0, 0, 0x40)                       //
	list[11], list[12], list[13], list[14] = 11, 0, 0, 0                                             //
	k.command(io(nvme.Read, 5, 1, nvme.SGL{Kind: segment, Length: 16}), append(list[:15], 0x40))     // 14
	k.moves(message.Write, 1, 11, 4096, 512)                                                         // 15
	k.completion(nvme.Completion{SQHead: 1, SQID: qid, ID: 5}, 0)                                    // 16
	k.command(io(nvme.Flush, 6, 1, nvme.SGL{Kind: nvme.Keyed}), nil)                                 // 17
	k.completion(nvme.Completion{SQHead: 2, SQID: qid, ID: 6}, 0)                                    // 18
	return k
}

// admin is a Property Set behind the Connect of an admin queue.
func admin(change func(c *nvme.Command)) func(k *talk) {
	return func(k *talk) {
		*k = *everything(0)
		k.list = k.list[:4]
		c := io(nvme.Fabrics, 2, 1, nvme.SGL{})
		clear(c[40:])
		c.SetFabricsType(nvme.PropertySet)
		c.SetProperty(nvme.PropCC, 4, nvme.CC)
		change(c)
		k.command(c, nil)
	}
}

func octet(n, at int, v byte) func(k *talk) {
	return func(k *talk) { k.list[n-1].Data[at] = v }
}

var cases = []struct {
	rule   *clause.Rule
	packet int
	only   int // messages that are left; 0: all
	change func(k *talk)
}{
	{cmFormat, 0, 0, func(k *talk) { k.private = k.private[:31] }},
	{cmFormat, 0, 0, func(k *talk) { k.private[0] = 1 }},
	{cmCntlID, 0, 5, func(k *talk) { admin(func(*nvme.Command) {})(k); k.private[8] = 1 }},
	{cmQueue, 1, 1, octet(1, 42, 2)},
	{cmSize, 1, 1, octet(1, 44, 4)},
	{hostSends, 5, 5, func(k *talk) { k.list[4].Kind = message.SendInvalidate }},
	{hostDrives, 6, 6, func(k *talk) { k.list[5].Side = 0 }},
	{cmdShort, 5, 5, func(k *talk) { k.list[4].Data = k.list[4].Data[:60] }},
	{cmdLong, 5, 5, func(k *talk) { admin(func(*nvme.Command) {})(k); k.list[4].Data = append(k.list[4].Data, 0) }},
	{rspLength, 7, 0, func(k *talk) { k.list[6].Data = append(k.list[6].Data, 0) }},
	{rspLength, 7, 7, func(k *talk) { k.list[6].Data = k.list[6].Data[:15] }},
	{sglKind, 5, 5, octet(5, 39, 0x50)},
	{sglKind, 5, 5, func(k *talk) { admin(func(c *nvme.Command) { c.SetSGL(nvme.SGL{Kind: 1, Length: 4}) })(k) }},
	{sglCapsule, 9, 0, octet(9, 32, 4)},
	{sglCapsule, 14, 14, octet(14, 24, 4)},
	{memKey, 6, 6, func(k *talk) { k.list[5].Key = 8 }},
	{memKey, 8, 8, func(k *talk) { k.list[7] = k.list[5] }},
	{memRange, 6, 6, func(k *talk) { k.list[5].Addr = 1 }},
	{memRange, 11, 11, func(k *talk) { k.list[10].Octets = 8193 }},
	{memWrite, 11, 11, func(k *talk) { k.list[10].Kind = message.Write }},
	{memRead, 6, 6, func(k *talk) { k.list[5].Kind = message.Read }},
	{memEarly, 12, 13, func(k *talk) { k.list[11], k.list[12] = k.list[12], k.list[11] }},
	{memLess, 7, 0, func(k *talk) { k.list[5].Octets = 4096 }},
	{memLess, 4, 0, func(k *talk) { k.list[1].Octets = 4 }},
	{memInv, 7, 0, func(k *talk) { k.list[6].Key = 9 }},
	{memInv, 13, 0, func(k *talk) { k.list[12].Kind, k.list[12].Key = message.SendInvalidate, 9 }},
	{connectFirst, 1, 1, octet(1, 4, nvme.PropertyGet+8)},
	{connectWait, 2, 2, func(k *talk) { k.list[1] = k.list[4] }},
	{connectAgain, 5, 5, func(k *talk) { k.list[4].Data = k.list[0].Data }},
	{connectFormat, 1, 1, octet(1, 40, 1)},
	{property, 5, 5, func(k *talk) { admin(func(*nvme.Command) {})(k); k.list[0].Data[42], k.private[2] = 1, 1 }},
	{property, 5, 5, admin(func(c *nvme.Command) { c[40] = 2 })},
	{property, 5, 5, admin(func(c *nvme.Command) { c[44] = 2 })},
	{cmdPSDT, 5, 0, octet(5, 1, 0)},
	{cmdPSDT, 5, 0, octet(5, 1, 0x44)},
	{cmdID, 9, 9, octet(9, 2, 3)},
	{queueFull, 9, 9, func(k *talk) {
		for id := byte(5); id < 9; id++ {
			m := k.list[8]
			m.Data = append([]byte(nil), m.Data...)
			m.Data[2] = id
			k.list[id-1] = m
		}
		k.list[4].Data[2], k.list[8].Data[2] = 20, 21
	}},
	{cqeID, 7, 7, octet(7, 12, 9)},
	{cqeQueue, 7, 0, octet(7, 10, 2)},
	{cqeHead, 7, 7, octet(7, 8, 4)},
	{cqePhase, 7, 0, octet(7, 14, 1)},
}

// TestRules: a conversation breaks no rule, and each change of it one, in the packet that does.
func TestRules(t *testing.T) {
	for _, f := range everything(1).judge() {
		t.Errorf("packet %d: %s: %s: %s", f.packet, f.rule.Clause, f.rule.Says, f.detail)
	}
	k := everything(0)
	if admin(func(*nvme.Command) {})(k); len(k.judge()) > 0 {
		t.Errorf("admin queue: %v", k.findings)
	}
	broken := map[*clause.Rule]bool{}
	for _, x := range cases {
		k := everything(1)
		x.change(k)
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
	for _, r := range Rules() {
		if !broken[r] {
			t.Errorf("no conversation breaks %s: %s", r.Clause, r.Says)
		}
	}
}

// TestHead: in a queue of many entries the head cannot pass the commands that were sent, and may fall back a little
// when completions overtake each other.
func TestHead(t *testing.T) {
	for head, bad := range map[byte]bool{2: false, 1: false, 3: true, 60: false, 40: true} {
		k := everything(1)
		k.private[6], k.list[0].Data[44] = 63, 63
		k.list = k.list[:7]
		k.list[6].Data[8] = head
		if got := k.judge(); (len(got) > 0) != bad || bad && got[0].rule != cqeHead {
			t.Errorf("SQHD %d: %v", head, got)
		}
	}
}

// TestMissing: with packets missing from the capture nothing is held against either side.
func TestMissing(t *testing.T) {
	for from := range 17 {
		k := everything(1)
		k.unseen = true
		k.list = k.list[from:]
		if got := k.judge(); len(got) > 0 || k.part == "" || k.pdus == 0 && from < 17 {
			t.Errorf("from message %d: %v, %q", from+1, got, k.part)
		}
	}
}

// FuzzConn: whatever two sides send, judging it ends.
func FuzzConn(f *testing.F) {
	for _, m := range everything(1).list {
		f.Add(m.Data, uint8(m.Kind), m.Side == 1, m.Key)
	}
	f.Add([]byte{2}, uint8(message.SendInvalidate), false, uint32(9)) // two faults in one message
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, target bool, key uint32) {
		for _, at := range []int{0, 4, 9} {
			k := everything(1)
			m := message.Message{Kind: message.Kind(kind % 5), Data: b, Key: key, Octets: uint64(len(b))}
			if target {
				m.Side = 1
			}
			k.list[at] = m
			_ = k.judge()
		}
	})
}
