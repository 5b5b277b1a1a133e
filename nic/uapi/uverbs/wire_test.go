package uverbs

import (
	"bytes"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/ideal"
	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// cable joins two NICs in virtual time.
type cable struct {
	t    testing.TB
	now  frame.Time
	pool *buf.Pool
	roce bool
	ends [2]*station
	fly  []flying
}

type flying struct {
	at   frame.Time
	to   *station
	data []byte
}

// station is a NIC with a program on it whose queues are rings.
type station struct {
	*client
	cable  *cable
	nic    *nic.Device
	server *Server
	peer   *station

	pdh, cqh, qph, mrh uint32
	channelFD          int
	v                  *verbs.QP
	buf                []byte
	bufAt              uint64
	key                uint32
	rings              rings
	send               *ring.SendPoster
	recv               *ring.RecvPoster
	poll               *ring.Poller
}

// rings are where a program has mapped its queues.
type rings struct{ send, receive, completion []byte }

func newCable(t testing.TB, p verbs.Personality) *cable {
	c := &cable{t: t, roce: p == verbs.RoCE, now: frame.Time(time.Hour), pool: buf.NewPool(4096, 0)}
	for i, addr := range []string{"10.0.0.1/24", "10.0.0.2/24"} {
		s := &station{cable: c}
		var err error
		s.nic, err = nic.New(nic.Config{Name: addr, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)},
			Hardware: &ideal.Config{},
			RDMA:     nic.RDMA{Personality: p}},
			nic.Env{Pool: c.pool, Wire: s, Now: func() frame.Time { return c.now }})
		ok(t, err)
		s.nic.LinkUp(c.now)
		ca, err := al.New(nil).RegisterCI(al.CI{Verbs: s.nic.Verbs, CM: s.nic.CM})
		ok(t, err)
		s.server = New(ca)
		w := &world{TB: t, server: s.server}
		s.client = w.open(100 + i)
		c.ends[i] = s
	}
	c.ends[0].peer, c.ends[1].peer = c.ends[1], c.ends[0]
	return c
}

// newConnected is a cable whose ends are set up and connected.
func newConnected(t testing.TB, p verbs.Personality, shared bool) (c *cable, a, b *station) {
	c = newCable(t, p)
	a, b = c.ends[0], c.ends[1]
	a.setup(false)
	b.setup(shared)
	c.connect()
	return c, a, b
}

// Transmit implements frame.Link.
func (s *station) Transmit(f *frame.Frame) {
	data, id := bytes.Clone(f.Bytes()), f.ID
	f.Release()
	s.cable.fly = append(s.cable.fly, flying{s.cable.now.Add(10 * time.Microsecond), s.peer, data})
	s.nic.TxDone(id, s.cable.now, s.cable.now)
}

// Room implements frame.Link.
func (s *station) Room() int { return 64 }

// step lets the next thing happen.
func (c *cable) step() {
	next := c.now.Add(time.Second)
	for _, s := range c.ends {
		for s.nic.Dispatch(c.now) {
		}
		next = min(next, s.nic.Poll(c.now))
	}
	if len(c.fly) > 0 {
		next = min(next, c.fly[0].at)
	}
	c.now = max(c.now, next)
	for len(c.fly) > 0 && c.fly[0].at <= c.now {
		f := c.pool.Get(len(c.fly[0].data))
		f.Append(c.fly[0].data)
		c.fly[0].to.nic.Receive(frame.Wire, []*frame.Frame{f}, c.now)
		c.fly = c.fly[1:]
	}
}

// settle takes a hundred steps, or fewer if nothing happens in three seconds.
func (c *cable) settle() {
	active := c.now
	for n := 0; n < 100 && c.now.Sub(active) < 3*time.Second; n++ {
		before := c.now
		if c.step(); len(c.fly) > 0 || c.now.Sub(before) < time.Second {
			active = c.now
		}
	}
}

func (c *cable) until(what string, done func() bool) {
	c.t.Helper()
	for range 100_000 {
		if done() {
			return
		}
		c.step()
	}
	c.t.Fatalf("%s does not come", what)
}

