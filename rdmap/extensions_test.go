package rdmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"tapir/ddp"
)

// exchange lets two streams talk until both are silent.
func exchange(t *testing.T, a, b *Stream) {
	t.Helper()
	for busy := true; busy; {
		busy = false
		for _, d := range []struct{ from, to *Stream }{{a, b}, {b, a}} {
			_, ulpdus := sent(d.from, 1442)
			busy = busy || len(ulpdus) > 0
			for _, u := range ulpdus {
				if err := d.to.Receive(u); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Write with immediate is two messages that nothing comes between, and one
// request.
func TestImmediateData(t *testing.T) {
	a, b := &fake{}, &fake{recvs: []int{0, 0, 0, 100}}
	sa, sb := NewStream(a, Limits{IRD: 4, ORD: 4}), NewStream(b, Limits{})
	for i := range uint32(2) { // Read Responses would like to take turns
		if err := sa.Receive(readRequest(0, 10, 0x100, 0x1000, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	imm := func(s string) (i Immediate) { copy(i[:], s); return i }
	a.work = []Work{
		{Op: Write, Ref: 1, Length: 2000, STag: 0x100, TO: 0x1000, Then: ImmediateSE, Imm: imm("bothdone")},
		{Op: ImmediateOp, Ref: 2, Imm: imm("justthis")},
		{Op: Write, Ref: 3, Length: 0, STag: 9, Then: ImmediateOp, Imm: imm("nothing.")},
		{Op: Send, Ref: 4, Length: 7},
	}
	var seg Segment
	var got []string
	for {
		if _, _, ok := sa.Choose(); !ok {
			break
		}
		sa.Cut(1442, &seg)
		if seg.Ref != NoRef {
			got = append(got, fmt.Sprintf("%v %d final %v", seg.Op, seg.Ref, seg.Final))
			if err := sb.Receive(encode(&seg)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{"RDMA Write 1 final false", "RDMA Write 1 final false", "Immediate Data with Solicited Event 1 final true",
		"Immediate Data 2 final true", "RDMA Write 3 final false", "Immediate Data 3 final true", "Send 4 final true"}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
	want = []string{`recv Immediate Data with Solicited Event "bothdone" after write true of 2000`,
		`recv Immediate Data "justthis" after write false of 0`, `recv Immediate Data "nothing." after write true of 0`,
		"recv Send 7 0x0"}
	if !slices.Equal(b.tape, want) {
		t.Errorf("tape %q", b.tape)
	}
	if h := sb.Header(); h.MSN != 4 || h.QN != 0 {
		t.Errorf("last header %+v", h)
	}
}

// Atomic operations and Reads share the slots and are answered in order.
func TestAtomicOperations(t *testing.T) {
	a, b := &fake{}, &fake{}
	sa := NewStream(a, Limits{ORD: 2})
	binary.BigEndian.PutUint64(b.mem[8:], 100)
	at := func(ref uint64, r AtomicRequest) Work {
		return Work{Op: AtomicRequestOp, Ref: ref, STag: 0x100, TO: 0x1008, Atomic: r}
	}
	all := ^uint64(0)
	a.work = []Work{
		at(1, AtomicRequest{Op: FetchAdd, Data: 11}),
		{Op: ReadRequestOp, Ref: 2, Length: 4, STag: 0x100, TO: 0x1000, SinkSTag: 1, SinkTO: 2},
		at(3, AtomicRequest{Op: CmpSwap, Data: 7, Mask: all, Compare: 111, CompareMask: all}),
		at(4, AtomicRequest{Op: CmpSwap, Data: 9, Mask: all, Compare: 8, CompareMask: all}),
		at(5, AtomicRequest{Op: Swap, Data: 50, Mask: all, CompareMask: all}),
	}
	out, _ := sent(sa, 1442)
	if len(out) != 2 || sa.Reads() != 2 {
		t.Fatalf("beyond ORD: %q", out)
	}
	a.work = append([]Work(nil), a.work...)
	sa = NewStream(a, Limits{ORD: 2})
	sb := NewStream(b, Limits{IRD: 2})
	a.work = append([]Work{at(1, AtomicRequest{Op: FetchAdd, Data: 11}),
		{Op: ReadRequestOp, Ref: 2, Length: 4, STag: 0x100, TO: 0x1000, SinkSTag: 1, SinkTO: 2}}, a.work...)
	exchange(t, sa, sb)
	if want := []string{"atomic 1 found 100", "read 2", "atomic 3 found 111", "atomic 4 found 7", "atomic 5 found 7"}; !slices.Equal(a.tape, want) {
		t.Errorf("tape %q", a.tape)
	}
	if v := binary.BigEndian.Uint64(b.mem[8:]); v != 50 || !sa.Idle() || !sb.Idle() {
		t.Errorf("left %d", v)
	}
	if sb.Counters.RxMessages[AtomicRequestOp] != 4 || sb.Counters.TxMessages[AtomicResponseOp] != 4 {
		t.Errorf("%+v", sb.Counters)
	}
}

func TestBadAtomicResponses(t *testing.T) {
	response := func(id uint32) []byte {
		h := UntaggedHeader(AtomicResponseOp, true, 0, 1, 0)
		r := AtomicResponse{ID: id, Original: 3}
		return r.AppendTo(h.AppendTo(nil))
	}
	read := Work{Op: ReadRequestOp, Ref: 1, Length: 4, SinkSTag: 1}
	atomic := Work{Op: AtomicRequestOp, Ref: 1}
	for _, c := range []struct {
		name string
		work Work
		in   []byte
		want error
	}{
		{"of another request", atomic, response(2), operation(Unspecified)},
		{"instead of a Read Response", read, response(1), operation(UnexpectedOpcode)},
		{"Read Response instead of it", atomic, tagged(ReadResponse, true, 1, 0, 4), operation(UnexpectedOpcode)},
	} {
		f := &fake{work: []Work{c.work}}
		s := NewStream(f, Limits{ORD: 4})
		sent(s, 1442)
		if err := s.Receive(c.in); !errors.Is(err, c.want) || len(f.tape) != 0 {
			t.Errorf("%s: %v, %q", c.name, err, f.tape)
		}
	}
}

// The peer's Terminate names the atomic operation by its header.
func TestFaultyAtomic(t *testing.T) {
	f := &fake{work: []Work{{Op: AtomicRequestOp, Ref: 7}, {Op: AtomicRequestOp, Ref: 8}}}
	s := NewStream(f, Limits{ORD: 4})
	sent(s, 1442)
	term := Terminate{Layer: LayerRDMA, Type: TypeProtection, Code: Bounds}.
		WithSegment(UntaggedHeader(AtomicRequestOp, true, 0, 2, 0), ddp.UntaggedLen+AtomicRequestLen)
	if err := s.Receive(term.AppendTo(firstHeader(TerminateOp))); !err.Remote || s.FaultyRead() != 8 {
		t.Errorf("%v, faulty %d", err, s.FaultyRead())
	}
}

// A stream that closes does no further atomic operation.
func TestQuietStreamDoesNoAtomics(t *testing.T) {
	f := &fake{}
	s := NewStream(f, Limits{IRD: 2})
	s.Quiesce()
	if err := s.Receive(atomicRequest(FetchAdd, 0x100, 0x1000, 1)); err != nil || f.mem[7] != 0 || !s.Idle() {
		t.Errorf("%v, %d", err, f.mem[7])
	}
}

// firstHeader is the header of a stream's first message of opcode o.
func firstHeader(o Opcode) []byte {
	h := UntaggedHeader(o, true, 0, 1, 0)
	return h.AppendTo(nil)
}
