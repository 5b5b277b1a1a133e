package main

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/cm"
	"tapir/nic/tap"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

const (
	idlePort    = 5004
	idleWrite   = 5000 // octets that each connection has moved before
	idleSetup   = 500  // connections that are made at a time
	idleDepth   = 2    // Writes in flight of each while they compete
	idleSamples = 20   // of these that each has completed, on average, in the end
)

// idleSpec is how many connections rest while their memory is measured.
type idleSpec struct {
	Pairs int
	RoCE  bool
	Fair  bool // they compete afterwards
}

// idleChild measures what a connected queue pair costs that has moved data and
// rests, TCP and connection manager included. Both NICs live in this process,
// on a wire in memory.
func idleChild(ctx context.Context, spec *idleSpec) error {
	a, b, err := link.NewWire("a", "b", false)
	if err != nil {
		return err
	}
	var nodes [2]*nicnode.Node
	for i, wire := range []*patient{{a, b}, {b, a}} {
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(1 + i)}), 24)
		cfg := nicnode.Config{Name: wire.Name(), IP: []netip.Prefix{addr}}
		cfg.NIC.RDMA.NumQPs = spec.Pairs + 16
		if spec.RoCE {
			cfg.NIC.RDMA.Personality = verbs.RoCE
		}
		nodes[i], err = nicnode.Start(ctx, cfg, node.Env{Wire: wire})
		if err != nil {
			return err
		}
		defer nodes[i].Close()
	}
	result.Ready()
	client, server := &idler{n: nodes[0], pairs: spec.Pairs}, &idler{n: nodes[1], pairs: spec.Pairs}
	r := client.measure(server)
	if spec.Fair {
		r.Fairness = client.compete(server.mr)
	}
	failed := errors.Join(client.err, server.err) // the end aborts what is under way
	if err := errors.Join(failed, node.CloseAll(nodes[:])); err != nil {
		return err
	}
	return r.Print()
}

// patient is a wire's end that loses nothing: it takes frames when the other has room.
type patient struct {
	*link.WireEnd
	far *link.WireEnd
}

// patience is how many frames may wait: less than what the wire takes.
const patience = 512

// Write implements tap.Queue.
func (p *patient) Write(f *frame.Frame) error {
	if p.far.Waiting() >= patience {
		return tap.ErrAgain
	}
	return p.WireEnd.Write(f)
}

// idler is one NIC with what its queue pairs share. Its fields belong to the
// NIC's thread.
type idler struct {
	n     *nicnode.Node
	pairs int
	pd    *verbs.PD
	cq    *verbs.CQ
	mr    *verbs.MR
	ids   []*cm.ID
	up    int
	done  int   // requests completed
	err   error // the first
}

// do runs a step on the NIC's thread unless an earlier one has failed, and tells
// whether none has.
func (x *idler) do(step func(now frame.Time) error) (ok bool) {
	err := x.n.DoWait(func(now frame.Time) {
		if x.err == nil {
			x.err = step(now)
		}
		ok = x.err == nil
	})
	if err != nil { // the thread has ended
		x.err = cmp.Or(x.err, err)
	}
	return ok
}

// open makes what all queue pairs share.
func (x *idler) open(frame.Time) (err error) {
	if x.pd, err = x.n.Device.Verbs.AllocPD(); err != nil {
		return err
	}
	if x.cq, err = x.n.Device.Verbs.CreateCQ(4*x.pairs, nil); err != nil {
		return err
	}
	x.mr, err = x.pd.RegMR(make([]byte, idleWrite), verbs.LocalWrite|verbs.RemoteWrite)
	return err
}

func (x *idler) qp() (*verbs.QP, error) {
	qp, err := x.pd.CreateQP(verbs.QPConfig{SendCQ: x.cq, RecvCQ: x.cq})
	if err != nil {
		return nil, err
	}
	return qp, qp.Modify(verbs.Init)
}

// event follows connections of both roles.
func (x *idler) event(ev cm.Event, now frame.Time) {
	err := ev.Err
	switch ev.Type {
	case cm.ConnectRequest:
		x.ids = append(x.ids, ev.ID)
		var qp *verbs.QP
		if qp, err = x.qp(); err == nil {
			err = ev.ID.Accept(cm.Params{QP: qp}, now)
		}
	case cm.ActiveComplete, cm.PassiveComplete:
		x.up++
	}
	x.err = cmp.Or(x.err, err)
}

