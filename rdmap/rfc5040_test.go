package rdmap

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tapir/ddp"
)

// Tests of RFC 5040 sections 4 to 7, clause by clause.

// everyMessage has the stream of f send one message of each kind and returns
// their first segments by opcode.
func everyMessage(t *testing.T) map[Opcode][]byte {
	t.Helper()
	f := &fake{}
	s := NewStream(f, Limits{IRD: 1, ORD: 1})
	f.work = []Work{
		{Op: Write, Ref: 1, Length: 10, STag: 0x1111, TO: 0x2222},
		{Op: Send, Ref: 2, Length: 3}, {Op: SendSE, Ref: 3, Length: 3},
		{Op: SendInvalidate, Ref: 4, Length: 3, Invalidate: 0x3333},
		{Op: SendSEInvalidate, Ref: 5, Length: 3, Invalidate: 0x4444},
		{Op: ReadRequestOp, Ref: 6, Length: 7, STag: 0x5555, TO: 0x6666, SinkSTag: 0x7777, SinkTO: 0x8888},
	}
	if err := s.Receive(readRequest(0x99, 5, 0x100, 0x1000, 1)); err != nil {
		t.Fatal(err)
	}
	_, ulpdus := sent(s, 1442)
	s.Fail(protection(Bounds))
	_, term := sent(s, 1442)
	by := map[Opcode][]byte{}
	for _, u := range append(ulpdus, term...) {
		by[ParseControl(u[1]).Opcode] = u
	}
	if len(by) != 8 {
		t.Fatalf("%d opcodes sent", len(by))
	}
	return by
}

// Section 4.1 and 5 (5040-3.1-1, 5040-4.1-1 to 5040-4.1-10,
// 5040-4.2-1, 5040-5.1-1, 5040-5.1-2, 5040-5.2.1-1, 5040-5.2.1-2,
// 5040-5.2.1-6, 5040-5.2.1-7, 5040-5.2.2-1, 5040-5.2.2-2, 5040-5.3-1,
// 5040-5.3-2, 5040-5.3-5, 5040-5.3-8, 5040-5.3-9, 5040-5.4-1 to 5040-5.4-3,
// 5041-4.1-9, 5041-4.2-1, 5041-4.3-1, 5041-4.3-9): figures 4 and 5, octet by
// octet.
func TestMessagesAsSent(t *testing.T) {
	const msn1, msn2, msn3, msn4 = "\x00\x00\x00\x01", "\x00\x00\x00\x02", "\x00\x00\x00\x03", "\x00\x00\x00\x04"
	const zero = "\x00\x00\x00\x00"
	const q0, q1, q2 = zero, "\x00\x00\x00\x01", "\x00\x00\x00\x02"
	by := everyMessage(t)
	for op, want := range map[Opcode]string{
		Write:            "\xc1\x40\x00\x00\x11\x11" + zero + "\x00\x00\x22\x22" + strings.Repeat("\x00", 10),
		ReadResponse:     "\xc1\x42\x00\x00\x09\x00" + zero + "\x00\x00\x00\x99" + strings.Repeat("\x00", 5),
		Send:             "\x41\x43" + zero + q0 + msn1 + zero + "\x00\x00\x00",
		SendSE:           "\x41\x45" + zero + q0 + msn2 + zero + "\x00\x00\x00",
		SendInvalidate:   "\x41\x44\x00\x00\x33\x33" + q0 + msn3 + zero + "\x00\x00\x00",
		SendSEInvalidate: "\x41\x46\x00\x00\x44\x44" + q0 + msn4 + zero + "\x00\x00\x00",
		ReadRequestOp: "\x41\x41" + zero + q1 + msn1 + zero + "\x00\x00\x77\x77" + zero + "\x00\x00\x88\x88" +
			"\x00\x00\x00\x07" + "\x00\x00\x55\x55" + zero + "\x00\x00\x66\x66",
		TerminateOp: "\x41\x47" + zero + q2 + msn1 + zero + "\x01\x01\x00\x00",
	} {
		if got := by[op]; string(got) != want {
			t.Errorf("%v: %x, want %x", op, got, want)
		}
	}
}

