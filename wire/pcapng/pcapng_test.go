package pcapng

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"os"

	"github.com/google/go-cmp/cmp"
)

const arpFrame = "ffffffffffff 020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002"

// sample holds every block with every option.
func sample(t testing.TB) []Block {
	data := unhex(t, arpFrame)
	return []Block{
		&Section{Hardware: "board", OS: "Linux 6.1", Application: "tapir 1", Comments: []string{"a test"}},
		&Interface{LinkType: LinkEthernet, SnapLen: 262144, Name: "nic0", Description: "MTU 1500",
			MAC: [6]byte{2, 0, 0, 0, 0, 1}, Speed: 100e9, Filter: "tcp", OS: "tapir", Hardware: "emulated", Comments: []string{"wire"}},
		&Interface{LinkType: LinkEthernet, Name: "host"},
		&Packet{Interface: 0, Stamp: 1_700_000_000_123_456_789, Data: data, OrigLen: uint32(len(data)),
			Has: HasFlags | HasDropCount | HasID | HasQueue, Flags: Outbound | Broadcast, DropCount: 4, ID: 77, Queue: 3,
			Comments: []string{"QP 3 WR 17", "dropped: no route"}},
		&Packet{Interface: 1, Stamp: 1_700_000_000_123_456_790, Data: data[:33], OrigLen: uint32(len(data)), Has: HasFlags, Flags: Inbound},
		&Journal{Stamp: 1_700_000_000_123_456_791, Host: "nic0", Topic: "wr", Message: []byte("QP 3 done WR 17 = RDMA Write: success")},
		&Statistics{Interface: 0, Stamp: 1_700_000_001_000_000_001,
			Has:   HasStart | HasEnd | HasReceived | HasDropped | HasAccepted | HasOSDropped | HasDelivered,
			Start: 1_700_000_000_000_000_002, End: 1_700_000_001_000_000_003, Received: 5, Dropped: 1, Accepted: 4, OSDropped: 2, Delivered: 3,
			Comments: []string{"the reader was slow"}},
	}
}

func encode(blocks []Block) (b []byte) {
	for _, blk := range blocks {
		b = blk.AppendTo(b)
	}
	return b
}

