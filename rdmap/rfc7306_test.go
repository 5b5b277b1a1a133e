package rdmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tapir/ddp"
)

// Tests of RFC 7306 sections 4 to 8, clause by clause.

// Sections 4.1, 5.2 and 6.3 (7306-4.1-1, 7306-5-4, 7306-5.2-1, 7306-5.2-2,
// 7306-5.2.1-3, 7306-5.2.1-4, 7306-5.2.1-9, 7306-5.2.1-10, 7306-5.2.2-2,
// 7306-5.2.2-3, 7306-5.2.2-4, 7306-6.3-1, 7306-6.3-2, 7306-6.3-5,
// 7306-6.3-6): the new messages, octet by octet.
func TestExtensionsAsSent(t *testing.T) {
	const zero, one = "\x00\x00\x00\x00", "\x00\x00\x00\x01"
	f := &fake{}
	s := NewStream(f, Limits{IRD: 1, ORD: 1})
	if err := s.Receive(atomicRequest(FetchAdd, 0x100, 0x1008, 1)); err != nil {
		t.Fatal(err)
	}
	f.work = []Work{
		{Op: ImmediateOp, Ref: 1, Imm: Immediate{1, 2, 3, 4, 5, 6, 7, 8}},
		{Op: ImmediateSE, Ref: 2, Imm: Immediate{8, 7, 6, 5, 4, 3, 2, 1}},
		{Op: AtomicRequestOp, Ref: 3, STag: 0x1111, TO: 0x2220, Atomic: AtomicRequest{Op: CmpSwap, Data: 3, Mask: 4, Compare: 5, CompareMask: 6}},
	}
	_, ulpdus := sent(s, 1442)
	by := map[Opcode]string{}
	for _, u := range ulpdus {
		by[ParseControl(u[1]).Opcode] = string(u)
	}
	id := by[AtomicResponseOp][18:22]
	for op, want := range map[Opcode]string{
		ImmediateOp: "\x41\x48" + zero + zero + one + zero + "\x01\x02\x03\x04\x05\x06\x07\x08",
		ImmediateSE: "\x41\x49" + zero + zero + "\x00\x00\x00\x02" + zero + "\x08\x07\x06\x05\x04\x03\x02\x01",
		AtomicRequestOp: "\x41\x4a" + zero + one + one + zero + "\x00\x00\x00\x02" + one + "\x00\x00\x11\x11" + zero + "\x00\x00\x22\x20" +
			zero + "\x00\x00\x00\x03" + zero + "\x00\x00\x00\x04" + zero + "\x00\x00\x00\x05" + zero + "\x00\x00\x00\x06",
		AtomicResponseOp: "\x41\x4b" + zero + "\x00\x00\x00\x03" + one + zero + id + zero + zero,
	} {
		if by[op] != want {
			t.Errorf("%v: %x, want %x", op, by[op], want)
		}
	}
	if len(ulpdus) != 4 {
		t.Errorf("%d messages", len(ulpdus))
	}
}

// Section 5 (7306-5-2, 7306-5.1.2-1, 7306-5.2.1-1): all operation codes, what
// they leave and what they answer.
func TestEveryAtomicOperation(t *testing.T) {
	for _, c := range []struct {
		req         AtomicRequest
		found, left uint64
	}{
		{AtomicRequest{Op: FetchAdd, Data: 5}, 7, 12},
		{AtomicRequest{Op: Swap, Data: 5, Mask: ^uint64(0)}, 7, 5},
		{AtomicRequest{Op: CmpSwap, Compare: 7, CompareMask: ^uint64(0), Data: 5, Mask: ^uint64(0)}, 7, 5},
		{AtomicRequest{Op: CmpSwap, Compare: 8, CompareMask: ^uint64(0), Data: 5, Mask: ^uint64(0)}, 7, 7},
		{AtomicRequest{Op: CmpSwap, Compare: 0x0f, CompareMask: 0x07, Data: 0xff, Mask: 0xf0}, 7, 0xf7},
	} {
		f := &fake{}
		s := NewStream(f, Limits{IRD: 1})
		binary.BigEndian.PutUint64(f.mem[8:], c.found)
		c.req.ID, c.req.STag, c.req.TO = 77, 0x100, 0x1008
		if err := s.Receive(c.req.AppendTo(firstHeader(AtomicRequestOp))); err != nil {
			t.Fatal(err)
		}
		_, ulpdus := sent(s, 1442)
		r, err := ParseAtomicResponse(ulpdus[0][ddp.UntaggedLen:])
		if got := binary.BigEndian.Uint64(f.mem[8:]); err != nil || r.ID != 77 || r.Original != c.found || got != c.left {
			t.Errorf("%+v: left %#x, answered %+v, %v", c.req, got, r, err)
		}
	}
}

