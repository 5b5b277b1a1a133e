package al

import (
	"fmt"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// world is a device with one of each object that events concern.
type world struct {
	ca  *CA
	ctx *Context
	qp  *verbs.QP
	cq  *verbs.CQ
	srq *verbs.SRQ
	log []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ca: register(t, New(nil), 1)}
	var errs [5]error
	w.ctx, errs[0] = w.ca.Open(EventFunc(func(ev Event, _ frame.Time) {
		w.log = append(w.log, fmt.Sprintf("context %v %d", ev.Type, ev.Port))
		if ev.Context != w.ctx {
			t.Errorf("%v: context %v", ev.Type, ev.Context)
		}
	}), nil)
	ok(t, errs[0])
	pd, err := w.ctx.AllocPD()
	ok(t, err)
	w.cq, errs[1] = w.ctx.CreateCQ(8, 0, nil)
	ok(t, errs[1])
	w.srq, errs[2] = pd.CreateSRQ(2, 1)
	w.qp, errs[3] = pd.CreateQP(verbs.QPConfig{SendCQ: w.cq, RecvCQ: w.cq})
	ok(t, errs[:]...)
	return w
}

// upper is the upper layer's object of a lower one.
type upper struct {
	w    *world
	name string
}

func (u *upper) AsyncEvent(ev Event, _ frame.Time) {
	u.w.log = append(u.w.log, fmt.Sprintf("%s %v %d", u.name, ev.Type, ev.Type))
}

func (u *upper) Completion(cq *verbs.CQ, _ frame.Time) {
	u.w.log = append(u.w.log, fmt.Sprintf("%s %d completions", u.name, cq.Len()))
}

func (w *world) raise(ev verbs.AsyncEvent) {
	w.log = nil
	w.ca.Verbs().Async(ev)
	dropIfLeft(w.ca)
}

// The table of the Solaris Open Fabrics architecture with the numbers of
// ibv_event_type: each row reaches the handler of its object.
func TestTranslationTable(t *testing.T) {
	rows := []struct {
		ibtf   string
		lower  verbs.EventType
		number EventType
		object string
	}{
		{"IBT_EVENT_PATH_MIGRATED", verbs.EventPathMigrated, 6, "QP"},
		{"IBT_EVENT_SQD", verbs.EventSQDrained, 5, "QP"},
		{"IBT_EVENT_COM_EST", verbs.EventCommEstablished, 4, "QP"},
		{"IBT_ERROR_CATASTROPHIC_CHAN", verbs.EventQPFatal, 1, "QP"},
		{"IBT_ERROR_INVALID_REQUEST_CHAN", verbs.EventQPRequestError, 2, "QP"},
		{"IBT_ERROR_ACCESS_VIOLATION_CHAN", verbs.EventQPAccessError, 3, "QP"},
		{"IBT_ERROR_PATH_MIGRATE_REQ", verbs.EventPathMigrateError, 7, "QP"},
		{"IBT_ERROR_CQ", verbs.EventCQError, 0, "CQ"},
		{"IBT_EVENT_LIMIT_REACHED_SRQ", verbs.EventSRQLimit, 15, "SRQ"},
		{"IBT_EVENT_EMPTY_CHAN", verbs.EventLastWQE, 16, "QP"},
		{"IBT_ERROR_CATASTROPHIC_SRQ", verbs.EventSRQError, 14, "SRQ"},
	}
	w := newWorld(t)
	for _, r := range rows {
		tr := Translate(r.lower)
		if tr.IBTF != r.ibtf || tr.Upper != r.number || tr.Route.String() != r.object {
			t.Errorf("%s: %+v", r.ibtf, tr)
		}
		ev := verbs.AsyncEvent{Type: r.lower}
		switch r.object {
		case "QP":
			ev.QP = w.qp
			w.qp.Private = &upper{w, "QP"}
		case "CQ":
			ev.CQ = w.cq
			w.cq.Private = &upper{w, "CQ"}
		case "SRQ":
			ev.SRQ = w.srq
			w.srq.Private = &upper{w, "SRQ"}
		}
		w.raise(ev)
		if want := fmt.Sprintf("%s %v %d", r.object, r.number, r.number); len(w.log) != 1 || w.log[0] != want {
			t.Errorf("%s: told %q, want %q", r.ibtf, w.log, want)
		}
	}
}

// Without an upper object the context's handler is told; a second SetPrivate
// re-targets.
func TestRetargeting(t *testing.T) {
	w := newWorld(t)
	ev := verbs.AsyncEvent{Type: verbs.EventCommEstablished, QP: w.qp}
	for _, c := range []struct {
		private any
		want    string
	}{
		{nil, "context COMM_EST 0"}, {&upper{w, "first"}, "first COMM_EST 4"},
		{&upper{w, "second"}, "second COMM_EST 4"}, {"no handler", "context COMM_EST 0"},
	} {
		w.qp.Private = c.private
		w.raise(ev)
		if len(w.log) != 1 || w.log[0] != c.want {
			t.Errorf("told %q, want %q", w.log, c.want)
		}
	}
	Retarget(w.cq, &upper{w, "CQ"})
	w.cq.ReqNotify(false)
	ok(t, w.qp.Modify(verbs.Init))
	w.qp.PostRecv(verbs.RecvWR{}, verbs.RecvWR{})
	w.log = nil
	ok(t, w.qp.Modify(verbs.Err))
	dropIfLeft(w.ca)
	if len(w.log) != 1 || w.log[0] != "CQ 2 completions" {
		t.Errorf("told %q", w.log)
	}
}

func TestPortEventsReachEveryContext(t *testing.T) {
	w := newWorld(t)
	second := 0
	_, err := w.ca.Open(EventFunc(func(Event, frame.Time) { second++ }), nil)
	ok(t, err)
	for lower, number := range map[verbs.EventType]EventType{
		verbs.EventDeviceFatal: 8, verbs.EventPortActive: 9, verbs.EventPortError: 10, verbs.EventLIDChange: 11,
		verbs.EventPKeyChange: 12, verbs.EventSMChange: 13, verbs.EventClientReregister: 17, verbs.EventGIDChange: 18,
	} {
		second = 0
		w.raise(verbs.AsyncEvent{Type: lower, Port: 1})
		if want := fmt.Sprintf("context %v 1", number); len(w.log) != 1 || w.log[0] != want || second != 1 {
			t.Errorf("%v: told %q and %d", lower, w.log, second)
		}
	}
}

// What no one above knows ends here, and is counted.
func TestUnknownEventsAreConsumed(t *testing.T) {
	w := newWorld(t)
	w.raise(verbs.AsyncEvent{Type: verbs.EventTerminated, QP: w.qp})
	if len(w.log) != 0 || w.ca.Consumed(verbs.EventTerminated) != 1 {
		t.Errorf("told %q, consumed %d", w.log, w.ca.Consumed(verbs.EventTerminated))
	}
	pd, err := w.ca.Verbs().AllocPD() // the driver's own: no context hears of it
	ok(t, err)
	cq, err := w.ca.Verbs().CreateCQ(1, nil)
	ok(t, err)
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	ok(t, err)
	w.raise(verbs.AsyncEvent{Type: verbs.EventQPFatal, QP: qp})
	if len(w.log) != 0 || w.ca.Consumed(verbs.EventQPFatal) != 1 {
		t.Errorf("told %q, consumed %d", w.log, w.ca.Consumed(verbs.EventQPFatal))
	}
	if tr := Translate(verbs.NumEventTypes + 3); tr.Route != Consumed {
		t.Errorf("an event of the future: %+v", tr)
	}
}