// Section 4.1 (5040-4.1-9, 5040-4.1-10): reserved bits, and the Invalidate
// STag of messages that have none, are ignored.
func TestReservedFieldsAreIgnored(t *testing.T) {
	f := &fake{recvs: []int{10, 10}}
	s := NewStream(f, Limits{IRD: 1, ORD: 1})
	write := edit(tagged(Write, true, 0x100, 0x1000, 4), 1, 0x70)
	plain := edit(untagged(Send, true, 0xdeadbeef, 1, 0, 4), 1, 0x73)
	event := untagged(SendSE, true, 0xdeadbeef, 2, 0, 4)
	read := readRequest(0, 1, 0x100, 0x1000, 1)
	read[1], read[2] = 0x71, 0xff
	for _, b := range [][]byte{write, plain, event, read} {
		if err := s.Receive(b); err != nil {
			t.Fatalf("%x: %v", b, err)
		}
	}
	if len(f.tape) != 2 || s.responses.len() != 1 {
		t.Errorf("%v, %d Reads", f.tape, s.responses.len())
	}
	term := Terminate{Layer: LayerRDMA, Type: TypeOperation, Code: Unspecified, Reserved: 0x1fff}
	h := UntaggedHeader(TerminateOp, true, 0xdeadbeef, 1, 0)
	if err := s.Receive(term.AppendTo(h.AppendTo(nil))); err == nil || !err.Remote || err.Code != Unspecified {
		t.Errorf("Terminate: %v", err)
	}
}

// Sections 4.4, 5.2.1, 5.2.2 and 5.5 (5040-4.4-1, 5040-4.4-2, 5040-5.2-1,
// 5040-5.2.1-4, 5040-5.2.1-9, 5040-5.2.1-12, 5040-5.2.2-5, 5040-5.2.2-6,
// 5040-5.5-3, 5040-5.5-8, 5040-5.5-10): each Read Request gets one Read
// Response, in order, addressed as it asks without a look at that address.
func TestReadResponsesFollowTheRequests(t *testing.T) {
	s := NewStream(&fake{}, Limits{IRD: 8})
	sizes := []uint32{10, 0, 3000, 1}
	for i, n := range sizes {
		if got, _ := sent(s, 1442); len(got) != 0 {
			t.Fatalf("sent %v before the request was delivered", got)
		}
		if err := s.Receive(readRequest(^uint64(0)-uint64(i), n, 0x100, 0x1000, uint32(i+1))); err != nil {
			t.Fatal(err)
		}
		_, ulpdus := sent(s, 1442)
		total := 0
		for k, u := range ulpdus {
			h, payload, err := ddp.Parse(u)
			if err != nil || h.STag != 0x900 || h.TO != ^uint64(0)-uint64(i)+uint64(total) || h.Last != (k == len(ulpdus)-1) ||
				ParseControl(h.ULP).Opcode != ReadResponse {
				t.Fatalf("request %d, segment %d: %+v", i, k, h)
			}
			total += len(payload)
		}
		if total != int(n) || len(ulpdus) == 0 {
			t.Errorf("request %d: %d octets in %d segments", i, total, len(ulpdus))
		}
	}
	// Several at once come back in order too.
	for i := range uint64(4) {
		if err := s.Receive(readRequest(100+i, 1, 0x100, 0x1000, uint32(5+i))); err != nil {
			t.Fatal(err)
		}
	}
	_, ulpdus := sent(s, 1442)
	for i, u := range ulpdus {
		if h, _, _ := ddp.Parse(u); len(ulpdus) != 4 || h.TO != 100+uint64(i) {
			t.Errorf("response %d of %d goes to %d", i, len(ulpdus), h.TO)
		}
	}
}

// Section 5.2.1 (5040-5.2.1-13, 5040-5.2.1-14, 5040-5.2.1-15): STag and
// offset count only if something is to be read.
func TestZeroLengthRead(t *testing.T) {
	s := NewStream(&fake{}, Limits{IRD: 2})
	if err := s.Receive(readRequest(7, 0, 0xbad, ^uint64(0), 1)); err != nil {
		t.Fatal(err)
	}
	if got, _ := sent(s, 1442); !slices.Equal(got, []string{"RDMA Read Response 0+0 last"}) {
		t.Errorf("answered by %v", got)
	}
	if err := s.Receive(readRequest(7, 1, 0xbad, 0x1000, 2)); !errors.Is(err, protection(InvalidSTag)) {
		t.Errorf("one octet: %v", err)
	}
}

