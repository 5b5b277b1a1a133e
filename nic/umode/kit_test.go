package umode

import (
	"bytes"
	"errors"
	"testing"

	"tapir/nic/al"
	"tapir/nic/verbs"
)

// fails waits until the NIC tells of a wrong access to its queue pair, which has
// accepted a connection: data that came before the peer was ready for it is told, too.
func (s *side) fails() {
	s.t.Helper()
	for ev := (Event{}); ev.Type != al.QPAccessErr; {
		ev = must[Event](s.t)(s.ctx.AsyncEvent(soon(s.t)))
		if ev.Type != al.QPAccessErr && ev.Type != al.CommEst || ev.QP != s.qp {
			s.t.Fatalf("told of %v", ev.Type)
		}
	}
}

// pattern fills b with octets that tell their places.
func pattern(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i>>8)*31 ^ byte(i) + seed
	}
}

// A queue that belongs to a domain takes completions of queue pairs of another
// domain, and keeps its own domain there.
func TestCQOfADomain(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		one, two := nics(t, p)
		a, b := newSide(t, one.open(t, o), false), newSide(t, two.open(t, o), false)
		other := must[*PD](t)(a.ctx.AllocPD())
		a.cq = must[*CQ](t)(other.CreateCQ(16, a.ch))
		a.qp = must[*QP](t)(a.pd.CreateQP(QPConfig{SendCQ: a.cq, RecvCQ: a.cq, MaxSGE: 2, Context: a}))
		connect(t, a, b)
		b.recv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{b.mr.SGE(0, 100)}})
		a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, 100)}})
		a.next(2, verbs.StatusSuccess)
		b.next(1, verbs.StatusSuccess)
		if err := other.Dealloc(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("the domain of a queue that is there: %v", err)
		}
		for _, err := range []error{a.qp.Destroy(), a.cq.Destroy(), other.Dealloc()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// A list of pages is one region to the peer, whatever lies between them, and the
// NIC takes no list that leaves the program's memory.
func TestPagesOfAProgram(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		a, b := pair(t, p, o, false)
		const page, at = 4096, 0x10000
		mem := must[[]byte](t)(b.ctx.Alloc(8 * page))
		list := PageList{Space: mem, Pages: []uint64{6 * page, page, 3 * page}, PageSize: page, Offset: 100,
			Length: 2*page - 50}
		for name, bad := range map[string]func(l *PageList){
			"a page outside":     func(l *PageList) { l.Pages = []uint64{6 * page, page, 8 * page} },
			"no power of two":    func(l *PageList) { l.PageSize = 5000 },
			"more than there is": func(l *PageList) { l.Length = 3 * page },
			"not a boundary":     func(l *PageList) { l.Pages = []uint64{1, page, 2 * page} },
		} {
			l := list
			bad(&l)
			if _, err := b.pd.RegPages(l, at, allRights); !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := b.pd.RegPages(PageList{Space: make([]byte, page), Pages: []uint64{0}, PageSize: page, Length: 1}, at,
			0); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("memory of the heap: %v", err)
		}
		mr := must[*MR](t)(b.pd.RegPages(list, at, allRights))
		pattern(a.mr.Bytes(), 1)
		pattern(mem, 9)
		want := bytes.Clone(mem)
		sent := a.mr.Bytes()[:mr.Len()]
		copy(want[6*page+100:7*page], sent)
		copy(want[page:2*page], sent[page-100:])
		copy(want[3*page:], sent[2*page-100:])
		write := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: at, RKey: mr.RKey(),
			SGEs: []verbs.SGE{a.mr.SGE(0, int(mr.Len()))}}
		a.send(write)
		a.next(1, verbs.StatusSuccess)
		back := a.mr.SGE(0, int(mr.Len()))
		clear(sent)
		a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: at, RKey: mr.RKey(),
			SGEs: []verbs.SGE{back}})
		a.next(2, verbs.StatusSuccess)
		if !bytes.Equal(mem, want) || !bytes.Equal(sent[:100], want[6*page+100:][:100]) || !bytes.Equal(sent[2*page-100:],
			want[3*page:][:50]) {
			t.Error("the octets are not where the pages are")
		}
		rights := verbs.LocalWrite
		if err := mr.Rereg(Rereg{Access: &rights}); !errors.Is(err, verbs.ErrUnsupported) {
			t.Errorf("reregistered: %v", err)
		}
		if err := b.ctx.Free(mem); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("free under pages: %v", err)
		}
		write.RemoteAddr += mr.Len()
		a.send(write) // behind the last page
		b.fails()
		if !bytes.Equal(mem, want) {
			t.Error("written behind the region")
		}
	})
}

// A region of a domain is registered once more in another one: the peer of that
// reaches the memory by the new key alone, with the new rights, also when the
// first registration has gone.
func TestSharedRegionOfAProgram(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		one, two := nics(t, p)
		a, b := newSide(t, one.open(t, o), false), newSide(t, two.open(t, o), false)
		other := must[*PD](t)(b.ctx.AllocPD())
		first := b.mr
		again := must[*MR](t)(other.RegShared(first, 0x5000, verbs.RemoteRead|verbs.LocalWrite))
		if again.RKey() == first.RKey() || again.Addr() != 0x5000 || again.Len() != first.Len() {
			t.Errorf("key %#x of %#x, %d octets at %#x", again.RKey(), first.RKey(), again.Len(), again.Addr())
		}
		b.qp = must[*QP](t)(other.CreateQP(QPConfig{SendCQ: b.cq, RecvCQ: b.cq, Context: b}))
		connect(t, a, b)
		if err := first.Dereg(); err != nil {
			t.Fatal(err)
		}
		pattern(again.Bytes(), 5)
		clear(a.mr.Bytes())
		read := verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: 0x5000, RKey: again.RKey(),
			SGEs: []verbs.SGE{a.mr.SGE(0, 1000)}}
		a.send(read)
		a.next(1, verbs.StatusSuccess)
		if !bytes.Equal(a.mr.Bytes()[:1000], again.Bytes()[:1000]) {
			t.Error("other octets")
		}
		if err := b.ctx.Free(again.Bytes()); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("free under a shared region: %v", err)
		}
		before := bytes.Clone(again.Bytes())
		read.Opcode = verbs.OpWrite
		a.send(read)
		b.fails()
		if !bytes.Equal(again.Bytes(), before) {
			t.Error("written without the right")
		}
	})
}
