package nvme

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tapir/lab/host/link"
	"tapir/nic/cm"
	"tapir/nic/nvme"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// TestRefused: what is wrong with a command its status tells, it is counted, and the next
// command is answered.
func TestRefused(t *testing.T) {
	w := newWorld(t, verbs.IWARP, link.Impairment{}, func(c *nvme.Config) {
		protected := memory(1 << 20)
		protected.ReadOnly = true
		c.Namespaces = append(c.Namespaces, protected)
	})
	u := w.connect(nil)
	block, page := make([]byte, 512), make([]byte, 4096)
	const blocks = 16 << 11
	for _, c := range []struct {
		what    string
		admin   bool
		data    []byte
		write   bool
		set     func(*wire.Command)
		want    wire.Status
		counter nvme.Counter
	}{
		{"unknown I/O operation", false, nil, false, with(0x77, 1), wire.InvalidOpcode, nvme.BadCommand},
		{"unknown admin operation", true, nil, false, with(0x77, 0), wire.InvalidOpcode, nvme.BadCommand},
		{"namespace 0", false, block, false, with(wire.Read, 0), wire.InvalidNamespace, nvme.BadCommand},
		{"namespace 3", false, block, false, with(wire.Read, 3), wire.InvalidNamespace, nvme.BadCommand},
		{"read beyond the end", false, page, false, at(wire.Read, blocks-1, 8), wire.LBAOutOfRange, nvme.BadLBA},
		{"LBA that wraps", false, block, false, at(wire.Read, 1<<64-1, 1), wire.LBAOutOfRange, nvme.BadLBA},
		{"SGL shorter than the data", false, block, false, at(wire.Read, 0, 8), wire.SGLLengthInvalid, nvme.BadSGL},
		{"SGL longer than the data", false, page, false, at(wire.Read, 0, 1), wire.SGLLengthInvalid, nvme.BadSGL},
		{"capsule longer than the data", false, page, true, at(wire.Write, 0, 1), wire.SGLLengthInvalid, nvme.BadSGL},
		{"more than a transfer", false, nil, false, at(wire.Read, 0, 4096), wire.InvalidField, nvme.BadCommand},
		{"write to what is protected", false, block, true, with(wire.Write, 2), wire.NamespaceProtected, nvme.BadCommand},
		{"zeroes to what is protected", false, nil, false, with(wire.WriteZeroes, 2), wire.NamespaceProtected,
			nvme.BadCommand},
		{"range beyond the end", false, wire.Range{LBA: blocks, Blocks: 1}.Append(nil), true, with(wire.DSM, 1, 0, 4),
			wire.LBAOutOfRange, nvme.BadLBA},
		{"property on an I/O queue", false, nil, false, func(c *wire.Command) {
			c.Set(wire.Fabrics, 0)
			c.SetFabricsType(wire.PropertyGet)
		}, wire.InvalidOpcode, nvme.BadCommand},
		{"property that is not there", true, nil, false, func(c *wire.Command) {
			c.Set(wire.Fabrics, 0)
			c.SetFabricsType(wire.PropertyGet)
			c.SetProperty(0x24, 4, 0)
		}, wire.InvalidField, nvme.BadCommand},
		{"second Connect", true, make([]byte, 1024), true, func(c *wire.Command) {
			c.Set(wire.Fabrics, 0)
			c.SetFabricsType(wire.Connect)
		}, wire.SequenceError, nvme.Sequence},
		{"unknown CNS", true, page, false, with(wire.Identify, 1, 0x20), wire.InvalidField, nvme.BadCommand},
		{"Identify of namespace 9", true, page, false, with(wire.Identify, 9, 0), wire.InvalidNamespace, nvme.BadCommand},
		{"unknown log page", true, page, false, func(c *wire.Command) {
			c.Set(wire.GetLogPage, 0)
			c.SetLogPage(0x55, 4096, 0)
		}, wire.InvalidLogPage, nvme.BadCommand},
		{"unknown feature", true, nil, false, with(wire.GetFeatures, 0, 0x33), wire.InvalidField, nvme.BadCommand},
		{"feature to save", true, nil, false, with(wire.SetFeatures, 0, 1<<31|wire.FeatureQueues),
			wire.FeatureNotSaveable, nvme.BadCommand},
		{"65536 queues", true, nil, false, with(wire.SetFeatures, 0, wire.FeatureQueues, 0xffffffff), wire.InvalidField,
			nvme.BadCommand},
		{"keep-alive of 5 ms", true, nil, false, with(wire.SetFeatures, 0, wire.FeatureKeepAlive, 5),
			wire.KeepAliveInvalid, nvme.BadCommand},
	} {
		before := w.target.Stats()[c.counter]
		_, err := u.do(c.admin, c.data, c.write, c.set)
		var st wire.Status
		if !errors.As(err, &st) || st.Code() != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if n := w.target.Stats()[c.counter] - before; n != 1 {
			t.Errorf("%s: counted %d times as %v", c.what, n, c.counter)
		}
		if _, err := u.do(false, page, false, at(wire.Read, 0, 8)); err != nil {
			t.Fatalf("a read after %s: %v", c.what, err)
		}
	}
	u.close()
}

