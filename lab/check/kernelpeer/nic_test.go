package kernelpeer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

const (
	nicPort   = 7000
	largeSend = 1 << 20 // room of a receive
	command   = 17      // octets: what, STag, address, length
)

// world is a NIC on a TAP in a network namespace of its own, with the
// kernel's TCP at the TAP's other side.
type world struct {
	ns   *netns.NS
	loop *loop.Loop
	dev  *nic.Device
}

// newWorld runs until the test ends.
func newWorld(t *testing.T, mode nic.FrameMode) *world {
	t.Helper()
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("no /dev/net/tun")
	}
	if !netns.Privileged() {
		t.Skip("needs the right to make network namespaces")
	}
	w := &world{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	space := testenv.Space(t, nil)
	w.ns = space.NS
	links := space.Net
	queue, err := links.OpenTAP(tap.Config{Name: "tap0", Vnet: mode != nic.Wire})
	must(err)
	w.loop, err = loop.New(loop.Config{})
	must(err)
	cfg := nic.Config{Name: "nic0", Hardware: &fastlinq.Config{}, Frames: mode, Addrs: []netip.Prefix{
		netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00:9::1/64")}}
	port := w.loop.AddQueue(frame.Wire, queue, 1514)
	w.dev, err = nic.New(cfg, nic.Env{Pool: w.loop.Pool(), Wire: port, Clock: w.loop.Clock()})
	must(err)
	w.loop.SetEngine(w.dev)
	for _, a := range []string{"10.9.0.254/24", "fd00:9::fe/64"} {
		must(links.AddAddr("tap0", netip.MustParsePrefix(a)))
	}
	must(links.Up("tap0"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("loop: %v", err)
		}
	})
	w.do(t, func(now frame.Time) error { w.dev.LinkUp(now); return nil })
	return w
}

// do runs fn on the NIC's thread.
func (w *world) do(t *testing.T, fn func(now frame.Time) error) {
	t.Helper()
	var err error
	if lerr := w.loop.DoWait(func(now frame.Time) { err = fn(now) }); err != nil || lerr != nil {
		t.Fatal(err, lerr)
	}
}

// app is the NIC's application: it offers memory, and does what Sends ask
// for: W write the memory to the peer's, R read it from there, S send it. A
// Send longer than a command is sent back. Each ends with a Send "done". All
// fields belong to the NIC's thread.
type app struct {
	dev       *nic.Device
	pd        *verbs.PD
	cq        *verbs.CQ
	qp        *verbs.QP
	id        *cm.ID
	memory    []byte
	region    *verbs.MR
	receives  [2][]byte
	recvMR    [2]*verbs.MR
	failed    error
	connected bool
}

// newApp offers size octets; its receives take Sends of up to room.
func newApp(dev *nic.Device, size, room int) (*app, error) {
	a := &app{dev: dev, memory: make([]byte, size)}
	var err [6]error
	a.pd, err[0] = dev.Verbs.AllocPD()
	a.cq, err[1] = dev.Verbs.CreateCQ(64, a.completions)
	if err := errors.Join(err[:]...); err != nil {
		return nil, err
	}
	all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	a.region, err[2] = a.pd.RegMR(a.memory, all)
	for i := range a.receives {
		a.receives[i] = make([]byte, room)
		a.recvMR[i], err[3+i] = a.pd.RegMR(a.receives[i], verbs.LocalWrite)
	}
	a.qp, err[5] = a.pd.CreateQP(verbs.QPConfig{SendCQ: a.cq, RecvCQ: a.cq, MaxInline: 16, SignalAll: true})
	if err := errors.Join(err[:]...); err != nil {
		return nil, err
	}
	if err := a.qp.Modify(verbs.Init); err != nil {
		return nil, err
	}
	a.cq.ReqNotify(false)
	return a, errors.Join(a.postRecv(0), a.postRecv(1))
}

// offer is the private data: where the memory is.
func (a *app) offer() []byte {
	b := binary.BigEndian.AppendUint32(nil, a.region.RKey())
	return binary.BigEndian.AppendUint64(b, a.region.Addr())
}

func (a *app) postRecv(i int) error {
	_, err := a.qp.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{{Addr: a.recvMR[i].Addr(), Length: uint32(len(a.receives[i])), LKey: a.recvMR[i].LKey()}}})
	return err
}

func (a *app) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		a.id = ev.ID
		a.fail(ev.ID.Accept(cm.Params{QP: a.qp, PrivateData: a.offer()}, now))
	case cm.ActiveComplete:
		a.connected = true
		a.fail(a.done()) // the responder waits for the first message
	case cm.PassiveComplete:
		a.connected = true
	case cm.Disconnected, cm.ClosedEvent:
		a.connected = false
		a.fail(ev.Err)
	default:
		a.fail(fmt.Errorf("%v: %w", ev.Type, ev.Err))
	}
}