// setup makes the objects of a program that is about to connect; an SRQ if
// shared.
func (s *station) setup(shared bool) {
	t := s.cable.t
	s.pdh, s.channelFD = s.pd(), s.channel()
	cqAnswer := s.must(18, fields(uint64(0xc0), 32, 0, s.channelFD, 0), 8+ringLen)
	s.cqh = cqAnswer.u32(0)
	in := qpRequest(0xab, s.pdh, s.cqh, typeRC)
	var rq body
	if shared {
		a := s.must(32, fields(uint64(3), s.pdh, 4, 2, 0), srqAnswerLen+srqUHWLen)
		in[46] = 1
		native.PutUint32(in[20:], a.u32(0))
		rq = a[srqAnswerLen:]
	}
	qpAnswer := s.must(24, in, createQPAnswerLen+2*ringLen)
	if !shared {
		rq = qpAnswer[createQPAnswerLen:]
	}
	s.qph, s.v = qpAnswer.u32(0), s.server.QP(s.prog.PID, qpAnswer.u32(4))
	s.init()
	s.bufAt, s.buf = s.prog.Map(32768)
	mrAnswer := s.must(9, fields(s.bufAt, uint64(len(s.buf)), s.bufAt, s.pdh, 0x1f), 12)
	s.mrh, s.key = mrAnswer.u32(0), mrAnswer.u32(4)
	var err error
	s.rings = rings{completion: s.mmap(cqAnswer[8:]), receive: s.mmap(rq),
		send: s.mmap(qpAnswer[createQPAnswerLen+ringLen:])}
	s.poll, err = ring.OpenCompletionQueue(s.rings.completion)
	ok(t, err)
	s.recv, err = ring.OpenRecvQueue(s.rings.receive, 2)
	ok(t, err)
	s.send, err = ring.OpenSendQueue(s.rings.send, 2, 64)
	ok(t, err)
}

// mmap maps the ring that an answer names.
func (s *station) mmap(mi body) []byte {
	mem, err := unix.Mmap(s.fd, int64(mi.u64(0)), int(mi.u32(8)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	ok(s.cable.t, err)
	s.maps = append(s.maps, mem)
	return mem
}

// init moves the queue pair to INIT.
func (s *station) init() { s.must(26, s.attributes(verbs.Init), 0) }

// attributes are those of MODIFY_QP to a state: over RoCE all that reliable connections
// and XRC need, of a path to the peer's queue pair.
func (s *station) attributes(to verbs.State) []byte {
	b := toState(s.qph, to)
	if !s.cable.roce {
		return b
	}
	mask, typ := maskState, s.v.Type()
	switch to {
	case verbs.Init:
		mask |= maskPKeyIndex | maskPort | maskAccess
	case verbs.RTR:
		mask |= maskAV | 1<<8 /* path MTU */ | maskDestQPN | maskRQPSN
		if typ != qpattr.XRCInitiator {
			mask |= maskMaxDest | maskMinRNR
		}
	case verbs.RTS:
		mask |= maskSQPSN | maskTimeout
		if typ != qpattr.XRCTarget {
			mask |= maskRetries | maskRNRRetry | maskMaxRead
		}
	}
	native.PutUint32(b[68:], uint32(mask))
	dest := abi.DestOf(&qpattr.Path{DGID: s.peer.nic.Verbs.GIDs()[3], SGIDIndex: 3})
	copy(b, dest[:])
	if s.peer.v != nil {
		native.PutUint32(b[84:], s.peer.v.QPN())
	}
	native.PutUint32(b[88:], uint32(remoteAccess))
	copy(b[98:], []byte{3, 0, 0, 4, 4, 12, portNumber, 14, 7, 7}) // MTU 1024 and counts
	return b
}

// connect leads both programs' queue pairs to RTS: the connection manager's, over RoCE
// the programs do it themselves.
func (c *cable) connect() {
	a, b := c.ends[0], c.ends[1]
	if c.roce {
		for _, s := range c.ends {
			s.must(26, s.attributes(verbs.RTR), 0)
			s.must(26, s.attributes(verbs.RTS), 0)
		}
		return
	}
	at := netip.MustParseAddrPort("10.0.0.2:4420")
	_, err := b.nic.CM.Listen(at, 0, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			ok(c.t, ev.ID.Accept(cm.Params{QP: b.v}, now))
		}
	}, nil)
	ok(c.t, err)
	ok(c.t, a.nic.CM.NewID(nil, nil).Connect(at, cm.Params{QP: a.v}, c.now))
	for _, s := range c.ends {
		s.must(26, toState(s.qph, verbs.RTR), 0) // as librdmacm does, before or after
	}
	c.until("a connection", func() bool { return a.v.State() == verbs.RTS && b.v.State() == verbs.RTS })
}