// TestAdmin: identify lists, features, health and the abort of a request for an event.
func TestAdmin(t *testing.T) {
	w := newWorld(t, verbs.RoCE, link.Impairment{}, nil)
	u := w.connect(nil)
	page := make([]byte, 4096)
	get := func(feature uint32) uint64 {
		t.Helper()
		v, err := u.do(true, nil, false, with(wire.GetFeatures, 0, feature))
		if err != nil {
			t.Error(err)
		}
		return v
	}
	if info := u.h.Info(); info.SubNQN != nqn || info.Namespaces != 1 || info.MDTS != 8 || info.CapsuleLen != 64+4096 {
		t.Errorf("%+v", info)
	}
	if _, err := u.do(true, page, false, with(wire.Identify, 0, wire.CNSNamespaces)); err != nil || page[0] != 1 || page[4] != 0 {
		t.Errorf("namespaces: %v, % x", err, page[:8])
	}
	if _, err := u.do(true, page, false, with(wire.Identify, 1, wire.CNSDescriptors)); err != nil || page[0] != 2 || page[4] != 1 {
		t.Errorf("descriptors: %v, % x", err, page[:8])
	}
	if v := get(wire.FeatureKeepAlive); v != 5000 {
		t.Errorf("keep-alive timeout %d", v)
	}
	if v := get(wire.FeatureCache); v != 1 {
		t.Errorf("volatile cache %d", v)
	}
	if _, err := u.do(true, nil, false, with(wire.SetFeatures, 0, wire.FeatureCache, 0)); err != nil || get(wire.FeatureCache) != 0 {
		t.Errorf("the cache does not go off: %v", err)
	}
	if v, err := u.do(true, nil, false, with(wire.SetFeatures, 0, wire.FeatureQueues, 3|5<<16)); err != nil || v != 3|3<<16 {
		t.Errorf("queues: %#x, %v", v, err)
	}
	id := make([]byte, 16)
	if _, err := u.do(true, id, false, with(wire.GetFeatures, 0, wire.FeatureHostID)); err != nil || id[0] != 9 {
		t.Errorf("host identifier: % x, %v", id, err)
	}
	for _, log := range []uint8{wire.LogErrors, wire.LogHealth, wire.LogFirmware} {
		if _, err := u.do(true, page[:512], false, func(c *wire.Command) {
			c.Set(wire.GetLogPage, 0)
			c.SetLogPage(log, 512, 0)
		}); err != nil {
			t.Errorf("log page %d: %v", log, err)
		}
	}
	aborted := error(nil)
	r := &nvme.Request{Done: func(_ *nvme.Request, err error, _ frame.Time) { aborted = err }}
	r.Cmd.Set(wire.AsyncEvent, 0)
	u.h.SubmitAdmin(r, w.Now)
	for cid := range uint32(32) { // one of them is its
		if _, err := u.do(true, nil, false, with(wire.Abort, 0, cid<<16)); err != nil {
			t.Fatal(err)
		}
	}
	if aborted != wire.AbortedByRequest {
		t.Errorf("aborted: %v", aborted)
	}
	u.close()
}

