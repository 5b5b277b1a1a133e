package umode

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"tapir/nic/uapi/uverbs"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// record is what happened, in order, in both processes.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// take returns the record and begins a new one.
func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// The creation of a completion queue takes the steps of the HCA driver kit's
// section 2.4, "Allocating CQ memory in user mode", in that order.
func TestTenStepsOfCQCreation(t *testing.T) { over(t, testTenStepsOfCQCreation) }

func testTenStepsOfCQCreation(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	var r record
	steps := map[Step]string{
		StepCall:   "1 the application calls the user-mode access layer",
		StepPre:    "2 which calls the library's pre-create",
		StepProxy:  "3 and passes the private data to the proxy",
		StepPost:   "9 the access layer calls the library's post-create",
		StepReturn: "10 and returns the handle to the application",
	}
	kernel := map[uverbs.Step]string{
		uverbs.StepProxy:    "3 which has its own copy",
		uverbs.StepAccess:   "4 the proxy calls the access layer on its side",
		uverbs.StepDriver:   "5 which calls the driver with the private data",
		uverbs.StepCreated:  "6 that makes the queue and returns",
		uverbs.StepTracked:  "7 the access layer keeps account of it",
		uverbs.StepAnswered: "8 and the proxy for notifications, and returns",
	}
	one.run(t, func(frame.Time) {
		one.verbs.OnTrace(func(p uverbs.TracePoint) {
			if p.Command == "CREATE_CQ" {
				r.add("%s", kernel[p.Step])
			}
		})
	})
	library := withoutLibrary()
	room := library[CreateCQ].Pre
	library[CreateCQ] = Trigger{
		Pre: func(call *Call) error {
			call.Private = []byte("8 octets")
			return room(call)
		},
		Post: func(call *Call) error {
			if size := native.Uint32(call.Answer[8:]); size < 64*100 {
				t.Errorf("the driver answers %x: a ring of %d octets", call.Answer, size)
			}
			return call.Err
		},
	}
	c := one.open(t, Options{Triggers: library, Trace: func(v Verb, s Step) {
		if v == CreateCQ {
			r.add("%s", steps[s])
		}
	}})
	must[*CQ](t)(c.CreateCQ(100, nil))
	want := []string{
		steps[StepCall], steps[StepPre], steps[StepProxy], kernel[uverbs.StepProxy],
		kernel[uverbs.StepAccess], kernel[uverbs.StepDriver],
		kernel[uverbs.StepCreated], kernel[uverbs.StepTracked], kernel[uverbs.StepAnswered],
		steps[StepPost], steps[StepReturn],
	}
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// watched is a library that counts the triggers of every verb, and fails where
// it is told to.
type watched struct {
	Triggers
	pre, post [NumVerbs]int
	failed    [NumVerbs]error // what Post was told last
	failPre   Verb
	failPost  Verb
}

var errLibrary = errors.New("the library says no")

func newWatched() *watched {
	w := &watched{Triggers: *withoutLibrary(), failPre: NumVerbs, failPost: NumVerbs}
	for v := range NumVerbs {
		room := w.Triggers[v].Pre
		w.Triggers[v] = Trigger{
			Pre: func(call *Call) error {
				w.pre[call.Verb]++
				if room != nil {
					_ = room(call)
				}
				if call.Verb == w.failPre {
					return errLibrary
				}
				return nil
			},
			Post: func(call *Call) error {
				w.post[call.Verb]++
				w.failed[call.Verb] = call.Err
				if call.Verb == w.failPost {
					return errLibrary
				}
				return nil
			},
		}
	}
	return w
}

// useAll calls every verb, some with an error.
func useAll(t *testing.T, c *Context) {
	t.Helper()
	s := newSide(t, c, true)
	plain := must[*QP](t)(s.pd.CreateQP(QPConfig{SendCQ: s.cq, RecvCQ: s.cq}))
	w := must[*MW](t)(s.pd.AllocMW(verbs.MWType1))
	of := must[*CQ](t)(s.pd.CreateCQ(16, nil))
	pages := must[*MR](t)(s.pd.RegPages(PageList{Space: s.mr.Bytes(), Pages: []uint64{4096}, PageSize: 4096, Length: 10},
		0, 0))
	shared := must[*MR](t)(s.pd.RegShared(pages, 0, 0))
	if err := s.pd.AllocRDD(); !errors.Is(err, verbs.ErrUnsupported) {
		t.Errorf("a domain of reliable datagrams: %v", err)
	}
	must[verbs.DeviceAttr](t)(c.Query())
	must[verbs.PortAttr](t)(c.QueryPort(1))
	must[verbs.SRQAttr](t)(s.qp.cfg.SRQ.Query())
	must[int](t)(s.qp.cfg.SRQ.PostRecv(verbs.RecvWR{}))
	if err := plain.Modify(verbs.Init); err != nil {
		t.Fatal(err)
	}
	must[int](t)(plain.PostRecv(verbs.RecvWR{}))
	must[verbs.QPAttr](t)(plain.Query())
	if _, err := plain.PostSend(verbs.SendWR{}); err == nil {
		t.Error("a send before the queue pair is connected")
	}
	if _, err := plain.BindMW(1, 0, Bind{MW: w}); !errors.Is(err, verbs.ErrUnsupported) {
		t.Errorf("bind without a library: %v", err)
	}
	rights := verbs.LocalWrite
	for _, err := range []error{
		s.cq.ReqNotify(true), plain.SetAccess(verbs.RemoteRead), s.qp.cfg.SRQ.SetLimit(1),
		s.mr.Rereg(Rereg{Access: &rights}), s.cq.Resize(500), plain.Modify(verbs.Err),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	var wcs [4]WC
	if n, err := s.cq.Poll(wcs[:]); err != nil || n != 1 || wcs[0].Status != verbs.StatusFlushed || wcs[0].QP != plain {
		t.Errorf("%d completions, %+v: %v", n, wcs[0].WC, err)
	}
	for _, err := range []error{of.Destroy(), shared.Dereg(), pages.Dereg(), w.Dealloc(), plain.Destroy(), s.qp.Destroy(),
		s.qp.cfg.SRQ.Destroy(), s.mr.Dereg(), s.cq.Destroy(), s.pd.Dealloc(), c.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Every verb has both triggers, and each runs once per call.
func TestTriggersOfEveryVerb(t *testing.T) { over(t, testTriggersOfEveryVerb) }

func testTriggersOfEveryVerb(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	w := newWatched()
	useAll(t, one.open(t, Options{Triggers: &w.Triggers}))
	for v := range NumVerbs {
		if w.pre[v] == 0 || w.pre[v] != w.post[v] {
			t.Errorf("%v: pre ran %d times, post %d times", v, w.pre[v], w.post[v])
		}
	}
	if !errors.Is(w.failed[BindMW], verbs.ErrUnsupported) || w.failed[PostSend] == nil || w.failed[CreateQP] != nil {
		t.Errorf("post was told of %v, %v, %v", w.failed[BindMW], w.failed[PostSend], w.failed[CreateQP])
	}
}

// A failed pre keeps the verb from the NIC; after a failed post nothing of it
// is left.
func TestTriggersThatFail(t *testing.T) { over(t, testTriggersThatFail) }

func testTriggersThatFail(t *testing.T, p verbs.Personality) {
	one, _ := nics(t, p)
	w := newWatched()
	c := one.open(t, Options{Triggers: &w.Triggers})
	s := newSide(t, c, false)
	mem := must[[]byte](t)(c.Alloc(100))
	var commands []string
	one.run(t, func(frame.Time) {
		one.verbs.OnTrace(func(p uverbs.TracePoint) {
			if p.Step == uverbs.StepProxy {
				commands = append(commands, p.Command)
			}
		})
	})
	count := func() (objects, made int) {
		one.run(t, func(frame.Time) {
			objects, made = len(one.Device.Verbs.Objects()), len(commands)
			commands = nil
		})
		return objects, made
	}
	before, _ := count()
	for verb, create := range map[Verb]func() error{
		AllocPD:           func() error { _, err := c.AllocPD(); return err },
		RegMR:             func() error { _, err := s.pd.RegMR(mem, 0); return err },
		AllocMW:           func() error { _, err := s.pd.AllocMW(verbs.MWType1); return err },
		CreateCompChannel: func() error { _, err := c.CreateCompChannel(); return err },
		CreateCQ:          func() error { _, err := c.CreateCQ(10, s.ch); return err },
		CreateSRQ:         func() error { _, err := s.pd.CreateSRQ(10, 1); return err },
		CreateQP:          func() error { _, err := s.pd.CreateQP(QPConfig{SendCQ: s.cq, RecvCQ: s.cq}); return err },
	} {
		posts := w.post[verb]
		w.failPre, w.failPost = verb, NumVerbs
		err := create()
		if objects, made := count(); !errors.Is(err, errLibrary) || objects != before || made != 0 || w.post[verb] != posts {
			t.Errorf("%v after a failed pre: %v, %d objects of %d, %d commands, post ran %d times", verb, err, objects, before,
				made, w.post[verb]-posts)
		}
		w.failPre, w.failPost = NumVerbs, verb
		err = create()
		if objects, made := count(); !errors.Is(err, errLibrary) || objects != before || made == 0 {
			t.Errorf("%v after a failed post: %v, %d objects of %d, %d commands", verb, err, objects, before, made)
		}
	}
	w.failPost = NumVerbs
	if err := c.Free(mem); err != nil {
		t.Errorf("memory of regions that were not made: %v", err)
	}
}
