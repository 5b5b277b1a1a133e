package cm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// recorder is a transport that notes its calls.
type recorder struct {
	calls []string
	err   error
}

func (r *recorder) note(s string) error {
	r.calls = append(r.calls, s)
	return r.err
}

func (r *recorder) Listen(*Listener) (Acceptor, error) { return (*acceptor)(r), r.note("listen") }

// PrivateData implements Transport.
func (r *recorder) PrivateData(PortSpace) Limits { return Limits{maxPrivate, maxPrivate, maxPrivate} }

const maxPrivate = 508

// Words implements Transport.
func (r *recorder) Words() *Words {
	return &Words{Events: []DeviceEvent{"ASKED", EvClose}, Request: "ASKED", Reply: "ANSWERED",
		Refusal: Reason{Name: "NO", Errno: "ECONNREFUSED"}}
}

func (r *recorder) Connect(id *ID, _ frame.Time) error {
	id.Attach(r)
	return r.note("connect")
}

type acceptor recorder

func (r *acceptor) Close()        { r.calls = append(r.calls, "unlisten") }
func (r *acceptor) Pause(on bool) { r.calls = append(r.calls, fmt.Sprint("pause ", on)) }

func (r *recorder) Establish(frame.Time)      { r.calls = append(r.calls, "establish") }
func (r *recorder) Accept(frame.Time) error   { return r.note("accept") }
func (r *recorder) Reject([]byte, frame.Time) { _ = r.note("reject") }
func (r *recorder) Disconnect(abortive bool, _ frame.Time) {
	if abortive {
		r.calls = append(r.calls, "abort")
	} else {
		r.calls = append(r.calls, "disconnect")
	}
}

type fixture struct {
	dev    *verbs.Device
	m      *Manager
	tr     *recorder
	qp     *verbs.QP
	events []EventType
	errs   []error
}

var remote = netip.MustParseAddrPort("10.0.0.2:7471")

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{dev: verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, 1)), tr: &recorder{}}
	f.m = New(f.dev)
	f.m.SetTransport(f.tr)
	pd, err := f.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := f.dev.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) handle(ev Event, _ frame.Time) {
	f.events = append(f.events, ev.Type)
	f.errs = append(f.errs, ev.Err)
}

func (f *fixture) dispatch() {
	for f.dev.Dispatch(0) {
	}
}

func TestMoves(t *testing.T) {
	want := map[State][]State{
		Idle:       {Connecting, Closed},
		Connecting: {Connected, Closing, Closed},
		Requested:  {Accepting, Closing, Closed},
		Accepting:  {Connected, Closing, Closed},
		Connected:  {Closing, Closed},
		Closing:    {Closed},
		Closed:     {},
	}
	for from := Idle; from < numStates; from++ {
		for to := Idle; to < numStates; to++ {
			id := &ID{state: from}
			if id.move(to) != slices.Contains(want[from], to) {
				t.Errorf("%v to %v", from, to)
			}
		}
	}
}

func TestCallsByState(t *testing.T) {
	calls := map[string]func(*fixture, *ID) error{
		"connect":    func(f *fixture, id *ID) error { return id.Connect(remote, Params{QP: f.qp}, 0) },
		"accept":     func(f *fixture, id *ID) error { return id.Accept(Params{QP: f.qp}, 0) },
		"reject":     func(f *fixture, id *ID) error { return id.Reject(nil, 0) },
		"disconnect": func(f *fixture, id *ID) error { return id.Disconnect(false, 0) },
		"abort":      func(f *fixture, id *ID) error { return id.Disconnect(true, 0) },
		"destroy":    func(f *fixture, id *ID) error { return id.Destroy() },
	}
	allowed := map[State][]string{
		Idle:       {"connect", "destroy"},
		Connecting: {"disconnect", "abort"},
		Requested:  {"accept", "reject", "disconnect", "abort"},
		Accepting:  {"disconnect", "abort"},
		Connected:  {"disconnect", "abort"},
		Closing:    {"disconnect", "abort"},
		Closed:     {"destroy"},
	}
	for state := Idle; state < numStates; state++ {
		for name, call := range calls {
			f := newFixture(t)
			id := f.m.NewID(f.handle, nil)
			id.state = state
			id.Attach(f.tr)
			err := call(f, id)
			if ok := slices.Contains(allowed[state], name); (err == nil) != ok {
				t.Errorf("%s in %v: %v", name, state, err)
			}
			if err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrBusy) {
				t.Errorf("%s in %v: %v has no kind", name, state, err)
			}
			reached := err == nil && name != "destroy" && !(state == Closing && name == "disconnect")
			if (len(f.tr.calls) == 1) != reached || reached && f.tr.calls[0] != name {
				t.Errorf("%s in %v: transport was told %v", name, state, f.tr.calls)
			}
		}
	}
}