// Sections 5.1 to 5.4 (5040-5.1-3, 5040-5.2.1-3, 5040-5.2.1-5, 5040-5.3-3,
// 5040-5.3-4, 5040-5.3-7, 5040-5.5-1, 5040-5.5-7): Writes and Read Requests
// are not the application's; each Send is, once whole, in order, and takes
// one receive, an empty one too.
func TestWhatIsDelivered(t *testing.T) {
	f := &fake{recvs: []int{10, 10, 10}}
	s := NewStream(f, Limits{IRD: 1})
	for _, step := range []struct {
		in    []byte
		taken int
	}{
		{tagged(Write, true, 0x100, 0x1000, 5), 0},
		{readRequest(0, 1, 0x100, 0x1000, 1), 0},
		{untagged(Send, false, 0, 1, 0, 5), 0},
		{untagged(Send, true, 0, 1, 5, 1), 1},
		{untagged(SendSE, true, 0, 2, 0, 0), 2},
		{tagged(Write, true, 0, 0, 0), 2},
		{untagged(SendInvalidate, true, 0x100, 3, 0, 2), 3},
	} {
		if err := s.Receive(step.in); err != nil {
			t.Fatal(err)
		}
		if len(f.tape) != step.taken || len(f.recvs) != 3-step.taken {
			t.Fatalf("%x: delivered %v, %d receives left", step.in[:2], f.tape, len(f.recvs))
		}
	}
	want := []string{"recv Send 6 0x0", "recv Send with Solicited Event 0 0x0", "recv Send with Invalidate 2 0x100"}
	if !slices.Equal(f.tape, want) {
		t.Errorf("%q", f.tape)
	}
	if err := s.Receive(untagged(Send, true, 0, 4, 0, 0)); !errors.Is(err, &Error{Layer: LayerDDP, Type: ddp.TypeUntagged, Code: ddp.NoBuffer}) {
		t.Errorf("an empty Send without a receive: %v", err)
	}
}

// Sections 5.1 to 5.5 (5040-5.1-4, 5040-5.2.1-8, 5040-5.3-6, 5040-5.5-4):
// requests go out in the order in which they were made.
func TestRequestsGoOutInOrder(t *testing.T) {
	f := &fake{}
	s := NewStream(f, Limits{ORD: 100})
	ops := []Opcode{Write, Send, ReadRequestOp, SendSE, Write, ReadRequestOp, SendInvalidate, Write}
	for i := range 40 {
		f.work = append(f.work, Work{Op: ops[i*i%len(ops)], Ref: uint64(i), Length: uint64(i * 97 % 3000)})
	}
	got, _ := sent(s, 1442)
	next := 0
	for _, line := range got {
		if strings.HasSuffix(line, "last") {
			if !strings.Contains(line, fmt.Sprintf(" %d ", next)) {
				t.Fatalf("request %d: %s", next, line)
			}
			next++
		}
	}
	if next != 40 {
		t.Errorf("%d of 40", next)
	}
}

// Sections 5.2.2 and 5.5 (5040-5.2.2-4, 5040-5.5-2, 5040-5.5-9, 5040-5.5-11):
// a Read completes with the last octet of its response, not before, and the
// oldest one first.
func TestReadCompletesWithItsResponse(t *testing.T) {
	f := &fake{work: []Work{
		{Op: ReadRequestOp, Ref: 2, Length: 10, SinkSTag: 7, SinkTO: 70},
		{Op: ReadRequestOp, Ref: 3, Length: 4, SinkSTag: 7, SinkTO: 90},
	}}
	s := NewStream(f, Limits{ORD: 2})
	sent(s, 1442)
	for _, step := range []struct {
		in   []byte
		want []string
	}{
		{tagged(ReadResponse, false, 7, 70, 6), nil},
		{tagged(ReadResponse, true, 7, 76, 4), []string{"read 2"}},
		{tagged(ReadResponse, true, 7, 90, 4), []string{"read 2", "read 3"}},
	} {
		if err := s.Receive(step.in); err != nil || !slices.Equal(f.tape, step.want) {
			t.Fatalf("%v, %v; want %v", f.tape, err, step.want)
		}
	}
}

