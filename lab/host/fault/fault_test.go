package fault

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// with makes a rule for a test.
func with(e Effect, w What, set func(*Rule)) Rule {
	r := NewRule(e, w)
	if set != nil {
		set(&r)
	}
	return r
}

// script is a conversation; it returns for each frame what the rule did.
func script(k *talk) (out string) {
	say := func(all ...*Verdict) {
		for _, v := range all {
			if v == nil {
				out += "."
				continue
			}
			out += "x"
		}
		out += " "
	}
	say(k.shake()...)
	req, rep := k.startMPA()
	say(req, rep)
	say(k.message(A, rdmap.Send, 1)...)
	say(k.message(A, rdmap.Write, 3)...)
	say(k.message(A, rdmap.Send, 2)...)
	say(k.message(B, rdmap.Send, 2)...)
	say(k.message(B, rdmap.ReadResponse, 2)...)
	say(k.message(B, rdmap.ReadResponse, 1)...)
	say(k.message(A, rdmap.Write, 2)...)
	say(k.message(B, rdmap.TerminateOp, 1)...)
	return strings.TrimSpace(out)
}

// TestStrikes tells for each frame of a conversation whether a rule strikes it:
// TCP's three, MPA's two, from a: Send, Write of 3 segments, Send of 2; from b:
// Send of 2, Read Response of 2, another; from a: Write of 2; from b:
// Terminate.
func TestStrikes(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{NewRule(Drop, "syn"), "x.. .. . ... .. .. .. . .. ."},
		{NewRule(Drop, "syn-ack"), ".x. .. . ... .. .. .. . .. ."},
		{NewRule(Drop, "ack"), "..x .. . ... .. .. .. . .. ."},
		{NewRule(Drop, "mpa-request"), "... x. . ... .. .. .. . .. ."},
		{NewRule(Drop, "mpa-reply"), "... .x . ... .. .. .. . .. ."},
		{NewRule(Drop, "fpdu"), "... .. x xxx xx xx xx x xx x"},
		{NewRule(Drop, "data"), "... xx x xxx xx xx xx x xx x"},
		{NewRule(Drop, "tcp"), "xxx xx x xxx xx xx xx x xx x"},
		{NewRule(Drop, "frame"), "xxx xx x xxx xx xx xx x xx x"},
		{with(Drop, "fpdu", func(r *Rule) { r.Nth = []int{3} }), "... .. . .x. .. .. x. . .. ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Nth, r.From = []int{3, 5}, A }), "... .. . .x. x. .. .. . .. ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Every, r.From = 2, A }), "... .. . x.x .x .. .. . .x ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Times = 2 }), "... .. x x.. .. .. .. . .. ."},
		{with(Drop, "write", func(r *Rule) { r.Nth = []int{1} }), "... .. . xxx .. .. .. . .. ."},
		{with(Drop, "write", func(r *Rule) { r.Segment = 2 }), "... .. . .x. .. .. .. . .x ."},
		{with(Drop, "write", func(r *Rule) { r.Segment = LastSegment }), "... .. . ..x .. .. .. . .x ."},
		{with(Drop, "send", func(r *Rule) { r.Nth, r.From = []int{2}, A }), "... .. . ... xx .. .. . .. ."},
		{with(Drop, "message", func(r *Rule) { r.Nth = []int{3} }), "... .. . ... xx .. .. x .. ."},
		{with(Delay, "read-response", func(r *Rule) { r.Nth, r.By = []int{2}, time.Second }), "... .. . ... .. .. .. x .. ."},
		{NewRule(Drop, "terminate"), "... .. . ... .. .. .. . .. x"},
		{with(Flip, "write", func(r *Rule) { r.Field, r.Bit = "crc", 7 }), "... .. . x.. .. .. .. . x. ."},
		{with(Flip, "fpdu", func(r *Rule) { r.Field = "msn" }), "... .. x ... xx xx .. . .. x"},
		{with(Flip, "fpdu", func(r *Rule) { r.Field, r.Nth = "stag", []int{4} }), "... .. . ... .. .. .. . x. ."},
		{with(Drop, "fpdu", func(r *Rule) { r.After, r.Times = 500, 1 }), "... .. . ... x. .. .. . .. ."},
		{with(Drop, "tcp", func(r *Rule) { r.After, r.From = 509, A }), "... .. . ... xx .. .. . xx ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Connection = 2 }), "... .. . ... .. .. .. . .. ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Port, r.Nth = 7174, []int{1} }), "... .. x ... .. x. .. . .. ."},
		{with(Drop, "fpdu", func(r *Rule) { r.Port = 9 }), "... .. . ... .. .. .. . .. ."},
	} {
		for _, markers := range []bool{false, true} {
			for tags, v6 := range []bool{false, true} {
				k := newTalk(t, engine(t, 1, tt.rule), 4000)
				k.v6, k.tags = v6, tags
				k.layout[0].Markers, k.layout[1].Markers = markers, markers
				want := tt.want
				if markers && tt.rule.After > 0 {
					continue // the octets differ
				}
				if got := script(k); got != want {
					t.Errorf("%+v, markers %v, IPv6 %v:\n got %s\nwant %s", tt.rule, markers, v6, got, want)
				}
			}
		}
	}
}

