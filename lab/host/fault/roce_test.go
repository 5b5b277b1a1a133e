package fault

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/capturetest"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// roceFrame makes a RoCE packet from a side to the other.
func roceFrame(from Side, version int, p ib.Packet) []byte {
	addrs := [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	if version != 4 {
		addrs = [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}
	}
	body := p.Append(nil)
	typ := map[int]uint16{1: ib.EtherType, 4: ether.TypeIPv4, 6: ether.TypeIPv6}[version]
	b := ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, byte(2 - from)}, Src: ether.Addr{2, 0, 0, 0, 0, byte(1 + from)}, Type: typ}.AppendTo(nil)
	l3 := len(b)
	var start ib.ICRC
	if version == 1 {
		h := ib.GRH{PayloadLen: uint16(len(body) + ib.ICRCLen), NextHeader: ib.NextHeader, SGID: addrs[from].As16(), DGID: addrs[1-from].As16()}
		b = append(b, make([]byte, ib.GRHLen)...)
		h.Put(b[l3:])
		start = ib.ICRCGRH(b[l3:])
	} else {
		n := udp.HeaderLen + len(body) + ib.ICRCLen
		h := ip.Header{Version: uint8(version), TTL: 64, Proto: ip.ProtoUDP, Src: addrs[from], Dst: addrs[1-from], PayloadLen: n}
		b = append(b, make([]byte, h.HeaderLen()+udp.HeaderLen)...)
		h.Put(b[l3:])
		u := b[l3+h.HeaderLen():]
		binary.BigEndian.PutUint16(u, 0xc055)
		binary.BigEndian.PutUint16(u[2:], ib.UDPPort)
		binary.BigEndian.PutUint16(u[4:], uint16(n))

		if version == 6 {
			start = ib.ICRCIPv6(b[l3:])
		} else {
			start = ib.ICRCIPv4(b[l3:])
		}
	}
	b = append(b, body...)
	b = append(b, make([]byte, ib.ICRCLen)...)
	start.Headers(body[:ib.BTHLen]).Payload(body[ib.BTHLen:]).Put(b[len(b)-ib.ICRCLen:])
	if version == 6 {
		sum := b[l3+ip.HeaderLen6:]
		binary.BigEndian.PutUint16(sum[udpSumAt:], ip.Checksum(sum, ip.PseudoSum(addrs[from], addrs[1-from], ip.ProtoUDP, len(sum))))
	}
	return b
}

// conversation is what two queue pairs say: from a to QP 17 two Sends, a Write of three packets, a Read;
// from b to QP 16 ACK, NAK, RNR NAK, the Read's response; then the Write's last packet once more.
func conversation() (from []Side, packets []ib.Packet) {
	say := func(s Side, op ib.Opcode, psn uint32, change func(*ib.Packet)) {
		p := ib.Packet{BTH: ib.BTH{Opcode: op, PKey: 0xffff, DestQP: 17 - uint32(s), PSN: psn & ib.PSNMask}, Payload: make([]byte, 9)}
		if o := op.Operation(); !o.Payload {
			p.Payload = nil
		}
		if change != nil {
			change(&p)
		}
		from, packets = append(from, s), append(packets, p)
	}
	const first = 0xfffffe
	syndrome := func(s ib.Syndrome) func(*ib.Packet) {
		return func(p *ib.Packet) { p.AETH = ib.AETH{Syndrome: s, MSN: 2} }
	}
	say(A, ib.OpSendOnly, first, nil)
	say(A, ib.OpSendOnly, first+1, nil)
	say(A, ib.OpWriteFirst, first+2, func(p *ib.Packet) { p.RETH = ib.RETH{VA: 0x1122334455667788, RKey: 7, Len: 27} })
	say(A, ib.OpWriteMiddle, first+3, nil)
	say(A, ib.OpWriteLast, first+4, nil)
	say(A, ib.OpReadRequest, first+5, func(p *ib.Packet) { p.RETH = ib.RETH{VA: 5, RKey: 8, Len: 9} })
	say(B, ib.OpAcknowledge, first+3, syndrome(ib.SyndromeACK))
	say(B, ib.OpAcknowledge, first+4, syndrome(ib.NAKSequence))
	say(B, ib.OpAcknowledge, first+4, syndrome(ib.SyndromeRNR+12))
	say(B, ib.OpReadResponseOnly, first+5, syndrome(ib.SyndromeACK))
	say(A, ib.OpWriteLast, first+4, nil)
	return from, packets
}

