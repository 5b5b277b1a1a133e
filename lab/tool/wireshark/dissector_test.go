package wireshark

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/tshark"
	"tapir/opa"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// columns are all fields of the dissector, and what it says of a sample.
var columns = []string{"opa16b.slid", "opa16b.dlid", "opa16b.dlid.kind", "opa16b.len", "opa16b.len_bytes", "opa16b.becn", "opa16b.fecn",
	"opa16b.sc", "opa16b.rc", "opa16b.l2", "opa16b.lt", "opa16b.l4", "opa16b.pkey", "opa16b.pkey.member", "opa16b.entropy", "opa16b.age",
	"opa16b.reserved", "opa16b.l4hdr", "opa16b.vesw", "opa16b.padding", "opa16b.pad", "opa16b.icrc", "opa16b.icrc.status", "opa16b.tail",
	"_ws.expert.message"}

func rowOf(s sample) []string {
	h, p := s.header, opa.Packet(s.header.AppendTo(nil, s.inner, s.icrc))
	status, message := "1", ""
	if !p.ICRCGood() {
		status, message = "0", fmt.Sprintf("ICRC is bad, should be 0x%08x", ^p.ICRC())
	}
	member := "limited"
	if h.PKey&opa.PKeyFull != 0 {
		member = "full"
	}
	return []string{digits(6, h.SLID), digits(6, h.DLID), h.DLID.Kind().String(), fmt.Sprint(len(p) / 8), fmt.Sprint(len(p)), flag(h.BECN), flag(h.FECN),
		fmt.Sprint(h.SC), fmt.Sprint(h.RC), "2", "1", "0x78", digits(4, h.PKey), member, digits(4, h.Entropy), fmt.Sprint(h.Age),
		"0x000000", digits(4, h.VESW), fmt.Sprint(h.VESW), strings.Repeat("00", p.Pad()), fmt.Sprint(p.Pad()), digits(8, p.ICRC()), status,
		digits(2, 0x40|p.Pad()), message}
}

func digits[T ~int | ~uint16 | ~uint32](digits int, v T) string {
	return fmt.Sprintf("0x%0*x", digits, uint64(v))
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// TestDissector: in every carriage all fields are those of the packet, the
// ICRC is judged, and the frame inside is decoded.
func TestDissector(t *testing.T) {
	t.Parallel()
	o := plugin(t)
	for name, f := range map[string]*file{
		"nsh": framed(opa.FramingNSH), "88b5": framed(opa.Framing88B5), "geneve": framed(opa.FramingGeneve),
		"user0": framed(opa.FramingNSH).exported(t, capture.FormUser0), "erf": framed(opa.Framing88B5).exported(t, capture.FormERF),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := tshark.Fields(judge(t), f.write(t), o, slices.Concat(columns, innerColumns)...)
			if err != nil || len(rows) != len(samples) {
				t.Fatalf("%d frames, %v", len(rows), err)
			}
			for i, s := range samples {
				if got, want := rows[i][:len(columns)], rowOf(s); !slices.Equal(got, want) {
					t.Errorf("%s:\n%q, want\n%q", s.name, got, want)
				}
				checkInner(t, s, rows[i][len(columns):])
			}
		})
	}
}

// TestDissectorAlterations: what a fabric rewrites leaves the ICRC good; any
// other bit does not, and what cannot be is flagged.
func TestDissectorAlterations(t *testing.T) {
	t.Parallel()
	good := samples[1].header.AppendTo(nil, samples[1].inner, opa.ICRCv1)
	type row struct{ what, status, message string }
	var want []row
	f := newFile(pcapng.LinkEthernet)
	add := func(what, status, message string, with func(p opa.Packet) []byte) {
		b := append(make([]byte, 12), 0x88, 0xb5)
		f.add(append(b, with(bytes.Clone(good))...))
		want = append(want, row{what, status, message})
	}
	for sc := range uint8(32) {
		add("SC, FECN, BECN, Age", "1", "", func(p opa.Packet) []byte {
			p.SetSC(sc)
			p.SetFECN(sc&1 != 0)
			p.SetBECN(sc&2 != 0)
			p.SetAge(sc * 7)
			return p
		})
	}
	for _, at := range []int{0, 2, 5, 7, 10, 12, 16, 18, 30, 100, len(good) - 2} {
		add(fmt.Sprintf("octet %d", at), "0", "ICRC is bad", func(p opa.Packet) []byte { p[at] ^= 2; return p })
	}
	add("pad", "0", "Padding is not zero", func(p opa.Packet) []byte { p[len(p)-6] = 1; return p })
	add("tail", "1", "Impossible tail", func(p opa.Packet) []byte { p[len(p)-1] |= 0x10; return p })
	add("length", "", "Length does not agree", func(p opa.Packet) []byte { return p[:len(p)-8] })
	add("8B", "", "Not a 16B packet", func(p opa.Packet) []byte { p[7] &^= 0x60; return p })
	add("SLID", "0", "No LID that a packet can have here", func(p opa.Packet) []byte { p[0] = 0; return p })
	add("short", "", "Too short", func(p opa.Packet) []byte { return p[:24] })
	add("FM", "0", "ICRC is bad", func(p opa.Packet) []byte { p[8] = opa.L4FM; return p })
	rows, err := tshark.Fields(judge(t), f.write(t), plugin(t), "opa16b.icrc.status", "_ws.expert.message", "_ws.malformed")
	if err != nil || len(rows) != len(want) {
		t.Fatalf("%d frames, %v", len(rows), err)
	}
	for i, w := range want {
		malformed := w.what == "length" || w.what == "short"
		if r := rows[i]; r[0] != w.status || !strings.Contains(r[1], w.message) || w.message == "" && r[1] != "" || (r[2] != "") != malformed {
			t.Errorf("%s: %q, want %+v", w.what, r, w)
		}
	}
}