// TestSeed: one seed gives one sequence of strikes, another another.
func TestSeed(t *testing.T) {
	run := func(seed uint64) string {
		k := newTalk(t, engine(t, seed, with(Drop, "fpdu", func(r *Rule) { r.Probability = 300_000 }), with(Flip, "write", nil)), 4000)
		out := script(k)
		for range 20 {
			for _, v := range k.message(A, rdmap.Write, 3) {
				if v != nil {
					out += fmt.Sprint(*v)
				}
			}
		}
		return out
	}
	if run(1) != run(1) || run(1) == run(2) {
		t.Error("the strikes do not follow the seed")
	}
}

// receive checks the FPDUs of a segment as their receiver does.
func receive(l mpa.Layout, b []byte) error {
	return mpa.NewReceiver(l, nil).Receive(b, consumer{})
}

type consumer struct{}

func (consumer) ULPDU([]byte) error { return nil }

// TestFlip flips fields of an FPDU: exactly the bit meant is another, the TCP
// checksum is right (or not, if it is to be stale), MPA sees a wrong CRC.
func TestFlip(t *testing.T) {
	for _, tt := range []struct {
		field string
		octet int // in the FPDU; where it is from the end, negative
		bit   int
		mask  byte
		stale bool
	}{
		{"crc", -1, 7, 0x80, false}, {"crc", -4, 31, 0x80, false}, {"crc", -2, 8, 1, true},
		{"length", 1, 0, 1, false}, {"ddp-control", 2, 7, 0x80, false}, {"rdmap-control", 3, 3, 8, false},
		{"stag", 7, 1, 2, false}, {"to", 8, 63, 0x80, false},
	} {
		r := with(Flip, "write", func(r *Rule) { r.Field, r.Bit, r.Stale = tt.field, tt.bit, tt.stale })
		k := newTalk(t, engine(t, 1, r), 4000).start()
		fpdu := k.fpdu(A, k.header(A, rdmap.Write, 0, 1), []byte("twenty-one octets now"))
		b := k.frame(A, k.seq[A], tcp.ACK, fpdu)
		was := bytes.Clone(b)
		v := k.send(A, fpdu)
		if v == nil || v.Drop || len(v.Flips) != 1 || len(v.Struck) != 1 {
			t.Fatalf("%s: %+v", tt.field, v)
		}
		v.Apply(b)
		at := len(b) - len(fpdu) + tt.octet
		if tt.octet < 0 {
			at = len(b) + tt.octet
		}
		if b[at]^was[at] != tt.mask {
			t.Errorf("%s bit %d: %v", tt.field, tt.bit, v)
		}
		x := look(b)
		if x.broken != tt.stale {
			t.Errorf("%s: checksum wrong: %v", tt.field, x.broken)
		}
		if err := receive(k.layout[A], b[len(b)-len(fpdu):]); tt.field != "length" && !errors.Is(err, &mpa.Error{Code: mpa.CRC}) {
			t.Errorf("%s: MPA says %v", tt.field, err)
		}
		b[at] = was[at]
		b[x.sum], b[x.sum+1] = was[x.sum], was[x.sum+1]
		if !bytes.Equal(b, was) {
			t.Errorf("%s: more than the bit and the checksum differ", tt.field)
		}
	}
}