// post writes requests into the ring and rings.
func (s *station) post(wrs ...verbs.SendWR) {
	s.tb.Helper()
	for i := range wrs {
		wrs[i].Flags |= verbs.Signaled
		ok(s.tb, s.send.Post(&wrs[i]))
	}
	s.doorbell()
}

func (s *station) doorbell() { s.must(28, fields(s.qph, 0, 0, 128), 4) }

func (s *station) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.bufAt + uint64(off), Length: uint32(n), LKey: s.key}}
}

// completion waits for the next one.
func (s *station) completion() ring.Completion {
	s.tb.Helper()
	var wc [1]ring.Completion
	s.cable.until("a completion", func() bool { return s.poll.Poll(wc[:]) == 1 })
	return wc[0]
}

// ended tells whether the queue pair is in error.
func (s *station) ended() bool { return s.v.State() == verbs.Err || s.v.State() == verbs.SQE }

func (s *station) expect(id uint64, op verbs.WCOpcode, status verbs.Status) ring.Completion {
	s.tb.Helper()
	wc := s.completion()
	if wc.ID != id || wc.Opcode != op && status == verbs.StatusSuccess || wc.Status != status || wc.QPN != s.v.QPN() {
		s.tb.Fatalf("completion %+v, want request %d, %v, %v", wc, id, op, status)
	}
	return wc
}

// over runs a test on NICs of iWARP and on NICs of RoCE.
func over(t *testing.T, test func(t *testing.T, p verbs.Personality)) {
	for _, p := range []verbs.Personality{verbs.IWARP, verbs.RoCE} {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// All that a program does after it has connected, between two NICs.
func TestPrograms(t *testing.T) { over(t, testPrograms) }

func testPrograms(t *testing.T, p verbs.Personality) {
	for name, shared := range map[string]bool{"own receive queue": false, "SRQ": true} {
		t.Run(name, func(t *testing.T) {
			c, a, b := newConnected(t, p, shared)

			ok(t, b.recv.Post(&verbs.RecvWR{ID: 1, SGEs: b.sge(0, 100)}))
			b.arm(b.cqh)
			copy(a.buf, "send")
			a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGEs: a.sge(0, 4)})
			if wc := b.expect(1, verbs.WCRecv, verbs.StatusSuccess); wc.ByteLen != 4 || string(b.buf[:4]) != "send" {
				t.Errorf("%+v: %q", wc, b.buf[:4])
			}
			c.until("an event", func() bool { return b.read(b.channelFD, compEventLen) != nil })
			a.expect(2, verbs.WCSend, verbs.StatusSuccess)

			a.post(
				verbs.SendWR{ID: 3, Opcode: verbs.OpWrite, Flags: verbs.Inline, Inline: []byte("inline write"),
					RemoteAddr: b.bufAt + 1000, RKey: b.key},
				verbs.SendWR{ID: 4, Opcode: verbs.OpRead, SGEs: a.sge(2000, 12), RemoteAddr: b.bufAt + 1000, RKey: b.key},
				verbs.SendWR{ID: 5, Opcode: verbs.OpFetchAdd, SGEs: a.sge(3000, 8), RemoteAddr: b.bufAt + 4000, RKey: b.key,
					Atomic: verbs.Operands{CompareAdd: 41}},
				verbs.SendWR{ID: 6, Opcode: verbs.OpCompSwap, SGEs: a.sge(3008, 8), RemoteAddr: b.bufAt + 4000, RKey: b.key,
					Atomic: verbs.Operands{CompareAdd: 41, Swap: 7}},
			)
			a.expect(3, verbs.WCWrite, verbs.StatusSuccess)
			a.expect(4, verbs.WCRead, verbs.StatusSuccess)
			a.expect(5, verbs.WCFetchAdd, verbs.StatusSuccess)
			a.expect(6, verbs.WCCompSwap, verbs.StatusSuccess)
			if string(a.buf[2000:2012]) != "inline write" || native.Uint64(b.buf[4000:]) != 7 ||
				native.Uint64(a.buf[3008:]) != 41 {
				t.Errorf("%q, atomics %d, %d", a.buf[2000:2012], native.Uint64(b.buf[4000:]), native.Uint64(a.buf[3008:]))
			}

			// More requests than the queue pair takes at a time.
			for i := range uint64(7) {
				ok(t, a.send.Post(&verbs.SendWR{ID: 10 + i, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: a.sge(0, 9000),
					RemoteAddr: b.bufAt + 10000, RKey: b.key}))
			}
			a.doorbell()
			for i := range uint64(7) {
				a.expect(10+i, verbs.WCWrite, verbs.StatusSuccess)
			}
		})
	}
}