// TestRoCEStrikes tells for each packet of the conversation whether a rule strikes it, in
// RoCE v1 and v2.
func TestRoCEStrikes(t *testing.T) {
	match := func(list ...Match) func(*Rule) { return func(r *Rule) { r.Match = list } }
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{NewRule(Drop, "roce"), "xxxxxx xxxx ."},
		{NewRule(Drop, "frame"), "xxxxxx xxxx x"},
		{NewRule(Drop, "roce-send"), "xx.... .... ."},
		{NewRule(Drop, "roce-write"), "..xxx. .... ."},
		{NewRule(Drop, "roce-read-request"), ".....x .... ."},
		{NewRule(Drop, "roce-read-response"), "...... ...x ."},
		{NewRule(Drop, "roce-ack"), "...... x... ."},
		{NewRule(Drop, "roce-nak"), "...... .x.. ."},
		{NewRule(Drop, "roce-rnr-nak"), "...... ..x. ."},
		{with(Drop, "roce", match(Match{"psn", 2}, Match{"dest-qp", 17})), "....x. .... ."},
		{with(Drop, "roce", match(Match{"psn", 2})), "....x. .xx. ."},
		{with(Drop, "roce", match(Match{"opcode", 0x07})), "...x.. .... ."},
		{with(Drop, "roce", match(Match{"syndrome", 0x60})), "...... .x.. ."},
		{with(Drop, "roce", match(Match{"va", 0x1122334455667788})), "..x... .... ."},
		{with(Drop, "roce", match(Match{"dma-length", 9}, Match{"r-key", 8})), ".....x .... ."},
		{with(Drop, "roce", match(Match{"msn", 2}, Match{"p-key", 0xffff}, Match{"ackreq", 0})), "...... xxxx ."},
		{with(Drop, "roce", func(r *Rule) { r.Nth = []int{2, 3} }), ".xx... .xx. ."},
		{with(Drop, "roce-write", func(r *Rule) { r.Nth, r.Transmissions = []int{3}, 2 }), "....x. .... x"},
		{with(Drop, "roce", func(r *Rule) { r.NIC, r.QPN = "b", 17 }), "xxxxxx xxxx ."},
		{with(Drop, "roce", func(r *Rule) { r.NIC, r.QPN, r.From = "a", 16, A }), "xxxxxx .... ."},
		{with(Drop, "roce", func(r *Rule) { r.NIC, r.QPN = "a", 17 }), "...... .... ."},
		{with(Flip, "roce", func(r *Rule) { r.Field = "dma-length" }), "..x..x .... ."},
	} {
		for _, version := range []int{1, 4, 6} {
			e := engine(t, 1, tt.rule)
			e.FindQPs(func(nic string, c Connection) (uint32, error) {
				ends := netip.MustParseAddr("10.0.0.1")
				if version != 4 {
					ends = netip.MustParseAddr("fd00::1")
				}
				ofA := c.Src.Addr() == ends && c.DestQP == 17 || c.Dst.Addr() == ends && c.DestQP == 16
				if !ofA {
					t.Errorf("asked for %+v", c)
				}
				return map[string]uint32{"a": 16, "b": 17}[nic], nil
			})
			var got strings.Builder
			from, packets := conversation()
			for i, p := range packets {
				if i == 6 || i == 10 {
					got.WriteByte(' ')
				}
				b := roceFrame(from[i], version, p)
				if apply(t, e, from[i], b) != nil {
					got.WriteByte('x')
				} else {
					got.WriteByte('.')
				}
			}
			if got.String() != tt.want {
				t.Errorf("RoCE %d: %s %+v: %q, want %q", version, tt.rule.String(), tt.rule.Match, got.String(), tt.want)
			}
		}
	}
}

// TestRoCEFlips flips one bit of each field of a packet that has it: that bit alone, the UDP
// checksum in order, and the ICRC wrong unless it is mended.
func TestRoCEFlips(t *testing.T) {
	op := map[ib.Headers]ib.Opcode{ib.HasXRCETH: ib.TransportXRC | ib.OpSendOnly, ib.HasDETH: ib.UDSendOnly, ib.HasRETH: ib.OpWriteOnly,
		ib.HasAtomicETH: ib.OpCompareSwap, ib.HasAETH: ib.OpAcknowledge, ib.HasAtomicAckETH: ib.OpAtomicAcknowledge,
		ib.HasImm: ib.OpWriteOnlyImm, ib.HasIETH: ib.OpSendOnlyInvalidate}
	for _, f := range roceFields {
		for _, version := range []int{1, 4, 6} {
			for _, mend := range []bool{false, true} {
				if mend && f.name == icrcField {
					continue
				}
				p := ib.Packet{BTH: ib.BTH{Opcode: op[f.header], PKey: 0xffff, DestQP: 17, PSN: 5}}
				if p.Opcode.Operation().Payload {
					p.Payload = []byte("payload")
				}
				if f.header == 0 {
					p.Opcode = ib.OpSendMiddle
				}
				bit := max(f.size-1, 0) / 2
				b := roceFrame(A, version, p)
				was := look(b)
				before := bytes.Clone(b)
				e := engine(t, 1, with(Flip, "roce", func(r *Rule) { r.Field, r.Bit, r.MendICRC = f.name, bit, mend }))
				v := apply(t, e, A, b)
				if v == nil {
					t.Fatalf("RoCE %d: %s was not flipped", version, f.name)
				}
				if f.size > 0 {
					old, _ := f.value(&was.roce, before)
					now, _ := f.value(&was.roce, b)
					if f.name == icrcField {
						old, now = uint64(binary.LittleEndian.Uint32(before[len(b)-4:])), uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))
					}
					if old^now != 1<<bit {
						t.Errorf("RoCE %d: %s: %#x, was %#x: not bit %d", version, f.name, now, old, bit)
					}
				}
				if right := was.roce.start.Check(b[was.roce.bth:was.roce.end]); right != (mend || f.name == "fecn" || f.name == "becn") {
					t.Errorf("RoCE %d: %s, mended %v: ICRC right: %v", version, f.name, mend, right)
				}
				if u := b[54:]; version == 6 && ip.Checksum(u, ip.PseudoSum(was.roce.src, was.roce.dst, ip.ProtoUDP, len(u))) != 0 {
					t.Errorf("%s: UDP checksum wrong", f.name)
				}
			}
		}
	}
}