// TestFlipBehindMarkers finds the field of an FPDU that markers divide and that
// lies in several TCP segments.
func TestFlipBehindMarkers(t *testing.T) {
	for _, field := range []string{"crc", "payload", "to"} {
		k := newTalk(t, engine(t, 3, with(Flip, "write", func(r *Rule) { r.Field, r.Nth = field, []int{2} })), 4000)
		k.layout[0].Markers, k.layout[1].Markers = true, true
		k.start()
		k.message(A, rdmap.Write, 1)
		fpdu := k.fpdu(A, k.header(A, rdmap.Write, 0, 1), make([]byte, 3000))
		var got []byte
		struck := 0
		for rest := fpdu; len(rest) > 0; {
			n := min(len(rest), 700)
			b := k.frame(A, k.seq[A], tcp.ACK, rest[:n])
			if v := k.send(A, rest[:n]); v != nil {
				struck++
				v.Apply(b)
			}
			got, rest = append(got, b[len(b)-n:]...), rest[n:]
		}
		differ := 0
		for i := range got {
			if got[i] != fpdu[i] {
				differ++
			}
		}
		if struck != 1 || differ != 1 {
			t.Fatalf("%s: %d segments struck, %d octets differ", field, struck, differ)
		}
	}
}

// TestRetransmissions: what was sent before is not another FPDU; a rule strikes
// as many transmissions as it says.
func TestRetransmissions(t *testing.T) {
	for _, transmissions := range []int{0, 1, 3} {
		k := newTalk(t, engine(t, 1, with(Drop, "fpdu", func(r *Rule) { r.Nth, r.Transmissions = []int{2}, transmissions })), 4000).start()
		var sent [][]byte
		out := ""
		note := func(v *Verdict) {
			if v == nil {
				out += "."
			} else {
				out += "x"
			}
		}
		begin := k.seq[A]
		for i := range 3 {
			b := k.fpdu(A, k.header(A, rdmap.Send, i, 3), make([]byte, 50))
			sent = append(sent, b)
			note(k.send(A, b))
		}
		for range 4 {
			at := begin
			for _, b := range sent {
				note(k.judge(A, k.frame(A, at, tcp.ACK, b)))
				at = at.Add(len(b))
			}
		}
		want := map[int]string{0: ".x.............", 1: ".x.............", 3: ".x..x..x......."}[transmissions]
		if c := k.e.Counts()[0]; out != want || c.Struck != 1 {
			t.Errorf("%d transmissions: %s, want %s; %+v", transmissions, out, want, c)
		}
	}
}

// TestGap: what passes behind a gap of the stream is not struck but counted, and
// the rule says why.
func TestGap(t *testing.T) {
	k := newTalk(t, engine(t, 1, with(Drop, "fpdu", func(r *Rule) { r.Nth = []int{2} }), with(Drop, "fpdu", func(r *Rule) { r.Nth = []int{4} })), 4000).start()
	at := k.seq[A]
	one := k.fpdu(A, k.header(A, rdmap.Send, 0, 1), make([]byte, 50))
	for i := 3; i > 0; i-- {
		if v := k.judge(A, k.frame(A, at.Add(i*len(one)), tcp.ACK, one)); i < 3 && v != nil {
			t.Errorf("FPDU %d: %+v", i, v)
		}
	}
	if v := k.judge(A, k.frame(A, at, tcp.ACK, one)); v != nil {
		t.Errorf("the first: %+v", v)
	}
	k.seq[A] = at.Add(4 * len(one))
	k.message(A, rdmap.Send, 1)
	for _, c := range k.e.Counts() {
		if c.Missed != 1 || c.Struck != 0 || !strings.Contains(c.Silent().Error(), "behind a gap") {
			t.Errorf("%+v: %v", c, c.Silent())
		}
	}
}

// TestReset: both ends are told, and told again when they speak, with the
// sequence number that they expect; a new connection of the same ports lives.
func TestReset(t *testing.T) {
	for _, tt := range []struct {
		to       Side
		injected int // by the segment
		again    [2]int
	}{{Either, 2, [2]int{1, 1}}, {A, 1, [2]int{1, 0}}, {B, 1, [2]int{0, 1}}} {
		k := newTalk(t, engine(t, 1, with(Reset, "tcp", func(r *Rule) { r.After, r.To = 100, tt.to })), 4000)
		k.v6 = tt.to == B
		k.start()
		if v := k.message(B, rdmap.Send, 1)[0]; v == nil || !v.Drop || len(v.Inject) != tt.injected || len(v.Struck) != 1 {
			t.Fatalf("%+v", v)
		}
		for from := A; from <= B; from++ {
			expects := k.seq[1-from]
			v := k.judge(from, k.frame(from, k.seq[from], tcp.ACK, []byte("more")))
			if v == nil || !v.Drop || len(v.Inject) != tt.again[from] || len(v.Struck) != 0 {
				t.Fatalf("to %d, from %d: %+v", tt.to, from, v)
			}
			for _, i := range v.Inject {
				x := look(i.Frame)
				if i.From != 1-from || x.broken || !x.is(rst) || x.tcp.Seq != expects || x.dst.Port() != []uint16{4000, 7174}[from] {
					t.Errorf("to %d, from %d: %+v", tt.to, from, x)
				}
			}
		}
		if v := k.judge(A, k.frame(A, k.seq[A], tcp.RST, nil)); v == nil || len(v.Inject) > 0 {
			t.Errorf("an RST is answered: %+v", v)
		}
		k.seq = [2]tcp.Seq{5, 6}
		for _, v := range k.shake() {
			if v != nil {
				t.Errorf("the next connection: %+v", v)
			}
		}
	}
}