// TestDissectorSurvives: nothing that comes in makes the script fail.
func TestDissectorSurvives(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var seeds [][]byte
	for i, s := range samples {
		seeds = append(seeds, wrapped(opa.Framing(i%3), s.header.AppendTo(nil, s.inner, s.icrc)))
	}
	for _, c := range vemaCases {
		b := vemaFrame(c)
		seeds = append(seeds, b[:min(len(b), 400)])
	}
	f := newFile(pcapng.LinkEthernet)
	for i := range 400 {
		b := bytes.Clone(seeds[i%len(seeds)])
		for range rng.IntN(6) {
			b[14+rng.IntN(min(90, len(b)-14))] = byte(rng.Uint32())
		}
		if i%3 == 0 {
			b = b[:14+rng.IntN(len(b)-14)]
		}
		f.add(b)
	}
	lines, err := tshark.Lines(judge(t), f.write(t), plugin(t), "-V")
	if err != nil {
		t.Fatal(err)
	}
	trees := 0
	for _, l := range lines {
		if strings.Contains(l, "Lua Error") {
			t.Error(l)
		}
		if strings.HasPrefix(l, "Omni-Path 16B") {
			trees++
		}
	}
	if trees < 100 {
		t.Errorf("only %d packets were dissected", trees)
	}
}

// TestDissectorOfCutFrames: of a frame that a snap length has cut the fields
// are shown, and nothing is held against it.
func TestDissectorOfCutFrames(t *testing.T) {
	t.Parallel()
	f := newFile(pcapng.LinkEthernet)
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		b := wrapped(framing, samples[3].header.AppendTo(nil, samples[3].inner, opa.ICRCv1))
		p := pcapng.Packet{Data: b[:128], OrigLen: uint32(len(b))}
		f.b = p.AppendTo(f.b)
	}
	rows, err := tshark.Fields(judge(t), f.write(t), plugin(t), "opa16b.slid", "opa16b.len", "opa16b.icrc.status", "_ws.malformed", "opa16b.len.wrong")
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d frames, %v", len(rows), err)
	}
	for _, r := range rows {
		if !slices.Equal(r, []string{"0x000006", "193", "", "", ""}) {
			t.Errorf("%q", r)
		}
	}
}

func TestDissectorWithoutVerification(t *testing.T) {
	t.Parallel()
	o := plugin(t)
	o.Prefs = []string{"opa16b.verify:FALSE"}
	rows, err := tshark.Fields(judge(t), framed(opa.Framing88B5).write(t), o, "opa16b.icrc.status", "_ws.expert.message")
	if err != nil || len(rows) != len(samples) {
		t.Fatalf("%d frames, %v", len(rows), err)
	}
	for i, r := range rows {
		if r[0] != "2" || r[1] != "" {
			t.Errorf("%s: %q", samples[i].name, r)
		}
	}
}

// mad is a MAD of Ethernet management with the octets of data put at their
// places.
func mad(method byte, attribute uint16, vport byte, data map[int][]byte) []byte {
	b := make([]byte, opa.MaxMAD)
	copy(b, []byte{0x80, 0x34, 0x80, method})
	binary.BigEndian.PutUint64(b[8:], 0x1122334455667788)
	binary.BigEndian.PutUint16(b[16:], attribute)
	b[23] = vport
	copy(b[37:], []byte{0x00, 0x06, 0x6a})
	for at, octets := range data {
		copy(b[40+at:], octets)
	}
	return b
}

