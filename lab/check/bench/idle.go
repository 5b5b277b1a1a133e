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
	client, server := &idler{n: nodes[0]}, &idler{n: nodes[1]}
	each := client.memory(server)
	if err := errors.Join(client.err, server.err, node.CloseAll(nodes[:])); err != nil {
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
	done int   // requests completed
	err  error // the first
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
	if x.cq, err = x.n.Device.Verbs.CreateCQ(4*idlePairs, nil); err != nil {
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

// memory connects to the server, writes once over every pair, waits until all is
// quiet, and returns the octets per queue pair.
func (x *idler) memory(server *idler) (each int64) {
	to := netip.AddrPortFrom(server.n.Config().IP[0].Addr(), idlePort)
	x.do(x.open)
	server.do(server.open)
	server.do(func(frame.Time) error {
		_, err := server.n.Device.CM.Listen(to, idlePairs, server.event, nil)
		return err
	})
	before := heap()
	for range idlePairs {
		x.do(func(now frame.Time) error {
			qp, err := x.qp()
			if err != nil {
				return err
			}
			id := x.n.Device.CM.NewID(x.event, nil)
			x.ids = append(x.ids, id)
			return id.Connect(to, cm.Params{QP: qp}, now)
		})
	}
	x.await(func() bool { return x.up == idlePairs })
	x.do(func(frame.Time) error { return x.write(server.mr) })
	var wcs [64]verbs.WC
	x.await(func() bool {
		x.done += x.cq.Poll(wcs[:])
		return x.done >= idlePairs
	})
	each = (heap() - before) / (2 * idlePairs)
	runtime.KeepAlive(server)
	return each
}

// write moves data over every connection.
func (x *idler) write(to *verbs.MR) (err error) {
	for _, id := range x.ids {
		_, failed := id.QP().PostSend(verbs.SendWR{
			Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: to.Addr(), RKey: to.RKey(),
			SGEs: []verbs.SGE{{Addr: x.mr.Addr(), Length: idleWrite, LKey: x.mr.LKey()}},
		})
		err = errors.Join(err, failed)
	}
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
