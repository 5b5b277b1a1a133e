package lldp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tapir/wire/ether"
)

// full has every field, as testdata/encode.py has.
func full() *PDU {
	ets := ETS{PrioTC: [8]uint8{0, 1, 2, 3, 0, 0, 0, 7}, Weight: [8]uint8{30, 30, 40}, TSA: [8]uint8{2, 2, 2}}
	rec := ets
	ets.Willing, ets.MaxTCs = true, 4
	return &PDU{
		Chassis: MACID(ChassisMAC, ether.Addr{2, 0, 0, 0, 0, 1}), Port: ID{PortIface, "eth0"}, TTL: 121,
		PortDesc: "wire", SystemName: "nic0", SystemDesc: "a NIC", Capabilities: &Capabilities{CapStation, CapStation},
		MACPHY: &MACPHY{Supported: true, Enabled: true, Advertised: 0x6c01, MAU: 0x1e},
		ETS:    &ets, ETSRec: &rec, PFC: &PFC{MBC: true, Cap: 8, Enabled: 8},
		App: &App{[]AppEntry{{3, SelUDP, 4791}, {4, SelTCP, 3260}}},
	}
}

// withCEE has the features of CEE.
func withCEE() *PDU {
	f := Feature{Enable: true, Willing: true}
	return &PDU{Chassis: ID{ChassisLocal, "x"}, Port: ID{PortLocal, "\x01"}, TTL: 1, Management: []byte{5, 1, 10, 0, 0, 1, 2, 0, 0, 0, 1, 0},
		Extra: []byte{127 << 1, 5, 2, 0, 0, 1, 9},
		CEE: &CEE{Seq: 7, Ack: 6, PG: &CEEPG{f, [8]uint8{0, 0, 0, 1, 15}, [8]uint8{50, 50}, 8}, PFC: &CEEPFC{f, 8, 2},
			App: &CEEApp{Feature{Enable: true, Error: true}, []CEEAppEntry{{0x8906, false, 8}, {3260, true, 16}}}}}
}

func TestRoundTrip(t *testing.T) {
	for _, p := range []*PDU{full(), withCEE()} {
		b := p.AppendTo(nil)
		got, err := Parse(append(b, 0, 0, 0)) // padded
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v\n%+v, not\n%+v", err, got, p)
		}
		if got, err = Parse(b[:len(b)-2]); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("without End: %v\n%+v", err, got)
		}
	}
}

// The LLDPDUs of lldpad come out as the same octets.
func TestGolden(t *testing.T) {
	frames := capture(t, "testdata/dcbx-lldpad.pcap")
	var last *PDU
	for i, b := range frames {
		h, n, err := ether.Parse(b)
		if err != nil || h.Type != ether.TypeLLDP || h.Dst != NearestBridge {
			t.Fatalf("frame %d: %+v %v", i, h, err)
		}
		p, err := Parse(b[n:])
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if again := p.AppendTo(nil); !bytes.HasPrefix(b[n:], again) {
			t.Errorf("frame %d:\n% x, not\n% x", i, again, b[n:])
		}
		if h.Src[0] == 0x52 {
			last = p
		}
	}
	want := &ETS{Willing: true, MaxTCs: 8, PrioTC: last.ETS.PrioTC, Weight: [8]uint8{30, 30, 40}, TSA: last.ETS.TSA}
	if !reflect.DeepEqual(last.ETS, want) || last.PFC.Enabled != 8 || !slices.Contains(last.App.Entries, AppEntry{3, SelUDP, 4791}) {
		t.Errorf("the last of lldpad: %+v %+v %+v", last.ETS, last.PFC, last.App)
	}
}

// capture reads a file of libpcap with little-endian headers.
func capture(t *testing.T, file string) (frames [][]byte) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for b = b[24:]; len(b) > 0; {
		n := 16 + binary.LittleEndian.Uint32(b[8:])
		frames, b = append(frames, b[16:n]), b[n:]
	}
	return frames
}

// scapy makes the same octets.
func TestScapyAgrees(t *testing.T) {
	const python = "/usr/bin/python3" // the interpreter for which distributions package scapy
	if err := exec.Command(python, "-c", "import scapy.contrib.lldp").Run(); err != nil {
		t.Skip("scapy is not installed: apt-get install python3-scapy")
	}
	out, err := exec.Command(python, "testdata/encode.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hex.EncodeToString(full().AppendTo(nil)), strings.TrimSpace(string(out)); got != want {
		t.Errorf("%s, scapy has\n%s", got, want)
	}
}

// The stock dissector finds nothing malformed, and reads the same priorities.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	file := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 16: 0xff, 0xff, 20: 1, 23: 0} // Ethernet
	for _, p := range []*PDU{full(), withCEE()} {
		b := ether.Header{Dst: NearestBridge, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeLLDP}.AppendTo(nil)
		b = p.AppendTo(b)
		file = binary.LittleEndian.AppendUint32(append(file, make([]byte, 8)...), uint32(len(b)))
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(b))), b...)
	}
	name := t.TempDir() + "/lldp.pcap"
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", name, "-V").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Bandwidth for PGID 2: 40", "PFC for Priority 3: Enabled", "Time To Live = 121 sec"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q", want)
		}
	}
	if text := strings.ToLower(string(out)); strings.Contains(text, "malformed") || strings.Count(text, "end of lldpdu") < 2 {
		t.Errorf("%s", out)
	}
}