// TestErrorEvent: an error of the disk is told by an event once, until its log is read.
func TestErrorEvent(t *testing.T) {
	w := newWorld(t, verbs.IWARP, link.Impairment{}, func(c *nvme.Config) {
		c.Namespaces[0].Store = &refusing{c.Namespaces[0].Store}
	})
	u := w.connect(nil)
	events := 0
	for range 3 {
		r := &nvme.Request{Done: func(r *nvme.Request, err error, _ frame.Time) {
			if err == nil && r.Result == wire.ErrorEvent {
				events++
			}
		}}
		r.Cmd.Set(wire.AsyncEvent, 0)
		u.h.SubmitAdmin(r, w.Now)
	}
	fail := func() {
		t.Helper()
		if _, err := u.do(false, make([]byte, 512), true, at(wire.Write, 7, 1)); err != wire.WriteFault {
			t.Errorf("write: %v", err)
		}
		if _, err := u.do(true, nil, false, with(wire.KeepAlive, 0)); err != nil {
			t.Error(err)
		}
	}
	fail()
	fail()
	if events != 1 {
		t.Errorf("%d events", events)
	}
	log := make([]byte, 128)
	if _, err := u.do(true, log, false, func(c *wire.Command) {
		c.Set(wire.GetLogPage, 0xff)
		c.SetLogPage(wire.LogErrors, 128, 0)
	}); err != nil || log[0] != 2 || log[16] != 7 || log[64] != 1 {
		t.Errorf("log: %v, % x", err, log)
	}
	if fail(); events != 2 {
		t.Errorf("%d events after the log was read", events)
	}
	u.close()
}

// TestKeepAlive: a host that is silent for its timeout, to the instant, loses its controller.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t, verbs.IWARP, link.Impairment{}, nil)
	u := w.connect(func(c *nvme.HostConfig) { c.KeepAlive = 0 })
	if _, err := u.do(true, nil, false, with(wire.SetFeatures, 0, wire.FeatureKeepAlive, 1000)); err != nil {
		t.Fatal(err)
	}
	begun := w.Now
	w.until(func() bool { return len(w.target.Controllers()) == 0 })
	if d := w.Now.Sub(begun); d < 999*time.Millisecond || d > time.Second {
		t.Errorf("after %v", d)
	}
	w.until(func() bool { return u.lost })
	if s := w.target.Stats(); s[nvme.KeepAliveTimeout] != 1 {
		t.Errorf("%v", s)
	}
	// And a host whose controller does not answer any more gives up.
	u.again(nil)
	w.Killed[0] = true
	begun = w.Now
	w.until(func() bool { return u.lost })
	if d := w.Now.Sub(begun); d > 8*time.Second {
		t.Errorf("given up after %v", d)
	}
}

// TestGone: over RoCE, a host finds out in 4 seconds without keep-alives that the NIC of its controller is gone.
func TestGone(t *testing.T) {
	w := newWorld(t, verbs.RoCE, link.Impairment{}, nil)
	u := w.connect(func(c *nvme.HostConfig) { c.KeepAlive = 0 })
	r := &nvme.Request{Data: make([]byte, 512), Done: func(*nvme.Request, error, frame.Time) {}}
	at(wire.Read, 0, 1)(&r.Cmd)
	w.Killed[0] = true
	u.h.Submit(r, w.Now)
	begun := w.Now
	w.until(func() bool { return u.lost })
	if d := w.Now.Sub(begun); d < time.Second || d > 4*time.Second {
		t.Errorf("%v after %v", u.err, d)
	}
}