func (a *app) fail(err error) {
	a.failed = errors.Join(a.failed, err)
}

func (a *app) completions(cq *verbs.CQ, _ frame.Time) {
	var wc [1]verbs.WC
	for {
		if cq.Poll(wc[:]) == 0 {
			if !cq.ReqNotify(false) {
				return
			}
			continue
		}
		switch {
		case wc[0].Status == verbs.StatusFlushed:
		case wc[0].Status != verbs.StatusSuccess:
			a.fail(fmt.Errorf("%v completed with %v", wc[0].Opcode, wc[0].Status))
		case wc[0].Opcode == verbs.WCRecv:
			a.fail(a.obey(int(wc[0].ID), int(wc[0].ByteLen)))
		}
	}
}

// obey does what the Send in receive i asks for.
func (a *app) obey(i, n int) error {
	b := a.receives[i]
	wr := verbs.SendWR{SGEs: []verbs.SGE{{Addr: a.recvMR[i].Addr(), Length: uint32(n), LKey: a.recvMR[i].LKey()}}}
	if n == command {
		wr.RKey, wr.RemoteAddr = binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint64(b[5:])
		wr.SGEs[0] = verbs.SGE{Addr: a.region.Addr(), Length: binary.BigEndian.Uint32(b[13:]), LKey: a.region.LKey()}
		wr.Opcode = map[byte]verbs.Opcode{'W': verbs.OpWrite, 'R': verbs.OpRead, 'S': verbs.OpSend}[b[0]]
	}
	if _, err := a.qp.PostSend(wr); err != nil {
		return err
	}
	return errors.Join(a.done(), a.postRecv(i))
}

// done says so when everything before is done.
func (a *app) done() error {
	_, err := a.qp.PostSend(verbs.SendWR{Flags: verbs.Inline | verbs.Fence, Inline: []byte("done")})
	return err
}

// ask sends a command and waits for its end; what comes before "done" is
// returned.
func ask(t *testing.T, p *Peer, what byte, stag uint32, to uint64, n int) (answer []byte) {
	t.Helper()
	b := binary.BigEndian.AppendUint32([]byte{what}, stag)
	b = binary.BigEndian.AppendUint64(b, to)
	return sendAndWait(t, p, binary.BigEndian.AppendUint32(b, uint32(n)))
}

func sendAndWait(t *testing.T, p *Peer, b []byte) (answer []byte) {
	t.Helper()
	if err := p.Send(rdmap.Send, 0, b); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := p.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) == "done" {
			return answer
		}
		answer = m.Data
	}
}

// transfer moves n octets each way by each operation of either side.
func transfer(t *testing.T, w *world, a *app, p *Peer, offer []byte, n int) {
	t.Helper()
	stag, to := binary.BigEndian.Uint32(offer), binary.BigEndian.Uint64(offer[4:])
	data, back := pattern(n, 1), make([]byte, n)
	if err := p.Write(stag, to, data); err != nil {
		t.Fatal("kernel peer's Write:", err)
	}
	if err := p.Read(stag, to, back); err != nil || !bytes.Equal(back, data) {
		t.Fatal("kernel peer's Read:", err)
	}
	sink := make([]byte, n)
	tag, base := p.Register(sink)
	ask(t, p, 'W', tag, base, n)
	if !bytes.Equal(sink, data) {
		t.Fatal("the NIC's Write placed other data")
	}
	copy(sink, pattern(n, 2))
	ask(t, p, 'R', tag, base, n)
	w.do(t, func(frame.Time) error {
		if !bytes.Equal(a.memory[:n], sink) {
			return errors.New("the NIC's Read placed other data")
		}
		return nil
	})
	if got := ask(t, p, 'S', 0, 0, n); !bytes.Equal(got, sink) {
		t.Fatal("the NIC's Send brought other data")
	}
	for _, size := range []int{1, 1424, 1425, largeSend} {
		if got := sendAndWait(t, p, data[:size]); !bytes.Equal(got, data[:size]) {
			t.Fatalf("%d octets came back as %d", size, len(got))
		}
	}
}

