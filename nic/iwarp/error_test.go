package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/ddp"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// remoteErr is what the client learns from the server's Terminate.
func remoteErr(n *node) *rdmap.Error {
	for _, ev := range n.async {
		var r *rdmap.Error
		if ev.Type == verbs.EventTerminated && errors.As(ev.Err, &r) {
			return r
		}
	}
	return nil
}

func TestRemoteErrors(t *testing.T) {
	type wr = verbs.SendWR
	const size = 8192
	for _, c := range []struct {
		name   string
		wr     func(x *pair) wr
		want   rdmap.Error // layer, type, code of the Terminate
		status verbs.Status
		event  verbs.EventType
	}{
		{"Write, unknown STag", func(x *pair) wr {
			return wr{Opcode: verbs.OpWrite, RKey: x.s.mr.RKey() ^ 0x100, RemoteAddr: x.s.mr.Addr()}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 0}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, wrong key", func(x *pair) wr {
			return wr{Opcode: verbs.OpWrite, RKey: x.s.mr.RKey() ^ 1, RemoteAddr: x.s.mr.Addr()}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 0}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, out of bounds", func(x *pair) wr {
			return wr{Opcode: verbs.OpWrite, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr() + size - 99}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 1}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, below", func(x *pair) wr {
			return wr{Opcode: verbs.OpWrite, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr() - 1}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 1}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, TO wraps", func(x *pair) wr {
			return wr{Opcode: verbs.OpWrite, RKey: x.s.mr.RKey(), RemoteAddr: ^uint64(0) - 7}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 3}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, no right", func(x *pair) wr {
			mr, _ := x.s.pd.RegMR(make([]byte, 100), verbs.LocalWrite|verbs.RemoteRead)
			return wr{Opcode: verbs.OpWrite, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 2}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Write, other PD", func(x *pair) wr {
			pd, _ := x.b.dev.AllocPD()
			mr, _ := pd.RegMR(make([]byte, 100), verbs.LocalWrite|verbs.RemoteWrite)
			return wr{Opcode: verbs.OpWrite, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
		}, rdmap.Error{Layer: 1, Type: 1, Code: 2}, verbs.StatusSuccess, verbs.EventQPAccessError},
		{"Read, unknown STag", func(x *pair) wr {
			return wr{Opcode: verbs.OpRead, RKey: x.s.mr.RKey() ^ 0x100, RemoteAddr: x.s.mr.Addr()}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 0}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"Read, out of bounds", func(x *pair) wr {
			return wr{Opcode: verbs.OpRead, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr() + size - 99}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 1}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"Read, no right", func(x *pair) wr {
			mr, _ := x.s.pd.RegMR(make([]byte, 100), verbs.LocalWrite|verbs.RemoteWrite)
			return wr{Opcode: verbs.OpRead, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 2}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"Read, other PD", func(x *pair) wr {
			pd, _ := x.b.dev.AllocPD()
			mr, _ := pd.RegMR(make([]byte, 100), verbs.RemoteRead)
			return wr{Opcode: verbs.OpRead, RKey: mr.RKey(), RemoteAddr: mr.Addr()}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 3}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"Read, TO wraps", func(x *pair) wr {
			return wr{Opcode: verbs.OpRead, RKey: x.s.mr.RKey(), RemoteAddr: ^uint64(0) - 7}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 4}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"Send, nothing posted", func(x *pair) wr { return wr{} },
			rdmap.Error{Layer: 1, Type: 2, Code: 2}, verbs.StatusSuccess, verbs.EventQPRequestError},
		{"Send, too long", func(x *pair) wr {
			x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, 99)})
			return wr{}
		}, rdmap.Error{Layer: 1, Type: 2, Code: 5}, verbs.StatusSuccess, verbs.EventQPRequestError},
		{"Send, invalidates a bad STag", func(x *pair) wr {
			x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, 100)})
			return wr{Opcode: verbs.OpSendInv, Invalidate: 12345}
		}, rdmap.Error{Layer: 0, Type: 1, Code: 9}, verbs.StatusSuccess, verbs.EventQPAccessError},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := connect(t, toe.Config{}, Config{}, size)
			fill(x.s.mem, 1)
			before := append([]byte(nil), x.s.mem...)
			w := c.wr(x)
			w.ID, w.Flags, w.SGEs = 1, verbs.Signaled, x.c.sge(0, 100)
			x.c.post(t, w)
			x.c.post(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: x.c.sge(0, 1), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
			x.c.recv(t, verbs.RecvWR{ID: 3})
			x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
			if got := remoteErr(x.a); got == nil || !errors.Is(got, &c.want) || !got.Remote {
				t.Errorf("Terminate %v, want %v", got, &c.want)
			}
			if len(x.b.async) != 1 || x.b.async[0].Type != c.event || !errors.Is(x.b.async[0].Err, &c.want) {
				t.Errorf("server's events %v", x.b.async)
			}
			wcs := x.c.poll()
			if len(wcs) != 3 || wcs[0].ID != 1 || wcs[0].Status != c.status || wcs[1].Status != verbs.StatusFlushed || wcs[2].ID != 3 {
				t.Errorf("completions %s", wcString(wcs))
			}
			if !bytes.Equal(before, x.s.mem) && !strings.HasPrefix(c.name, "Send, inv") {
				t.Error("memory was touched")
			}
			if x.c.qp.State() != verbs.Err || x.s.qp.State() != verbs.Err {
				t.Errorf("states %v %v", x.c.qp.State(), x.s.qp.State())
			}
			if x.a.e.Totals().Terminates != 1 || x.b.e.Totals().Terminates != 1 || !x.a.e.Idle() {
				t.Errorf("totals %+v", x.a.e.Totals())
			}
		})
	}
}