// Sections 5.2.2 and 6.1 (5040-5.2.2-3, 5040-6.1-2, 5040-6.1-3, 5040-6.1-4,
// 5040-6.1-5): as many Reads each way as agreed, none more.
func TestReadLimits(t *testing.T) {
	for ird := range 4 {
		s := NewStream(&fake{}, Limits{IRD: ird})
		for i := range uint32(ird) {
			if err := s.Receive(readRequest(0, 1, 0x100, 0x1000, i+1)); err != nil {
				t.Fatalf("IRD %d, Read %d: %v", ird, i, err)
			}
		}
		err := s.Receive(readRequest(0, 1, 0x100, 0x1000, uint32(ird)+1))
		if !errors.Is(err, &Error{Layer: LayerDDP, Type: ddp.TypeUntagged, Code: ddp.NoBuffer}) {
			t.Errorf("IRD %d, one more: %v", ird, err)
		}
	}
	for ord := range 4 {
		f := &fake{}
		for i := range uint64(6) {
			f.work = append(f.work, Work{Op: ReadRequestOp, Ref: i, Length: 1, SinkSTag: 7})
		}
		s := NewStream(f, Limits{ORD: ord})
		if out, _ := sent(s, 1442); len(out) != ord {
			t.Errorf("ORD %d: %d Reads sent", ord, len(out))
		}
	}
}

// Section 5.4 (5040-5.4-4, 5040-5.4-5, 5040-5.4-6, 5040-5.4-7): a Terminate
// arrives without a posted receive, behind half a message too, and ends the
// stream with its error.
func TestTerminateIsAlwaysPlaced(t *testing.T) {
	for _, half := range []bool{false, true} {
		f := &fake{recvs: []int{10}}
		s := NewStream(f, Limits{})
		if half {
			if err := s.Receive(untagged(Send, false, 0, 1, 0, 5)); err != nil {
				t.Fatal(err)
			}
		}
		term := Terminate{Layer: LayerDDP, Type: ddp.TypeTagged, Code: ddp.Bounds}.WithSegment(TaggedHeader(Write, true, 1, 2), 20)
		h := UntaggedHeader(TerminateOp, true, 0, 1, 0)
		err := s.Receive(term.AppendTo(h.AppendTo(nil)))
		if err == nil || !err.Remote || !errors.Is(err, &Error{Layer: LayerDDP, Type: 1, Code: 1}) || len(f.tape) != 0 {
			t.Errorf("%v, %v", err, f.tape)
		}
	}
}

// Sections 5.4 and 6.1 (5040-5.4-8, 5040-6.1-1): behind a Terminate nothing
// more is sent, not even what was half sent.
func TestNothingFollowsATerminate(t *testing.T) {
	f := &fake{work: []Work{{Op: Write, Ref: 1, Length: 5000}, {Op: Send, Ref: 2}}}
	s := NewStream(f, Limits{IRD: 2})
	if err := s.Receive(readRequest(0, 100, 0x100, 0x1000, 1)); err != nil {
		t.Fatal(err)
	}
	var seg Segment
	s.Choose()
	s.Cut(1442, &seg)
	s.Receive(untagged(Send, true, 0, 9, 0, 1))
	out, _ := sent(s, 1442)
	if len(out) != 1 || !strings.HasPrefix(out[0], "Terminate") {
		t.Errorf("sent %v", out)
	}
	f.work = append(f.work, Work{Op: Send, Ref: 3})
	if out, _ := sent(s, 1442); len(out) != 0 {
		t.Errorf("then %v", out)
	}
}

