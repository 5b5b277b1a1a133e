package nicnode_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// side is a NIC with one connected queue pair and some memory.
type side struct {
	*nicnode.Node
	pd      *verbs.PD
	cq      *verbs.CQ
	qp      *verbs.QP
	mem     []byte
	mr      *verbs.MR
	channel *nicnode.CompChannel
	up      chan cm.Event
}

// must ends the program: enough for an example.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// newSide starts a NIC on one end of a wire. Node and Device are used on the
// NIC's own thread, inside do.
func newSide(wire *link.WireEnd, ip string) *side {
	n := must(nicnode.Start(context.Background(), nicnode.Config{Name: wire.Name(), IP: []netip.Prefix{netip.MustParsePrefix(ip)}}, node.Env{Wire: wire}))
	s := &side{Node: n, mem: make([]byte, 4096), up: make(chan cm.Event, 8), channel: must(n.CreateCompChannel())}
	s.do(func(frame.Time) {
		dev := n.Device.Verbs
		s.pd = must(dev.AllocPD())
		s.cq = must(dev.CreateCQ(64, nil))
		all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind
		s.mr = must(s.pd.RegMR(s.mem, all))
		s.qp = must(s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, MaxSGE: 4, MaxInline: 64}))
	})
	if err := s.channel.Attach(s.cq); err != nil {
		log.Fatal(err)
	}
	return s
}

func (s *side) do(fn func(now frame.Time)) {
	if err := s.DoWait(fn); err != nil {
		log.Fatal(err)
	}
}

// event handles connection events: it accepts every request and passes the
// rest on.
func (s *side) event(ev cm.Event, now frame.Time) {
	if ev.Type == cm.ConnectRequest {
		if err := ev.ID.Accept(cm.Params{QP: s.qp}, now); err != nil {
			log.Fatal(err)
		}
		return
	}
	s.up <- ev
}

// connect makes two NICs on a wire in memory and connects them.
func connect() (client, server *side) {
	a, b, err := link.NewWire("a", "b", false)
	if err != nil {
		log.Fatal(err)
	}
	client, server = newSide(a, "10.0.0.1/24"), newSide(b, "10.0.0.2/24")
	at := netip.MustParseAddrPort("10.0.0.2:7471")
	server.do(func(frame.Time) { must(server.Device.CM.Listen(at, 1, server.event, nil)) })
	client.do(func(now frame.Time) {
		if err := client.Device.CM.NewID(client.event, nil).Connect(at, cm.Params{QP: client.qp}, now); err != nil {
			log.Fatal(err)
		}
	})
	for _, s := range []*side{client, server} {
		if ev := <-s.up; ev.Err != nil {
			log.Fatal(ev.Err)
		}
	}
	return client, server
}

// sge names n octets of the side's memory from offset off.
func (s *side) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

func (s *side) send(wrs ...verbs.SendWR) { s.do(func(frame.Time) { must(s.qp.PostSend(wrs...)) }) }

func (s *side) recv(wrs ...verbs.RecvWR) { s.do(func(frame.Time) { must(s.qp.PostRecv(wrs...)) }) }

// wait blocks until the next completion.
func (s *side) wait() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		var wcs [1]verbs.WC
		n, missed := 0, false
		s.do(func(frame.Time) {
			if n = s.cq.Poll(wcs[:]); n == 0 {
				missed = s.cq.ReqNotify(false)
			}
		})
		switch {
		case n > 0:
			return wcs[0]
		case missed:
			continue
		}
		if err := s.channel.Ack(must(s.channel.Wait(ctx)), 1); err != nil {
			log.Fatal(err)
		}
	}
}

// show prints a completion.
func show(who string, wc verbs.WC) {
	fmt.Printf("%s: WR %d %v: %v\n", who, wc.ID, wc.Opcode, wc.Status)
}