// TestRefusedSYN: a SYN is answered as a closed port does.
func TestRefusedSYN(t *testing.T) {
	k := newTalk(t, engine(t, 1, with(Reset, "syn", func(r *Rule) { r.To = A })), 4000)
	v := k.judge(A, k.frame(A, 500, tcp.SYN, nil))
	if v == nil || len(v.Inject) != 1 {
		t.Fatalf("%+v", v)
	}
	if x := look(v.Inject[0].Frame); x.tcp.Ack != 501 || x.tcp.Seq != 0 || !x.is(rst|ack) {
		t.Errorf("%+v", x.tcp)
	}
}

// TestTogether: several rules strike one frame, and a rule several connections,
// each counted for itself.
func TestTogether(t *testing.T) {
	e := engine(t, 1, with(Delay, "fpdu", func(r *Rule) { r.By = time.Millisecond }), with(Duplicate, "fpdu", func(r *Rule) { r.Copies = 2 }),
		with(Reorder, "send", func(r *Rule) { r.Behind = 4 }), with(Flip, "fpdu", nil), with(Drop, "fpdu", func(r *Rule) { r.Nth, r.Connection = []int{2}, 2 }))
	a, b := newTalk(t, e, 4000).start(), newTalk(t, e, 4001).start()
	for _, k := range []*talk{a, b} {
		v := k.message(A, rdmap.Send, 1)[0]
		if v.Delay != time.Millisecond || v.Copies != 2 || v.Behind != 4 || len(v.Flips) != 1 || len(v.Struck) != 4 || v.Drop {
			t.Errorf("%+v", v)
		}
	}
	if a.message(A, rdmap.Send, 1)[0].Drop || !b.message(A, rdmap.Send, 1)[0].Drop {
		t.Error("the wrong connection")
	}
	if note := b.message(A, rdmap.Send, 1)[0].Note(); !strings.HasPrefix(note, "delay-fpdu: delayed: FPDU 3 (Send 3, segment 1) from a, connection 2; ") {
		t.Error(note)
	}
}

// TestSetRules: rules that come later count from then on, in connections that
// were there before; those that were keep their counts.
func TestSetRules(t *testing.T) {
	e := engine(t, 1, NewRule(Drop, "syn"))
	k := newTalk(t, e, 4000).start()
	k.message(A, rdmap.Write, 2)
	if err := e.SetRules([]Rule{with(Drop, "write", func(r *Rule) { r.Nth = []int{2} })}); err != nil {
		t.Fatal(err)
	}
	if v := k.message(A, rdmap.Write, 1)[0]; v != nil {
		t.Errorf("%+v", v)
	}
	if v := k.message(A, rdmap.Write, 1)[0]; v == nil {
		t.Error("not struck")
	}
	if c := e.Counts(); len(c) != 2 || c[0].Struck != 1 || c[1].Struck != 1 || c[0].Silent() != nil {
		t.Errorf("%+v", c)
	}
}