// A window is bound through the ring, used by the peer, and invalidated.
func TestProgramBindsWindows(t *testing.T) { over(t, testProgramBindsWindows) }

func testProgramBindsWindows(t *testing.T, p verbs.Personality) {
	c, a, b := newConnected(t, p, false)
	for typ := range uint8(2) {
		mw := b.must(14, fields(b.pdh, typ+1, make([]byte, 3)), 8)
		key := mw.u32(4)&^0xff | uint32(uint8(mw.u32(4)+1))
		ok(t, b.send.PostBind(1, verbs.Signaled, ring.BindKeys{
			RKey: mw.u32(4), NewRKey: key, LKey: b.key, Addr: b.bufAt + 100, Length: 50, Access: verbs.RemoteWrite,
		}))
		b.doorbell()
		b.expect(1, verbs.WCBindMW, verbs.StatusSuccess)
		a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.Inline, Inline: []byte{typ + 1},
			RemoteAddr: b.bufAt + 100, RKey: key})
		a.expect(2, verbs.WCWrite, verbs.StatusSuccess)
		c.until("the octet", func() bool { return b.buf[100] == typ+1 })
		if typ+1 == 2 {
			ok(t, b.recv.Post(&verbs.RecvWR{ID: 3, SGEs: b.sge(0, 10)}))
			a.post(verbs.SendWR{ID: 4, Opcode: verbs.OpSendInv, SGEs: a.sge(0, 1), Invalidate: key})
			if wc := b.expect(3, verbs.WCRecv, verbs.StatusSuccess); !wc.WithInv || wc.Invalidated != key {
				t.Errorf("%+v, want key %#x invalidated", wc, key)
			}
			a.expect(4, verbs.WCSend, verbs.StatusSuccess)
		}
		b.must(16, fields(mw.u32(0)), 0)
	}
	b.must(13, fields(b.mrh), 0)
}

// Memory that went, a key that is wrong: completions tell, and both sides live.
func TestProgramErrors(t *testing.T) { over(t, testProgramErrors) }

func testProgramErrors(t *testing.T, p verbs.Personality) {
	for name, c := range map[string]struct {
		spoil func(a, b *station)
		wr    func(a, b *station) verbs.SendWR
		want  verbs.Status
	}{
		"unmapped source": {
			func(a, _ *station) { a.prog.Unmap(a.bufAt) },
			func(a, b *station) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpWrite, SGEs: a.sge(0, 100), RemoteAddr: b.bufAt, RKey: b.key}
			}, verbs.StatusLocalProtection,
		},
		"wrong local key": {
			func(a, _ *station) { a.key ^= 1 },
			func(a, b *station) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpWrite, SGEs: a.sge(0, 100), RemoteAddr: b.bufAt, RKey: b.key}
			}, verbs.StatusLocalProtection,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b := newConnected(t, p, false)
			c.spoil(a, b)
			wr := c.wr(a, b)
			wr.ID = 9
			a.post(wr)
			a.expect(9, 0, c.want)
			// Nothing tells a peer of RoCE.
			w.until("the end", func() bool { return a.ended() && (w.roce || b.ended()) })
		})
	}
}

// Pages that a program has taken away, or made read-only, after it registered
// them: the request that meets them fails with a completion, on the side where
// they are, the peer learns of the end (with RoCE, if its request had it), and both NICs go on.
func TestPagesThatGo(t *testing.T) { over(t, testPagesThatGo) }