// Section 7.1 (5040-7.1-3): of two errors the first is reported.
func TestFirstErrorIsTheOneReported(t *testing.T) {
	s := NewStream(&fake{}, Limits{})
	first := tagged(Write, true, 0x100, 0x1fff, 2)
	if err := s.Receive(first); err == nil {
		t.Fatal("no error")
	}
	s.Receive(untagged(Send, true, 0, 9, 0, 1))
	s.Fail(&Error{Layer: LayerLLP, Code: 2})
	_, ulpdus := sent(s, 1442)
	term, _, err := ParseTerminate(ulpdus[0][ddp.UntaggedLen:])
	h, _, _ := ddp.Parse(first)
	if err != nil || len(ulpdus) != 1 || term.Layer != LayerDDP || term.DDP != h {
		t.Errorf("%+v, %v", term, err)
	}
}

// Section 4.8 (5040-4.8-1 to 5040-4.8-11): the Terminate header, field by
// field, for the three rows of figure 10.
func TestTerminateAsSent(t *testing.T) {
	write := tagged(Write, true, 0x500, 0x1000, 9)
	read := readRequest(3, 1, 0x500, 0x1000, 1)
	for _, c := range []struct {
		name string
		fail func(s *Stream)
		want string
	}{
		{"no headers", func(s *Stream) { s.Fail(&Error{Layer: LayerLLP, Code: 2}) }, "\x20\x02\x00\x00"},
		{"DDP header", func(s *Stream) { s.Receive(write) }, "\x11\x00\xc0\x00\x00\x17" + string(write[:14])},
		{"both headers", func(s *Stream) { s.Receive(read) }, "\x01\x00\xe0\x00\x00\x2e" + string(read)},
	} {
		s := NewStream(&fake{}, Limits{IRD: 1})
		c.fail(s)
		_, ulpdus := sent(s, 1442)
		if len(ulpdus) != 1 || !bytes.Equal(ulpdus[0][ddp.UntaggedLen:], []byte(c.want)) {
			t.Errorf("%s: %x, want %x", c.name, ulpdus, c.want)
		}
	}
}

// Section 7.2 (5040-7.2-1 to 5040-7.2-13): every opcode and version that is
// not valid in its model, and the checks of a Read Request.
func TestChecksOnIncomingMessages(t *testing.T) {
	for b := range 256 {
		op := ParseControl(uint8(b)).Opcode
		if op == ImmediateOp || op == ImmediateSE || op == AtomicRequestOp || op == AtomicResponseOp {
			continue // RFC 7306
		}
		for _, model := range []bool{false, true} {
			f := &fake{recvs: []int{100}}
			s := NewStream(f, Limits{IRD: 1})
			in := untagged(Send, true, 0x100, 1, 0, 28)
			in[9] = byte(op.Queue())
			if model {
				in = tagged(Write, true, 0x100, 0x1000, 28)
			}
			in[1] = byte(b)
			err := s.Receive(in)
			switch {
			case b>>6 != 1:
				if !errors.Is(err, operation(InvalidVersion)) {
					t.Errorf("control %#x: %v", b, err)
				}
			case op > TerminateOp || op.Tagged() != model || op == ReadResponse:
				if !errors.Is(err, operation(UnexpectedOpcode)) {
					t.Errorf("control %#x, tagged %v: %v", b, model, err)
				}
			case op == Write || op.IsSend():
				if err != nil {
					t.Errorf("control %#x: %v", b, err)
				}
			}
		}
	}
	for _, c := range []struct {
		stag uint32
		to   uint64
		size uint32
		code uint8
	}{
		{0x500, 0x1000, 1, InvalidSTag}, {0x300, 0x1000, 1, NotAssociated}, {0x100, 0xfff, 1, Bounds},
		{0x100, 0x2001, 1, Bounds}, {0x100, 0x1000, 0x1001, Bounds}, {0x100, ^uint64(0), 2, TOWrap},
	} {
		s := NewStream(&fake{}, Limits{IRD: 1})
		if err := s.Receive(readRequest(0, c.size, c.stag, c.to, 1)); !errors.Is(err, protection(c.code)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, op := range []Opcode{SendInvalidate, SendSEInvalidate} {
		f := &fake{recvs: []int{10}}
		s := NewStream(f, Limits{})
		if err := s.Receive(untagged(op, true, 0x200, 1, 0, 1)); !errors.Is(err, protection(CannotBeInvalidated)) || len(f.tape) != 0 {
			t.Errorf("%v of a wrong STag: %v, %v", op, err, f.tape)
		}
	}
}
