package wireshark

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/tshark"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// lastOf is the last of values joined by commas.
func lastOf(s string) string { return s[strings.LastIndexByte(s, ',')+1:] }

// innerColumns are fields of the innermost Ethernet frame.
var innerColumns = []string{"eth.dst", "eth.src", "arp.dst.proto_ipv4", "icmp.type", "icmp.checksum.status", "_ws.malformed"}

// checkInner compares what tshark shows in these columns with the sample.
func checkInner(t *testing.T, s sample, row []string) {
	t.Helper()
	want := []string{ether.Addr(s.inner[:6]).String(), ether.Addr(s.inner[6:12]).String(), "", "8", "1", ""}
	if s.name == "ARP" {
		want[2], want[3], want[4] = "10.0.0.6", "", ""
	}
	got := slices.Clone(row)
	got[0], got[1] = lastOf(got[0]), lastOf(got[1])
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", s.name, got, want)
	}
}

// Stock tshark reads the frames inside packets in NSH and Geneve, from a file.
func TestStockTshark(t *testing.T) {
	t.Parallel()
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.FramingGeneve} {
		rows, err := tshark.Fields(judge(t), framed(framing).write(t), tshark.Options{Env: homeEnv(t.TempDir())}, innerColumns...)
		if err != nil || len(rows) != len(samples) {
			t.Fatalf("%d frames, %v", len(rows), err)
		}
		for i, s := range samples {
			checkInner(t, s, rows[i])
		}
	}
}

// Stock display filters find fields of the 16B header in NSH.
func TestStockFilters(t *testing.T) {
	t.Parallel()
	name, o := framed(opa.FramingNSH).write(t), tshark.Options{Env: homeEnv(t.TempDir())}
	for _, c := range []struct {
		filter string
		want   []string
	}{
		{"nsh.spi == 0x301002 && arp || nsh.spi & 0xfff == 0xabc", []string{"1", "3"}},
		{"nsh.metadata[18:2] == bc:0a || nsh.metadata[0:2] == 06:00 || eth.dst == 03:00:00:f0:00:01 && eth.src == 02:00:00:00:00:05", []string{"1", "3", "4"}},
		{"ip.checksum.status == 0 or udp.checksum.status == 0 or _ws.malformed", nil},
	} {
		o.Filter = c.filter
		rows, err := tshark.Fields(judge(t), name, o, "frame.number")
		var got []string
		for _, r := range rows {
			got = append(got, r[0])
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q, %v", c.filter, got, c.want, err)
		}
	}
}

// innerLines are what tcpdump prints of each sample's frame.
func innerLine(s sample) string {
	if s.name == "ARP" {
		return "Request who-has 10.0.0.6 tell 10.0.0.5"
	}
	return fmt.Sprintf("10.0.0.5 > 10.0.0.6: ICMP echo request, id 0, seq 0, length %d", len(s.inner)-14-20)
}

func checkLines(t *testing.T, lines []string, also string) {
	t.Helper()
	if len(lines) != len(samples) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, s := range samples {
		if !strings.Contains(lines[i], innerLine(s)) || !strings.Contains(lines[i], also) {
			t.Errorf("%s: %q, want %q and %q", s.name, lines[i], innerLine(s), also)
		}
	}
}

func split(out []byte) []string { return strings.Split(strings.TrimSpace(string(out)), "\n") }

// Stock tcpdump reads the same from a file.
func TestStockTcpdump(t *testing.T) {
	t.Parallel()
	for framing, also := range map[opa.Framing]string{opa.FramingNSH: "NSH, flags [none], service-path-id 0x301", opa.FramingGeneve: "Geneve, Flags [none], vni 0x"} {
		out, err := exec.CommandContext(judge(t), "tcpdump", "-nne", "-tr", framed(framing).write(t)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := slices.DeleteFunc(split(out), func(l string) bool { return strings.HasPrefix(l, "reading from") })
		checkLines(t, lines, also)
	}
}

// The BPF of the framing picks a vESW, and libpcap looks into Geneve.
func TestStockBPF(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		framing opa.Framing
		filter  string
		want    int
	}{
		{opa.FramingNSH, "ether proto 0x894f and ether[44]=2 and ether[45]&0xf=0", 4},
		{opa.FramingNSH, "ether proto 0x894f and ether[44]=0xbc and ether[45]&0xf=0xa", 1},
		{opa.FramingGeneve, "geneve 2 and arp", 1},
		{opa.Framing88B5, "ether proto 0x88b5 and ether dst 02:00:00:00:00:06", 2},
	} {
		out, err := exec.CommandContext(judge(t), "tcpdump", "-nn", "-qtr", framed(c.framing).write(t), "--count", c.filter).CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d packet", c.want)) {
			t.Errorf("%s: %v, want %d of\n%s", c.filter, err, c.want, out)
		}
	}
}