// measure connects to the server, writes once over every pair, waits until all is
// quiet, and returns the octets per queue pair, and how many pairs were connected in
// what time.
func (x *idler) measure(server *idler) result.Result {
	to := netip.AddrPortFrom(server.n.Config().IP[0].Addr(), idlePort)
	x.do(x.open)
	server.do(server.open)
	server.do(func(frame.Time) error {
		_, err := server.n.Device.CM.Listen(to, idleSetup, server.event, nil)
		return err
	})
	before := heap()
	connect := func(most int) {
		x.do(func(now frame.Time) error { return x.connect(to, most, now) })
		x.await(func() bool { return len(x.ids)-x.up <= most/2 })
	}
	connect(1) // the stations know each other then
	begun := time.Now()
	for len(x.ids) < x.pairs && x.err == nil {
		connect(idleSetup)
	}
	x.await(func() bool { return x.up == x.pairs })
	r := result.Result{Messages: int64(x.pairs), Elapsed: time.Since(begun)}
	x.do(func(frame.Time) error {
		for _, id := range x.ids {
			if err := x.write(id.QP(), server.mr); err != nil {
				return err
			}
		}
		return nil
	})
	var wcs [64]verbs.WC
	x.await(func() bool {
		x.done += x.cq.Poll(wcs[:])
		return x.done >= x.pairs
	})
	r.Memory = (heap() - before) / int64(2*x.pairs)
	runtime.KeepAlive(server)
	return r
}

// connect begins connections, until as many as given are under way.
func (x *idler) connect(to netip.AddrPort, most int, now frame.Time) error {
	for len(x.ids) < x.pairs && len(x.ids)-x.up < most {
		qp, err := x.qp()
		if err != nil {
			return err
		}
		id := x.n.Device.CM.NewID(x.event, nil)
		x.ids = append(x.ids, id)
		if err := id.Connect(to, cm.Params{QP: qp}, now); err != nil {
			return err
		}
	}
	return nil
}

// compete has all queue pairs write as fast as they can, until each has completed
// idleSamples Writes on average. It returns Jain's index of their numbers: 1 if all have the
// same, 1/n if one has all.
func (x *idler) compete(to *verbs.MR) float64 {
	counts := make(map[*verbs.QP]int, x.pairs)
	sum := 0
	var wcs [256]verbs.WC
	completed := func(cq *verbs.CQ, _ frame.Time) {
		cq.ReqNotify(false)
		for n := cq.Poll(wcs[:]); n > 0; n = cq.Poll(wcs[:]) {
			for _, wc := range wcs[:n] {
				if sum >= idleSamples*x.pairs {
					return
				}
				if wc.Status != verbs.StatusSuccess {
					x.err = cmp.Or(x.err, errors.New(wc.Status.String()))
				}
				counts[wc.QP]++
				sum++
				x.err = cmp.Or(x.err, x.write(wc.QP, to))
			}
		}
	}
	x.do(func(frame.Time) error {
		x.cq.SetHandler(completed)
		x.cq.ReqNotify(false)
		for range idleDepth {
			for _, id := range x.ids {
				if err := x.write(id.QP(), to); err != nil {
					return err
				}
			}
		}
		return nil
	})
	x.await(func() bool { return sum >= idleSamples*x.pairs })
	var squares float64
	for _, n := range counts {
		squares += float64(n) * float64(n)
	}
	return float64(sum) * float64(sum) / (float64(x.pairs) * squares)
}

// write posts a Write.
func (x *idler) write(qp *verbs.QP, to *verbs.MR) error {
	_, err := qp.PostSend(verbs.SendWR{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: to.Addr(), RKey: to.RKey(),
		SGEs: []verbs.SGE{{Addr: x.mr.Addr(), Length: idleWrite, LKey: x.mr.LKey()}},
	})
	return err
}

// await looks on the NIC's thread until ok.
func (x *idler) await(ok func() bool) {
	is, deadline := false, time.Now().Add(endWithin)
	for !is && x.do(func(frame.Time) error {
		if is = ok(); !is && time.Now().After(deadline) {
			return errors.New("they do not come")
		}
		return nil
	}) {
		time.Sleep(5 * time.Millisecond)
	}
}

// settle is longer than the loops keep buffers that nobody uses.
const settle = 1500 * time.Millisecond

// heap is what is in use once everything has come to rest.
func heap() int64 {
	time.Sleep(settle)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