// vemaCase is a MAD and the values that a dissector must show.
type vemaCase struct {
	mad  []byte
	want map[string]string
}

var vemaCases = []vemaCase{
	{mad(0x81, 0x0001, 0, map[int][]byte{0: {0x80, 0x80, 0xff, 1, 0, 0, 0, 18}, 60: {0, 0, 0, 7}, 76: {0x28}}),
		map[string]string{"method": "GetResp", "attribute": "ClassPortInfo", "cap_mask": "0xff01", "cap_mask2": "0x00000012", "trap_lid": "0x00000007", "trap_sl": "0x28"}},
	{mad(0x05, 0x0002, 0, map[int][]byte{0: {8, 0, 6, 0x6a}, 8: {0, 0, 0, 5}, 32: {3, 1, 0, 2, 0, 0, 0, 9, 0, 1, 4, 2}}),
		map[string]string{"method": "Trap", "attribute": "Notice", "issuer_lid": "0x00000005", "fabric_id": "0x0301", "vesw_id": "2",
			"veswport_num": "9", "opaport_num": "1", "vport": "0,4", "opcode": "2"}},
	{mad(0x02, 0x0011, 3, map[int][]byte{0: {3, 1, 0x0a, 0xbc}, 10: {0, 3}, 14: {0x80, 1}, 20: {0, 0xf0, 0, 1}, 24: {0, 0, 0, 8, 0, 0, 0, 9},
		88: {1, 2, 3, 4}, 148: {5, 0xdc}, 152: {0, 0, 0, 1, 2}, 160: {6, 0x2c, 0, 5, 0, 0}, 166: {3, 1, 8, 0, 1, 0, 0xca, 0xfe, 0xba, 0xbe},
		180: {0, 0, 0, 5}, 184: {1, 2, 3, 4, 5, 6, 7, 8}, 216: {9, 10, 11, 12}, 268: {0, 1, 0, 2}}),
		map[string]string{"method": "Set", "attribute": "VESWPORT_INFO", "vport": "3", "fabric_id": "0x0301", "vesw_id": "2748", "def_port_mask": "0x0003",
			"pkey": "0x8001", "u_mcast_dlid": "0x00f00001", "u_ucast_dlid": "0x00000008,0x00000009" + strings.Repeat(",0x00000000", 14),
			"rc": "0x01020304", "eth_mtu": "1500", "veswport_num": "1", "eth_link_status": "2", "base_mac_addr": "06:2c:00:05:00:00",
			"config_state": "3", "oper_state": "1", "max_mac_tbl_ent": "2048", "max_smac_ent": "256", "mac_tbl_digest": "0xcafebabe",
			"encap_slid": "0x00000005", "pcp_to_sc_uc": "1,2,3,4,5,6,7,8", "non_vlan_sc_uc": "9", "non_vlan_vl_uc": "10", "non_vlan_sc_mc": "11",
			"non_vlan_vl_mc": "12", "uc_macs_gen_count": "1", "mc_macs_gen_count": "2"}},
	{mad(0x02, 0x0012, 1, map[int][]byte{0: {0, 5, 0, 2, 0xde, 0xad, 0xbe, 0xef, 2, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 6, 0,
		2, 0, 0, 0, 0, 2, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 7, 0x20}}),
		map[string]string{"attribute": "VESWPORT_MAC_ENTRIES", "offset": "5", "num_entries": "2", "mac_tbl_digest": "0xdeadbeef",
			"mac": "02:00:00:00:00:01,02:00:00:00:00:02", "mask": "ff:ff:ff:ff:ff:ff,ff:ff:00:00:00:00", "dlid": "0x000006,0x000007", "smac": "0,1"}},
	{mad(0x81, 0x0013, 2, map[int][]byte{0: {0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9}}),
		map[string]string{"attribute": "IFACE_UCAST_MACS", "num_macs_in_msg": "1", "tot_macs_in_lst": "1", "gen_count": "6", "mac": "02:00:00:00:00:09"}},
	{mad(0x81, 0x0014, 2, map[int][]byte{0: {0, 4, 0, 2, 0, 6, 0, 7, 1, 0, 0x5e, 0, 0, 1, 0x33, 0x33, 0, 0, 0, 1}}),
		map[string]string{"attribute": "IFACE_MCAST_MACS", "start_idx": "4", "mac": "01:00:5e:00:00:01,33:33:00:00:00:01"}},
	{mad(0x02, 0x0015, 2, nil), map[string]string{"method": "Set", "attribute": "DELETE_VESW", "vport": "2"}},
	{mad(0x81, 0x0020, 2, map[int][]byte{0: {0, 2, 0, 3, 0, 0, 0, 1}, 31: {17}, 144 - 1: {5}, 231: {6}}),
		map[string]string{"attribute": "VESWPORT_SUMMARY_COUNTERS", "vp_instance": "2", "vesw_id": "3", "tx_packets": "17", "tx_1519_max": "5", "rx_1519_max": "6"}},
	{mad(0x81, 0x0022, 2, map[int][]byte{39: {1}, 71: {2}, 103: {3}, 111: {4}, 167: {5}}),
		map[string]string{"attribute": "VESWPORT_ERROR_COUNTERS", "tx_smac_filt": "1", "tx_dlid_zero": "2", "tx_drop_state": "3", "rx_bad_veswid": "4", "rx_logic": "5"}},
	// A request without a body, as managers send it: what follows is not of the MAD.
	{mad(0x01, 0x0011, 3, nil)[:40], map[string]string{"method": "Get", "attribute": "VESWPORT_INFO", "vport": "3", "fabric_id": "", "vesw_id": ""}},
	{mad(0x01, 0x0013, 3, map[int][]byte{1: {7}})[:43], map[string]string{"method": "Get", "attribute": "IFACE_UCAST_MACS", "start_idx": "7", "num_macs_in_msg": ""}},
}

