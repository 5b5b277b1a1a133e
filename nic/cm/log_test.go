package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tapir/wire/frame"
)

func TestLogKeepsTheLatest(t *testing.T) {
	f := newFixture(t)
	now := frame.Time(0)
	watched := uint64(0)
	f.m.Watch(func(e *Entry) { watched = e.Seq })
	if got := f.m.Log().Since(0); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for range 3*logEntries + 7 {
		now++
		f.m.Begin(now)
		f.m.Note(EvSRQLimit, nil, f.qp, Reason{}, nil)
	}
	all := f.m.Log().Since(0)
	if len(all) != logEntries || all[0].Seq != 2*logEntries+7 || watched != 3*logEntries+6 || all[0].QP != 1 ||
		all[0].State != "IDLE" {
		t.Fatalf("%d entries from %d, watched %d, %+v", len(all), all[0].Seq, watched, all[0])
	}
	for i, e := range all {
		if e.Seq != all[0].Seq+uint64(i) || e.At != frame.Time(e.Seq)+1 {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
	if got := f.m.Log().Since(watched); len(got) != 1 || got[0].Seq != watched {
		t.Errorf("%+v", got)
	}
	if got := f.m.Log().Since(watched + 5); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestNamesAreComplete(t *testing.T) {
	for typ := ConnectRequest; typ <= DeviceRemoved; typ++ {
		if strings.HasPrefix(typ.String(), "event ") {
			t.Errorf("event %d has no name", typ)
		}
	}
}

// TestWords: the log has the transport's words for a request and a refusal by the application.
func TestWords(t *testing.T) {
	f := newFixture(t)
	l, err := f.m.Listen(netip.MustParseAddrPort("0.0.0.0:7471"), 1, f.handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := f.m.Request(l, f.tr, l.Local(), remote, nil, 0, 0)
	if err := id.Reject(nil, 0); err != nil {
		t.Fatal(err)
	}
	id.SetReason(Reason{Name: "GONE", Errno: "ECONNRESET"})
	id.Finish(nil)
	var got []string
	for _, e := range f.m.Log().Since(0) {
		got = append(got, fmt.Sprint(e.Event, e.Reason, e.Reason.Status()))
	}
	want := []string{"ASKED0", "PASSIVE_COMPLETENOECONNREFUSED", "CLOSEGONEECONNRESET"}
	if !slices.Equal(got, want) || f.m.Counted("ASKED") != 1 || len(f.m.Events()) != 2 {
		t.Errorf("%q, events %v", got, f.m.Events())
	}
}

func TestPauseAndRemove(t *testing.T) {
	f := newFixture(t)
	l, err := f.m.Listen(netip.MustParseAddrPort("0.0.0.0:7471"), 1, f.handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Pause()
	l.Pause()
	l.Resume()
	idle, open := f.m.NewID(f.handle, nil), f.m.NewID(f.handle, nil)
	if err := open.Connect(remote, Params{QP: f.qp}, 0); err != nil {
		t.Fatal(err)
	}
	f.m.Remove(0)
	f.dispatch()
	if want := []EventType{ListenPaused, DeviceRemoved, DeviceRemoved, DeviceRemoved}; !slices.Equal(f.events, want) {
		t.Errorf("events %v", f.events)
	}
	if want := []string{"listen", "pause true", "pause false", "connect", "unlisten", "abort"}; !slices.Equal(f.tr.calls,
		want) {
		t.Errorf("calls %v", f.tr.calls)
	}
	_, lerr := f.m.Listen(l.Local(), 1, f.handle, nil)
	for _, err := range []error{lerr, idle.Connect(remote, Params{QP: f.qp}, 0)} {
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("%v", err)
		}
	}
	if err := idle.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	f := newFixture(t)
	f.m.SetVLAN(7)
	id := f.m.NewID(f.handle, nil)
	if err := id.Connect(remote, Params{QP: f.qp, PrivateData: []byte("hi")}, 0); err != nil {
		t.Fatal(err)
	}
	id.SetLocal(netip.MustParseAddrPort("10.0.0.1:49152"))
	id.Complete(nil, 3, 4)
	i := id.Info()
	if i.IPVersion != 4 || i.Remote != remote || i.Local.Port() != 49152 || i.VLAN != 7 || i.IRD != 3 || i.ORD != 4 ||
		string(i.PrivateData) != "hi" {
		t.Errorf("%+v", i)
	}
	id.remote = netip.MustParseAddrPort("[fd00::2]:1")
	if id.Info().IPVersion != 6 {
		t.Errorf("%+v", id.Info())
	}
}