func TestLocalProtectionError(t *testing.T) {
	for _, large := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{}, 1<<20)
		bad := x.c.sge(0, 8)
		bad[0].LKey ^= 1
		if large {
			bad = x.c.sge(1<<20-4096, 8192)
		}
		x.c.post(t, verbs.SendWR{ID: 1, Flags: verbs.Signaled, Opcode: verbs.OpWrite, SGEs: bad, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		x.c.post(t, verbs.SendWR{ID: 2})
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		wcs := x.c.poll()
		if len(wcs) != 2 || wcs[0].Status != verbs.StatusLocalProtection || wcs[1].Status != verbs.StatusFlushed {
			t.Errorf("completions %s", wcString(wcs))
		}
		if r := remoteErr(x.b); r == nil || r.Layer != rdmap.LayerRDMA || r.Type != 0 {
			t.Errorf("peer learnt %v", r)
		}
	}
}

// An application that aborts as soon as it hears of an error does not keep the
// peer from hearing of it.
func TestTerminatePrecedesAbort(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 8192)
	x.s.id.SetHandler(func(ev cm.Event, now frame.Time) {
		x.s.handle(ev, now)
		if ev.Type == cm.Disconnected {
			_ = x.s.id.Disconnect(true, now)
		}
	})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 100), RKey: x.s.mr.RKey() ^ 0x100, RemoteAddr: x.s.mr.Addr()})
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	want := rdmap.Error{Layer: rdmap.LayerDDP, Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	if got := remoteErr(x.a); got == nil || !errors.Is(got, &want) {
		t.Errorf("the peer learnt %v", got)
	}
	if n := x.b.e.Totals().Terminates; n != 1 {
		t.Errorf("%d Terminates", n)
	}
}