// raw is a connection that sends what it is told to.
type raw struct {
	u      *user
	id     *cm.ID
	qp     *verbs.QP
	up     bool
	closed bool
	reject wire.Reason
	got    []wire.Completion
	mem    []byte
}

func (u *user) raw(private []byte) *raw {
	u.w.t.Helper()
	r := &raw{u: u, mem: make([]byte, 1<<16)}
	must := func(err error) {
		u.w.t.Helper()
		if err != nil {
			u.w.t.Fatal(err)
		}
	}
	pd, err := u.ctx.AllocPD()
	must(err)
	cq, err := u.ctx.CreateCQ(64, 0, r.completions)
	must(err)
	mr, err := pd.RegMR(r.mem, verbs.LocalWrite|verbs.RemoteRead)
	must(err)
	r.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, MaxInline: 128})
	must(err)
	must(r.qp.Modify(verbs.Init))
	for i := range 8 {
		_, err = r.qp.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{{Addr: mr.Addr() + uint64(i*16), Length: 16, LKey: mr.LKey()}}})
		must(err)
	}
	cq.ReqNotify(false)
	r.id = u.dev.CM().NewID(r.event, nil)
	must(r.id.Connect(netip.MustParseAddrPort("10.0.0.1:4420"), cm.Params{QP: r.qp, PrivateData: private}, u.w.Now))
	u.w.until(func() bool { return r.up || r.closed })
	return r
}

func (r *raw) event(ev cm.Event, _ frame.Time) {
	switch ev.Type {
	case cm.ActiveComplete:
		r.up = true
	case cm.Rejected:
		r.reject = wire.ParseReject(ev.PrivateData)
	case cm.ClosedEvent:
		r.closed = true
	}
}

func (r *raw) completions(cq *verbs.CQ, _ frame.Time) {
	var wcs [8]verbs.WC
	for {
		n := cq.Poll(wcs[:])
		for _, wc := range wcs[:n] {
			if wc.Opcode == verbs.WCRecv && wc.Status == verbs.StatusSuccess {
				c, _ := wire.ParseCompletion(r.mem[wc.ID*16:])
				r.got = append(r.got, c)
			}
		}
		if n == 0 && !cq.ReqNotify(false) {
			return
		}
	}
}

// send sends a capsule, and waits for what comes of it.
func (r *raw) send(b []byte) {
	r.u.w.t.Helper()
	if _, err := r.qp.PostSend(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: b}); err != nil {
		r.u.w.t.Fatal(err)
	}
	n := len(r.got)
	r.u.w.until(func() bool { return len(r.got) > n || r.closed })
}

