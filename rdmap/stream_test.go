package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tapir/ddp"
)

// fake is an upper layer with one memory region of STag 0x100 at 0x1000, one
// of 0x200 that may only be read, and a queue of work.
type fake struct {
	work  []Work
	mem   [8192]byte
	recvs []int
	tape  []string
}

func (f *fake) say(format string, args ...any) { f.tape = append(f.tape, fmt.Sprintf(format, args...)) }

func (f *fake) NextWork() (Work, bool) {
	if len(f.work) == 0 {
		return Work{}, false
	}
	return f.work[0], true
}

func (f *fake) BeginWork() { f.work = f.work[1:] }

func (f *fake) check(stag uint32, to, n uint64, write bool) Fault {
	switch {
	case stag == 0x200 && write:
		return FaultAccess
	case stag == 0x300:
		return FaultPD
	case stag != 0x100 && stag != 0x200:
		return FaultSTag
	case to+n < to:
		return FaultWrap
	case to < 0x1000 || to+n > 0x2000:
		return FaultBounds
	}
	return FaultNone
}

func (f *fake) PlaceWrite(stag uint32, to, n, off uint64, p []byte) Fault {
	if fault := f.check(stag, to, n, true); fault != FaultNone {
		return fault
	}
	copy(f.mem[to-0x1000+off:], p)
	return FaultNone
}

func (f *fake) CheckRead(stag uint32, to, n uint64) Fault { return f.check(stag, to, n, false) }

func (f *fake) NextRecv() (uint64, Fault, bool) {
	if len(f.recvs) == 0 {
		return 0, FaultNone, false
	}
	return uint64(f.recvs[0]), FaultNone, true
}

func (f *fake) PlaceRecv(p []byte, off uint64) Fault {
	copy(f.mem[off:], p)
	return FaultNone
}

func (f *fake) RecvDone(r Received) {
	f.recvs = f.recvs[1:]
	if r.Op.IsImmediate() {
		f.say("recv %v %q after write %v of %d", r.Op, r.Imm[:], r.AfterWrite, r.Length)
		return
	}
	f.say("recv %v %d %#x", r.Op, r.Length, r.Invalidated)
}

func (f *fake) Atomic(req *AtomicRequest) (uint64, Fault) {
	if fault := f.check(req.STag, req.TO, 8, true); fault != FaultNone {
		return 0, fault
	}
	if req.TO%8 != 0 {
		return 0, FaultAlign
	}
	at := f.mem[req.TO-0x1000:]
	original := binary.BigEndian.Uint64(at)
	stored, _ := req.Apply(original)
	binary.BigEndian.PutUint64(at, stored)
	return original, FaultNone
}

func (f *fake) AtomicDone(ref, original uint64) Fault {
	f.say("atomic %d found %d", ref, original)
	return FaultNone
}

func (f *fake) Invalidate(stag uint32) Fault {
	if stag != 0x100 {
		return FaultSTag
	}
	return FaultNone
}

func (f *fake) PlaceRead(_ uint64, p []byte, off uint64) Fault {
	copy(f.mem[off:], p)
	return FaultNone
}

func (f *fake) ReadDone(ref uint64) { f.say("read %d", ref) }

// encode makes the ULPDU of an outbound segment, zeros as payload.
func encode(seg *Segment) []byte {
	b := seg.Header.AppendTo(nil)
	if seg.Control != nil {
		return append(b, seg.Control...)
	}
	return append(b, make([]byte, seg.Len)...)
}

// sent cuts everything the stream has to send and describes it.
func sent(s *Stream, mulpdu int) (out []string, ulpdus [][]byte) {
	var seg Segment
	for {
		if _, _, ok := s.Choose(); !ok {
			return out, ulpdus
		}
		s.Cut(mulpdu, &seg)
		last := ""
		if seg.Header.Last {
			last = " last"
		}
		ref := ""
		if seg.Ref != NoRef {
			ref = fmt.Sprintf(" %d", seg.Ref)
		}
		out = append(out, fmt.Sprintf("%v%s %d+%d%s", seg.Op, ref, seg.Off, seg.Len, last))
		ulpdus = append(ulpdus, encode(&seg))
	}
}

