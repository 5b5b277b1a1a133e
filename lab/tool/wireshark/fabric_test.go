package wireshark

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/tshark"
	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/pcapng"
)

// sample is a packet of a fabric and what is inside.
type sample struct {
	name   string
	header opa.Header
	inner  []byte
	icrc   opa.ICRC
}

var arpRequest = append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x06, 0x2c, 0, 5, 0, 0, 0x08, 0x06,
	0, 1, 8, 0, 6, 4, 0, 1, 0x06, 0x2c, 0, 5, 0, 0, 10, 0, 0, 5, 0, 0, 0, 0, 0, 0, 10, 0, 0, 6}, make([]byte, 18)...)

// echo is an ICMP echo request of n octets of data.
func echo(n int) []byte {
	var buf [2048]byte
	eth := ether.Header{Dst: opa.LMAC{Fabric: 0x301, VESW: 2, LID: 6}.Addr(), Src: opa.LMAC{Fabric: 0x301, VESW: 2, LID: 5}.Addr(), Type: ether.TypeIPv4}
	at := eth.Put(buf[:])
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoICMP, PayloadLen: 8 + n,
		Src: netip.AddrFrom4([4]byte{10, 0, 0, 5}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 6})}
	at += h.Put(buf[at:])
	msg := buf[at : at+8+n]
	msg[0] = icmp.Echo4
	for i := range n {
		msg[8+i] = byte(i)
	}
	binary.BigEndian.PutUint16(msg[2:], ip.Checksum(msg, 0))
	return bytes.Clone(buf[:at+8+n])
}

var samples = []sample{
	{"ARP", opa.Header{SLID: 5, DLID: 0xf00001, VESW: 2, PKey: 0x8001, Entropy: 0x5a}, arpRequest, opa.ICRCv1},
	{"echo", opa.Header{SLID: 5, DLID: 6, VESW: 2, PKey: 0x8001, Entropy: 0x3c, SC: 3, RC: 4}, echo(56), opa.ICRCv1},
	{"all fields", opa.Header{SLID: 0x123456, DLID: 0x0abcde, VESW: 0xabc, PKey: 0x7fff, Entropy: 0xbeef, SC: 31, RC: 7, FECN: true, BECN: true, Age: 9}, echo(25), opa.ICRCv1},
	{"long", opa.Header{SLID: 6, DLID: 5, VESW: 2, PKey: 0x8001}, echo(1472), opa.ICRCv1},
	{"bad ICRC", opa.Header{SLID: 5, DLID: 6, VESW: 2, PKey: 0x8001}, echo(56), opa.ICRCBad},
}

// file is a capture that a test writes.
type file struct{ b []byte }

func newFile(link uint16) *file {
	f := &file{}
	f.b = (&pcapng.Section{}).AppendTo(f.b)
	f.b = (&pcapng.Interface{LinkType: link}).AppendTo(f.b)
	return f
}

func (f *file) add(b []byte) {
	p := pcapng.Packet{Stamp: 1_700_000_000_000_000_000, Data: b, OrigLen: uint32(len(b))}
	f.b = p.AppendTo(f.b)
}

func (f *file) write(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f.pcapng")
	if err := os.WriteFile(name, f.b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// wrapped is the Ethernet frame that carries packet.
func wrapped(framing opa.Framing, packet []byte) []byte {
	f := frame.New(make([]byte, opa.MaxOverhead+frame.DefaultHeadroom+len(packet)), nil)
	f.Append(packet)
	framing.Wrap(f, 0x301)
	return f.Bytes()
}

// framed is a capture of all samples in a framing.
func framed(framing opa.Framing) *file {
	f := newFile(pcapng.LinkEthernet)
	for _, s := range samples {
		f.add(wrapped(framing, s.header.AppendTo(nil, s.inner, s.icrc)))
	}
	return f
}

// exported is the capture f in another form.
func (f *file) exported(t *testing.T, form capture.Form) *file {
	t.Helper()
	var b bytes.Buffer
	st, err := capture.Export(&b, bytes.NewReader(f.b), form)
	if err != nil || st.Left != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	return &file{b.Bytes()}
}

// plugin returns the options under which tshark finds the dissector: a home of
// the test's own.
func plugin(t *testing.T) tshark.Options {
	t.Helper()
	home := t.TempDir()
	dirs := Dirs{Plugins: filepath.Join(home, ".local/lib/wireshark/plugins"), Extcap: filepath.Join(home, "extcap")}
	if _, err := Install(dirs, "/bin/false"); err != nil {
		t.Fatal(err)
	}
	return tshark.Options{Env: homeEnv(home)}
}

func homeEnv(home string) []string {
	return []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "XDG_DATA_HOME=" + filepath.Join(home, ".local/share")}
}

func judge(t *testing.T) context.Context {
	t.Helper()
	if err := tshark.Available(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// frontEnd is a capture of all VEMA MADs in TCP segments to the front end of a
// fabric manager.
func frontEnd() *file {
	f := newFile(pcapng.LinkEthernet)
	seq := uint32(1)
	for _, c := range vemaCases {
		message := opa.AppendFE(nil, c.mad)
		b := make([]byte, 14+20, 14+20+20+len(message))
		(&ether.Header{Dst: ether.Addr{2, 1}, Src: ether.Addr{2, 2}, Type: ether.TypeIPv4}).Put(b)
		b = binary.BigEndian.AppendUint16(b, 40000)
		b = binary.BigEndian.AppendUint16(b, opa.FEPort)
		b = binary.BigEndian.AppendUint32(b, seq)
		b = append(b, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0)
		b = append(b, message...)
		h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, PayloadLen: len(b) - 34,
			Src: netip.AddrFrom4([4]byte{10, 0, 0, 5}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 6})}
		h.Put(b[14:])
		binary.BigEndian.PutUint16(b[50:], ip.Checksum(b[34:], ip.PseudoSum(h.Src, h.Dst, h.Proto, h.PayloadLen)))
		f.add(b)
		seq += uint32(len(message))
	}
	return f
}