// Sections 5.1 and 8 (7306-5.1.1-1 to 7306-5.1.1-3, 7306-5.1.2-2 to
// 7306-5.1.2-6, 7306-5.2.1-2, 7306-5.2.1-8, 7306-8.1-1, 7306-8.2-5 to
// 7306-8.2-7): an address that is not aligned, or an unknown operation, is an
// error with a Terminate, and changes nothing.
func TestAtomicRequestsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		code uint8
	}{
		{"FetchAdd at 4", atomicRequest(FetchAdd, 0x100, 0x1004, 1), CatastrophicStream},
		{"FetchAdd at 1", atomicRequest(FetchAdd, 0x100, 0x1001, 1), CatastrophicStream},
		{"CmpSwap at 4", atomicRequest(CmpSwap, 0x100, 0x1004, 1), CatastrophicStream},
		{"CmpSwap at 7", atomicRequest(CmpSwap, 0x100, 0x1007, 1), CatastrophicStream},
		{"Swap at 2", atomicRequest(Swap, 0x100, 0x1002, 1), CatastrophicStream},
		{"operation 3", atomicRequest(3, 0x100, 0x1008, 1), UnexpectedOpcode},
		{"operation 15", atomicRequest(15, 0x100, 0x1008, 1), UnexpectedOpcode},
	} {
		f := &fake{}
		s := NewStream(f, Limits{IRD: 1})
		before := f.mem
		err := s.Receive(c.in)
		_, ulpdus := sent(s, 1442)
		if !errors.Is(err, operation(c.code)) || f.mem != before || len(ulpdus) != 1 {
			t.Errorf("%s: %v, changed %v, %d messages", c.name, err, f.mem != before, len(ulpdus))
			continue
		}
		h, _, _ := ddp.Parse(c.in)
		if term, _, err := ParseTerminate(ulpdus[0][ddp.UntaggedLen:]); err != nil || term.Layer != LayerRDMA ||
			term.Type != TypeOperation || term.Code != c.code || term.DDP != h {
			t.Errorf("%s: %+v, %v", c.name, term, err)
		}
	}
}

// Sections 5.2 and 5.4 (7306-5.2.1-5, 7306-5.2.1-6, 7306-5.2.1-7,
// 7306-5.2.1-11, 7306-5.2.1-12, 7306-5.2.1-13, 7306-5.2.2-8, 7306-5.4-3,
// 7306-5.4-4, 7306-5.4-6, 7306-5.4-7): each request is done when it is
// delivered, once, in order among Reads too, and answered in that order; the
// application hears nothing.
func TestAtomicRequestsInOrder(t *testing.T) {
	f := &fake{}
	s := NewStream(f, Limits{IRD: 8})
	value := func() uint64 { return binary.BigEndian.Uint64(f.mem[8:]) }
	one := AtomicRequest{Op: FetchAdd, STag: 0x100, TO: 0x1008, Data: 1}
	half := one.AppendTo(firstHeader(AtomicRequestOp))
	for i := range uint32(4) {
		h := UntaggedHeader(AtomicRequestOp, true, 0, 2*i+1, 0)
		if err := s.Receive(one.AppendTo(h.AppendTo(nil))); err != nil {
			t.Fatal(err)
		}
		if value() != uint64(i+1) {
			t.Fatalf("after request %d: %d", i, value())
		}
		if err := s.Receive(readRequest(uint64(i), 1, 0x100, 0x1000, 2*i+2)); err != nil {
			t.Fatal(err)
		}
	}
	out, ulpdus := sent(s, 1442)
	if len(out) != 8 || len(f.tape) != 0 {
		t.Fatalf("sent %q, told %q", out, f.tape)
	}
	for i, u := range ulpdus {
		if i%2 == 1 {
			if h, _, _ := ddp.Parse(u); h.TO != uint64(i/2) || !h.Tagged {
				t.Errorf("answer %d: %+v", i, h)
			}
			continue
		}
		if r, err := ParseAtomicResponse(u[ddp.UntaggedLen:]); err != nil || r.Original != uint64(i/2) {
			t.Errorf("answer %d: %+v, %v", i, r, err)
		}
	}
	// Without its end, a request is none.
	s = NewStream(f, Limits{IRD: 8})
	if err := s.Receive(edit(half[:40], 0, 1)); err == nil || value() != 4 {
		t.Errorf("half a request: %v, %d", err, value())
	}
}

