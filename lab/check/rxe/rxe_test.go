package rxe

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/nic/buf"
	"tapir/nic/roce"
	"tapir/nic/tap"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

var must = testenv.Must

var interop = flag.Bool("interop", false, "run the cells of make interop, too")

const (
	ourTAP = "nic0"
	bridge = "br0"
)

var (
	ourIP   = netip.MustParseAddr("10.0.0.1")
	hostIP  = netip.MustParsePrefix("10.0.0.254/24")
	guestIP = netip.MustParsePrefix("10.0.0.2/24")
	ourMAC  = ether.Addr{2, 0, 0, 0, 0, 1}
)

// station is a bare RoCE engine on a TAP: it answers ARP for its address and knows one peer.
type station struct {
	t     *testing.T
	tap   *tap.TAP
	dev   *verbs.Device
	e     *roce.Engine
	mu    sync.Mutex // of everything but the TAP
	peer  ether.Addr
	rng   *rand.Rand
	lose  int // packets lost of a thousand, each way
	pool  *buf.Pool
	out   []*frame.Frame
	stop  chan struct{}
	ended chan struct{}
}

func start(t *testing.T, s *link.Space, mac net.HardwareAddr) *station {
	dev, err := s.Net.OpenTAP(tap.Config{Name: ourTAP})
	must(t, err)
	must(t, errors.Join(s.Net.Join(ourTAP, bridge), s.Net.Up(ourTAP)))
	w := &station{t: t, tap: dev, peer: ether.Addr(mac), pool: buf.NewPool(4096, 0), rng: rand.New(rand.NewPCG(1, 2)),
		stop: make(chan struct{}), ended: make(chan struct{})}
	w.dev = verbs.NewDevice(verbs.Limits{}, rand.NewPCG(3, 4))
	w.dev.SetGIDs([]verbs.GIDEntry{{GID: verbs.GIDFromAddr(ourIP), Type: verbs.RoCEv2}})
	w.e = roce.New(w.dev, roce.Env{Pool: w.pool, Out: w, MTU: func() int { return 1024 },
		Segments: func() int { return 1 }})
	go w.run()
	t.Cleanup(func() {
		close(w.stop)
		<-w.ended
		w.tap.Close()
	})
	return w
}

// Room implements roce.Output.
func (w *station) Room() int { return 64 - len(w.out) }

// Transmit implements roce.Output.
func (w *station) Transmit(f *frame.Frame, hop *roce.Hop, _ frame.Time) {
	h := ether.Header{Dst: w.peer, Src: ourMAC, Type: ether.TypeIPv4}
	h.Put(f.Prepend(h.Len()))
	w.out = append(w.out, f)
}