// liveTool captures on a TAP in a namespace while all samples come in, and
// returns what it prints.
func liveTool(t *testing.T, program string, args ...string) []string {
	t.Helper()
	ctx := judge(t)
	space := testenv.Space(t, link.Quiet)
	ns, n := space.NS, space.Net
	q := must(n.OpenTAP(tap.Config{Name: "fab0"}))
	t.Cleanup(func() { q.Close() })
	if err := n.SetMTU("fab0", opa.FramingNSH.MTU(1500)); err != nil {
		t.Fatal(err)
	}
	if err := n.Up("fab0"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(cmd.Environ(), homeEnv(t.TempDir())...)
	var out bytes.Buffer
	cmd.Stdout = &out
	complaint := must(cmd.StderrPipe())
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(complaint)
	for said.Scan() && !strings.Contains(said.Text(), "listening on") && !strings.Contains(said.Text(), "Capture started") {
	}
	go func() {
		for said.Scan() {
		}
	}()
	for _, s := range samples {
		f := frame.New(make([]byte, 2048), nil)
		f.Append(wrapped(opa.FramingNSH, s.header.AppendTo(nil, s.inner, s.icrc)))
		if err := q.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out.Bytes())
	}
	return split(out.Bytes())
}

func TestStockTcpdumpLive(t *testing.T) {
	t.Parallel()
	lines := liveTool(t, "tcpdump", "-nnet", "-l", "--immediate-mode", "-c", fmt.Sprint(len(samples)), "-i", "fab0", "ether", "proto", "0x894f")
	checkLines(t, lines, "NSH, flags [none], service-path-id 0x301")
}

func TestStockTsharkLive(t *testing.T) {
	t.Parallel()
	lines := liveTool(t, "tshark", "-nl", "-c", fmt.Sprint(len(samples)), "-i", "fab0", "-f", "ether proto 0x894f",
		"-T", "fields", "-E", "separator=|", "-e", "arp.dst.proto_ipv4", "-e", "icmp.checksum.status", "-e", "_ws.malformed")
	if want := []string{"10.0.0.6||", "|1|", "|1|", "|1|", "|1|"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// erf29 is a capture of 9B packets without a header of the HFI's: ERF type 29.
func erf29(packets [][]byte) *file {
	f := newFile(197)
	for _, p := range packets {
		b := binary.LittleEndian.AppendUint64(nil, 1_700_000_000<<32)
		b = append(b, 29, 4)
		b = binary.BigEndian.AppendUint16(b, uint16(16+len(p)))
		b = append(b, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
		f.add(append(b, p...))
	}
	return f
}

// Stock tshark knows 9B packets and MADs: in both kinds of ERF record, and on
// the front end's TCP port.
func TestStockMADs(t *testing.T) {
	t.Parallel()
	h := opa.Header9B{SLID: 5, DLID: 6, SC: 3, SL: 2, PKey: 0xffff, DestQP: opa.QPGeneral, SrcQP: opa.QPGeneral, QKey: opa.QKeyGSI, PSN: 9}
	var packets [][]byte
	on9B := newFile(pcapng.LinkEthernet)
	for _, c := range vemaCases {
		p := h.AppendTo(nil, c.mad, opa.ICRCv1)
		packets = append(packets, p)
		on9B.add(append(append(make([]byte, 12), 0x88, 0xb6), p...))
	}
	link := []string{"opa.9b.slid", "opa.9b.dlid", "opa.9b.sc", "opa.9b.sl", "opa.bth.opcode", "opa.bth.p_key", "opa.bth.destqp", "opa.bth.psn", "opa.deth.q_key", "opa.deth.srcqp"}
	wantLink := []string{"0x0005", "0x0006", "3", "2", "0x64", "0xffff", "0x000001", "9", "0x80010000", "0x000001"}
	for name, c := range map[string]struct {
		file   *file
		fields []string
		want   []string
	}{
		"ERF 28":    {on9B.exported(t, capture.FormERF), link, wantLink},
		"ERF 29":    {erf29(packets), link, wantLink},
		"front end": {frontEnd(), []string{"opa.fe.magicnumber", "opa.fe.headerversion", "tcp.checksum.status"}, []string{"0x31e0cc01", "0x00000080", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mad := []string{"opa.mad.mgmtclass", "opa.mad.method", "opa.mad.attributeid", "opa.mad.attributemodifier", "opa.mad.transactionid", "_ws.malformed"}
			rows, err := tshark.Fields(judge(t), c.file.write(t), tshark.Options{Env: homeEnv(t.TempDir())}, append(mad, c.fields...)...)
			if err != nil || len(rows) != len(vemaCases) {
				t.Fatalf("%d frames, %v", len(rows), err)
			}
			for i, v := range vemaCases {
				want := append([]string{"0x34", fmt.Sprintf("0x%02x", v.mad[3]), fmt.Sprintf("0x%04x", binary.BigEndian.Uint16(v.mad[16:])),
					fmt.Sprintf("0x%08x", v.mad[23]), "0x1122334455667788", ""}, c.want...)
				if !slices.Equal(rows[i], want) {
					t.Errorf("%q, want %q", rows[i], want)
				}
			}
		})
	}
}