// What a rule says is in a packet's place: mistakes are told.
func TestRoCEMistakes(t *testing.T) {
	for _, tt := range []struct {
		rule      Rule
		key, want string
	}{
		{with(Drop, "fpdu", func(r *Rule) { r.Match = []Match{{"psn", 5}} }), "match", "is of RoCE packets"},
		{with(Drop, "roce", func(r *Rule) { r.Match = []Match{{"colour", 5}} }), "match", "colour: expected a field of RoCE packets: opcode, se"},
		{with(Drop, "roce", func(r *Rule) { r.Match = []Match{{"payload", 5}} }), "match", "payload: expected a field"},
		{with(Drop, "roce", func(r *Rule) { r.Match = []Match{{"psn", 1 << 24}} }), "match", "psn: it has 24 bits: expected a number up to 16777215"},
		{with(Flip, "roce", func(r *Rule) { r.Field, r.Bit = "icrc", 32 }), "bit", "there are bits 0 to 31"},
		{with(Flip, "roce", func(r *Rule) { r.Field = "stag" }), "field", "any RoCE packet has no field stag: choose one of opcode, se"},
		{with(Flip, "fpdu", func(r *Rule) { r.MendICRC = true }), "icrc", "is of RoCE packets"},
		{NewRule(Reset, "roce"), "reset", "only TCP connections can be reset"},
		{with(Drop, "roce", func(r *Rule) { r.After = 5 }), "after", "counts octets of TCP connections"},
	} {
		if key, err := tt.rule.Check(); key != tt.key || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %s: %v, want %s: %s", tt.rule, key, err, tt.key, tt.want)
		}
	}
}

// A window knows what has passed, at the wrap of the numbers, too.
func TestWindow(t *testing.T) {
	var w window
	for i, c := range []struct {
		psn   uint32
		first bool
	}{{0xfffffe, true}, {0xffffff, true}, {0, true}, {0, false}, {0xfffffe, false}, {2, true}, {1, true}, {1, false}, {2, false},
		{5000, true}, {4999, true}, {5000, false}, {0xfff000, false}, {400000, true}, {400000, false}, {399999, true}} {
		if got := w.first(c.psn); got != c.first {
			t.Errorf("%d: PSN %#x: first %v", i, c.psn, got)
		}
	}
}

// TestRoCEGolden has rules find the packets of real Linux rxe, and messages of communication
// management.
func TestRoCEGolden(t *testing.T) {
	files, err := filepath.Glob("../../../wire/ib/testdata/rxe-*.pcap")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d golden captures, %v", len(files), err)
	}
	struck := map[string]uint64{}
	for _, file := range files {
		var rules []Rule
		for _, k := range kinds {
			if k.class == ofRoCE {
				rules = append(rules, NewRule(Duplicate, k.what))
			}
		}
		e := engine(t, 1, rules...)
		for _, p := range capturetest.Packets(t, file) {
			e.Judge(A, p.Data, frame.Time(0))
		}
		for _, c := range e.Counts() {
			struck[c.Name] += c.Struck
		}
	}
	for _, want := range []string{"roce-send", "roce-write", "roce-read-request", "roce-read-response", "roce-ack", "roce-atomic",
		"roce-atomic-ack", "roce-nak", "roce-rnr-nak", "cm-req", "cm-rep", "cm-rtu", "cm-dreq", "cm-rej"} {
		if struck["duplicate-"+want] == 0 {
			t.Errorf("no capture has %s: %v", want, struck)
		}
	}
}