// Section 5.2.2 (7306-5.2.2-5, 7306-5.2.2-6): atomic operations have the
// slots of the Reads, in both directions.
func TestAtomicSlots(t *testing.T) {
	s := NewStream(&fake{}, Limits{IRD: 2})
	for i := range uint32(3) {
		err := s.Receive(atomicRequest(FetchAdd, 0x100, 0x1008, i+1))
		want := &Error{Layer: LayerDDP, Type: ddp.TypeUntagged, Code: ddp.NoBuffer}
		if i < 2 && err != nil || i == 2 && !errors.Is(err, want) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	f := &fake{}
	for i := range uint64(5) {
		f.work = append(f.work, Work{Op: AtomicRequestOp, Ref: i, STag: 0x100, TO: 0x1000})
	}
	s = NewStream(f, Limits{ORD: 3})
	if out, _ := sent(s, 1442); len(out) != 3 {
		t.Errorf("sent %q", out)
	}
	for i := range uint32(3) {
		h := UntaggedHeader(AtomicResponseOp, true, 0, i+1, 0)
		r := AtomicResponse{ID: i + 1}
		if err := s.Receive(r.AppendTo(h.AppendTo(nil))); err != nil {
			t.Fatal(err)
		}
	}
}

// Sections 5.2.2 and 5.4 (7306-5.2.2-1, 7306-5.2.2-7, 7306-5.4-1,
// 7306-5.4-5): the operation completes with its response, which uses one
// message of queue 3.
func TestAtomicCompletesWithItsResponse(t *testing.T) {
	f := &fake{work: []Work{{Op: AtomicRequestOp, Ref: 4, STag: 0x100, TO: 0x1000}, {Op: AtomicRequestOp, Ref: 5, STag: 0x100, TO: 0x1000}}}
	s := NewStream(f, Limits{ORD: 2})
	_, requests := sent(s, 1442)
	if len(f.tape) != 0 || len(requests) != 2 {
		t.Fatalf("%q before any response, %d requests", f.tape, len(requests))
	}
	for i, req := range requests {
		q, err := ParseAtomicRequest(req[ddp.UntaggedLen:])
		if err != nil {
			t.Fatal(err)
		}
		h := UntaggedHeader(AtomicResponseOp, true, 0, uint32(i+1), 0)
		r := AtomicResponse{ID: q.ID, Original: uint64(10 + i)}
		if err := s.Receive(r.AppendTo(h.AppendTo(nil))); err != nil || len(f.tape) != i+1 {
			t.Fatalf("response %d: %v, %q", i, err, f.tape)
		}
	}
	if want := []string{"atomic 4 found 10", "atomic 5 found 11"}; !slices.Equal(f.tape, want) {
		t.Errorf("%q", f.tape)
	}
	h := UntaggedHeader(AtomicResponseOp, true, 0, 1, 0)
	again := AtomicResponse{ID: 1}
	if err := s.Receive(again.AppendTo(h.AppendTo(nil))); !errors.Is(err, &Error{Layer: LayerDDP, Type: 2, Code: ddp.InvalidMSN}) {
		t.Errorf("a message number used twice: %v", err)
	}
}

// Section 6.3 (7306-6.3-3, 7306-6.3-4, 7306-6.3-7, 7306-6.3-8): Immediate
// Data takes one receive each, in order among Sends, and has eight octets.
func TestImmediateDataIsDelivered(t *testing.T) {
	f := &fake{work: []Work{{Op: ImmediateOp, Ref: 1, Imm: Immediate{'a'}}, {Op: Send, Ref: 2, Length: 1}, {Op: ImmediateSE, Ref: 3, Imm: Immediate{'b'}}}}
	s := NewStream(f, Limits{})
	_, ulpdus := sent(s, 1442)
	peer := &fake{recvs: []int{0, 10, 0}}
	p := NewStream(peer, Limits{})
	for i, u := range ulpdus {
		if err := p.Receive(u); err != nil || len(peer.recvs) != 2-i {
			t.Fatalf("message %d: %v, %d receives left", i, err, len(peer.recvs))
		}
	}
	if len(peer.tape) != 3 || !strings.Contains(peer.tape[0], "a") || !strings.Contains(peer.tape[1], "recv Send 1") ||
		!strings.Contains(peer.tape[2], "Solicited Event") {
		t.Errorf("%q", peer.tape)
	}
	for n := range 20 {
		for _, op := range []Opcode{ImmediateOp, ImmediateSE} {
			f := &fake{recvs: []int{100}}
			s := NewStream(f, Limits{})
			err := s.Receive(untagged(op, true, 0, 1, 0, n))
			if (n == ImmediateLen) != (err == nil) || n != ImmediateLen && len(f.tape) != 0 {
				t.Errorf("%v of %d octets: %v, %q", op, n, err, f.tape)
			}
		}
	}
}

// Section 8.2 (7306-8.2-1 to 7306-8.2-4): the fields of the new messages.
func TestChecksOnExtensions(t *testing.T) {
	atomic := atomicRequest(FetchAdd, 0x100, 0x1008, 1)
	immediate := untagged(ImmediateOp, true, 0, 1, 0, 8)
	for name, base := range map[string][]byte{"atomic": atomic, "immediate": immediate} {
		for _, c := range []struct {
			what string
			at   int
			v    byte
			want error
		}{
			{"DDP version", 0, 0x40, &Error{Layer: LayerDDP, Type: 2, Code: ddp.UntaggedVersion}},
			{"queue", 9, 2, &Error{Layer: LayerDDP, Type: 2, Code: ddp.InvalidQN}},
			{"MSN", 13, 2, &Error{Layer: LayerDDP, Type: 2, Code: ddp.InvalidMSN}},
			{"MO", 17, 1, &Error{Layer: LayerDDP, Type: 2, Code: ddp.InvalidMO}},
			{"RDMAP version", 1, base[1] & 0x3f, operation(InvalidVersion)},
			{"opcode", 1, 0x4c, operation(UnexpectedOpcode)},
		} {
			f := &fake{recvs: []int{10}}
			s := NewStream(f, Limits{IRD: 1})
			if err := s.Receive(edit(slices.Clone(base), c.at, c.v)); !errors.Is(err, c.want) || len(f.tape) != 0 || f.mem != (fake{}).mem {
				t.Errorf("%s, %s: %v, %q", name, c.what, err, f.tape)
			}
		}
	}
	for b := byte(0x4c); b <= 0x4f; b++ {
		for _, in := range [][]byte{edit(tagged(Write, true, 0x100, 0x1000, 1), 1, b), edit(slices.Clone(immediate), 1, b)} {
			if err := NewStream(&fake{}, Limits{}).Receive(in); !errors.Is(err, operation(UnexpectedOpcode)) {
				t.Errorf("%s: %v", fmt.Sprintf("%#x", b), err)
			}
		}
	}
}