func TestRefused(t *testing.T) {
	head := (&PDU{Chassis: ID{7, "c"}, Port: ID{7, "p"}, TTL: 9}).AppendTo(nil)
	head = head[:len(head)-2]
	with := func(typ uint8, v ...byte) []byte { return AppendTLV(slices.Clone(head), typ, v...) }
	ieee := func(subtype byte, v ...byte) []byte {
		return with(TypeOrg, append([]byte{0, 0x80, 0xc2, subtype}, v...)...)
	}
	cee := func(v ...byte) []byte { return with(TypeOrg, append([]byte{0, 0x1b, 0x21, 2}, v...)...) }
	control := []byte{1 << 1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	ets := full().ETS.append(nil, 0)
	wrongTC, wrongWeight := slices.Clone(ets), slices.Clone(ets)
	wrongTC[1], wrongWeight[5] = 0x80, 101
	for name, c := range map[string]struct {
		pdu []byte
		err error
	}{
		"empty":                   {nil, ErrMandatory},
		"End alone":               {[]byte{0, 0}, ErrMandatory},
		"half a TLV header":       {append(slices.Clone(head), 9), ErrTruncated},
		"TLV beyond the end":      {append(slices.Clone(head), 4<<1, 3, 'a'), ErrTruncated},
		"order":                   {AppendTLV(AppendTLV(nil, TypePortID, 7, 1), TypeChassisID, 7, 1), ErrMandatory},
		"no TTL":                  {head[:8], ErrMandatory},
		"Chassis ID again":        {with(TypeChassisID, 7, 'c'), ErrMandatory},
		"Chassis ID of an octet":  {AppendTLV(nil, TypeChassisID, 7), ErrLength},
		"Chassis ID too long":     {AppendTLV(nil, TypeChassisID, make([]byte, 257)...), ErrLength},
		"TTL of an octet":         {AppendTLV(slices.Clone(head[:8]), TypeTTL, 1), ErrLength},
		"End with octets":         {with(TypeEnd, 1), ErrLength},
		"long name":               {with(TypeSystemName, make([]byte, 256)...), ErrLength},
		"two names":               {AppendTLV(with(TypeSystemName, 'a'), TypeSystemName, 'b'), ErrDuplicate},
		"capabilities":            {with(TypeCapabilities, 1, 2, 3), ErrLength},
		"two capabilities":        {AppendTLV(with(TypeCapabilities, 0, 0, 0, 0), TypeCapabilities, 0, 0, 0, 0), ErrDuplicate},
		"management address":      {with(TypeManagement, 9, 1, 2, 3, 4, 5, 6, 7, 8), ErrLength},
		"organization":            {with(TypeOrg, 0, 0x80, 0xc2), ErrLength},
		"ETS too short":           {ieee(9, ets[:20]...), ErrLength},
		"ETS too long":            {ieee(10, append(ets, 0)...), ErrLength},
		"traffic class 8":         {ieee(9, wrongTC...), ErrValue},
		"101 percent":             {ieee(10, wrongWeight...), ErrValue},
		"PFC too short":           {ieee(11, 0), ErrLength},
		"PFC for nine classes":    {ieee(11, 9, 0), ErrValue},
		"applications":            {ieee(12, 0, 1, 2), ErrLength},
		"no application octet":    {ieee(12), ErrLength},
		"MAC/PHY":                 {with(TypeOrg, 0, 0x12, 0x0f, 1, 3), ErrLength},
		"CEE without control":     {cee(), ErrMandatory},
		"CEE control":             {cee(1<<1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0), ErrLength},
		"CEE sub-TLV too long":    {cee(append(control, 3<<1, 6, 0)...), ErrTruncated},
		"CEE feature too short":   {cee(append(control, 3<<1, 3, 0, 0, 0)...), ErrLength},
		"CEE PFC":                 {cee(append(control, 3<<1, 5, 0, 0, 0, 0, 0)...), ErrLength},
		"CEE application":         {cee(append(control, 4<<1, 5, 0, 0, 0, 0, 0)...), ErrLength},
		"CEE control twice":       {cee(append(control, control...)...), ErrDuplicate},
		"priority groups too few": {cee(append(control, 2<<1, 4, 0, 0, 0, 0)...), ErrLength},
	} {
		if p, err := Parse(c.pdu); !errors.Is(err, c.err) || p != nil {
			t.Errorf("%s: %+v %v, not %v", name, p, err, c.err)
		}
	}
}

func TestIDText(t *testing.T) {
	for want, id := range map[string]ID{"02:00:00:00:00:01": MACID(ChassisMAC, ether.Addr{2, 0, 0, 0, 0, 1}),
		"eth0": {PortIface, "eth0"}, "010a000001": {ChassisNet, "\x01\x0a\x00\x00\x01"}} {
		if got := id.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// What Parse takes, AppendTo makes again so that Parse reads the same.
func FuzzParse(f *testing.F) {
	f.Add(full().AppendTo(nil))
	f.Add(withCEE().AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(p.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("% x: %v\n%+v, not\n%+v", b, err, again, p)
		}
	})
}