// readAll returns every block of b, with packet data copied.
func readAll(b []byte) (all []Block, err error) {
	r := NewReader(bytes.NewReader(b))
	for {
		blk, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		switch blk := blk.(type) {
		case *Packet:
			blk.Data = bytes.Clone(blk.Data)
		case *Journal:
			blk.Message = bytes.Clone(blk.Message)
		}
		all = append(all, blk)
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample(t)
	got, err := readAll(encode(want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestPacketSizeIsABound(t *testing.T) {
	for n := 0; n < 9; n++ {
		p := Packet{Data: make([]byte, n), Has: HasFlags | HasDropCount | HasID | HasQueue,
			Comments: []string{strings.Repeat("x", n), strings.Repeat("y", 70000)}}
		if got, bound := len(p.AppendTo(nil)), p.Size(); got > bound {
			t.Errorf("%d octets of data: encoded %d, bound %d", n, got, bound)
		}
	}
}

// bigEndian is a section with one interface and one packet as a big-endian
// machine writes them, with microsecond stamps.
const bigEndian = "0a0d0d0a 0000001c 1a2b3c4d 0001 0000 ffffffffffffffff 0000001c" +
	"00000001 00000014 0001 0000 00000000 00000014" +
	"00000006 00000024 00000000 00000000 000f4241 00000001 00000001 aa000000 00000024"

func TestBigEndianMicroseconds(t *testing.T) {
	got, err := readAll(unhex(t, bigEndian))
	if err != nil {
		t.Fatal(err)
	}
	want := &Packet{Stamp: 1_000_001_000, Data: []byte{0xaa}, OrigLen: 1}
	if d := cmp.Diff(Block(want), got[2]); d != "" {
		t.Fatal(d)
	}
}

func TestSimplePacketIsCutAtSnapLen(t *testing.T) {
	b := encode([]Block{&Section{}, &Interface{LinkType: LinkEthernet, SnapLen: 2}})
	b = append(b, unhex(t, "03000000 14000000 09000000 aabb0000 14000000")...)
	got, err := readAll(b)
	if err != nil {
		t.Fatal(err)
	}
	want := &Packet{Data: []byte{0xaa, 0xbb}, OrigLen: 9}
	if d := cmp.Diff(Block(want), got[2]); d != "" {
		t.Fatal(d)
	}
}

func TestUnknownBlocksAndOptionsAreSkipped(t *testing.T) {
	b := encode([]Block{&Section{}})
	b = append(b, unhex(t, "0a000000 10000000 deadbeef 10000000")...)                              // decryption secrets
	b = append(b, unhex(t, "01000000 1c000000 0100 0000 00000000 ff7f 0200 ffff0000 1c000000")...) // option 32767
	got, err := readAll(b)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d blocks, %v", len(got), err)
	}
}

func TestResolution(t *testing.T) {
	for _, c := range []struct {
		ticks uint64
		resol byte
		ns    int64
		ok    bool
	}{
		{5, 0, 5e9, true},
		{5, 6, 5000, true},
		{5, 9, 5, true},
		{5999, 12, 5, true},
		{1 << 63, 29, 0, true},
		{1 << 63, 127, 0, true},
		{1 << 63, 9, 0, false},
		{1 << 62, 0, 0, false},
		{3, 128, 3e9, true},
		{3, 128 | 1, 1.5e9, true},
		{1 << 40, 128 | 40, 1e9, true},
		{1 << 63, 128 | 63, 1e9, true},
		{1 << 63, 128 | 64, 5e8, true},
		{1 << 63, 128 | 127, 0, true},
		{1 << 63, 128 | 10, 0, false},
	} {
		ns, ok := toNanoseconds(c.ticks, c.resol)
		if ok != c.ok || ok && ns != c.ns {
			t.Errorf("%d ticks at %#x: %d, %v; want %d, %v", c.ticks, c.resol, ns, ok, c.ns, c.ok)
		}
	}
}

func TestViolations(t *testing.T) {
	good := encode(sample(t))
	head := encode([]Block{&Section{}, &Interface{}})
	for _, c := range []struct {
		name string
		in   []byte
		want error
		text string
	}{
		{"no section", unhex(t, "01000000 14000000 0100 0000 00000000 14000000"), ErrMalformed, "does not begin"},
		{"bad magic", unhex(t, "0a0d0d0a 1c000000 11223344"), ErrMalformed, "magic"},
		{"version", unhex(t, "0a0d0d0a 1c000000 4d3c2b1a 0200 0000 ffffffffffffffff 1c000000"), ErrMalformed, "version 2.0"},
		{"cut", good[:len(good)-1], ErrTruncated, ""},
		{"cut header", good[:5], ErrTruncated, ""},
		{"odd length", append(head[:len(head):len(head)], unhex(t, "06000000 0d000000")...), ErrMalformed, "block length 13"},
		{"huge length", append(head[:len(head):len(head)], unhex(t, "06000000 f0ffffff")...), ErrMalformed, "block length"},
		{"lengths differ", append(head[:len(head):len(head)], unhex(t, "63000000 0c000000 10000000")...), ErrMalformed, "differ"},
		{"short packet", append(head[:len(head):len(head)], unhex(t, "06000000 10000000 00000000 10000000")...), ErrMalformed, "fixed fields"},
		{"interface", append(head[:len(head):len(head)], (&Packet{Interface: 1}).AppendTo(nil)...), ErrMalformed, "interface 1 is not described"},
		{"captured length", append(head[:len(head):len(head)],
			unhex(t, "06000000 20000000 00000000 00000000 00000000 01000000 01000000 20000000")...), ErrMalformed, "captured length 1"},
		{"option length", append(head[:len(head):len(head)],
			unhex(t, "06000000 28000000 00000000 00000000 00000000 00000000 00000000 0200 0800 00000000 28000000")...), ErrMalformed, "option 2"},
		{"option size", append(head[:len(head):len(head)],
			unhex(t, "06000000 28000000 00000000 00000000 00000000 00000000 00000000 0500 0400 00000000 28000000")...), ErrMalformed, "4 octets instead of 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readAll(c.in)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("error %v; want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	if got := cut("aäb", 2); got != "a" {
		t.Fatalf("cut to %q", got)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for _, b := range sample(t)[3:6] {
		if n := testing.AllocsPerRun(100, func() { buf = b.AppendTo(buf[:0]) }); n != 0 {
			t.Fatalf("%v allocations per %T", n, b)
		}
	}
}

// A journal entry of somebody else has microseconds, and may have fields that
// are no text.
func TestForeignJournal(t *testing.T) {
	body := "__REALTIME_TIMESTAMP=1700000000123456\n_HOSTNAME=h\nPRIORITY=6\nMESSAGE=two\nBINARY\n\x01\x00"
	got := parseJournal([]byte(body + "\x00\x00"))
	want := &Journal{Stamp: 1_700_000_000_123_456_000, Host: "h", Message: []byte("two")}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	lines := Journal{Message: []byte("two\nlines")}
	if got := parseJournal(lines.AppendTo(nil)[8:]); string(got.Message) != "two lines" {
		t.Errorf("%q", got.Message)
	}
}

func BenchmarkPacketAppend(b *testing.B) {
	p := &Packet{Data: make([]byte, 1514), OrigLen: 1514, Has: HasFlags | HasID | HasQueue, Comments: []string{"QP 3 WR 17 RDMA Write"}}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.SetBytes(1514)
	for b.Loop() {
		buf = p.AppendTo(buf[:0])
	}
}

func FuzzReader(f *testing.F) {
	f.Add(encode(sample(f)))
	f.Add(unhex(f, bigEndian))
	f.Fuzz(func(t *testing.T, in []byte) {
		first, _ := readAll(in)
		if len(first) == 0 {
			return
		}
		again, err := readAll(encode(first))
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if d := cmp.Diff(first, again); d != "" {
			t.Fatal(d)
		}
	})
}

// TestTshark has a stock dissector read every field back.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: the cross-check of the written options needs it")
	}
	path := filepath.Join(t.TempDir(), "f.pcapng")
	if err := os.WriteFile(path, encode(sample(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Journal entries have no nanoseconds: what was said is not shown before.
	fields := []string{"frame.time_epoch", "systemd_journal.hostname", "systemd_journal.syslog_id", "systemd_journal.message", "_ws.malformed", "frame.interface_name", "frame.interface_description", "frame.packet_flags_direction",
		"frame.packet_id", "frame.interface_queue", "frame.drop_count", "frame.comment", "frame.len", "frame.cap_len", "arp.src.proto_ipv4"}
	args := []string{"-r", path, "-T", "fields"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "1700000000.123456789\t\t\t\t\tnic0\tMTU 1500\t0x00000002\t77\t3\t4\tQP 3 WR 17,dropped: no route\t42\t42\t10.0.0.1\n" +
		"1700000000.123456790\t\t\t\t\thost\t\t0x00000001\t\t\t\t\t42\t33\t\n" +
		"1700000000.123457000\tnic0\twr\tQP 3 done WR 17 = RDMA Write: success\t\t\t\t\t\t\t\t\t158\t158\t\n"
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Fatal(d)
	}
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