// TestBadConnections: what is wrong with a request, or before Connect, ends a connection.
func TestBadConnections(t *testing.T) {
	each(t, func(t *testing.T, p verbs.Personality) {
		w := newWorld(t, p, link.Impairment{}, nil)
		u := &user{w: w}
		w.layers[1].RegisterClient(u)
		good := wire.Request{HRQSize: 32, HSQSize: 31}
		for want, change := range map[wire.Reason]func(*wire.Request){
			wire.InvalidQID:      func(r *wire.Request) { r.QID = 99 },
			wire.InvalidSendSize: func(r *wire.Request) { r.HSQSize = 0 },
			wire.InvalidRecvSize: func(r *wire.Request) { r.HRQSize = 1 },
		} {
			q := good
			change(&q)
			if r := u.raw(q.Append(nil)); r.reject != want {
				t.Errorf("%+v: %v, want %v", q, r.reject, want)
			}
		}
		if r := u.raw(append(good.Append(nil)[:0:0], 1, 0)); r.up {
			t.Error("private data that makes no sense is accepted")
		}
		var c wire.Command
		c.Set(wire.Identify, 5)
		r := u.raw(good.Append(nil))
		if r.send(c[:]); len(r.got) != 1 || r.got[0].Status.Code() != wire.SequenceError || r.got[0].ID != 5 {
			t.Errorf("a command before Connect: %+v", r.got)
		}
		c.Set(wire.Fabrics, 6)
		c.SetFabricsType(wire.Connect)
		c.SetConnect(wire.ConnectFields{SQSize: 31})
		c.SetSGL(wire.SGL{Kind: wire.InCapsule, Address: 1 << 20, Length: 1024})
		if r.send(c[:]); len(r.got) != 2 || r.got[1].Status.Code() != wire.SGLOffsetInvalid {
			t.Errorf("data outside of the capsule: %+v", r.got)
		}
		c.SetSGL(wire.SGL{Kind: 0x20, Length: 1024})
		if r.send(c[:]); len(r.got) != 3 || r.got[2].Status.Code() != wire.SGLTypeInvalid {
			t.Errorf("unknown SGL: %+v", r.got)
		}
		c.SetSGL(wire.SGL{Kind: wire.Keyed, Address: 64, Length: 1024, Key: 0x12345678})
		if r.send(c[:]); !r.closed {
			t.Errorf("a bad key: %+v", r.got)
		}
		if r = u.raw(good.Append(nil)); r.up {
			if r.send([]byte{1, 2, 3}); !r.closed {
				t.Error("a capsule of 3 octets is not the end")
			}
		}
		r = u.raw(good.Append(nil)) // and silence
		begun := w.Now
		if w.until(func() bool { return r.closed }); w.Now.Sub(begun) > 11*time.Second {
			t.Errorf("without Connect a connection lasts %v", w.Now.Sub(begun))
		}
		s := w.target.Stats()
		w.until(func() bool { return len(w.NICs[0].Verbs.QPs()) == 0 })
		if s[nvme.ConnectionRefused] != 4 || s[nvme.Malformed] != 1 || s[nvme.RemoteAccess] != 1 || s[nvme.ConnectTimeout] != 1 {
			t.Errorf("counters: %v", s)
		}
	})
}

// TestRemoval: the target's NIC is taken away, and the host's, under load; nothing is left, and
// a device that comes is served again.
func TestRemoval(t *testing.T) {
	for side := range 2 {
		each(t, func(t *testing.T, p verbs.Personality) {
			w := newWorld(t, p, link.Impairment{}, nil)
			u := w.connect(nil)
			lost := 0
			for range 16 {
				r := &nvme.Request{Data: make([]byte, 1<<20), Write: true}
				r.Done = func(r *nvme.Request, err error, now frame.Time) {
					if err == nil {
						u.h.Submit(r, now)
						return
					}
					lost++
				}
				at(wire.Write, 0, 2048)(&r.Cmd)
				u.h.Submit(r, w.Now)
			}
			w.until(func() bool { return w.target.Stats()[nvme.WriteCommands] > 40 })
			gone := false
			w.NICs[side].Fail(errors.New("unplugged"), w.Now)
			w.cas[side].Fail(errors.New("unplugged"), func(frame.Time) { gone = true })
			w.until(func() bool { return gone && lost == 16 })
			if list := w.NICs[side].Verbs.Objects(); len(list) > 0 {
				t.Errorf("left: %v", list)
			}
			w.until(func() bool { return len(w.target.Controllers()) == 0 && u.lost })
		})
	}
}

// TestAgain: a device that was deregistered is served again when it comes back.
func TestAgain(t *testing.T) {
	w := newWorld(t, verbs.IWARP, link.Impairment{}, nil)
	u := w.connect(nil)
	gone := false
	w.cas[0].Deregister(func(frame.Time) { gone = true })
	w.until(func() bool { return gone && u.lost })
	var err error
	if w.cas[0], err = w.layers[0].RegisterCI(w.NICs[0].CI(nil, func() frame.Time { return w.Now })); err != nil {
		t.Fatal(err)
	}
	if u.again(nil); !u.ready {
		t.Fatal(u.err)
	}
	u.close()
}