func readRequest(sink uint64, size uint32, stag uint32, to uint64, msn uint32) []byte {
	h := UntaggedHeader(ReadRequestOp, true, 0, msn, 0)
	r := ReadRequest{SinkSTag: 0x900, SinkTO: sink, Size: size, SourceSTag: stag, SourceTO: to}
	return r.AppendTo(h.AppendTo(nil))
}

// atomicRequest adds, swaps or compares 5 with 0.
func atomicRequest(op AtomicOp, stag uint32, to uint64, msn uint32) []byte {
	h := UntaggedHeader(AtomicRequestOp, true, 0, msn, 0)
	r := AtomicRequest{Op: op, ID: msn, STag: stag, TO: to, Data: 5, Mask: ^uint64(0), Compare: 1, CompareMask: ^uint64(0)}
	return r.AppendTo(h.AppendTo(nil))
}

func TestChoiceOfMessages(t *testing.T) {
	f := &fake{}
	s := NewStream(f, Limits{IRD: 8, ORD: 1})
	for i := range uint32(3) {
		if err := s.Receive(readRequest(0, 1000, 0x100, 0x1000, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	f.work = []Work{
		{Op: Write, Ref: 1, Length: 1000},
		{Op: ReadRequestOp, Ref: 2, Length: 10, SinkSTag: 7, SinkTO: 70},
		{Op: Send, Ref: 3, Length: 0},
		{Op: ReadRequestOp, Ref: 4, Length: 10, SinkSTag: 7, SinkTO: 80},
		{Op: Write, Ref: 5, Fence: true, Length: 5},
	}
	got, _ := sent(s, 614)
	want := []string{
		"RDMA Read Response 0+600", "RDMA Read Response 600+400 last",
		"RDMA Write 1 0+600", "RDMA Write 1 600+400 last",
		"RDMA Read Response 0+600", "RDMA Read Response 600+400 last",
		"RDMA Read Request 2 0+28 last",
		"RDMA Read Response 0+600", "RDMA Read Response 600+400 last",
		"Send 3 0+0 last",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	respond := func(to uint64) {
		h := TaggedHeader(ReadResponse, true, 7, to)
		if err := s.Receive(append(h.AppendTo(nil), make([]byte, 10)...)); err != nil {
			t.Fatal(err)
		}
	}
	respond(70)
	if got, _ := sent(s, 614); !slices.Equal(got, []string{"RDMA Read Request 4 0+28 last"}) {
		t.Errorf("after the first response: %v", got)
	}
	respond(80)
	if got, _ := sent(s, 614); !slices.Equal(got, []string{"RDMA Write 5 0+5 last"}) {
		t.Errorf("after the fence: %v", got)
	}
	if !slices.Equal(f.tape, []string{"read 2", "read 4"}) || !s.Idle() {
		t.Errorf("tape %v", f.tape)
	}
}

// A stream that repeats segments cuts a message where Cut would have.
func TestRepeat(t *testing.T) {
	for _, c := range []struct{ length, most, want, left int }{
		{1000, 9, 0, 400},  // the last one is never repeated
		{1200, 9, 0, 600},  // nor if it is a full one
		{6100, 9, 9, 100},  // 10 * 600 + 100
		{6100, 4, 4, 3100}, // as many as asked for
		{50_000, 0, 0, 49_400},
	} {
		f := &fake{work: []Work{{Op: Write, Ref: 1, Length: uint64(c.length)}}}
		s := NewStream(f, Limits{})
		s.Choose()
		var seg Segment
		s.Cut(614, &seg)
		got := s.Repeat(&seg, c.most)
		if _, left, ok := s.Choose(); got != c.want || int(left) != c.left || !ok {
			t.Errorf("%+v: %d segments, then %d octets, %v", c, got, left, ok)
		}
		if want := uint64(c.length - c.left); s.Counters.TxBytes != want {
			t.Errorf("%+v: %d octets counted, want %d", c, s.Counters.TxBytes, want)
		}
	}
}

// Two streams, back to back.
func TestMessagesArrive(t *testing.T) {
	a, b := &fake{}, &fake{recvs: []int{100, 100, 5000, 0}}
	sa, sb := NewStream(a, Limits{IRD: 4, ORD: 4}), NewStream(b, Limits{IRD: 4, ORD: 4})
	a.work = []Work{
		{Op: Send, Length: 100}, {Op: SendSEInvalidate, Length: 0, Invalidate: 0x100},
		{Op: SendSE, Length: 5000}, {Op: SendInvalidate, Invalidate: 0x100},
		{Op: Write, Length: 4096, STag: 0x100, TO: 0x1000}, {Op: Write, STag: 0xbad, TO: 0xbad},
		{Op: ReadRequestOp, Ref: 6, Length: 4096, STag: 0x100, TO: 0x1000, SinkSTag: 1, SinkTO: 2},
		{Op: ReadRequestOp, Ref: 7, STag: 0xbad, SinkSTag: 1, SinkTO: 2},
	}
	for range 3 {
		for _, d := range []struct{ from, to *Stream }{{sa, sb}, {sb, sa}} {
			_, ulpdus := sent(d.from, 1442)
			for _, u := range ulpdus {
				if err := d.to.Receive(u); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if want := []string{"recv Send 100 0x0", "recv Send with Solicited Event and Invalidate 0 0x100",
		"recv Send with Solicited Event 5000 0x0", "recv Send with Invalidate 0 0x100"}; !slices.Equal(b.tape, want) {
		t.Errorf("tape %q", b.tape)
	}
	if !slices.Equal(a.tape, []string{"read 6", "read 7"}) {
		t.Errorf("tape %q", a.tape)
	}
	if sa.Counters.TxBytes != 100+5000+4096+2*ReadRequestLen || sb.Counters.RxMessages[Write] != 2 {
		t.Errorf("%+v", sa.Counters)
	}
}

func tagged(op Opcode, last bool, stag uint32, to uint64, n int) []byte {
	h := TaggedHeader(op, last, stag, to)
	return append(h.AppendTo(nil), bytes.Repeat([]byte{0xee}, n)...)
}

func untagged(op Opcode, last bool, inv, msn, mo uint32, n int) []byte {
	h := UntaggedHeader(op, last, inv, msn, mo)
	return append(h.AppendTo(nil), bytes.Repeat([]byte{0xee}, n)...)
}

func edit(b []byte, at int, v byte) []byte {
	b[at] = v
	return b
}

func TestInboundErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		in   [][]byte
		want string // Terminate: layer/type/code and headers
	}{
		{"shorter than a header", [][]byte{{0x41}}, "2/0/0x03 "},
		{"tagged, too short", [][]byte{tagged(Write, true, 0x100, 0, 0)[:13]}, "2/0/0x03 "},
		{"DDP version, tagged", [][]byte{edit(tagged(Write, true, 0x100, 0x1000, 1), 0, 0xc2)}, "1/1/0x04 D"},
		{"DDP version, untagged", [][]byte{edit(untagged(Send, true, 0, 1, 0, 1), 0, 0x40)}, "1/2/0x06 D"},
		{"RDMAP version", [][]byte{edit(tagged(Write, true, 0x100, 0x1000, 1), 1, 0x80)}, "0/2/0x05 D"},
		{"opcode 12", [][]byte{edit(untagged(Send, true, 0, 1, 0, 8), 1, 0x4c)}, "0/2/0x06 D"},
		{"opcode 15", [][]byte{edit(untagged(Send, true, 0, 1, 0, 8), 1, 0x4f)}, "0/2/0x06 D"},
		{"tagged Send", [][]byte{edit(tagged(Write, true, 0x100, 0x1000, 1), 1, 0x43)}, "0/2/0x06 D"},
		{"untagged Write", [][]byte{edit(untagged(Send, true, 0, 1, 0, 1), 1, 0x40)}, "0/2/0x06 D"},
		{"Send on queue 1", [][]byte{edit(untagged(Send, true, 0, 1, 0, 1), 9, 1)}, "1/2/0x01 D"},
		{"queue 4", [][]byte{edit(untagged(Send, true, 0, 1, 0, 1), 9, 4)}, "1/2/0x01 D"},
		{"MSN repeated", [][]byte{untagged(Send, true, 0, 1, 0, 1), untagged(Send, true, 0, 1, 0, 1)}, "1/2/0x03 D"},
		{"MSN skipped", [][]byte{untagged(Send, true, 0, 2, 0, 1)}, "1/2/0x03 D"},
		{"MO", [][]byte{untagged(Send, false, 0, 1, 0, 1), untagged(Send, true, 0, 1, 2, 1)}, "1/2/0x04 D"},
		{"no receive", [][]byte{untagged(Send, true, 0, 1, 0, 1), untagged(Send, true, 0, 2, 0, 1)}, "1/2/0x02 D"},
		{"too long", [][]byte{untagged(Send, true, 0, 1, 0, 101)}, "1/2/0x05 D"},
		{"too long, second segment", [][]byte{untagged(Send, false, 0, 1, 0, 100), untagged(Send, true, 0, 1, 100, 1)}, "1/2/0x05 D"},
		{"Write, STag", [][]byte{tagged(Write, true, 0x500, 0x1000, 1)}, "1/1/0x00 D"},
		{"Write, right", [][]byte{tagged(Write, true, 0x200, 0x1000, 1)}, "0/1/0x02 D"},
		{"Write, PD", [][]byte{tagged(Write, true, 0x300, 0x1000, 1)}, "1/1/0x02 D"},
		{"Write, bounds", [][]byte{tagged(Write, true, 0x100, 0x1fff, 2)}, "1/1/0x01 D"},
		{"Write, wrap", [][]byte{tagged(Write, true, 0x100, ^uint64(0), 2)}, "1/1/0x03 D"},
		{"Write, STag changes", [][]byte{tagged(Write, false, 0x100, 0x1000, 1), tagged(Write, true, 0x200, 0x1001, 1)}, "1/1/0x00 D"},
		{"Write, TO jumps", [][]byte{tagged(Write, false, 0x100, 0x1000, 1), tagged(Write, true, 0x100, 0x1002, 1)}, "1/1/0x01 D"},
		{"unsolicited response", [][]byte{tagged(ReadResponse, true, 0x100, 0x1000, 1)}, "0/2/0x06 D"},
		{"invalidate", [][]byte{untagged(SendInvalidate, true, 0x500, 1, 0, 1)}, "0/1/0x09 D"},
		{"Read, STag", [][]byte{readRequest(0, 1, 0x500, 0x1000, 1)}, "0/1/0x00 DR"},
		{"Read, bounds", [][]byte{readRequest(0, 0x1001, 0x100, 0x1000, 1)}, "0/1/0x01 DR"},
		{"Read, PD", [][]byte{readRequest(0, 1, 0x300, 0x1000, 1)}, "0/1/0x03 DR"},
		{"Read, wrap", [][]byte{readRequest(0, 0xffffffff, 0x100, ^uint64(9), 1)}, "0/1/0x04 DR"},
		{"Read beyond IRD", [][]byte{readRequest(0, 1, 0x100, 0x1000, 1), readRequest(0, 1, 0x100, 0x1000, 2), readRequest(0, 1, 0x100, 0x1000, 3)}, "1/2/0x02 D"},
		{"Read Request, too long", [][]byte{append(readRequest(0, 1, 0x100, 0x1000, 1), 0)}, "1/2/0x05 D"},
		{"Read Request, too short", [][]byte{readRequest(0, 1, 0x100, 0x1000, 1)[:45]}, "0/2/0xff D"},
		{"Read Request, not last", [][]byte{edit(readRequest(0, 1, 0x100, 0x1000, 1), 0, 1)}, "0/2/0xff D"},
		{"Immediate Data, 7 octets", [][]byte{untagged(ImmediateOp, true, 0, 1, 0, 7)}, "0/2/0xff D"},
		{"Immediate Data, 9 octets", [][]byte{untagged(ImmediateSE, true, 0, 1, 0, 9)}, "1/2/0x05 D"},
		{"Immediate Data, not last", [][]byte{untagged(ImmediateOp, false, 0, 1, 0, 8)}, "0/2/0xff D"},
		{"Immediate Data on queue 1", [][]byte{edit(untagged(ImmediateOp, true, 0, 1, 0, 8), 9, 1)}, "1/2/0x01 D"},
		{"Immediate Data, no receive", [][]byte{untagged(ImmediateOp, true, 0, 1, 0, 8), untagged(ImmediateOp, true, 0, 2, 0, 8)}, "1/2/0x02 D"},
		{"tagged Immediate Data", [][]byte{edit(tagged(Write, true, 0x100, 0x1000, 8), 1, 0x48)}, "0/2/0x06 D"},
		{"atomic, STag", [][]byte{atomicRequest(FetchAdd, 0x500, 0x1000, 1)}, "0/1/0x00 D"},
		{"atomic, right", [][]byte{atomicRequest(FetchAdd, 0x200, 0x1000, 1)}, "0/1/0x02 D"},
		{"atomic, PD", [][]byte{atomicRequest(Swap, 0x300, 0x1000, 1)}, "0/1/0x03 D"},
		{"atomic, bounds", [][]byte{atomicRequest(CmpSwap, 0x100, 0x1ffc, 1)}, "0/1/0x01 D"},
		{"atomic, wrap", [][]byte{atomicRequest(CmpSwap, 0x100, ^uint64(3), 1)}, "0/1/0x04 D"},
		{"atomic, not aligned", [][]byte{atomicRequest(FetchAdd, 0x100, 0x1004, 1)}, "0/2/0x07 D"},
		{"atomic operation 3", [][]byte{atomicRequest(3, 0x100, 0x1000, 1)}, "0/2/0x06 D"},
		{"Atomic Request, too short", [][]byte{atomicRequest(Swap, 0x100, 0x1000, 1)[:69]}, "0/2/0xff D"},
		{"Atomic Request, too long", [][]byte{append(atomicRequest(Swap, 0x100, 0x1000, 1), 0)}, "1/2/0x05 D"},
		{"Atomic Request, not last", [][]byte{edit(atomicRequest(Swap, 0x100, 0x1000, 1), 0, 1)}, "0/2/0xff D"},
		{"Atomic Request on queue 0", [][]byte{edit(atomicRequest(Swap, 0x100, 0x1000, 1), 9, 0)}, "1/2/0x01 D"},
		{"atomics and Reads beyond IRD", [][]byte{atomicRequest(CmpSwap, 0x100, 0x1008, 1), readRequest(0, 1, 0x100, 0x1000, 2), atomicRequest(CmpSwap, 0x100, 0x1008, 3)}, "1/2/0x02 D"},
		{"unsolicited Atomic Response", [][]byte{untagged(AtomicResponseOp, true, 0, 1, 0, 12)}, "1/2/0x02 D"},
		{"Atomic Response, too short", [][]byte{untagged(AtomicResponseOp, true, 0, 1, 0, 11)}, "0/2/0xff D"},
		{"Atomic Response on queue 0", [][]byte{edit(untagged(AtomicResponseOp, true, 0, 1, 0, 12), 9, 0)}, "1/2/0x01 D"},
	} {
		f := &fake{recvs: []int{100}}
		s := NewStream(f, Limits{IRD: 2, ORD: 2})
		f.work = []Work{{Op: Write, Length: 1}}
		var err *Error
		for i, b := range c.in {
			if err != nil {
				t.Errorf("%s: error at segment %d", c.name, i-1)
			}
			before := f.mem
			if err = s.Receive(b); err != nil && f.mem != before && c.name != "invalidate" { // its payload is sound
				t.Errorf("%s: the bad segment was placed", c.name)
			}
		}
		out, ulpdus := sent(s, 1442)
		if len(out) != 1 || err == nil {
			t.Errorf("%s: error %v, then sent %v", c.name, err, out)
			continue
		}
		h, payload, _ := ddp.Parse(ulpdus[0])
		term, rest, perr := ParseTerminate(payload)
		if perr != nil || len(rest) != 0 || h.QN != QueueTerminate || h.MSN != 1 || !h.Last {
			t.Errorf("%s: %+v %v", c.name, h, perr)
		}
		got := fmt.Sprintf("%d/%d/%#02x ", term.Layer, term.Type, term.Code)
		last := c.in[len(c.in)-1]
		if term.HasDDP {
			got += "D"
			want, _, _ := ddp.Parse(last)
			if term.DDP != want || int(term.SegmentLength) != len(last) || !term.HasLength {
				t.Errorf("%s: header %+v length %d", c.name, term.DDP, term.SegmentLength)
			}
		}
		if term.HasRead {
			got += "R"
			if want, _ := ParseReadRequest(last[ddp.UntaggedLen:]); term.Read != want {
				t.Errorf("%s: Read header %+v", c.name, term.Read)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if again := s.Receive(tagged(Write, true, 0x100, 0x1000, 1)); again != err || !s.Terminating() {
			t.Errorf("%s: error is not sticky", c.name)
		}
	}
}

func TestWrongReadResponses(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		want Error
	}{
		{"STag", tagged(ReadResponse, true, 8, 70, 10), Error{Layer: LayerDDP, Type: 1, Code: 0}},
		{"TO", tagged(ReadResponse, true, 7, 71, 10), Error{Layer: LayerDDP, Type: 1, Code: 1}},
		{"too long", tagged(ReadResponse, true, 7, 70, 11), Error{Layer: LayerDDP, Type: 1, Code: 1}},
		{"too short", tagged(ReadResponse, true, 7, 70, 9), Error{Layer: LayerDDP, Type: 1, Code: 1}},
	} {
		f := &fake{work: []Work{{Op: ReadRequestOp, Ref: 2, Length: 10, SinkSTag: 7, SinkTO: 70}}}
		s := NewStream(f, Limits{ORD: 1})
		sent(s, 1442)
		before := f.mem
		if err := s.Receive(c.in); !errors.Is(err, &c.want) || f.mem != before || len(f.tape) != 0 {
			t.Errorf("%s: %v, tape %v", c.name, err, f.tape)
		}
	}
}

func TestTerminateReceived(t *testing.T) {
	for _, order := range []Order{OrderRFC, OrderSiw} {
		f := &fake{work: []Work{
			{Op: ReadRequestOp, Ref: 2, Length: 10, SinkSTag: 7, SinkTO: 70},
			{Op: ReadRequestOp, Ref: 3, Length: 10, SinkSTag: 7, SinkTO: 80},
		}}
		s := NewStream(f, Limits{ORD: 2})
		sent(s, 1442)
		term := Terminate{Layer: LayerRDMA, Type: TypeProtection, Code: Bounds, Order: order}.
			WithSegment(UntaggedHeader(ReadRequestOp, true, 0, 10, 0), 46).
			WithRead(ReadRequest{SinkSTag: 7, SinkTO: 80, Size: 10})
		h := UntaggedHeader(TerminateOp, true, 0, 1, 0)
		err := s.Receive(term.AppendTo(h.AppendTo(nil)))
		if err == nil || !err.Remote || err.Layer != LayerRDMA || err.Type != TypeProtection || err.Code != Bounds {
			t.Errorf("%v: %v", order, err)
		}
		if s.FaultyRead() != 3 {
			t.Errorf("%v: blames %d", order, s.FaultyRead())
		}
		if out, _ := sent(s, 1442); len(out) != 0 {
			t.Errorf("%v: a Terminate was answered by %v", order, out)
		}
	}
}

func TestReadyToReceive(t *testing.T) {
	for _, op := range []Opcode{Send, Write, ReadRequestOp} {
		fa, fb := &fake{}, &fake{recvs: []int{10}}
		a, b := NewStream(fa, Limits{IRD: 1, ORD: 1}), NewStream(fb, Limits{IRD: 1, ORD: 1})
		a.SendRTR(op)
		fa.work = []Work{{Op: Send, Length: 3}}
		if op == Send {
			b.ExpectRTR(Send)
		}
		out, ulpdus := sent(a, 1442)
		if len(out) != 2 || !strings.HasPrefix(out[0], op.String()) || !strings.HasSuffix(out[0], "last") {
			t.Fatalf("%v: %v", op, out)
		}
		for _, u := range ulpdus {
			if err := b.Receive(u); err != nil {
				t.Fatalf("%v: %v", op, err)
			}
		}
		if !slices.Equal(fb.tape, []string{"recv Send 3 0x0"}) {
			t.Errorf("%v: %v", op, fb.tape)
		}
		_, ulpdus = sent(b, 1442)
		for _, u := range ulpdus {
			if err := a.Receive(u); err != nil {
				t.Fatalf("%v: %v", op, err)
			}
		}
		if !a.Idle() || len(fa.tape) != 0 {
			t.Errorf("%v: not idle or %v", op, fa.tape)
		}
	}
}

func TestFailMidMessage(t *testing.T) {
	f := &fake{work: []Work{{Op: Write, Ref: 1, Length: 5000}}}
	s := NewStream(f, Limits{})
	var seg Segment
	s.Choose()
	s.Cut(1442, &seg)
	s.Fail(&Error{Layer: LayerLLP, Code: 2})
	s.Fail(&Error{Layer: LayerLLP, Code: 3})
	if out, _ := sent(s, 1442); !slices.Equal(out, []string{"Terminate 0+4 last"}) || s.Err().Code != 2 {
		t.Errorf("%v, %v", out, s.Err())
	}
}

func FuzzStreamReceive(f *testing.F) {
	for _, b := range [][]byte{tagged(Write, true, 0x100, 0x1000, 9), untagged(Send, false, 0, 1, 0, 9),
		readRequest(0, 10, 0x100, 0x1000, 1), untagged(TerminateOp, true, 0, 1, 0, 20)} {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		up := &fake{recvs: []int{1000, 1000}, work: []Work{{Op: ReadRequestOp, Ref: 1, Length: 9, SinkSTag: 0x100}}}
		s := NewStream(up, Limits{IRD: 1, ORD: 1})
		sent(s, 1442)
		s.Receive(one)
		s.Receive(two)
		out, _ := sent(s, 1442)
		if s.Err() != nil && !s.Err().Remote && (len(out) != 1 || !strings.HasPrefix(out[0], "Terminate")) {
			t.Fatalf("error %v, sent %v", s.Err(), out)
		}
	})
}

func TestStreamAllocatesNothing(t *testing.T) {
	f := &fake{}
	s := NewStream(f, Limits{IRD: 1, ORD: 1})
	w := []Work{{Op: Write, Ref: 1, Length: 100}}
	in := tagged(Write, true, 0x100, 0x1000, 100)
	var seg Segment
	if n := testing.AllocsPerRun(1000, func() {
		f.work = w
		s.Choose()
		s.Cut(1442, &seg)
		if s.Receive(in) != nil {
			t.Fatal(s.Err())
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStreamReceive(b *testing.B) {
	s := NewStream(&fake{}, Limits{})
	in := tagged(Write, true, 0x100, 0x1000, 1428)
	b.ReportAllocs()
	for b.Loop() {
		s.Receive(in)
	}
}

func BenchmarkStreamCut(b *testing.B) {
	f := &fake{}
	s := NewStream(f, Limits{})
	w := []Work{{Op: Write, Length: 1428}}
	var seg Segment
	b.ReportAllocs()
	for b.Loop() {
		f.work = w
		s.Choose()
		s.Cut(1442, &seg)
	}
}
