package fcoe

import (
	"testing"

	"tapir/nic/fastlinq/storage"
	"tapir/nic/fcoe"
	"tapir/wire/fc"
)

// The firmware reads a send queue page after page, through the addresses of the present page
// and the next: behind the last page comes the first.
//
// FC-03
func TestSendQueuePages(t *testing.T) {
	for pages := 1; pages <= 3; pages++ {
		q := newQueue(new(storage.Memory), pages)
		put, got := uint64(0), uint64(0)
		for step := range 40 * pages {
			for range 37 * (step%31 + 1) {
				if full := q.Used() == q.Size; q.produce(put) == full {
					t.Fatalf("%d pages: room beside %d elements: %v", pages, q.Used(), !full)
				} else if !full {
					put++
				}
			}
			for range q.Used() * (step%3 + 1) / 3 {
				at := int(got) / storage.PerPage
				if q.Curr != q.pages[at%pages] || q.Next != q.pages[(at+1)%pages] {
					t.Fatalf("%d pages, element %d: present page %#x, next %#x of %#x", pages, got, q.Curr, q.Next, q.pages)
				}
				if v, ok := q.fetch(); !ok || v != got {
					t.Fatalf("%d pages: element %d, want %d", pages, v, got)
				}
				got++
			}
		}
		if q.Turns != int(got)/storage.PerPage || q.Turns < 2*pages || q.Peak != q.Size {
			t.Errorf("%d pages: %d left behind, %d elements, at most %d", pages, q.Turns, got, q.Peak)
		}
	}
}

// bench is a function whose ramrods the firmware executes at once.
type bench struct {
	*Function
	fw    Firmware
	codes map[Command]uint8
	next  int
	free  int
	told  []fcoe.Error
}

type refused uint8

func (refused) Error() string { return "the firmware refuses" }

func newBench(t *testing.T, p Params) *bench {
	t.Helper()
	b := &bench{codes: map[Command]uint8{}}
	contexts := map[int][]byte{}
	b.fw = Firmware{Context: func(cid int) []byte { return contexts[cid] }, Notify: func(int) {},
		Event: func(_ Event, code uint8, _ int) { b.told = append(b.told, fcoe.Error(code)) }}
	var err error
	b.Function, err = Start(p, Core{Vectors: 4,
		AcquireCID: func() (int, error) {
			b.next++
			contexts[b.next] = make([]byte, 8)
			return b.next, nil
		},
		ReleaseCID: func(int) error { b.free++; return nil },
		Post: func(cid int, c Command, data any) error {
			if b.codes[c] = b.fw.Execute(c, cid, data); b.codes[c] != OK {
				return refused(b.codes[c])
			}
			return nil
		}}, &b.fw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var small = Params{Params: storage.Params{Conns: 4, Tasks: 8, ConnTasks: 8, SQPages: 2, Queues: 2, CQEntries: 32,
	RQEntries: 16, CmdQEntries: 8}, MTU: 1500}

func session(own, other fc.ID) fcoe.Session {
	return fcoe.Session{SID: own, DID: other, TxPayload: 1024, Payload: 1024}
}

// What the firmware refuses of a connection: addresses that are not those of its send queue,
// payloads beyond the MTU, and a pair of identifiers that another connection has.
//
// FC-02 FC-03 FC-04
func TestOffloadRefused(t *testing.T) {
	b := newBench(t, small)
	c, err := b.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct {
		spoil func(q *Queue)
		s     fcoe.Session
		want  uint8
	}{
		"next page first": {func(q *Queue) { q.Curr, q.Next = q.Next, q.Curr }, session(1, 2), BadQueue},
		"one page twice":  {func(q *Queue) { q.Next = q.Curr }, session(1, 2), BadQueue},
		"no list":         {func(q *Queue) { q.List = q.Curr }, session(1, 2), BadQueue},
		"queues' list":    {func(q *Queue) { q.List = b.Global() }, session(1, 2), BadQueue},
		"payload to send": {func(*Queue) {}, fcoe.Session{TxPayload: 1456}, BadPayload},
		"payload":         {func(*Queue) {}, fcoe.Session{Payload: 1456}, BadPayload},
	} {
		was := *c.sq
		bad.spoil(c.sq)
		if err := c.Offload(bad.s); err == nil || b.codes[OffloadConn] != bad.want || c.State() != "acquired" {
			t.Errorf("%s: %v, code %d, the connection is %s", name, err, b.codes[OffloadConn], c.State())
		}
		*c.sq = was
	}
	if err := c.Offload(session(1, 2)); err != nil || !b.fw.Has(1, 2) || b.fw.Has(2, 1) {
		t.Errorf("offload: %v", err)
	}
	if _, err := b.Function.Offload(session(1, 2)); err == nil || b.codes[OffloadConn] != BadPair || len(b.Conns()) != 1 {
		t.Errorf("a second session of the pair: %v, code %d, %d connections", err, b.codes[OffloadConn], len(b.Conns()))
	}
	if c.Offload(session(3, 4)) == nil || c.Release() == nil || b.Stop() == nil {
		t.Error("offload twice, release or stop with a session")
	}
	if code := b.fw.Execute(DestroyFunc, 0, nil); code != BadState {
		t.Errorf("the firmware destroys a function with a session: %d", code)
	}
	if n, err := c.Terminate(); n != 0 || err != nil || b.fw.Has(1, 2) {
		t.Errorf("terminate: %d, %v", n, err)
	}
	if _, err := c.Terminate(); err == nil {
		t.Error("terminate twice")
	}
	for _, code := range []uint8{b.fw.Execute(TerminateConn, c.CID(), &Terminate{}), b.fw.Execute(StatFunc, 0, &Terminate{}),
		b.fw.Execute(InitFunc, 0, &Init{}), b.fw.Execute(OffloadConn, 999, &Offload{}), b.fw.Execute(99, 1, 3)} {
		if code == OK {
			t.Error("the firmware does what it cannot")
		}
	}
	if c.Release() != nil || b.Stop() != nil || b.Stop() != nil || b.free != b.next {
		t.Errorf("release and stop: %d of %d connection ids come back", b.free, b.next)
	}
	if _, err := b.Acquire(); err == nil {
		t.Error("acquire after the stop")
	}
	if _, err := b.Stats(); err == nil {
		t.Error("statistics after the stop")
	}
}

// A handle is that of one session: what comes late about an earlier one is ignored.
func TestLateCalls(t *testing.T) {
	b := newBench(t, small)
	old, err := b.Function.Offload(session(1, 2))
	if err != nil || !b.Task(old, false) || !b.Post(old) {
		t.Fatal(err)
	}
	b.Function.Terminate(old)
	now, err := b.Function.Offload(session(1, 2))
	if err != nil || now == old || b.Tasks() != 0 {
		t.Fatalf("%v, handles %d and %d, %d tasks", err, old, now, b.Tasks())
	}
	if !b.Task(now, true) || !b.Post(now) {
		t.Fatal("no room")
	}
	b.Done(old)
	b.Fetch(old)
	b.Function.Terminate(old)
	b.Traffic(old, fc.SolicitedData, 100, true)
	b.Violation(old, fcoe.ErrTimeout)
	if c := b.Conns()[0]; b.Task(old, true) || b.Post(old) || c.Tasks() != 1 || c.SQ().Used() != 1 || len(b.told) != 0 ||
		b.fw.Stats().Tx.Bytes != 0 {
		t.Errorf("%d tasks, %d elements, told %v", c.Tasks(), c.SQ().Used(), b.told)
	}
}