// TestOthers: PTP, packets of a fabric, ARP and IPv4 fragments.
func TestOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		hits []What
	}{
		{"ARP", ethernet(0x0806, make([]byte, 28)), []What{"frame", "arp"}},
		{"PTP Sync", ethernet(0x88f7, append([]byte{0x00, 2, 0, 44}, make([]byte, 40)...)), []What{"frame", "ptp", "sync"}},
		{"PTP Follow_Up", ethernet(0x88f7, append([]byte{0x08, 2, 0, 44}, make([]byte, 40)...)), []What{"frame", "ptp", "follow-up"}},
		{"16B", ethernet(0x88b5, make([]byte, 64)), []What{"frame", "16b"}},
		{"short", []byte{1, 2, 3}, []What{"frame"}},
	} {
		whats, _ := Whats()
		var hits []What
		for _, w := range whats {
			e := engine(t, 1, NewRule(Drop, w))
			if e.Judge(B, tt.b, 0) != nil {
				hits = append(hits, w)
			}
		}
		if !reflect.DeepEqual(hits, tt.hits) {
			t.Errorf("%s: %v", tt.name, hits)
		}
	}
}

func ethernet(typ uint16, body []byte) []byte {
	return append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, byte(typ >> 8), byte(typ)}, body...)
}

// TestBroken: a segment with a wrong checksum, which nobody takes, is no FPDU.
// One whose checksum is left to be completed is.
func TestBroken(t *testing.T) {
	for i, want := range []bool{false, true} {
		k := newTalk(t, engine(t, 1, NewRule(Drop, "write")), 4000).start()
		b := k.frame(A, k.seq[A], tcp.ACK, k.fpdu(A, k.header(A, rdmap.Write, 0, 1), nil))
		x := look(b)
		sum := uint16(1)
		if i == 1 {
			sum = ip.Fold(ip.PseudoSum(x.ip.Src, x.ip.Dst, ip.ProtoTCP, x.ip.PayloadLen))
		}
		b[x.sum], b[x.sum+1] = byte(sum>>8), byte(sum)
		if v := k.judge(A, b); (v != nil) != want {
			t.Errorf("%d: %+v", i, v)
		}
	}
}

// TestCheck: rules that make no sense are told apart.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		key  string
	}{
		{with(Drop, "fpdu", func(r *Rule) { r.Nth, r.Every = []int{1}, 2 }), "nth"},
		{with(Drop, "sync", func(r *Rule) { r.Connection = 1 }), "connection"},
		{with(Drop, "fpdu", func(r *Rule) { r.Segment = 1 }), "segment"},
		{with(Drop, "fpdu", func(r *Rule) { r.L4 = 1 }), "l4"},
		{NewRule(Reset, "sync"), "reset"}, {NewRule(Delay, "fpdu"), "delay"},
		{with(Drop, "fpdu", func(r *Rule) { r.By = 1 }), "by"},
		{with(Drop, "tcp", func(r *Rule) { r.Transmissions = 2 }), "transmissions"},
		{with(Flip, "fpdu", func(r *Rule) { r.Field = "colour" }), "field"},
		{with(Flip, "fpdu", func(r *Rule) { r.Field, r.Bit = "crc", 32 }), "bit"},
		{with(Flip, "fpdu", func(r *Rule) { r.Bit = 8 }), "bit"},
		{with(Flip, "sync", func(r *Rule) { r.Field = "crc" }), "field"},
		{NewRule(Drop, "unicorn"), "drop"},
		{with(Drop, "syn", func(r *Rule) { r.NIC, r.QPN = "a", 1 }), "qp"},
		{with(Drop, "fpdu", func(r *Rule) { r.QPN = 1 }), "qp"},
	} {
		if key, err := tt.rule.Check(); err == nil || key != tt.key {
			t.Errorf("%+v: %q, %v", tt.rule, key, err)
		}
		if err := New(1, [2]string{}).SetRules([]Rule{tt.rule}); err == nil {
			t.Errorf("%+v is taken", tt.rule)
		}
	}
}

// TestTiny: FPDUs too short for their headers are FPDUs of no kind, and a split
// header is waited for.
func TestTiny(t *testing.T) {
	k := newTalk(t, engine(t, 1, NewRule(Drop, "message"), NewRule(Duplicate, "fpdu")), 4000).start()
	for n := range 14 {
		b := make([]byte, k.layout[A].FPDULen(0, n))
		k.layout[A].Put(b, 0, nil, make([]byte, n))
		if v := k.send(A, b); v == nil || v.Drop || v.Copies != 1 {
			t.Fatalf("%d octets: %+v", n, v)
		}
	}
	whole := k.fpdu(A, rdmap.TaggedHeader(rdmap.Write, true, 1, 2), make([]byte, 40))
	first, second := k.send(A, whole[:ddp.TaggedLen]), k.send(A, whole[ddp.TaggedLen:])
	if first != nil || second == nil || !second.Drop {
		t.Errorf("%+v, %+v", first, second)
	}
}