// dial connects a kernel socket in the namespace to the NIC.
func (w *world) dial(t *testing.T, to netip.AddrPort) (c net.Conn) {
	t.Helper()
	if err := w.ns.Do(func() (err error) { c, err = net.Dial("tcp", to.String()); return err }); err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) listen(t *testing.T, at netip.Addr) (l net.Listener) {
	t.Helper()
	err := w.ns.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(at, nicPort).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// toNIC is the connection that the kernel's side opens.
func toNIC(t *testing.T, w *world, a *app, local netip.Addr, cfg Config) (*Peer, []byte) {
	t.Helper()
	at := netip.AddrPortFrom(local, nicPort)
	w.do(t, func(frame.Time) error { _, err := w.dev.CM.Listen(at, 1, a.event, nil); return err })
	c := w.dial(t, at)
	c.SetDeadline(time.Now().Add(60 * time.Second))
	p, err := Initiate(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p, p.Result().PrivateData
}

// fromNIC is the connection that the NIC opens.
func fromNIC(t *testing.T, w *world, a *app, kernel netip.Addr, cfg Config) (*Peer, []byte) {
	t.Helper()
	l := w.listen(t, kernel)
	defer l.Close()
	w.do(t, func(now frame.Time) error {
		a.id = w.dev.CM.NewID(a.event, nil)
		return a.id.Connect(netip.AddrPortFrom(kernel, nicPort), cm.Params{QP: a.qp, PrivateData: a.offer()}, now)
	})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(60 * time.Second))
	p, err := Respond(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := p.Recv(); err != nil || string(m.Data) != "done" {
		t.Fatalf("first message %q, %v", m.Data, err)
	}
	return p, p.Result().PrivateData
}

func TestNICAgainstKernelTCP(t *testing.T) {
	markers := func(c *Config) { c.MPA.Markers = true }
	noCRC := func(c *Config) { c.MPA.CRC = mpa.CRCOptional }
	long := func(c *Config) { c.SegmentSize = 60000 }
	plain := func(*Config) {}
	rtr := func(r mpa.RTR) func(*Config) {
		return func(c *Config) { c.MPA.PeerToPeer, c.MPA.RTR = true, r }
	}
	old := func(c *Config) { c.MPA.Revision = 1 }
	for _, c := range []struct {
		name   string
		mode   nic.FrameMode
		v6     bool
		active bool // the NIC opens the connection
		size   int
		change func(*Config)
	}{
		{"kernel opens, IPv4, wire", nic.Wire, false, false, 64 << 20, plain},
		{"NIC opens, IPv4, wire", nic.Wire, false, true, 64 << 20, plain},
		{"kernel opens, IPv6, wire", nic.Wire, true, false, 64 << 20, plain},
		{"NIC opens, IPv6, wire", nic.Wire, true, true, 64 << 20, plain},
		{"kernel opens, IPv4, GSO", nic.GSO, false, false, 64 << 20, plain},
		{"NIC opens, IPv6, GSO", nic.GSO, true, true, 64 << 20, plain},
		{"markers to the kernel", nic.Wire, false, false, 4 << 20, markers},
		{"CRC at the NIC's wish", nic.GSO, false, true, 4 << 20, noCRC},
		{"FPDUs over many segments", nic.Wire, true, false, 4 << 20, long},
		{"RTR by Send", nic.Wire, false, false, 1 << 20, rtr(mpa.RTRSend)},
		{"RTR by Write", nic.Wire, false, false, 1 << 20, rtr(mpa.RTRWrite)},
		{"RTR by Read", nic.Wire, false, false, 1 << 20, rtr(mpa.RTRRead)},
		{"MPA revision 1", nic.Wire, false, false, 1 << 20, old},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.mode)
			var a *app
			w.do(t, func(frame.Time) (err error) { a, err = newApp(w.dev, c.size, largeSend); return err })
			cfg := DefaultConfig()
			c.change(&cfg)
			local, kernel := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.254")
			if c.v6 {
				local, kernel = netip.MustParseAddr("fd00:9::1"), netip.MustParseAddr("fd00:9::fe")
			}
			var p *Peer
			var offer []byte
			if c.active {
				p, offer = fromNIC(t, w, a, kernel, cfg)
			} else {
				p, offer = toNIC(t, w, a, local, cfg)
			}
			defer p.Close()
			if !p.Result().CRC || p.Result().MarkersRx != cfg.MPA.Markers {
				t.Fatalf("agreed on %+v", p.Result())
			}
			start := time.Now()
			transfer(t, w, a, p, offer, c.size)
			t.Logf("5 transfers of %d MiB in %v", c.size>>20, time.Since(start).Round(time.Millisecond))
			w.do(t, func(now frame.Time) error { return a.id.Disconnect(false, now) })
			if err := p.Wait(); err.Error() != "EOF" {
				t.Errorf("the NIC's disconnect arrives as %v", err)
			}
			w.do(t, func(frame.Time) error { return a.failed })
		})
	}
}