func TestORDIsNeverExceeded(t *testing.T) {
	x := connect(t, toe.Config{}, Config{IRD: 2, ORD: 8}, 1<<16)
	for i := range uint64(40) {
		x.c.post(t, verbs.SendWR{ID: i, Flags: verbs.Signaled, Opcode: verbs.OpRead, SGEs: x.c.sge(0, 3000), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
	}
	most := 0
	x.must("reads", func() bool {
		if c := endpointOf(x.c.qp).conn; c != nil {
			most = max(most, c.stream.Reads())
		}
		return len(x.c.poll()) == 40
	})
	if most != 2 || x.c.id.ORD() != 2 {
		t.Errorf("%d Reads at a time, ORD %d", most, x.c.id.ORD())
	}
}

func TestReject(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	x := dial(t, w, 64, cm.Params{}, func(_ *end, ev cm.Event, now frame.Time) {
		if err := ev.ID.Reject([]byte("full"), now); err != nil {
			t.Error(err)
		}
	})
	w.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if got := x.c.names(); got != "rejected; closed; " || string(x.c.events[0].PrivateData) != "full" ||
		!errors.Is(x.c.events[0].Err, cm.ErrRejected) {
		t.Errorf("client: %s %+v", got, x.c.events[0])
	}
	if got := x.s.names(); got != "connect request; closed; " {
		t.Errorf("server: %s", got)
	}
	if x.c.qp.State() != verbs.Init && x.c.qp.State() != verbs.Err {
		t.Errorf("QP in %v", x.c.qp.State())
	}
}

func TestRefusedAndUnreachable(t *testing.T) {
	w := newWorld(t, toe.Config{SynRetries: 2}, Config{})
	for _, c := range []struct {
		remote netip.AddrPort
		mute   bool
		typ    cm.EventType
		err    error
	}{
		{netip.AddrPortFrom(w.b.addr, 1), false, cm.Refused, cm.ErrRefused},
		{netip.AddrPortFrom(w.b.addr, 2), true, cm.TimedOut, cm.ErrTimedOut},
	} {
		e := newEnd(t, w.a, 64)
		if c.mute {
			w.a.out.drop = func(int, frameArg) bool { return true }
		}
		id := w.a.cm.NewID(e.handle, nil)
		if err := id.Connect(c.remote, cm.Params{QP: e.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		w.must("end", func() bool { return e.got(cm.ClosedEvent) })
		if len(e.events) != 2 || e.events[0].Type != c.typ || !errors.Is(e.events[0].Err, c.err) {
			t.Errorf("%v: %s %v", c.typ, e.names(), e.events[0].Err)
		}
		if err := id.Destroy(); err != nil {
			t.Error(err)
		}
	}
}

func TestReplyTimeout(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{ReplyTimeout: time.Second})
	x := dial(t, w, 64, cm.Params{}, func(*end, cm.Event, frame.Time) {})
	w.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if x.c.names() != "timed out; closed; " || x.s.names() != "connect request; failed; closed; " {
		t.Errorf("client %s server %s", x.c.names(), x.s.names())
	}
}

func TestGracefulDisconnect(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<20)
	fill(x.c.mem, 1)
	x.s.recv(t, verbs.RecvWR{ID: 7})
	x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(0, 1<<20), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
	if err := x.c.id.Disconnect(false, x.now); err != nil {
		t.Fatal(err)
	}
	if _, err := x.c.qp.PostSend(verbs.SendWR{}); !errors.Is(err, verbs.ErrState) || x.c.qp.State() != verbs.SQD {
		t.Errorf("post while closing: %v, %v", err, x.c.qp.State())
	}
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if wcs := x.c.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(x.c.mem, x.s.mem) {
		t.Errorf("client %s", wcString(wcs))
	}
	if wcs := x.s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed || wcs[0].ID != 7 {
		t.Errorf("server %s", wcString(wcs))
	}
	if x.c.names() != "active complete; disconnected; closed; " || x.s.names() != "connect request; passive complete; disconnected; closed; " {
		t.Errorf("client %s server %s", x.c.names(), x.s.names())
	}
	for _, ev := range append(x.c.events, x.s.events...) {
		if ev.Err != nil {
			t.Errorf("%v: %v", ev.Type, ev.Err)
		}
	}
}

func TestAbortiveEnds(t *testing.T) {
	for name, abort := range map[string]func(x *pair){
		"disconnect": func(x *pair) { x.c.id.Disconnect(true, x.now) },
		"modify":     func(x *pair) { x.c.qp.Modify(verbs.Err) },
		"destroy":    func(x *pair) { x.c.qp.Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			x := connect(t, toe.Config{}, Config{}, 1<<20)
			x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 1<<20), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
			x.s.recv(t, verbs.RecvWR{ID: 7})
			x.a.turn(x.now)
			abort(x)
			x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
			if wcs := x.c.poll(); name != "destroy" && (len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed) {
				t.Errorf("client %s", wcString(wcs))
			}
			if wcs := x.s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed {
				t.Errorf("server %s", wcString(wcs))
			}
			if !x.s.got(cm.Disconnected) || !x.c.got(cm.Disconnected) || !x.a.e.Idle() || !x.b.e.Idle() {
				t.Errorf("client %s server %s", x.c.names(), x.s.names())
			}
			if r := remoteErr(x.b); r == nil {
				t.Error("no Terminate reached the peer")
			}
		})
	}
}

