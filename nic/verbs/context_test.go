package verbs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

var testMAC = ether.Addr{2, 0, 0, 0, 0, 1}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// opened is a device with one of everything, made through one context.
type opened struct {
	dev *Device
	ctx *Context
	pd  *PD
	cq  *CQ
	qp  *QP
	srq *SRQ
	mr  *MR
}

func open(t *testing.T, d *Device) *opened {
	t.Helper()
	var errs [6]error
	o := &opened{dev: d}
	o.ctx, errs[0] = d.Open("mine")
	ok(t, errs[0])
	o.pd, errs[1] = o.ctx.AllocPD()
	o.cq, errs[2] = o.ctx.CreateCQ(16, 0, nil)
	ok(t, errs[1], errs[2])
	o.srq, errs[3] = o.pd.CreateSRQ(4, 1)
	o.mr, errs[4] = o.pd.RegMR(make([]byte, 64), LocalWrite)
	o.qp, errs[5] = o.pd.CreateQP(QPConfig{SendCQ: o.cq, RecvCQ: o.cq})
	ok(t, errs[3:]...)
	return o
}

func TestGUIDAndGID(t *testing.T) {
	g := GUIDFromMAC(testMAC)
	if g.String() != "0000:00ff:fe00:0001" {
		t.Error(g)
	}
	for _, s := range []string{"000000fffe000001", "0x000000fffe000001", g.String()} {
		if got, err := ParseGUID(s); err != nil || got != g {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "12", "zz00:00ff:fe00:0001"} {
		if _, err := ParseGUID(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if s := GIDFromMAC(testMAC).String(); s != "0200:0000:0001:0000:0000:0000:0000:0000" {
		t.Error(s)
	}
	if s := GIDFromAddr(netip.MustParseAddr("10.0.0.1")); s[10] != 0xff || s[15] != 1 {
		t.Error(s)
	}
}

func TestContextOwnsItsObjects(t *testing.T) {
	d := NewDevice(Limits{MaxContext: 2, MaxCNQ: 2}, rand.NewPCG(0, 1))
	o := open(t, d)
	if o.ctx.Value != "mine" || o.ctx.DPI() != 1 || o.ctx.Device() != d {
		t.Errorf("context %+v", o.ctx)
	}
	if err := o.ctx.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("close with children: %v", err)
	}
	if _, err := o.ctx.CreateCQ(1, 2, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("vector 2 of 2: %v", err)
	}
	_, err := d.Open(nil)
	ok(t, err)
	if _, err := d.Open(nil); !errors.Is(err, ErrLimit) {
		t.Errorf("third doorbell page of two: %v", err)
	}
	ok(t, o.qp.Destroy(), o.srq.Destroy(), o.mr.Dereg(), o.cq.Destroy(), o.pd.Dealloc(), o.ctx.Close())
	if _, err := o.ctx.AllocPD(); !errors.Is(err, ErrDestroyed) {
		t.Errorf("PD of a closed context: %v", err)
	}
	if _, err := o.ctx.CreateCQ(1, 0, nil); !errors.Is(err, ErrDestroyed) {
		t.Errorf("CQ of a closed context: %v", err)
	}
	if err := o.ctx.Close(); !errors.Is(err, ErrDestroyed) {
		t.Errorf("second close: %v", err)
	}
	if _, err := d.Open(nil); err != nil {
		t.Errorf("the page is free again: %v", err)
	}
}

func TestNotificationsAreCountedPerCNQ(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	d.SetTransport(&recorder{})
	ok(t, d.Start(2))
	o := open(t, d)
	cq, err := o.ctx.CreateCQ(4, 1, func(*CQ, frame.Time) {})
	ok(t, err)
	qp, err := o.pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	ok(t, err, qp.Modify(Init))
	cq.ReqNotify(false)
	qp.PostRecv(RecvWR{}, RecvWR{})
	ok(t, qp.Modify(Err))
	if n := d.Notifications(); len(n) != 2 || n[0] != 0 || n[1] != 1 {
		t.Errorf("notifications %v", n)
	}
}

func TestStartChecksResources(t *testing.T) {
	d := NewDevice(Limits{MaxCNQ: 4}, rand.NewPCG(0, 1))
	if err := d.Start(5); !errors.Is(err, ErrLimit) {
		t.Errorf("5 CNQs of 4: %v", err)
	}
	if err := d.Start(3); err != nil || d.Attr().CNQs != 3 {
		t.Errorf("%v, %d CNQs", err, d.Attr().CNQs)
	}
	open(t, d)
	if err := d.Start(1); !errors.Is(err, ErrBusy) {
		t.Errorf("start while in use: %v", err)
	}
	eth := NewDevice(Limits{}, rand.NewPCG(0, 1))
	eth.SetIdentity(Identity{Personality: Ethernet})
	if err := eth.Start(0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("start without RDMA: %v", err)
	}
	if _, err := eth.Open(nil); !errors.Is(err, ErrNotStarted) {
		t.Errorf("open without RDMA: %v", err)
	}
}

func TestStopNamesWhatLeaked(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	tr := &recorder{}
	d.SetTransport(tr)
	if leaks, err := d.Stop(); err != nil || len(leaks) != 0 {
		t.Fatalf("nothing to leak: %v, %v", leaks, err)
	}
	if _, err := d.AllocPD(); !errors.Is(err, ErrNotStarted) {
		t.Errorf("PD of a stopped device: %v", err)
	}
	ok(t, d.Start(0))
	o := open(t, d)
	_, err := d.AllocPD()
	ok(t, err)
	leaks, err := d.Stop()
	ok(t, err)
	var got []string
	for _, l := range leaks {
		got = append(got, l.String())
	}
	want := []string{
		"QP 1 of context 1 (RESET)", "SRQ 1 of context 1 (0 receives)",
		fmt.Sprintf("MR 1 of context 1 (STag %#x, 64 octets)", o.mr.LKey()),
		"CQ 1 of context 1 (0 completions)", "PD 1 of context 1", "PD 2", "context 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), strings.Join(want, "; "))
	}
	for _, u := range d.Usage() {
		if u.Used != 0 {
			t.Errorf("%s: %d in use after the stop", u.Name, u.Used)
		}
	}
	if tr.destroyed != 1 {
		t.Errorf("transport told %+v", tr)
	}
}

func TestReclaimSparesOthers(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	a, b := open(t, d), open(t, d)
	ok(t, d.Reclaim(a.ctx))
	for _, l := range d.Objects() {
		if l.Context != b.ctx.DPI() {
			t.Errorf("%v remains", l)
		}
	}
	if len(d.Objects()) != 6 {
		t.Errorf("of the other context remain %v", d.Objects())
	}
	var inside error
	b.cq.SetHandler(func(*CQ, frame.Time) { inside = d.Reclaim(b.ctx) })
	b.cq.ReqNotify(false)
	ok(t, b.qp.Modify(Init))
	b.qp.PostRecv(RecvWR{})
	ok(t, b.qp.Modify(Err))
	d.Dispatch(0)
	if !errors.Is(inside, ErrInCallback) {
		t.Errorf("reclaim in a handler: %v", inside)
	}
}

func TestUsage(t *testing.T) {
	d := NewDevice(Limits{MaxQP: 7}, rand.NewPCG(0, 1))
	o := open(t, d)
	ok(t, o.qp.Destroy())
	_, err := o.pd.CreateQP(QPConfig{SendCQ: o.cq, RecvCQ: o.cq})
	ok(t, err)
	found := 0
	for _, u := range d.Usage() {
		switch u {
		case Usage{"QP", 1, 7, 2}, Usage{"ICID", 1, 7, 2}, Usage{"context", 1, 1024, 1}, Usage{"PD", 1, 102400, 1}:
			found++
		}
	}
	if found != 4 {
		t.Errorf("usage %v", d.Usage())
	}
}

// In a handler every plain destroy is refused and every asynchronous one
// accepted; handlers queued before it still run, none after it.
func TestDestroyAsync(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	d.SetTransport(&recorder{})
	o := open(t, d)
	var order []string
	handled := 0
	o.cq.SetHandler(func(*CQ, frame.Time) {
		handled++
		for name, destroy := range map[string]func() error{
			"QP": o.qp.Destroy, "SRQ": o.srq.Destroy, "MR": o.mr.Dereg, "CQ": o.cq.Destroy, "PD": o.pd.Dealloc, "context": o.ctx.Close,
		} {
			if err := destroy(); !errors.Is(err, ErrInCallback) {
				t.Errorf("%s in a handler: %v", name, err)
			}
		}
		note := func(name string) func(error) {
			return func(err error) {
				order = append(order, fmt.Sprint(name, err))
				if d.InCallback() {
					t.Errorf("%s: completion is a callback", name)
				}
			}
		}
		o.pd.DeallocAsync(note("early PD "))
		o.qp.DestroyAsync(note("QP "))
		o.srq.DestroyAsync(note("SRQ "))
		o.mr.DeregAsync(note("MR "))
		o.cq.DestroyAsync(note("CQ "))
		o.pd.DeallocAsync(note("PD "))
		o.ctx.CloseAsync(nil)
		o.cq.ReqNotify(false)
		o.qp.PostRecv(RecvWR{}) // flushed: its notification finds no CQ
	})
	o.cq.ReqNotify(false)
	ok(t, o.qp.Modify(Init))
	o.qp.PostRecv(RecvWR{})
	ok(t, o.qp.Modify(Err))
	for d.Dispatch(0) {
	}
	got := strings.Join(order, "; ")
	if !strings.Contains(got, "early PD destroy PD 1: still referenced by 3 objects; QP <nil>; SRQ <nil>; MR <nil>; CQ <nil>; PD <nil>") {
		t.Error(got)
	}
	if handled != 1 || len(d.Objects()) != 0 {
		t.Errorf("%d calls, left %v", handled, d.Objects())
	}
}

// An event that is queued when its object goes is not delivered.
func TestNoEventAfterDestroy(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	o := open(t, d)
	var got []EventType
	d.OnAsync(func(ev AsyncEvent, _ frame.Time) { got = append(got, ev.Type) })
	d.Async(AsyncEvent{Type: EventQPFatal, QP: o.qp})
	d.Async(AsyncEvent{Type: EventSRQError, SRQ: o.srq})
	ok(t, o.qp.Destroy(), o.srq.Destroy())
	d.Async(AsyncEvent{Type: EventCQError, CQ: o.cq})
	d.Dispatch(0)
	if len(got) != 1 || got[0] != EventCQError || d.Raised(EventQPFatal) != 1 {
		t.Errorf("delivered %v", got)
	}
}

func TestFailFlushesOnceAndDestroysStillWork(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	tr := &recorder{}
	d.SetTransport(tr)
	o := open(t, d)
	var got []EventType
	d.OnAsync(func(ev AsyncEvent, _ frame.Time) { got = append(got, ev.Type) })
	ok(t, o.qp.Modify(Init))
	o.qp.Transition(RTS)
	o.qp.PostRecv(RecvWR{ID: 1})
	o.qp.PostSend(SendWR{ID: 2}, SendWR{ID: 3})
	d.Fail(errors.New("unplugged"))
	d.Fail(errors.New("again"))
	for d.Dispatch(0) {
	}
	if !slices.Equal(got, []EventType{EventDeviceFatal, EventPortError}) || !d.Removed() {
		t.Errorf("events %v", got)
	}
	var wcs [8]WC
	n := o.cq.Poll(wcs[:])
	if n != 3 || wcs[0].ID != 2 || wcs[1].ID != 3 || wcs[2].ID != 1 || wcs[2].Status != StatusFlushed {
		t.Errorf("completions %+v", wcs[:n])
	}
	_, e1 := o.ctx.AllocPD()
	_, e2 := d.Open(nil)
	for i, err := range []error{e1, e2, d.Start(0), o.ctx.ModifyPort(1, PortMod{})} {
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("%d: %v", i, err)
		}
	}
	ok(t, o.qp.Destroy(), o.srq.Destroy(), o.mr.Dereg(), o.cq.Destroy(), o.pd.Dealloc(), o.ctx.Close())
}

func TestUnsupported(t *testing.T) {
	o := open(t, NewDevice(Limits{}, rand.NewPCG(0, 1)))
	_, domain := o.ctx.AllocXRCD()
	_, handle := o.pd.CreateAH(qpattr.Path{})
	_, datagram := o.pd.CreateQP(QPConfig{Type: qpattr.UD, SendCQ: o.cq, RecvCQ: o.cq})
	for i, err := range []error{
		o.pd.AllocRDD(), domain, handle, datagram, o.qp.ModifyAttr(Init, &qpattr.Attr{}, 0), o.qp.AttachMcast(GID{}), o.qp.DetachMcast(GID{}),
	} {
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "EOPNOTSUPP") {
			t.Errorf("%d: %v", i, err)
		}
	}
	a := o.ctx.Query()
	if a.MaxAH != 0 || a.MaxRDD != 0 || a.MaxMcastGroups != 0 || a.Caps&CapAutoPathMigration != 0 {
		t.Errorf("attributes promise what is refused: %+v", a)
	}
}

func TestQueryDevice(t *testing.T) {
	d := NewDevice(Limits{MaxQP: 100, MaxIRD: 4}, rand.NewPCG(0, 1))
	d.SetIdentity(Identity{Name: "nic0", GUID: GUIDFromMAC(testMAC), Firmware: "1.0"})
	ctx, err := d.Open(nil)
	ok(t, err)
	a := ctx.Query()
	if a.Name != "nic0" || a.GUID != GUIDFromMAC(testMAC) || a.SystemImageGUID != a.GUID || a.VendorID != VendorID ||
		a.MaxQP != 100 || a.MaxDeviceIRD != 400 || a.Ports != 1 || a.MaxPKeys != MaxPKeys || a.AckDelay != 15 {
		t.Errorf("%+v", a)
	}
	if s := a.Caps.String(); !strings.HasPrefix(s, "shutdown_port,port_active_event,") {
		t.Error(s)
	}
}
