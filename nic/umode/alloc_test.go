package umode

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/ring"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
)

// quiet is a queue pair and a completion queue whose NIC only reads doorbells.
func quiet(t testing.TB) (q *QP, cq *CQ, device *ring.SendQueue, completions *ring.CompletionQueue) {
	t.Helper()
	ours, theirs := abitest.SocketPair(t)
	arena := must[*ring.Arena](t)(ring.NewArena())
	t.Cleanup(arena.Close)
	fd := must[int](t)(arena.Program())
	c := &Context{session: newSession(ours), qps: map[uint32]*QP{}}
	bells, memory, err := doorbell.New()
	if err != nil {
		t.Fatal(err)
	}
	c.session.bells = must[*doorbell.Bells](t)(doorbell.Open(memory, must[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))))
	_ = unix.Close(memory)
	t.Cleanup(bells.End)
	c.dev = &file{session: c.session, number: 1}
	c.session.fds[0] = fd
	if c.dev.os, err = c.session.take(0, "rings"); err != nil {
		t.Fatal(err)
	}
	device = must[*ring.SendQueue](t)(arena.NewSendQueue(verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, 1)), 64, 1, 0))
	completions = must[*ring.CompletionQueue](t)(arena.NewCompletionQueue(64))
	place := func(r interface {
		Offset() uint64
		Size() uint32
	}) []byte {
		b := make([]byte, ringPlaceLen)
		native.PutUint64(b, r.Offset())
		native.PutUint32(b[8:], r.Size())
		return b
	}
	q = &QP{object: object{ctx: c}, cfg: QPConfig{MaxSGE: 1, SRQ: &SRQ{}}}
	cq = &CQ{object: object{ctx: c}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		raw, err := theirs.SyscallConn()
		if err != nil {
			return
		}
		b := make([]byte, 4096)
		for n := 1; n > 0; {
			if raw.Read(func(fd uintptr) bool {
				n, err = unix.Read(int(fd), b)
				return err != unix.EAGAIN
			}) != nil {
				return
			}
			if r, err := proxy.ParseRequest(b[:max(n, 0)]); err == nil && r.Kind == proxy.Bell {
				_, _ = theirs.Write((&proxy.Answer{}).Append(nil))
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.session.close()
		testenv.Await(t, done, "the NIC's side")
		_ = c.dev.os.Close()
	})
	for _, err := range []error{
		mapQP(q, append(make([]byte, ringPlaceLen), place(device)...)),
		mapCQ(cq, place(completions)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return q, cq, device, completions
}

// round posts a request, and polls its completion.
func round(t testing.TB, q *QP, cq *CQ, device *ring.SendQueue, completions *ring.CompletionQueue, wrs []verbs.SendWR, wcs []WC) {
	if n, err := q.PostSend(wrs...); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	var wr verbs.SendWR
	if _, ok := device.Next(&wr); !ok {
		t.Fatal("the device sees no request")
	}
	completions.Push(&verbs.WC{ID: wr.ID})
	asked, _ := completions.Awaited(false)
	if again, _ := completions.Awaited(true); !asked || again {
		t.Fatal("the device must see once that the program waits")
	}
	if n, err := cq.Poll(wcs); n != 1 || err != nil || wcs[0].ID != wr.ID {
		t.Fatal(n, err)
	}
}

func TestBypassAllocatesNothing(t *testing.T) {
	q, cq, device, completions := quiet(t)
	wrs, wcs := []verbs.SendWR{{ID: 5, SGEs: []verbs.SGE{{Length: 10}}}}, make([]WC, 4)
	if n := testing.AllocsPerRun(500, func() { round(t, q, cq, device, completions, wrs, wcs) }); n > 0 {
		t.Errorf("%v allocations for a request and its completion", n)
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	_, cq, _, completions := quiet(t)
	ctx := t.Context()
	n := testing.AllocsPerRun(500, func() {
		completions.Push(&verbs.WC{ID: 5})
		if wc, err := cq.Next(ctx); err != nil || wc.ID != 5 {
			t.Fatal(wc.ID, err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations for a completion", n)
	}
}

func BenchmarkBypass(b *testing.B) {
	q, cq, device, completions := quiet(b)
	wrs, wcs := []verbs.SendWR{{ID: 5, SGEs: []verbs.SGE{{Length: 10}}}}, make([]WC, 4)
	b.ReportAllocs()
	for b.Loop() {
		round(b, q, cq, device, completions, wrs, wcs)
	}
}