// run is the loop.
func (w *station) run() {
	defer close(w.ended)
	begin := time.Now()
	for f := w.pool.Get(2048); ; {
		select {
		case <-w.stop:
			return
		default:
		}
		now := frame.Time(time.Since(begin)) + 1
		idle := true
		w.mu.Lock()
		for range 64 {
			f.Reset()
			if w.tap.Read(f) != nil {
				break
			}
			idle = false
			w.receive(f.Bytes(), now)
		}
		w.e.Poll(now)
		w.dev.Dispatch(now)
		for _, f := range w.out {
			if w.lose == 0 || w.rng.IntN(1000) >= w.lose {
				for w.tap.Write(f) == tap.ErrAgain {
					time.Sleep(100 * time.Microsecond)
				}
			}
			f.Release()
			idle = false
		}
		w.out = w.out[:0]
		w.mu.Unlock()
		if idle {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

func (w *station) receive(b []byte, now frame.Time) {
	h, n, err := ether.Parse(b)
	if err != nil {
		return
	}
	switch h.Type {
	case ether.TypeARP:
		if p, err := arp.Parse(b[n:]); err == nil && p.Op == arp.Request && p.TargetIP == ourIP {
			w.answer(p)
		}
	case ether.TypeIPv4:
		g, body, err := ip.Parse(b[n:])
		if err != nil || g.Proto != ip.ProtoUDP || g.Dst != ourIP && !g.Dst.IsMulticast() {
			return
		}
		if u, _, err := udp.Parse(body); err != nil || u.Dst != 4791 || w.lose > 0 && w.rng.IntN(1000) < w.lose {
			return
		}
		w.e.Receive(b[n:n+g.HeaderLen()+len(body)], 0, ether.Tag{}, now)
	}
}

func (w *station) answer(p arp.Packet) {
	f := w.pool.Get(64)
	a := arp.Packet{Op: arp.Reply, SenderMAC: ourMAC, SenderIP: ourIP, TargetMAC: p.SenderMAC, TargetIP: p.SenderIP}
	h := ether.Header{Dst: p.SenderMAC, Src: ourMAC, Type: ether.TypeARP}
	h.Put(f.Extend(h.Len()))
	a.Put(f.Extend(arp.Len))
	w.out = append(w.out, f)
}

// do runs fn between two turns of the loop.
func (w *station) do(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// cell is one run of a pingpong program in the guest.
type cell struct {
	program           string
	size, mtu, rounds int
	lose              int // of a thousand
}

func (c cell) String() string {
	return fmt.Sprintf("%s -s %d -m %d -n %d, %d of a thousand lost", c.program, c.size, c.mtu, c.rounds, c.lose)
}

var types = map[string]qpattr.Type{"rc": qpattr.RC, "uc": qpattr.UC, "ud": qpattr.UD, "srq": qpattr.RC}

// TestPingpong has the programs of libibverbs in the guest play with our transport.
func TestPingpong(t *testing.T) {
	if err := peer.Available(); err != nil {
		t.Skip(err)
	}
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces and TAPs here")
	}
	cells := []cell{
		{program: "rc", size: 4096, mtu: 1024, rounds: 100}, {program: "rc", size: 1, mtu: 256, rounds: 50},
		{program: "uc", size: 3000, mtu: 1024, rounds: 50}, {program: "ud", size: 1000, mtu: 1024, rounds: 50},
		{program: "rc", size: 20000, mtu: 512, rounds: 50, lose: 10},
	}
	if *interop {
		cells = many()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	must(t, err)
	s := testenv.Space(t, link.Quiet)
	must(t, s.Net.AddBridge(bridge))
	must(t, s.Net.AddAddr(bridge, hostIP))
	g, err := peer.Start(ctx, image, peer.Config{NS: s.NS, Bridge: bridge, IP: []netip.Prefix{guestIP}})
	must(t, err)
	t.Cleanup(g.Stop)
	must(t, g.LoadRXE(ctx))
	w := start(t, s, g.MAC())
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) { w.play(t, ctx, s, g, c) })
	}
	if bad := w.e.Stats().BadICRC; bad != 0 {
		t.Errorf("%d packets with a wrong ICRC", bad)
	}
}

// many are the cells of the long form.
func many() (list []cell) {
	for _, p := range []string{"rc", "uc", "srq"} {
		for _, mtu := range []int{256, 512, 1024} {
			for _, size := range []int{0, 1, 3, 63, 64, 255, 256, 257, 511, 1024, 1025, 4095, 16384, 65536} {
				list = append(list, cell{program: p, size: max(1, size), mtu: mtu, rounds: 20})
			}
		}
	}
	for _, size := range []int{1, 64, 512, 1024} {
		list = append(list, cell{program: "ud", size: size, mtu: 1024, rounds: 50})
	}
	for _, lose := range []int{1, 5, 10, 20} {
		for _, size := range []int{64, 4096, 65536} {
			list = append(list, cell{program: "rc", size: size, mtu: 1024, rounds: 100, lose: lose})
		}
	}
	return list
}

// numbers are what the two sides of a pingpong tell each other.
type numbers struct {
	qpn, psn uint32
	gid      verbs.GID
}

func (n numbers) text() []byte {
	return append(fmt.Appendf(nil, "0000:%06x:%06x:%s", n.qpn, n.psn, hex.EncodeToString(n.gid[:])), 0)
}

func parse(b []byte) (n numbers, err error) {
	var lid uint32
	var gid string
	if _, err = fmt.Sscanf(strings.TrimRight(string(b), "\x00"), "%x:%x:%x:%s", &lid, &n.qpn, &n.psn, &gid); err == nil {
		_, err = hex.Decode(n.gid[:], []byte(gid))
	}
	return n, err
}

const (
	port    = 18515
	textLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1
	qkey    = 0x11111111
	// srqNumbers is how many numbers ibv_srq_pingpong exchanges, however many queue pairs it has.
	srqNumbers = 256
)

// pong is our side of a pingpong.
type pong struct {
	w        *station
	c        cell
	cq       *verbs.CQ
	mr       *verbs.MR
	mem      []byte
	pd       *verbs.PD
	qps      []*verbs.QP
	srq      *verbs.SRQ
	ah       *verbs.AH
	peer     []numbers
	received int
	sent     int
	failed   string
}

// play is the server of one pingpong.
func (w *station) play(t *testing.T, ctx context.Context, s *link.Space, g *peer.Guest, c cell) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var l net.Listener
	must(t, s.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("%v:%d", hostIP.Addr(), port))
		return err
	}))
	defer l.Close()
	p := &pong{w: w, c: c}
	w.do(func() { p.open(t); w.lose = c.lose })
	defer w.do(p.close)
	command := fmt.Sprintf("ibv_%s_pingpong -d rxe0 -g 1 -s %d -n %d", c.program, c.size, c.rounds)
	if c.program != "ud" {
		command += fmt.Sprintf(" -m %d", c.mtu)
	}
	if c.program == "srq" {
		command += " -q 2"
	}
	done := make(chan error, 1)
	go func() {
		var out bytes.Buffer
		code, err := g.Run(ctx, time.Minute, command+" "+hostIP.Addr().String(), &out)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, out.String())
		}
		done <- err
	}()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("%v; the guest: %v", err, <-done)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	must(t, p.exchange(conn))
	if err := <-done; err != nil {
		w.do(func() {
			t.Errorf("%v; we have sent %d and received %d messages, %s, %+v", err, p.sent, p.received, p.failed, w.e.Stats())
		})
	}
	w.do(func() {
		if p.failed != "" || p.received < c.rounds {
			t.Errorf("%d messages, %s", p.received, p.failed)
		}
	})
}

