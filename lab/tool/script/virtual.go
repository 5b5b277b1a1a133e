package script

import (
	"math"
	"net/netip"

	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// virtual is a NIC in virtual time.
type virtual struct {
	w   *world
	dev *nic.Device
	pds map[string]*verbs.PD
	cq  *verbs.CQ
}

// newVirtual makes the world of r around a NIC, and its TCP engine r.engine.
func newVirtual(r *runner) (*world, error) {
	w := &world{r: r, station: station}
	v := &virtual{w: w, pds: map[string]*verbs.PD{}}
	w.machine, r.sim = v, w
	var err error
	if v.dev, err = nic.New(r.script.NIC(), nic.Env{Pool: r.pool, Wire: v}); err != nil {
		return nil, err
	}
	w.mac = v.dev.Config().MAC
	r.engine = v.dev.TCP()
	v.dev.Verbs.OnAsync(v.async)
	if v.cq, err = v.dev.Verbs.CreateCQ(maxCompletions, nil); err != nil {
		return nil, err
	}
	return w, nil
}

// NIC is the NIC that a script of iWARP or RoCE is about.
func (s *Script) NIC() nic.Config {
	set := &s.set
	bits := 24
	if set.v6 {
		bits = 64
	}
	cfg := nic.Config{
		Name: "nic", Addrs: []netip.Prefix{netip.PrefixFrom(set.local(), bits)}, MTU: set.mtu(), Seed: set.seed,
		IWARP: set.rdma, TCP: set.cfg, Hardware: &fastlinq.Config{},
	}
	if set.cfg.MaxSegs > 1 {
		cfg.Frames = nic.GSO
	}
	if !set.iwarp {
		if cfg.MTU, cfg.Seed = roceMTU, 1; !set.roce.plain {
			cfg.RDMA.Personality = verbs.RoCE
		}
	}
	return cfg
}

// poll goes on until all rest.
func (v *virtual) poll() frame.Time {
	w := v.w
	for {
		next := v.dev.Poll(w.r.now())
		busy := w.answer()
		busy = v.dev.Dispatch(w.r.now()) || busy
		v.collect()
		if w.turns++; !busy || w.turns > maxTurns {
			w.r.turns = max(w.r.turns, w.turns)
			return next
		}
	}
}

func (v *virtual) receive(frames []*frame.Frame) {
	for i, f := range frames {
		frames[i] = v.w.r.over.carryFrame(f, v.w.r.pool, true)
	}
	v.dev.Receive(frame.Wire, frames, v.w.r.now())
}

// Room implements frame.Link: the link is never full.
func (v *virtual) Room() int { return math.MaxInt32 }

// Transmit implements frame.Link.
func (v *virtual) Transmit(f *frame.Frame) {
	v.w.sent(v.w.r.over.carryFrame(f, v.w.r.pool, false))
}

// collect takes what the completion queue holds.
func (v *virtual) collect() {
	var wcs [16]verbs.WC
	for n := v.cq.Poll(wcs[:]); n > 0; n = v.cq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			wc := wcs[i]
			v.w.note(owner(wc.QP), happening{text: v.w.completionText(&wc), wc: &wc})
		}
	}
}

// owner is the connection whose queue pair is qp.
func owner(qp *verbs.QP) *endpoint {
	if e, ok := qp.Context.(*endpoint); ok {
		return e
	}
	return nil
}

func (v *virtual) async(ev verbs.AsyncEvent, _ frame.Time) {
	var e *endpoint
	if ev.QP != nil {
		e = owner(ev.QP)
	}
	v.w.note(e, happening{text: asyncText(&ev), as: &ev})
}

// pd returns the protection domain with that name, new at its first use.
func (v *virtual) pd(name string) (*verbs.PD, error) {
	if v.pds[name] == nil {
		pd, err := v.dev.Verbs.AllocPD()
		if err != nil {
			return nil, err
		}
		v.pds[name] = pd
	}
	return v.pds[name], nil
}

func (v *virtual) register(g *region, access verbs.Access, name string, addr uint64) (memory, error) {
	pd, err := v.pd(name)
	if err != nil {
		return nil, err
	}
	if addr == 0 {
		return pd.RegMR(g.mem(), access)
	}
	return pd.RegMemory(verbs.Bytes(g.mem()), addr, access)
}

func (v *virtual) newQP(e *endpoint, name string, cfg verbs.QPConfig, shared bool) (queuePair, error) {
	pd, err := v.pd(name)
	if err != nil {
		return nil, err
	}
	if shared {
		cfg.SRQ = v.w.srq.(*verbs.SRQ)
	}
	cfg.SendCQ, cfg.RecvCQ, cfg.Context = v.cq, v.cq, e
	qp, err := pd.CreateQP(cfg)
	if err == nil {
		err = qp.Modify(verbs.Init)
	}
	return qp, err
}

func (v *virtual) newSRQ(n int) (sharedQueue, error) {
	pd, err := v.pd("1")
	if err != nil {
		return nil, err
	}
	return pd.CreateSRQ(n, 4)
}

func (v *virtual) listen(backlog int) (interface{ Close() }, error) {
	return v.dev.CM.Listen(netip.AddrPortFrom(v.w.r.local, v.w.r.port), backlog, v.connection, nil)
}

// connection is the handler of connection events.
func (v *virtual) connection(ev cm.Event, _ frame.Time) {
	e := v.w.endpointAt(ev.ID.Remote())
	if e != nil && ev.Type == cm.ConnectRequest {
		e.id = &nicID{e, v, ev.ID}
	}
	v.w.note(e, happening{text: eventText(&ev), ev: &ev})
}

func (v *virtual) newID(e *endpoint) connection {
	return &nicID{e, v, v.dev.CM.NewID(v.connection, nil)}
}

func (v *virtual) counter(name string) (uint64, bool) { return counter(v.dev, name) }

func counter(dev *nic.Device, name string) (uint64, bool) {
	for _, c := range dev.Counters() {
		if c.Name == name {
			return c.Value, true
		}
	}
	return 0, false
}

// nicID is a connection of a NIC.
type nicID struct {
	e  *endpoint
	v  *virtual
	id *cm.ID
}

func (i *nicID) connect(p cm.Params) error {
	p.Local, p.QP = i.e.peer.local, i.e.qp.(*verbs.QP)
	return i.id.Connect(i.e.peer.remote, p, i.v.w.r.now())
}

func (i *nicID) accept(p cm.Params) error {
	p.QP = i.e.qp.(*verbs.QP)
	return i.id.Accept(p, i.v.w.r.now())
}

func (i *nicID) reject(private []byte) error { return i.id.Reject(private, i.v.w.r.now()) }

func (i *nicID) disconnect(abortive bool) error {
	return i.id.Disconnect(abortive, i.v.w.r.now())
}
