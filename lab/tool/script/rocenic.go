package script

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// roceMTU is the MTU of the machine: a packet of 4096 octets fits.
const roceMTU = 4200

// rocePort is where the application listens and what it connects to.
const rocePort = 7174

// roceNIC is a NIC in virtual time.
type roceNIC struct {
	b   *roceBench
	dev *nic.Device
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	id  *cm.ID
}

func newRoCENIC(r *runner) (bench, error) {
	set := &r.script.set.roce
	b := newRoCEBench(r)
	n := &roceNIC{b: b}
	b.host = n
	var err error
	if n.dev, err = nic.New(r.script.NIC(), nic.Env{Pool: r.pool, Wire: n}); err != nil {
		return nil, err
	}
	b.mac = n.dev.Config().MAC
	n.dev.Verbs.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { b.tell("event " + hyphens(ev.Type.String())) })
	if set.plain {
		return b, nil
	}
	pd, err := n.dev.Verbs.AllocPD()
	if err != nil {
		return nil, err
	}
	if n.cq, err = n.dev.Verbs.CreateCQ(256, nil); err != nil {
		return nil, err
	}
	if n.mr, err = pd.RegMR(b.mem,
		verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic); err != nil {
		return nil, err
	}
	b.addr, b.key = n.mr.Addr(), n.mr.RKey()
	n.qp, err = pd.CreateQP(verbs.QPConfig{Type: set.service, SendCQ: n.cq, RecvCQ: n.cq, MaxSend: 64, MaxRecv: 64})
	if err != nil {
		return nil, err
	}
	if b.qpn = n.qp.QPN(); set.managed {
		return b, nil
	}
	return b, n.ready(set)
}

// ready brings the queue pair to RTS.
func (n *roceNIC) ready(set *roceSettings) error {
	a := set.attr
	peer := verbs.GIDFromAddr(n.b.r.remote)
	for i, g := range n.dev.Verbs.GIDs() {
		if g == verbs.GIDFromAddr(n.b.r.local) && n.dev.Verbs.GIDType(i) == verbs.RoCEv2 {
			a.Path = qpattr.Path{DGID: peer, SGIDIndex: uint8(i), HopLimit: 64}
		}
	}
	init := qpattr.State | qpattr.PKeyIndex | qpattr.Port | qpattr.Access
	rtr := qpattr.State | qpattr.AV | qpattr.PathMTU | qpattr.DestQPN | qpattr.RQPSN
	rts := qpattr.State | qpattr.SQPSN
	switch set.service {
	case qpattr.UD:
		init, rtr = qpattr.State|qpattr.PKeyIndex|qpattr.Port|qpattr.QKey, qpattr.State
	case qpattr.RC:
		rtr |= qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
		rts |= qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.MaxRdAtomic
	}
	for i, m := range []qpattr.Mask{init, rtr, rts} {
		if err := n.qp.ModifyAttr([]verbs.State{verbs.Init, verbs.RTR, verbs.RTS}[i], &a, m); err != nil {
			return err
		}
	}
	return nil
}

// poll implements roceHost: it goes on until all rest.
func (n *roceNIC) poll() frame.Time {
	b := n.b
	for {
		next := n.dev.Poll(b.r.now())
		frames := b.inbox
		b.inbox = nil
		for i, f := range frames {
			frames[i] = b.r.over.carryFrame(f, b.r.pool, true)
		}
		n.dev.Receive(frame.Wire, frames, b.r.now())
		busy := n.dev.Dispatch(b.r.now()) || len(frames) > 0
		var wcs [16]verbs.WC
		for n.cq != nil {
			k := n.cq.Poll(wcs[:])
			if k == 0 {
				break
			}
			for i := range wcs[:k] {
				b.tell(roceCompletion(&wcs[i]))
			}
		}
		if !busy {
			return next
		}
	}
}

// Room implements frame.Link: the link is never full.
func (n *roceNIC) Room() int { return math.MaxInt32 }

// Transmit implements frame.Link.
func (n *roceNIC) Transmit(f *frame.Frame) { n.b.sent(n.b.r.over.carryFrame(f, n.b.r.pool, false)) }

// counters implements roceHost: drops are those of the transport and of the NIC below it.
func (n *roceNIC) counters() (drops, all map[string]uint64) { return roceCounters(n.dev) }

func roceCounters(dev *nic.Device) (drops, all map[string]uint64) {
	drops, all = map[string]uint64{}, map[string]uint64{}
	for _, c := range dev.Counters() {
		all[c.Name] = c.Value
		if name, ok := strings.CutPrefix(c.Name, "rx_drop_"); ok {
			drops[strings.ReplaceAll(name, "_", "-")] = c.Value
		}
	}
	for r := range nicdrop.All() {
		if dev.RoCE != nil && dev.RoCE.Stats().Drops[r] > 0 {
			drops[hyphenated(r)] = dev.RoCE.Stats().Drops[r]
		}
	}
	return drops, all
}

func (n *roceNIC) recv(id, off, size uint64) error {
	_, err := n.qp.PostRecv(verbs.RecvWR{ID: id,
		SGEs: []verbs.SGE{{Addr: n.mr.Addr() + off, Length: uint32(size), LKey: n.mr.LKey()}}})
	return err
}

func (n *roceNIC) post(wr verbs.SendWR) error {
	wr.SGEs[0].Addr += n.mr.Addr()
	wr.SGEs[0].LKey = n.mr.LKey()
	_, err := n.qp.PostSend(wr)
	return err
}

func (n *roceNIC) move(to verbs.State) error      { return n.qp.Modify(to) }
func (n *roceNIC) state() verbs.State             { return n.qp.State() }
func (n *roceNIC) memory(off, size uint64) []byte { return n.b.mem[off:][:size] }
func (n *roceNIC) dereg() error                   { return n.mr.Dereg() }

// event takes what happens to connections.
func (n *roceNIC) event(ev cm.Event, _ frame.Time) {
	if ev.Type == cm.ConnectRequest {
		n.id = ev.ID
	}
	n.b.tell("event " + hyphens(ev.Type.String()))
}

func (n *roceNIC) listen() error {
	_, err := n.dev.CM.Listen(netip.AddrPortFrom(n.b.r.local, rocePort), 4, n.event, nil)
	return err
}

func (n *roceNIC) connect() error {
	n.id = n.dev.CM.NewID(n.event, nil)
	if err := n.qp.Modify(verbs.Init); err != nil {
		return err
	}
	return n.id.Connect(netip.AddrPortFrom(n.b.r.remote, rocePort), cm.Params{QP: n.qp, IRD: 4, ORD: 4}, n.b.r.now())
}

// onID is a command that needs a connection.
func (n *roceNIC) onID(run func() error) error {
	if n.id == nil {
		return fmt.Errorf("there is no connection")
	}
	return run()
}

func (n *roceNIC) accept() error {
	return n.onID(func() error {
		if err := n.qp.Modify(verbs.Init); err != nil {
			return err
		}
		return n.id.Accept(cm.Params{QP: n.qp, IRD: 4, ORD: 4}, n.b.r.now())
	})
}

func (n *roceNIC) reject() error {
	return n.onID(func() error { return n.id.Reject(nil, n.b.r.now()) })
}

func (n *roceNIC) disconnect() error {
	return n.onID(func() error { return n.id.Disconnect(false, n.b.r.now()) })
}