// exchange tells the guest our numbers and moves the queue pairs.
func (p *pong) exchange(conn net.Conn) error {
	count := len(p.qps)
	if p.srq != nil {
		count = srqNumbers
	}
	for i := range count {
		b := make([]byte, textLen)
		if _, err := readFull(conn, b); err != nil {
			return err
		}
		if i >= len(p.qps) {
			continue
		}
		n, err := parse(b)
		if err != nil {
			return err
		}
		p.peer = append(p.peer, n)
	}
	var err error
	p.w.do(func() { err = p.connect() })
	if err != nil {
		return err
	}
	for i := range count {
		q := p.qps[min(i, len(p.qps)-1)]
		if _, err := conn.Write(numbers{q.QPN(), q.Attr().SQPSN, verbs.GIDFromAddr(ourIP)}.text()); err != nil {
			return err
		}
	}
	_, err = readFull(conn, make([]byte, len("done")))
	return err
}

func readFull(c net.Conn, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m, err := c.Read(b[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// grh is what datagrams have in front in the receiver's memory.
const grh = 40

func (p *pong) open(t *testing.T) {
	d := p.w.dev
	var err error
	p.pd, err = d.AllocPD()
	must(t, err)
	p.cq, err = d.CreateCQ(1024, func(*verbs.CQ, frame.Time) { p.turn() })
	must(t, err)
	p.mem = make([]byte, p.c.size+grh)
	p.mr, err = p.pd.RegMR(p.mem, verbs.LocalWrite)
	must(t, err)
	cfg := verbs.QPConfig{Type: types[p.c.program], SendCQ: p.cq, RecvCQ: p.cq, MaxSend: 8, MaxRecv: 512}
	count := 1
	if p.c.program == "srq" {
		count = 2
		p.srq, err = p.pd.CreateSRQ(512, 1)
		must(t, err)
		cfg.SRQ = p.srq
	}
	for range count {
		q, err := p.pd.CreateQP(cfg)
		must(t, err)
		p.qps = append(p.qps, q)
	}
	p.cq.ReqNotify(false)
}

func (p *pong) close() {
	for _, q := range p.qps {
		_ = q.Destroy()
	}
	if p.ah != nil {
		_ = p.ah.Destroy()
	}
	if p.srq != nil {
		_ = p.srq.Destroy()
	}
	_ = p.mr.Dereg()
	_ = p.cq.Destroy()
	_ = p.pd.Dealloc()
	p.w.lose = 0
}

func (p *pong) connect() error {
	for i, q := range p.qps {
		peer := p.peer[i]
		a := qpattr.Attr{Port: 1, QKey: qkey, Path: qpattr.Path{DGID: peer.gid, HopLimit: 1}, PathMTU: p.c.mtu,
			DestQPN: peer.qpn, RQPSN: peer.psn, SQPSN: 0xfffffe, MaxDestRdAtomic: 1, MinRNRTimer: 12, Timeout: 14,
			RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 1}
		init, rtr, rts := qpattr.PKeyIndex|qpattr.Port|qpattr.Access, qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN,
			qpattr.SQPSN
		switch q.Type() {
		case qpattr.RC:
			rtr |= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
			rts |= qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.MaxRdAtomic
		case qpattr.UD:
			init, rtr = qpattr.PKeyIndex|qpattr.Port|qpattr.QKey, 0
			var err error
			if p.ah, err = p.pd.CreateAH(a.Path); err != nil {
				return err
			}
		}
		if err := q.ModifyAttr(verbs.Init, &a, init); err != nil {
			return err
		}
		if p.srq == nil {
			for range 500 {
				p.recv(q)
			}
		}
		if err := errors.Join(q.ModifyAttr(verbs.RTR, &a, rtr), q.ModifyAttr(verbs.RTS, &a, rts)); err != nil {
			return err
		}
	}
	for p.srq != nil && p.srq.Len() < 500 {
		p.recv(nil)
	}
	return nil
}

// recv posts a receive to q, or to the shared queue.
func (p *pong) recv(q *verbs.QP) {
	n := p.c.size
	if p.c.program == "ud" {
		n += grh
	}
	wr := verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{{Addr: p.mr.Addr(), Length: uint32(n), LKey: p.mr.LKey()}}}
	if p.srq != nil {
		_, _ = p.srq.PostRecv(wr)
		return
	}
	_, _ = q.PostRecv(wr)
}

// turn answers each message with one of the same length.
func (p *pong) turn() {
	var wcs [32]verbs.WC
	for n := p.cq.Poll(wcs[:]); n > 0; n = p.cq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			switch {
			case wc.Status != verbs.StatusSuccess:
				p.failed += fmt.Sprintf("%v: %v; ", wc.Opcode, wc.Status)
			case wc.Opcode == verbs.WCRecv:
				p.received++
				p.recv(wc.QP)
				wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.Signaled,
					SGEs: []verbs.SGE{{Addr: p.mr.Addr(), Length: uint32(p.c.size), LKey: p.mr.LKey()}}}
				if p.ah != nil {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.ah, p.peer[0].qpn, qkey
				}
				if _, err := wc.QP.PostSend(wr); err != nil {
					p.failed += err.Error()
				}
			default:
				p.sent++
			}
		}
	}
	p.cq.ReqNotify(false)
}
