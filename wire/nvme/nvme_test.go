package nvme

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/session.txt
var session string

// message is one of the captured session.
type message struct {
	kind string // "host send"
	data []byte
}

func messages(t testing.TB) (list []message) {
	for line := range strings.Lines(session) {
		var who, kind, digits string
		var port, n int
		if _, err := fmt.Sscan(line, &who, &kind, &port, &n, &digits); err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Trim(digits, "-"))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, message{who + " " + kind, append(b, make([]byte, n-len(b))...)})
	}
	return list
}

// TestSession reads a session of Linux and writes the same octets.
func TestSession(t *testing.T) {
	seen := map[string]int{}
	for i, m := range messages(t) {
		var again []byte
		switch m.kind {
		case "host mpa":
			r, reason := ParseRequest(m.data[4:])
			if reason != 0 {
				t.Errorf("message %d: %v", i, reason)
			}
			again = r.Append(m.data[:4:4])
		case "target mpa":
			n, err := ParseReply(m.data[4:])
			if err != nil || n != 32 && n != 16 {
				t.Errorf("message %d: %d, %v", i, n, err)
			}
			again = AppendReply(m.data[:4:4], n)
		case "host send":
			again = rewrite(t, i, m.data, seen)
		case "target send":
			c, err := ParseCompletion(m.data)
			if err != nil || c.Status != Success {
				t.Errorf("message %d: %+v, %v", i, c, err)
			}
			again = c.Append(nil)
		default:
			continue
		}
		if !bytes.Equal(again, m.data) {
			t.Errorf("message %d, %s:\n%x, want\n%x", i, m.kind, again, m.data)
		}
	}
	want := map[string]int{"connect": 2, "property": 9, "identify": 6, "log": 3, "read": 3}
	for what, n := range want {
		if seen[what] < n {
			t.Errorf("%d times %s, want %d: %v", seen[what], what, n, seen)
		}
	}
}

// rewrite reads a command and writes it.
func rewrite(t *testing.T, i int, data []byte, seen map[string]int) []byte {
	c := Command(data)
	var again Command
	again.Set(c.Opcode(), c.ID())
	if !c.HasSGL() || c.Fused() {
		t.Errorf("message %d: flags %#x", i, data[1])
	}
	again.SetSGL(c.SGL())
	if s := c.SGL(); s.Kind == KeyedInvalidate && (s.Length == 0 || s.Key == 0) {
		t.Errorf("message %d: %+v", i, s)
	}
	switch {
	case c.Opcode() != Fabrics:
		again.SetNSID(c.NSID())
		for n := 10; n < 16; n++ {
			again.SetDWord(n, c.DWord(n))
		}
	case c.FabricsType() == Connect:
		seen["connect"]++
		again.SetFabricsType(Connect)
		f, ok := c.Connect()
		if !ok {
			t.Errorf("message %d: %+v", i, f)
		}
		again.SetConnect(f)
	default:
		seen["property"]++
		again.SetFabricsType(c.FabricsType())
		again.SetProperty(c.Property())
	}
	switch c.Opcode() {
	case Identify:
		seen["identify"]++
	case GetLogPage:
		if c.NSID() == 1 { // of an I/O queue, where it is Read
			seen["read"]++
			again.SetLBA(c.LBA(), c.Blocks())
			break
		}
		seen["log"]++
		again.SetLogPage(c.LogPage())
		again.SetDWord(10, c.DWord(10)) // it has more fields
	}
	return append(again[:], data[SQELen:]...)
}

// TestConnectData reads what Linux connects with.
func TestConnectData(t *testing.T) {
	for _, m := range messages(t) {
		if m.kind != "target read" && m.kind != "host read" {
			continue
		}
		d, err := ParseConnectData(m.data)
		if err != nil || !strings.HasPrefix(d.Host, "nqn.2014-08.org.nvmexpress:uuid:") || d.CntlID != AnyController {
			t.Errorf("%+v, %v", d, err)
		}
		if !bytes.Equal(d.Append(nil), m.data) {
			t.Errorf("%+v is written otherwise", d)
		}
		return
	}
	t.Error("no Connect")
}

// TestIdentify reads the structures of Linux's controller and of its namespace.
func TestIdentify(t *testing.T) {
	var data [][]byte
	for _, m := range messages(t) {
		if m.kind == "target write" && len(m.data) == IdentifyLen {
			data = append(data, m.data)
		}
	}
	c, err := ParseController(data[0])
	if err != nil || c.Firmware != "6.1.0-56" || c.Model != "Linux" || c.Serial != "50317f9cdf487da95a03" ||
		c.CapsuleLen < SQELen || c.EventRequests != 4 || c.Discovery {
		t.Errorf("%+v, %v", c, err)
	}
	found := slices.ContainsFunc(data, func(b []byte) bool {
		n, err := ParseNamespace(b)
		return err == nil && n.Blocks > 1000 && n.BlockLen == 512
	})
	if !found {
		t.Errorf("no namespace in %d structures", len(data))
	}
}

