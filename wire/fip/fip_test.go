package fip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/fc"
)

// golden are the frames that libfcoe of Linux sends as it joins a VN2VN network.
func golden(t testing.TB) [][]byte {
	text, err := os.ReadFile("testdata/vn2vn.hex")
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for line := range strings.Lines(string(text)) {
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, b)
	}
	return frames
}

func TestGoldenFramesAreWhatWeSend(t *testing.T) {
	mac := ether.Addr{0x52, 0x54, 0, 0x96, 0xe7, 0xf0}
	want := []Op{ProbeRequest, ProbeRequest, ClaimNotify, Beacon}
	for i, f := range golden(t) {
		m, err := Parse(f[ether.HeaderLen:])
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if i < len(want) && m.Op != want[i] || m.MAC != mac || m.Name != fc.FromMAC(0x1000, mac) {
			t.Errorf("frame %d: %+v", i, m)
		}
		p := Port{VN2VNMap.MAC(0xe7f0), 0xe7f0, fc.FromMAC(0x2000, mac)}
		if m.Port != p || !slices.Equal(slices.Collect(m.Ports()), []Port{p}) {
			t.Errorf("frame %d: port %+v", i, m.Port)
		}
		if m.Op == ClaimNotify && (m.MaxSize != 1498 || m.FCP != fc.InitiatorFeature || !m.Types.Has(fc.TypeFCP) ||
			!m.Types.Has(fc.TypeCT) || m.Types.Has(fc.TypeELS)) {
			t.Errorf("claim: %+v", m)
		}
		if got := m.AppendTo(nil); !bytes.Equal(got, f[ether.HeaderLen:]) {
			t.Errorf("frame %d:\n%x\nwant\n%x", i, got, f[ether.HeaderLen:])
		}
	}
}

func TestMessagesComeBack(t *testing.T) {
	login := fc.Login{Command: fc.FLOGI, Port: 1, Node: 2, MaxPayload: 2112, Class3: true}
	frame := fc.Header{RCtl: fc.ELSRequest, D: fc.FabricPort, Type: fc.TypeELS, FCtl: fc.Request, OXID: 7, RXID: fc.NoID}.
		AppendFrame(nil, login.AppendTo(nil))
	mac := ether.Addr{2, 0, 0, 0, 0, 9}
	for _, c := range []struct {
		m     Message
		kinds []Kind
	}{
		{Message{Op: Solicitation, Flags: FPMA, MAC: mac, Map: DefaultMap, Name: 3, MaxSize: 2158},
			[]Kind{MAC, FCMap, Name, MaxSize}},
		{Message{Op: Advertisement, Flags: FPMA | Available | FromFCF, Priority: 128, MAC: mac, Name: 4,
			Map: DefaultMap, Fabric: 5, FabricID: 6, Period: 8000, Quiet: true}, []Kind{Priority, MAC, Name, Fabric, Period}},
		{Message{Op: Request, Flags: FPMA, Login: FLOGI, Frame: frame}, []Kind{MAC}},
		{Message{Op: KeepAlive, MAC: mac, Port: Port{mac, 0x10203, 8}}, []Kind{MAC, VNPort}},
		{Message{Op: VLANRequest, MAC: mac}, []Kind{MAC}},
	} {
		c.m.Set(c.kinds...)
		b := c.m.AppendTo(nil)
		got, err := Parse(append(b, make([]byte, 20)...))
		if err != nil || !got.Has(c.kinds...) || !bytes.Equal(got.AppendTo(nil), b) {
			t.Errorf("%+v: %+v, %v", c.m, got, err)
		}
	}
}

func TestListsComeBack(t *testing.T) {
	m := Message{Op: ClearLinks, Flags: FromFCF}
	m.Set(MAC, Name)
	ports := []Port{{ID: 0x10101, Name: 1}, {ID: 0x10102, Name: 2}}
	got, err := Parse(m.AppendPorts(nil, ports...))
	if err != nil || !slices.Equal(slices.Collect(got.Ports()), ports) {
		t.Errorf("%+v, %v", got, err)
	}
	m = Message{Op: VLANNotify}
	m.Set(MAC)
	got, err = Parse(m.AppendVLANs(nil, 100, 200))
	if err != nil || !slices.Equal(slices.Collect(got.VLANs()), []uint16{100, 200}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	beacon := golden(t)[3][ether.HeaderLen:]
	change := func(at int, v byte) []byte {
		b := slices.Clone(beacon)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":             {nil, ErrShort},
		"version 2":         {change(0, 0x20), ErrVersion},
		"more descriptors":  {change(7, 40), ErrShort},
		"length 0":          {change(11, 0), ErrDescriptor},
		"length wrong":      {change(11, 3), ErrDescriptor},
		"unknown, critical": {change(10, 99), ErrCritical},
		"unknown, optional": {change(10, 200), ErrMissing},
		"advertisement":     {func() []byte { b := change(3, 1); b[5] = 2; return b }(), ErrMissing},
		"login without one": {append(change(3, 2)[:5:5], append([]byte{1}, beacon[6:]...)...), ErrMissing},
	} {
		if _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestEveryDescriptorIsKept takes what no standard operation has: a subcode's operation
// above 255 and descriptors that a login does not need.
func TestEveryDescriptorIsKept(t *testing.T) {
	for _, op := range []Op{Request, KeepAlive, 0x0a05<<8 | 1} {
		m := Message{Op: op, Fabric: 7, Map: DefaultMap, Login: FLOGI, Frame: make([]byte, fc.HeaderLen)}
		m.Set(MAC, Fabric)
		got, err := Parse(m.AppendTo(nil))
		if err != nil || got.Op != op || got.Fabric != 7 {
			t.Errorf("%x: %+v, %v", op, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b[ether.HeaderLen:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		for range m.Ports() {
		}
		for range m.VLANs() {
		}
		again, err := Parse(m.AppendTo(nil))
		if err != nil || again.Port != m.Port || again.MAC != m.MAC || again.Fabric != m.Fabric {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