func TestEventOrder(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name  string
		start State
		do    func(*ID)
		want  []EventType
	}{
		{"active, orderly", Connecting, func(id *ID) { id.Complete(nil, 1, 2); id.Disconnecting(nil); id.Finish(nil) },
			[]EventType{ActiveComplete, Disconnected, ClosedEvent}},
		{"passive, orderly", Accepting, func(id *ID) { id.Complete(nil, 1, 2); id.Disconnecting(nil); id.Finish(nil) },
			[]EventType{PassiveComplete, Disconnected, ClosedEvent}},
		{"reset", Connected, func(id *ID) { id.up = true; id.Finish(boom) }, []EventType{Disconnected, ClosedEvent}},
		{"disconnected once", Connected,
			func(id *ID) { id.up = true; id.Disconnecting(boom); id.Disconnecting(nil); id.Finish(nil) },
			[]EventType{Disconnected, ClosedEvent}},
		{"rejected", Connecting, func(id *ID) { id.Fail(Rejected, ErrRejected, nil); id.Finish(nil) },
			[]EventType{Rejected, ClosedEvent}},
		{"failed once", Connecting, func(id *ID) { id.Fail(Refused, boom, nil); id.Fail(Failed, boom, nil); id.Finish(boom) },
			[]EventType{Refused, ClosedEvent}},
		{"never answered", Accepting, func(id *ID) { id.Finish(nil) }, []EventType{Failed, ClosedEvent}},
		{"rejecting", Closing, func(id *ID) { id.Finish(nil) }, []EventType{ClosedEvent}},
		{"nothing after closed", Closed, func(id *ID) {
			id.Finish(nil)
			id.Complete(nil, 0, 0)
			id.Fail(Failed, boom, nil)
			id.Disconnecting(nil)
		}, nil},
		{"no completion after failure", Connecting, func(id *ID) {
			id.Fail(Failed, boom, nil)
			id.Complete(nil, 0,
				0)
			id.Finish(nil)
		},
			[]EventType{Failed, ClosedEvent}},
	} {
		f := newFixture(t)
		id := f.m.NewID(f.handle, nil)
		id.state = c.start
		c.do(id)
		f.dispatch()
		if !slices.Equal(f.events, c.want) {
			t.Errorf("%s: %v, want %v", c.name, f.events, c.want)
		}
	}
}

func TestUnansweredFailureHasAReason(t *testing.T) {
	f := newFixture(t)
	id := f.m.NewID(f.handle, nil)
	id.state = Connecting
	id.Finish(nil)
	f.dispatch()
	if !errors.Is(f.errs[0], ErrClosing) {
		t.Errorf("%v", f.errs)
	}
}

func TestRequestInheritsFromListener(t *testing.T) {
	f := newFixture(t)
	l, err := f.m.Listen(netip.MustParseAddrPort("0.0.0.0:7471"), 0, f.handle, "context")
	if err != nil {
		t.Fatal(err)
	}
	if l.Backlog() != DefaultBacklog || len(f.m.Listeners()) != 1 {
		t.Errorf("backlog %d, listeners %d", l.Backlog(), len(f.m.Listeners()))
	}
	id := f.m.Request(l, f.tr, l.Local(), remote, []byte("hi"), 4, 5)
	f.dispatch()
	if id.Context != "context" || id.State() != Requested || !slices.Equal(f.events, []EventType{ConnectRequest}) {
		t.Errorf("%v %v %v", id.Context, id.State(), f.events)
	}
	l.Close()
	l.Close()
	if !slices.Equal(f.tr.calls, []string{"listen", "unlisten"}) || len(f.m.Listeners()) != 0 {
		t.Errorf("calls %v", f.tr.calls)
	}
}

func TestInvalidArguments(t *testing.T) {
	f := newFixture(t)
	id := f.m.NewID(f.handle, nil)
	err1 := id.Connect(netip.AddrPort{}, Params{QP: f.qp}, 0)
	err2 := id.Connect(remote, Params{}, 0)
	err3 := id.Connect(remote, Params{QP: f.qp, PrivateData: make([]byte, maxPrivate+1)}, 0)
	_, err4 := f.m.Listen(netip.MustParseAddrPort("10.0.0.1:0"), 1, f.handle, nil)
	_, err5 := f.m.Listen(remote, 1, nil, nil)
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", i+1, err)
		}
	}
	f.tr.err = errors.New("no route")
	if err := id.Connect(remote, Params{QP: f.qp}, 0); !errors.Is(err, f.tr.err) || id.State() != Idle {
		t.Errorf("%v in %v", err, id.State())
	}
}

func TestDestroyFromCallback(t *testing.T) {
	f := newFixture(t)
	var inside, after error
	var id *ID
	id = f.m.NewID(func(Event, frame.Time) {
		inside = id.Destroy()
		f.dev.Defer(func(frame.Time) { after = id.Destroy() })
	}, nil)
	id.state = Closing
	id.Finish(nil)
	f.dispatch()
	if !errors.Is(inside, ErrInCallback) || after != nil || len(f.m.IDs()) != 0 {
		t.Errorf("inside %v, after %v, %d ids", inside, after, len(f.m.IDs()))
	}
}