func testPagesThatGo(t *testing.T, p verbs.Personality) {
	write := func(a, b *station) { // nobody on b's side waits for it: the end is all that shows
		a.post(verbs.SendWR{ID: 9, Opcode: verbs.OpWrite, SGEs: a.sge(0, 100), RemoteAddr: b.bufAt, RKey: b.key})
		a.completion()
	}
	read := func(want verbs.Status) func(a, b *station) {
		return func(a, b *station) {
			a.post(verbs.SendWR{ID: 9, Opcode: verbs.OpRead, SGEs: a.sge(0, 100), RemoteAddr: b.bufAt, RKey: b.key})
			a.expect(9, 0, want)
		}
	}
	send := func(a, b *station) {
		ok(b.tb, b.recv.Post(&verbs.RecvWR{ID: 7, SGEs: b.sge(0, 100)}))
		a.post(verbs.SendWR{ID: 9, Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: []byte("data")})
		b.expect(7, 0, verbs.StatusLocalProtection)
	}
	atomic := func(a, b *station) {
		a.post(verbs.SendWR{ID: 9, Opcode: verbs.OpFetchAdd, SGEs: a.sge(0, 8), RemoteAddr: b.bufAt, RKey: b.key,
			Atomic: verbs.Operands{CompareAdd: 1}})
		a.expect(9, 0, verbs.StatusRemoteOperation)
	}
	source := map[verbs.Personality]verbs.Status{verbs.IWARP: verbs.StatusFlushed, verbs.RoCE: verbs.StatusRemoteAccess}[p]
	unmap, protect := func(s *station) { s.prog.Unmap(s.bufAt) }, func(s *station) { s.prog.Protect(s.bufAt) }
	for name, c := range map[string]struct {
		side int
		take func(*station)
		use  func(a, b *station)
	}{
		"unmapped sink of a Read":      {0, unmap, read(verbs.StatusLocalProtection)},
		"read-only sink of a Read":     {0, protect, read(verbs.StatusLocalProtection)},
		"unmapped source of a Read":    {1, unmap, read(source)},
		"unmapped target of a Write":   {1, unmap, write},
		"read-only target of a Write":  {1, protect, write},
		"unmapped sink of a Send":      {1, unmap, send},
		"read-only sink of a Send":     {1, protect, send},
		"unmapped target of an atomic": {1, unmap, atomic},
		"read-only target of atomic":   {1, protect, atomic},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b := newConnected(t, p, false)
			c.take(w.ends[c.side])
			c.use(a, b)
			w.until("the end on both sides", func() bool { return a.ended() && (b.ended() || w.roce && c.side == 0) })
			for _, s := range w.ends {
				if s.must(1, nil, deviceAttrLen); s.nic.Verbs.Removed() {
					t.Error("the NIC is gone")
				}
			}
		})
	}
}

// There is no doorbell for receives: what a program posts after the end of its
// connection is flushed all the same, now and after a pause, until the queue
// pair is used anew.
func TestReceivesPostedInError(t *testing.T) { over(t, testReceivesPostedInError) }

func testReceivesPostedInError(t *testing.T, p verbs.Personality) {
	c, a, b := newConnected(t, p, false)
	ok(t, b.recv.Post(&verbs.RecvWR{ID: 1, SGEs: b.sge(0, 100)}))
	a.must(26, toState(a.qph, verbs.Err), 0)
	if c.roce {
		b.must(26, toState(b.qph, verbs.Err), 0)
	}
	b.expect(1, 0, verbs.StatusFlushed)
	for i, pause := range []time.Duration{0, 0, time.Second, time.Minute} {
		for end := c.now.Add(pause); c.now < end; {
			c.step()
		}
		b.arm(b.cqh)
		from := c.now
		for n := range uint64(4) {
			ok(t, b.recv.Post(&verbs.RecvWR{ID: n, SGEs: b.sge(0, 100)}))
		}
		for n := range uint64(4) {
			b.expect(n, 0, verbs.StatusFlushed)
		}
		if took := c.now.Sub(from); took > 50*time.Millisecond {
			t.Errorf("time %d: flushed after %v", i, took)
		}
		c.until("an event", func() bool { return b.read(b.channelFD, compEventLen) != nil })
	}
	b.must(26, toState(b.qph, verbs.Reset), 0)
	b.init()
	ok(t, b.recv.Post(&verbs.RecvWR{ID: 9, SGEs: b.sge(0, 100)}))
	for end := c.now.Add(time.Second); c.now < end; {
		c.step()
	}
	var wc [1]ring.Completion
	if b.poll.Poll(wc[:]) != 0 || b.v.RecvsPending() != 1 {
		t.Errorf("a receive of a queue pair in INIT: %+v, %d wait", wc[0], b.v.RecvsPending())
	}
	for _, s := range c.ends {
		s.must(27, fields(s.qph, 0), 4)
	}
	for range 10 {
		c.step()
	}
	if n := b.nic.Verbs.InError(); n != 0 {
		t.Errorf("%d queue pairs that are gone are watched", n)
	}
}

