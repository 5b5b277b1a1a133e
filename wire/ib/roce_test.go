package ib

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// readCapture returns the Ethernet frames of a little-endian pcap file.
func readCapture(t testing.TB, file string) (frames [][]byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for b = b[24:]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b[8:])
		frames = append(frames, b[16:16+n])
		b = b[16+n:]
	}
	return frames
}

// captures are the frames of Linux rxe 6.1 against itself.
func captures(t testing.TB) map[string][][]byte {
	files, err := filepath.Glob("testdata/rxe-*.pcap")
	if err != nil || len(files) != 24 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	all := map[string][][]byte{}
	for _, f := range files {
		all[f] = readCapture(t, f)
	}
	return all
}

// transport returns the packet from its BTH to its ICRC and the state of the
// ICRC before it; nil for frames that are not RoCEv2.
func transport(f []byte) (b []byte, start ICRC) {
	switch {
	case binary.BigEndian.Uint16(f[12:]) == 0x0800 && f[23] == 17 && binary.BigEndian.Uint16(f[36:]) == UDPPort:
		return f[42 : 14+int(binary.BigEndian.Uint16(f[16:]))], ICRCIPv4(f[14:])
	case binary.BigEndian.Uint16(f[12:]) == 0x86dd && f[20] == 17 && binary.BigEndian.Uint16(f[56:]) == UDPPort:
		return f[62 : 54+int(binary.BigEndian.Uint16(f[18:]))], ICRCIPv6(f[14:])
	}
	return nil, 0
}

// again encodes the message in mad anew.
func again(t *testing.T, mad []byte) []byte {
	h, data, err := ParseMAD(mad)
	if err != nil || h.Class != ClassCM || CMName(h.Attr) == "" {
		t.Fatalf("%+v, %v", h, err)
	}
	out, to := h.AppendMAD(nil)
	recode(h.Attr, to, data)
	return out
}

func recode(attr uint16, to, data []byte) {
	switch attr {
	case AttrREQ:
		m := ParseREQ(data)
		m.Put(to)
		if cma, err := ParseCMA(m.Private); err == nil {
			cma.Put(to[CMDataLen-REQPrivate:])
		}
	case AttrREP:
		m := ParseREP(data)
		m.Put(to)
	case AttrRTU, AttrDREP:
		m := ParseIDs(data)
		m.Put(to)
	case AttrREJ:
		m := ParseREJ(data)
		m.Put(to)
	case AttrMRA:
		m := ParseMRA(data)
		m.Put(to)
	case AttrDREQ:
		m := ParseDREQ(data)
		m.Put(to)
	case AttrSIDRREQ:
		m := ParseSIDRREQ(data)
		m.Put(to)
	case AttrSIDRREP:
		m := ParseSIDRREP(data)
		m.Put(to)
	case AttrLAP:
		m := ParseLAP(data)
		m.Put(to)
	case AttrAPR:
		m := ParseAPR(data)
		m.Put(to)
	}
}

// Every packet that rxe sent decodes, encodes again to the same octets, and
// has the ICRC that is computed here.
func TestGoldenCaptures(t *testing.T) {
	packets, opcodes, attrs := 0, map[Opcode]int{}, map[uint16]int{}
	for file, frames := range captures(t) {
		for i, f := range frames {
			b, start := transport(f)
			if b == nil {
				continue
			}
			packets++
			var p Packet
			if err := p.Parse(b[:len(b)-ICRCLen]); err != nil {
				t.Fatalf("%s frame %d: %v", file, i+1, err)
			}
			opcodes[p.Opcode]++
			if p.Opcode.Transport() == TransportUD && p.DestQP == QP1 {
				attrs[binary.BigEndian.Uint16(p.Payload[16:])]++
				p.Payload = again(t, p.Payload)
			}
			out := p.Append(nil)
			var sum [ICRCLen]byte
			start.Headers(out[:p.HeaderLen()]).Payload(out[p.HeaderLen():]).Put(sum[:])
			if out = append(out, sum[:]...); !bytes.Equal(out, b) {
				t.Fatalf("%s frame %d, %v:\n% x, was\n% x", file, i+1, p.Opcode, out, b)
			}
			if !start.Check(b) {
				t.Fatalf("%s frame %d: wrong ICRC", file, i+1)
			}
		}
	}
	if packets < 600 || len(opcodes) < 24 || attrs[AttrREQ] == 0 || attrs[AttrREP] == 0 || attrs[AttrREJ] == 0 {
		t.Errorf("%d packets, opcodes %v, CM attributes %v", packets, opcodes, attrs)
	}
}

