package nic

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"tapir/nic/al"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// above is an object of the layer above, which the object below keeps as private.
type above struct {
	name string
	told *[]string
}

func (a *above) AsyncEvent(ev al.Event, _ frame.Time) {
	*a.told = append(*a.told, fmt.Sprint(a.name, " ", ev.Type))
}

func (a *above) Completion(*verbs.CQ, frame.Time) {}

// What happens to a connection of a NIC reaches the object above: events of the
// hardware are translated, and those that have no counterpart end in the layer.
func TestEventsReachTheObjectsAbove(t *testing.T) { overBoth(t, testEventsReachTheObjectsAbove) }

func testEventsReachTheObjectsAbove(t *testing.T, cfg Config) {
	write := func(client, server *rdmaEnd, rkey uint32) {
		wr := verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: server.mr.Addr(), RKey: rkey,
			SGEs: []verbs.SGE{{Addr: client.mr.Addr(), Length: 8, LKey: client.mr.LKey()}}}
		if _, err := client.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(server *rdmaEnd, srq *verbs.SRQ, octets uint32) {
		wr := verbs.RecvWR{SGEs: []verbs.SGE{{Addr: server.mr.Addr(), Length: octets, LKey: server.mr.LKey()}}}
		if _, err := srq.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		cqe  int
		do   func(w *world, client, server *rdmaEnd, srq *verbs.SRQ)
		want []string
		over verbs.EventType // that ends in the client's layer, with iWARP
		roce []string        // what is wanted of RoCE, if something else
	}{
		"the receives run low": {do: func(_ *world, client, server *rdmaEnd, srq *verbs.SRQ) {
			receive(server, srq, 100)
			receive(server, srq, 100)
			if err := srq.SetLimit(2); err != nil {
				t.Fatal(err)
			}
			client.post(verbs.OpSend, 100, server)
		}, want: []string{"SRQ SRQ_LIMIT_REACHED"}},
		"a wrong key": {do: func(_ *world, client, server *rdmaEnd, _ *verbs.SRQ) {
			write(client, server, server.mr.RKey()+1)
		}, want: []string{"QP QP_ACCESS_ERR", "QP QP_LAST_WQE_REACHED"}, over: verbs.EventTerminated},
		"a message too long": {do: func(_ *world, client, server *rdmaEnd, srq *verbs.SRQ) {
			receive(server, srq, 8)
			client.post(verbs.OpSend, 100, server)
		}, want: []string{"QP QP_REQ_ERR", "QP QP_LAST_WQE_REACHED"}, over: verbs.EventTerminated,
			roce: []string{"QP QP_LAST_WQE_REACHED"}}, // the receive completes with an error
		"a queue that overflows": {cqe: 1, do: func(_ *world, client, server *rdmaEnd, srq *verbs.SRQ) {
			for range 4 {
				receive(server, srq, 100)
				client.post(verbs.OpSend, 10, server)
			}
		}, want: []string{"CQ CQ_ERR", "QP QP_LAST_WQE_REACHED", "QP QP_FATAL"}},
		"a peer that is gone": {do: func(w *world, _, server *rdmaEnd, _ *verbs.SRQ) {
			w.lose = func(*node, []byte) bool { return true }
			server.post(verbs.OpSend, 10, server)
			w.run(time.Hour)
		}, want: []string{"QP QP_FATAL", "QP QP_LAST_WQE_REACHED"},
			roce: []string{"QP QP_LAST_WQE_REACHED"}}, // the Send completes with an error
		"an orderly end": {do: func(w *world, _, server *rdmaEnd, _ *verbs.SRQ) {
			if err := server.id.Disconnect(false, w.now); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"QP SQ_DRAINED", "QP QP_LAST_WQE_REACHED"}, roce: []string{"QP QP_LAST_WQE_REACHED"}},
		"a send queue that is drained": {do: func(w *world, _, server *rdmaEnd, _ *verbs.SRQ) {
			var err error
			if roce(cfg) {
				err = server.qp.ModifyAttr(verbs.SQD, &qpattr.Attr{SQDNotify: true}, qpattr.SQDNotify)
			} else {
				err = server.qp.Modify(verbs.SQD)
			}
			must(t, err)
		}, want: []string{"QP SQ_DRAINED", "QP QP_LAST_WQE_REACHED"}, roce: []string{"QP SQ_DRAINED"}},
	} {
		w, a, b := twoNICs(t, cfg)
		client, server := newEnd(t, a, 4096), newEnd(t, b, 4096)
		var told []string
		layer := al.New(nil)
		cas := map[*node]*al.CA{}
		for _, n := range []*node{a, b} {
			ca, err := layer.RegisterCI(n.dev.CI(nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			cas[n] = ca
		}
		srq, err := server.pd.CreateSRQ(8, 1)
		if err != nil {
			t.Fatal(err)
		}
		cq, err := b.dev.Verbs.CreateCQ(cmp.Or(c.cqe, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		server.qp, err = server.pd.CreateQP(verbs.QPConfig{SendCQ: server.cq, RecvCQ: cq, SRQ: srq})
		if err != nil {
			t.Fatal(err)
		}
		server.qp.Private, cq.Private, srq.Private = &above{"QP", &told}, &above{"CQ", &told}, &above{"SRQ", &told}
		join(w, client, server, peer4)
		c.do(w, client, server, srq)
		w.run(10 * time.Second)
		want := c.want
		if roce(cfg) && c.roce != nil {
			want = c.roce
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", name, told, want)
		}
		if n := cas[a].Consumed(c.over); c.over != 0 && n != 1 && !roce(cfg) {
			t.Errorf("%s: %d events %v end in the client's layer", name, n, c.over)
		}
	}
}