// A program that is killed at any point of a transfer leaves nothing, and its
// peer is told.
func TestKilledProgram(t *testing.T) { over(t, testKilledProgram) }

func testKilledProgram(t *testing.T, p verbs.Personality) {
	for steps := 0; steps < 120; steps += 3 {
		c, a, b := newConnected(t, p, false)
		for i := range uint64(7) {
			ok(t, a.send.Post(&verbs.SendWR{ID: i, Opcode: verbs.OpWrite, SGEs: a.sge(0, 20000), RemoteAddr: b.bufAt,
				RKey: b.key}))
			ok(t, b.send.Post(&verbs.SendWR{ID: i, Opcode: verbs.OpRead, SGEs: b.sge(30000, 20000), RemoteAddr: a.bufAt,
				RKey: a.key}))
		}
		a.doorbell()
		b.doorbell()
		for range steps {
			c.step()
		}
		a.file.Close()
		if left := a.nic.Verbs.Objects(); len(left) != 0 {
			t.Fatalf("after %d steps: left behind %v", steps, left)
		}
		c.until("the peer's end", func() bool { return b.ended() || c.roce && b.v.SendsPending() == 0 })
		b.file.Close()
		if left := b.nic.Verbs.Objects(); len(left) != 0 {
			t.Fatalf("after %d steps: the peer left %v", steps, left)
		}
	}
}

// A connected queue pair is the connection manager's: what a program asks for on
// the way to a connection, as libraries do, changes nothing, another connection or
// an earlier state is refused, and the traffic goes on.
func TestModifyGivesWayToTheCM(t *testing.T) {
	_, a, b := newConnected(t, verbs.IWARP, false)
	for n, c := range []struct {
		in    []byte
		errno error
	}{
		{toState(a.qph, verbs.RTR), nil}, {toState(a.qph, verbs.RTS), nil},
		{toState(a.qph, verbs.Init), syscall.EINVAL},
		{modify(a.qph, maskState|maskDestQPN, 96, uint8(verbs.RTR)), syscall.EINVAL},
		{modify(a.qph, maskAV, 0, 0), syscall.EINVAL},
	} {
		if _, err := a.do(26, c.in, 0); err != c.errno || a.v.State() != verbs.RTS {
			t.Errorf("%d: %v in state %v, want %v", n, err, a.v.State(), c.errno)
		}
		id := uint64(n)
		ok(t, b.recv.Post(&verbs.RecvWR{ID: id, SGEs: b.sge(0, 100)}))
		a.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, SGEs: a.sge(0, 4)})
		b.expect(id, verbs.WCRecv, verbs.StatusSuccess)
		a.expect(id, verbs.WCSend, verbs.StatusSuccess)
	}
}

// A shared receive queue in which a program has spoilt a request is lost, and the
// program is told which one: the message that would have taken the request ends its
// connection.
func TestSpoiltSharedQueue(t *testing.T) { over(t, testSpoiltSharedQueue) }

func testSpoiltSharedQueue(t *testing.T, p verbs.Personality) {
	c, a, b := newConnected(t, p, true)
	ok(t, b.recv.Post(&verbs.RecvWR{ID: 1, SGEs: b.sge(0, 100)}))
	const header, numSGE = 384, 28 // of a ring, in a request
	native.PutUint32(b.rings.receive[header+numSGE:], 9999)
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGEs: a.sge(0, 4)})
	var types []uint32
	c.until("an event of the queue", func() bool {
		for ev := body(b.read(asyncFD, asyncEventLen)); ev != nil; ev = b.read(asyncFD, asyncEventLen) {
			types = append(types, ev.u32(8))
		}
		return slices.Contains(types, uint32(al.SRQErr))
	})
	c.until("the end", b.ended)
	if n := b.nic.Verbs.Raised(verbs.EventSRQError); n != 1 {
		t.Errorf("the queue has failed %d times: events %v", n, types)
	}
}