func TestICRCFindsEachFlippedBit(t *testing.T) {
	f := captures(t)["testdata/rxe-reject.pcap"][0]
	for i := range 8 * len(f) {
		if i/8 == 16 || i/8 == 17 {
			continue // the length says where the ICRC is
		}
		f[i/8] ^= 1 << (i % 8)
		b, start := transport(f)
		right := b != nil && start.Check(b)
		// MACs, TOS, TTL and checksums may change on the way; octet 4 of the BTH too.
		free := i/8 < 12 || i/8 == 15 || i/8 == 22 || i/8 == 24 || i/8 == 25 || i/8 == 40 || i/8 == 41 || i/8 == 46
		if b != nil && right != free {
			t.Fatalf("bit %d of octet %d flipped: ICRC right is %v", i%8, i/8, right)
		}
		f[i/8] ^= 1 << (i % 8)
	}
}

// The IPv6 and GRH forms agree but for the UDP header.
func TestICRCOfRoCEv1(t *testing.T) {
	g := GRH{TrafficClass: 5, FlowLabel: 0xabcde, PayloadLen: 16, NextHeader: NextHeader, HopLimit: 9,
		SGID: [16]byte{0xfe, 0x80, 15: 1}, DGID: [16]byte{0xfe, 0x80, 15: 2}}
	b := make([]byte, GRHLen+BTHLen+ICRCLen)
	g.Put(b)
	back, payload, err := ParseGRH(b)
	if err != nil || back != g || len(payload) != 16 {
		t.Fatalf("%+v, %d octets, %v", back, len(payload), err)
	}
	bth := BTH{Opcode: CNP, BECN: true, DestQP: 7}
	bth.Put(payload)
	ICRCGRH(b).Headers(payload[:BTHLen]).Put(payload[BTHLen:])
	b[1], b[2], b[7] = 0x61, 0x11, 1 // as a router may
	if !ICRCGRH(b).Check(payload) {
		t.Error("traffic class, flow label and hop limit count")
	}
	if b[30]++; ICRCGRH(b).Check(payload) {
		t.Error("the destination does not count")
	}
	b[6] = 17
	if _, _, err := ParseGRH(b); err != ErrVersion {
		t.Errorf("next header UDP: %v", err)
	}
	if _, _, err := ParseGRH(b[:39]); err != ErrShort {
		t.Errorf("39 octets: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	var p Packet
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"11 octets", make([]byte, 11), ErrShort},
		{"RETH cut", append([]byte{0x0c}, make([]byte, 26)...), ErrShort},
		{"version 1", append([]byte{4, 1}, make([]byte, 10)...), ErrVersion},
		{"opcode 0x15", append([]byte{0x15}, make([]byte, 40)...), ErrOpcode},
		{"UC atomic", append([]byte{0x33}, make([]byte, 40)...), ErrOpcode},
		{"UC invalidate", append([]byte{0x37}, make([]byte, 40)...), ErrOpcode},
		{"UD write", append([]byte{0x6a}, make([]byte, 40)...), ErrOpcode},
		{"RD", append([]byte{0x44}, make([]byte, 40)...), ErrOpcode},
		{"pad 3 of 2", append([]byte{4, 0x30}, make([]byte, 12)...), ErrPad},
	} {
		if err := p.Parse(c.b); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRNRDelays(t *testing.T) {
	for code, want := range map[uint8]time.Duration{0: 655360 * time.Microsecond, 1: 10 * time.Microsecond,
		12: 640 * time.Microsecond, 31: 491520 * time.Microsecond} {
		if got := RNRDelay(code); got != want {
			t.Errorf("code %d: %v, want %v", code, got, want)
		}
	}
	if got := Timeout(20); got.Round(time.Millisecond) != 4295*time.Millisecond {
		t.Errorf("code 20 is %v", got)
	}
}

// Every opcode of every transport survives a round trip with random fields.
func TestEveryOpcode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	for o := range 256 {
		p := randomPacket(r, Opcode(o))
		if p == nil {
			continue
		}
		n++
		b := p.Append(nil)
		var q Packet
		if err := q.Parse(b); err != nil {
			t.Fatalf("%v: %v", p.Opcode, err)
		}
		if !reflect.DeepEqual(*p, q) {
			t.Errorf("%v:\n%+v, want\n%+v", p.Opcode, q, *p)
		}
	}
	if n != 23+12+2+23+1 { // RC, UC, UD, XRC, CNP
		t.Errorf("%d opcodes", n)
	}
}

// randomPacket is a packet of an opcode whose other headers are zero, nil if
// there is no such opcode.
func randomPacket(r *rand.Rand, o Opcode) *Packet {
	h, ok := o.Headers()
	if !ok {
		return nil
	}
	p := &Packet{BTH: BTH{Opcode: o, Solicited: r.Uint32()&1 == 0, MigReq: r.Uint32()&1 == 0, PKey: uint16(r.Uint32()),
		FECN: r.Uint32()&1 == 0, BECN: r.Uint32()&1 == 0, DestQP: r.Uint32() & PSNMask, AckReq: r.Uint32()&1 == 0,
		PSN: r.Uint32() & PSNMask}}
	if h&HasXRCETH != 0 {
		p.XRCSRQ = r.Uint32() & PSNMask
	}
	if h&HasDETH != 0 {
		p.DETH = DETH{r.Uint32(), r.Uint32() & PSNMask}
	}
	if h&HasRETH != 0 {
		p.RETH = RETH{r.Uint64(), r.Uint32(), r.Uint32()}
	}
	if h&HasAtomicETH != 0 {
		p.Atomic = AtomicETH{r.Uint64(), r.Uint32(), r.Uint64(), r.Uint64()}
	}
	if h&HasAETH != 0 {
		p.AETH = AETH{Syndrome(r.Uint32()), r.Uint32() & PSNMask}
	}
	if h&HasAtomicAckETH != 0 {
		p.Orig = r.Uint64()
	}
	if h&HasImm != 0 {
		p.Imm = r.Uint32()
	}
	if h&HasIETH != 0 {
		p.Invalidate = r.Uint32()
	}
	p.Payload = []byte{}
	if op := o.Operation(); op != nil && op.Payload {
		p.Payload = make([]byte, r.IntN(40))
		for i := range p.Payload {
			p.Payload[i] = byte(r.Uint32())
		}
	}
	p.Pad = PadOf(len(p.Payload))
	return p
}

func TestMessagesSurvive(t *testing.T) {
	gid := func(n byte) (g [GIDLen]byte) { g[15] = n; return g }
	path := Path{1, 2, gid(3), gid(4), 0xabcde, 30, 7, 64, 9, true, 19}
	fill := func(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }
	data := make([]byte, CMDataLen)
	for _, c := range []struct {
		put  interface{ Put([]byte) }
		back func() any
	}{
		{&REQ{1, 2, 3, 4, 0xabcdef, 5, 6, 7, 8, 20, ServiceExtended, true, 0xfffff0, 21, 7, 0xffff, 3, true, 6, 15, true, ExtendedXRC,
			path, path, fill(REQPrivate)}, func() any { return ptr(ParseREQ(data)) }},
		{&REP{1, 2, 3, 0xabcdef, 4, 0xfffff0, 5, 6, 15, 2, true, 7, true, 99, fill(REPPrivate)}, func() any { return ptr(ParseREP(data)) }},
		{&IDs{1, 2, fill(RTUPrivate)}, func() any { return ptr(ParseIDs(data)) }},
		{&REJ{1, 2, AboutREP, RejectConsumer, fill(16), fill(REJPrivate)}, func() any { return ptr(ParseREJ(data)) }},
		{&MRA{1, 2, AboutOther, 31, fill(MRAPrivate)}, func() any { return ptr(ParseMRA(data)) }},
		{&DREQ{1, 2, 0xabcdef, fill(DREQPrivate)}, func() any { return ptr(ParseDREQ(data)) }},
		{&LAP{1, 2, 0xabcdef, 20, path, fill(LAPPrivate)}, func() any { return ptr(ParseLAP(data)) }},
		{&APR{1, 2, APRReject, fill(72), fill(APRPrivate)}, func() any { return ptr(ParseAPR(data)) }},
		{&SIDRREQ{1, 0xffff, PortSpaceUDP.ServiceID(7174), fill(SIDRREQPrivate)}, func() any { return ptr(ParseSIDRREQ(data)) }},
		{&SIDRREP{1, SIDRNoQP, 0xabcdef, 2, QKeyCM, fill(72), fill(SIDRREPPrivate)}, func() any { return ptr(ParseSIDRREP(data)) }},
	} {
		c.put.Put(data)
		if got := c.back(); !reflect.DeepEqual(got, c.put) {
			t.Errorf("%T:\n%+v, want\n%+v", c.put, got, c.put)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestServiceIDsAndAddresses(t *testing.T) {
	if got := PortSpaceTCP.ServiceID(7174); got != 0x0000000001061C06 {
		t.Errorf("%#x", got)
	}
	if s, port, ok := ServicePort(0x00000000013f0017); s != PortSpaceIB || port != 0x17 || !ok {
		t.Errorf("%#x %d %v", s, port, ok)
	}
	if _, _, ok := ServicePort(0x1000000001061C06); ok {
		t.Error("another range was taken for IP's")
	}
	for _, h := range []CMA{
		{netip.MustParseAddrPort("10.0.0.1:99"), netip.MustParseAddr("10.0.0.2")},
		{netip.MustParseAddrPort("[fd00::1]:99"), netip.MustParseAddr("fd00::2")},
	} {
		b := make([]byte, CMALen)
		h.Put(b)
		if got, err := ParseCMA(b); got != h || err != nil {
			t.Errorf("%v, %v, want %v", got, err, h)
		}
	}
	for _, b := range [][]byte{make([]byte, 35), make([]byte, 36), append([]byte{1, 0x40}, make([]byte, 34)...)} {
		if _, err := ParseCMA(b); err != ErrCMA {
			t.Errorf("% x: %v", b, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	f := captures(t)["testdata/rxe-ops.pcap"]
	p, buf := new(Packet), make([]byte, 2048)
	if n := testing.AllocsPerRun(100, func() {
		for _, f := range f {
			b, start := transport(f)
			if b == nil || !start.Check(b) || p.Parse(b[:len(b)-ICRCLen]) != nil {
				continue
			}
			at := p.PutHeaders(buf)
			start.Headers(buf[:at]).Payload(p.Payload).Put(buf[at:])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPacket(f *testing.F) {
	for _, frames := range captures(f) {
		for _, frame := range frames[:min(12, len(frames))] {
			if b, _ := transport(frame); b != nil {
				f.Add(b[:min(len(b)-ICRCLen, 300)])
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, q Packet
		if p.Parse(b) != nil {
			return
		}
		n := len(p.Payload)
		if p.Pad != PadOf(n) {
			return // Append writes what the payload needs
		}
		out := p.Append(nil)
		if err := q.Parse(out); err != nil || len(out) != len(b) || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v encodes to % x, %v, %+v", p, out, err, q)
		}
	})
}

func FuzzGRH(f *testing.F) {
	var h GRH
	b := make([]byte, GRHLen)
	h.NextHeader = NextHeader
	h.Put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := ParseGRH(b)
		if err != nil {
			return
		}
		out := make([]byte, GRHLen)
		if h.Put(out); !bytes.Equal(append(out, payload...), b[:GRHLen+len(payload)]) {
			t.Fatalf("% x, was % x", out, b)
		}
	})
}

// FuzzCM: messages decode without panic, and what was decoded encodes to
// something that decodes to the same.
func FuzzCM(f *testing.F) {
	for _, frames := range captures(f) {
		for _, frame := range frames {
			if b, _ := transport(frame); b != nil && b[7] == 1 && len(b) == 280 {
				f.Add(b[20:276])
			}
		}
	}
	f.Fuzz(func(t *testing.T, mad []byte) {
		h, data, err := ParseMAD(mad)
		if err != nil || CMName(h.Attr) == "" {
			return
		}
		_, once := h.AppendMAD(nil)
		_, twice := h.AppendMAD(nil)
		recode(h.Attr, once, data)
		recode(h.Attr, twice, once)
		if !bytes.Equal(once, twice) {
			t.Fatalf("%s:\n% x\n% x", CMName(h.Attr), once, twice)
		}
	})
}