// TestRoundTrip: what is written is read again.
func TestRoundTrip(t *testing.T) {
	c := ControllerInfo{Serial: "1", Model: "tapir", Firmware: "1.0", SubNQN: "nqn.x", CntlID: 7, Version: 0x10400, MDTS: 8,
		Events: EventNamespace, EventRequests: 4, ErrorEntries: 8, MaxCommand: 128, Namespaces: 2, Commands: HasDSM, VolatileCache: true,
		CapsuleLen: SQELen + 4096}
	if got, err := ParseController(c.Append(nil)); err != nil || got != c {
		t.Errorf("%+v, %v", got, err)
	}
	n := NamespaceInfo{Blocks: 1 << 30, BlockLen: 4096, Used: 5, Thin: true, Protected: true, NGUID: [16]byte{1, 2}}
	if got, err := ParseNamespace(n.Append(nil)); err != nil || got != n {
		t.Errorf("%+v, %v", got, err)
	}
	list := []Entry{
		{netip.MustParseAddrPort("10.0.0.1:4420"), "nqn.a", false, 1, ProviderRoCEv2},
		{netip.MustParseAddrPort("[fd00::1]:80"), DiscoveryNQN, true, 2, ProviderIWARP},
	}
	got, total, err := ParseDiscovery(AppendDiscovery(nil, 1, list))
	if err != nil || total != 2 || !reflect.DeepEqual(got, list) {
		t.Errorf("%+v, %d, %v", got, total, err)
	}
	if list := AppendNamespaces(nil, 1, 3); !bytes.Equal(list[:12], []byte{2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("% x", list[:12])
	}
	ranges := []Range{{1 << 40, 8}, {3, 1}}
	if got := ParseRanges(ranges[1].Append(ranges[0].Append(nil))); !slices.Equal(got, ranges) {
		t.Errorf("%+v", got)
	}
	if r := ParseReject(AppendReject(nil, InvalidQID)); r != InvalidQID || r.String() != "invalid queue ID" {
		t.Errorf("%v", r)
	}
	if e := MaxEntries(Capabilities(128, 1)); e != 128 {
		t.Errorf("%d entries", e)
	}
	if s := (LBAOutOfRange | DNR).String(); s != "LBA out of range (0/80)" {
		t.Error(s)
	}
}

// FuzzParse: no octets bring the readers down, and what is read is written the same.
func FuzzParse(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m.data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseController(b)
		_, _ = ParseNamespace(b)
		_, _, _ = ParseDiscovery(b)
		_ = ParseRanges(b)
		if d, err := ParseConnectData(b); err == nil {
			_ = d.Append(nil)
		}
		if r, reason := ParseRequest(b); reason == 0 {
			if again, _ := ParseRequest(r.Append(nil)); again != r {
				t.Errorf("%+v, then %+v", r, again)
			}
		}
		if c, err := ParseCompletion(b); err == nil {
			if again, _ := ParseCompletion(c.Append(nil)); again != c {
				t.Errorf("%+v, then %+v", c, again)
			}
		}
		_ = ParseReject(b).String()
		if len(b) >= SQELen {
			c := Command(b[:SQELen])
			again := c
			again.SetSGL(c.SGL())
			if s := c.SGL(); again.SGL() != s {
				t.Errorf("%+v, then %+v", s, again.SGL())
			}
			c.LogPage()
			c.Property()
			c.Connect()
		}
	})
}

// TestDescribeCapsule: whatever a peer sends has a text.
func TestDescribeCapsule(t *testing.T) {
	b := make([]byte, SQELen)
	b[0], b[2], b[4] = byte(Write), 7, 1
	b[40], b[48] = 8, 7
	for n := range len(b) + 1 {
		for _, admin := range []bool{false, true} {
			for _, command := range []bool{false, true} {
				if len(DescribeCapsule(nil, b[:n], admin, command)) == 0 {
					t.Errorf("%d octets, admin %v, command %v: no text", n, admin, command)
				}
			}
		}
	}
	if got := string(DescribeCapsule(nil, b, false, true)); got != "NVMe Write CID 7 namespace 1, 8 blocks at 8" {
		t.Error(got)
	}
}