// vemaFrame is an Ethernet frame with the MAD in a 9B packet.
func vemaFrame(c vemaCase) []byte {
	h := opa.Header9B{SLID: 5, DLID: 6, PKey: 0xffff, DestQP: opa.QPGeneral, SrcQP: opa.QPGeneral, QKey: opa.QKeyGSI}
	fr := frame.New(make([]byte, 4096), nil)
	fr.Append(h.AppendTo(nil, c.mad, opa.ICRCv1))
	opa.FramingNSH.Wrap9B(fr)
	return fr.Bytes()
}

func vemaFile() *file {
	f := newFile(pcapng.LinkEthernet)
	for _, c := range vemaCases {
		f.add(vemaFrame(c))
	}
	return f
}

// checkVEMA compares what tshark shows of each attribute.
func checkVEMA(t *testing.T, capture string, o tshark.Options, filter string) {
	t.Helper()
	var names, fields []string
	for _, c := range vemaCases {
		for name := range c.want {
			if !slices.Contains(names, name) {
				names = append(names, name)
				fields = append(fields, "opavema."+name)
			}
		}
	}
	o.Filter = filter
	rows, err := tshark.Fields(judge(t), capture, o, append(fields, "_ws.malformed", "opavema.status", "_ws.expert.message")...)
	if err != nil || len(rows) != len(vemaCases) {
		t.Fatalf("%d frames, %v", len(rows), err)
	}
	for i, c := range vemaCases {
		for name, want := range c.want {
			if got := rows[i][slices.Index(names, name)]; got != want {
				t.Errorf("%s: %s is %q, want %q", c.want["attribute"], name, got, want)
			}
		}
		if rest := rows[i][len(fields):]; rest[0] != "" || rest[1] != "0x0000" || rest[2] != "" {
			t.Errorf("%s: %q", c.want["attribute"], rest)
		}
	}
}

// TestVEMA: the nine attributes, in 9B packets on Ethernet, in ERF records, and
// on the front end's TCP port.
func TestVEMA(t *testing.T) {
	t.Parallel()
	o := plugin(t)
	t.Run("9B", func(t *testing.T) {
		t.Parallel()
		name := vemaFile().write(t)
		checkVEMA(t, name, o, "")
		rows, err := tshark.Fields(judge(t), name, o, "opa9b.icrc.status", "opa.9b.slid", "opa.bth.destqp")
		if err != nil || len(rows) != len(vemaCases) {
			t.Fatalf("%d frames, %v", len(rows), err)
		}
		for _, r := range rows {
			if !slices.Equal(r, []string{"1", "0x0005", "0x000001"}) {
				t.Errorf("%q", r)
			}
		}
	})
	t.Run("erf", func(t *testing.T) {
		t.Parallel()
		checkVEMA(t, vemaFile().exported(t, capture.FormERF).write(t), o, "")
	})
	t.Run("front end", func(t *testing.T) {
		t.Parallel()
		checkVEMA(t, frontEnd().write(t), o, "")
	})
}
