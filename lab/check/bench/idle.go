package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// idlePairs is how many connections rest while their memory is measured.
const (
	idlePairs = 500
	idlePort  = 5004
	idleWrite = 5000 // octets that each has moved before
)

// idleChild measures what a connected queue pair costs that has moved data and
// rests, TCP and connection manager included. Both NICs live in this process,
// on a wire in memory.
func idleChild(ctx context.Context, _ *struct{}) error {
	a, b, err := link.NewWire("a", "b", false)
	if err != nil {
		return err
	}
	var nodes [2]*nicnode.Node
	for i, wire := range []*link.WireEnd{a, b} {
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(1 + i)}), 24)
		nodes[i], err = nicnode.Start(ctx, nicnode.Config{Name: wire.Name(), IP: []netip.Prefix{addr}},
			node.Env{Wire: wire})
		if err != nil {
			return err
		}
		defer nodes[i].Close()
	}
	result.Ready()
	each, err := idleMemory(nodes[0], nodes[1])
	if err := errors.Join(err, node.CloseAll(nodes[:])); err != nil {
		return err
	}
	return result.Result{Memory: each, Messages: 2 * idlePairs}.Print()
}

// idler is one NIC with what its queue pairs share. Its fields belong to the
// NIC's thread.
type idler struct {
	n    *nicnode.Node
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	ids  []*cm.ID
	up   int
	done int // requests completed
	err  error
}

func newIdler(n *nicnode.Node) (*idler, error) {
	x := &idler{n: n}
	err := n.DoWait(func(frame.Time) {
		x.pd, x.err = n.Device.Verbs.AllocPD()
		if x.err == nil {
			x.cq, x.err = n.Device.Verbs.CreateCQ(4*idlePairs, nil)
		}
		if x.err == nil {
			x.mr, x.err = x.pd.RegMR(make([]byte, idleWrite), verbs.LocalWrite|verbs.RemoteWrite)
		}
	})
	return x, errors.Join(err, x.err)
}

func (x *idler) qp() *verbs.QP {
	qp, err := x.pd.CreateQP(verbs.QPConfig{SendCQ: x.cq, RecvCQ: x.cq})
	if err == nil {
		err = qp.Modify(verbs.Init)
	}
	x.err = errors.Join(x.err, err)
	return qp
}

// event follows connections of both roles.
func (x *idler) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		x.ids = append(x.ids, ev.ID)
		x.err = errors.Join(x.err, ev.ID.Accept(cm.Params{QP: x.qp()}, now))
	case cm.ActiveComplete, cm.PassiveComplete:
		x.up++
	default:
		x.err = errors.Join(x.err, ev.Err)
	}
}

// idleMemory connects, writes once each way of every pair, waits until all is
// quiet, and returns the octets per queue pair.
func idleMemory(a, b *nicnode.Node) (each int64, err error) {
	client, err := newIdler(a)
	if err != nil {
		return 0, err
	}
	server, err := newIdler(b)
	if err != nil {
		return 0, err
	}
	to := netip.AddrPortFrom(b.Config().IP[0].Addr(), idlePort)
	var failed error
	err = b.DoWait(func(frame.Time) { _, failed = b.Device.CM.Listen(to, idlePairs, server.event, nil) })
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	before := heap()
	for range idlePairs {
		if err := a.DoWait(func(now frame.Time) {
			id := a.Device.CM.NewID(client.event, nil)
			client.ids = append(client.ids, id)
			client.err = errors.Join(client.err, id.Connect(to, cm.Params{QP: client.qp()}, now))
		}); err != nil {
			return 0, err
		}
	}
	if err := client.await(func() bool { return client.up == idlePairs }); err != nil {
		return 0, fmt.Errorf("connections: %w", err)
	}
	if err := client.write(server.mr); err != nil {
		return 0, err
	}
	each = (heap() - before) / (2 * idlePairs)
	runtime.KeepAlive(server)
	return each, nil
}

// write moves data over every connection.
func (x *idler) write(to *verbs.MR) error {
	err := x.n.DoWait(func(frame.Time) {
		for _, id := range x.ids {
			_, err := id.QP().PostSend(verbs.SendWR{
				Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: to.Addr(), RKey: to.RKey(),
				SGEs: []verbs.SGE{{Addr: x.mr.Addr(), Length: idleWrite, LKey: x.mr.LKey()}},
			})
			x.err = errors.Join(x.err, err)
		}
	})
	if err != nil {
		return err
	}
	var wcs [64]verbs.WC
	return x.await(func() bool {
		x.done += x.cq.Poll(wcs[:])
		return x.done >= idlePairs
	})
}

// await looks on the NIC's thread until ok.
func (x *idler) await(ok func() bool) error {
	for deadline := time.Now().Add(endWithin); ; time.Sleep(5 * time.Millisecond) {
		is := false
		err := x.n.DoWait(func(frame.Time) { is = ok() })
		switch {
		case errors.Join(err, x.err) != nil:
			return errors.Join(err, x.err)
		case is:
			return nil
		case time.Now().After(deadline):
			return errors.New("they do not come")
		}
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