// corrupt flips a payload octet of the n-th packet and mends the TCP
// checksum by flipping the same bit at an even distance back.
func corrupt(f *frame.Frame) {
	b := f.Bytes()
	i := len(b) - 10
	binary.BigEndian.PutUint16(b[i-2:], binary.BigEndian.Uint16(b[i-2:])^0x0101)
	x := binary.BigEndian.Uint16(b[i-2:])
	old := x ^ 0x0101
	// One's complement: what is added here is taken away there.
	sum := uint32(binary.BigEndian.Uint16(b[i-4:])) + uint32(old) + uint32(^x)
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b[i-4:], uint16(sum&0xffff+sum>>16))
}

func TestCRCError(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 60000), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
	fill(x.c.mem, 1)
	first := x.a.out.sent
	x.a.out.drop = func(n int, f *frame.Frame) bool {
		if n == first+1 {
			corrupt(f)
		}
		return false
	}
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	if r := remoteErr(x.a); r == nil || r.Layer != rdmap.LayerLLP || r.Code != 2 || x.b.e.Totals().CRCErrors != 1 {
		t.Errorf("peer learnt %v; totals %+v", r, x.b.e.Totals())
	}
	if !bytes.Equal(x.s.mem, make([]byte, len(x.s.mem))) {
		t.Error("octets of a bad FPDU were placed")
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	trace := func() (out []byte) {
		x := connect(t, toe.Config{}, Config{}, 1<<20)
		n := 0
		tap := func(_ int, f *frame.Frame) bool {
			out = append(out, f.Bytes()...)
			n++
			return n%29 == 0
		}
		x.a.out.drop, x.b.out.drop = tap, tap
		transferAll(t, x, 100000)
		return out
	}
	if !bytes.Equal(trace(), trace()) {
		t.Error("two runs differ")
	}
}

// What one side reports as written before the other's graceful close is in
// the other's memory, also when both close at once.
func TestCloseUnderTraffic(t *testing.T) {
	for _, both := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{}, 2<<20)
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 8), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		x.must("first message", func() bool { return x.b.e.Totals().RxFPDUs == 1 })
		fill(x.c.mem[:1<<20], 1)
		fill(x.s.mem[:1<<20], 2)
		const n = 16 << 10
		posted := map[*end]int{x.c: 64, x.s: 64}
		if !both {
			posted[x.c] = 10 // the closing side is done early
		}
		for _, p := range []struct{ from, to *end }{{x.c, x.s}, {x.s, x.c}} {
			for i := range posted[p.from] {
				p.from.post(t, verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: p.from.sge(i*n, n),
					RKey: p.to.mr.RKey(), RemoteAddr: p.to.mr.Addr() + uint64(1<<20+i*n)})
			}
		}
		x.must("some progress", func() bool { return len(x.s.poll()) > 3 })
		fins := 0 // the first is lost: acknowledgements of later data overtake it
		x.a.out.drop = func(_ int, f *frame.Frame) bool {
			if f.Bytes()[33]&1 != 0 {
				fins++
				return fins == 1
			}
			return false
		}
		x.c.id.Disconnect(false, x.now)
		if both {
			x.s.id.Disconnect(false, x.now)
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		for _, p := range []struct{ from, to *end }{{x.c, x.s}, {x.s, x.c}} {
			for _, wc := range p.from.poll() {
				at := int(wc.ID) * n
				if wc.Status == verbs.StatusSuccess && !bytes.Equal(p.from.mem[at:at+n], p.to.mem[1<<20+at:1<<20+at+n]) {
					t.Fatalf("Write %d of node %v is reported but not there", wc.ID, p.from.n.addr)
				}
			}
			if len(p.from.wcs) != posted[p.from] {
				t.Errorf("%d completions", len(p.from.wcs))
			}
		}
		if last := x.c.wcs[posted[x.c]-1].Status; last != verbs.StatusSuccess {
			t.Errorf("the side that closed did not finish: %v", last)
		}
		if last := x.s.wcs[63].Status; both && last != verbs.StatusSuccess {
			t.Errorf("the side that closed too did not finish: %v", last)
		}
	}
}
