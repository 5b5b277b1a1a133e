package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"tapir/nic/cm"
	"tapir/nic/verbs"
)

func (g *guest) newQP(e *endpoint, pd string, cfg verbs.QPConfig, shared bool) (queuePair, error) {
	n := 0
	if shared {
		n = 1
	}
	err := g.do("qp %d %d %d %d %d %d %d", e.peer.number, g.pd(pd), cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE,
		min(cfg.MaxInline, siwInline), n)
	if err != nil {
		return nil, err
	}
	return &guestQP{g, e.peer.number}, nil
}

// siwInline is the longest inline data of siw.
const siwInline = 80

// guestQP is a queue pair in the guest, by the number of its connection; 0 is
// the shared receive queue.
type guestQP struct {
	g *guest
	n int
}

func (g *guest) newSRQ(n int) (sharedQueue, error) {
	err := g.do("srq %d %d", g.pd("1"), n)
	return &guestQP{g, 0}, err
}

// SetLimit implements sharedQueue.
func (q *guestQP) SetLimit(n int) error {
	if n == 0 {
		return nil
	}
	return errors.ErrUnsupported
}

// State implements queuePair: nobody tells.
func (q *guestQP) State() verbs.State { return verbs.Reset }

// Modify implements queuePair.
func (q *guestQP) Modify(to verbs.State) error {
	return q.g.do("modify %d %d", q.n, to)
}

// PostRecv implements queuePair and sharedQueue.
func (q *guestQP) PostRecv(wrs ...verbs.RecvWR) (int, error) {
	for i := range wrs {
		q.g.posted[[2]uint64{uint64(q.n), wrs[i].ID}] = verbs.WCRecv
		if err := q.g.do("recv %d %d %s", q.n, wrs[i].ID, pieces(wrs[i].SGEs)); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func pieces(list []verbs.SGE) string {
	text := fmt.Sprint(len(list))
	for _, s := range list {
		text += fmt.Sprintf(" %d %d %d", s.Addr, s.Length, s.LKey)
	}
	return text
}

// Opcodes and flags of the verbs library.
var ibvOpcodes = map[verbs.Opcode]int{verbs.OpWrite: 0, verbs.OpSend: 2, verbs.OpRead: 4, verbs.OpSendInv: 9}

var ibvFlags = map[verbs.SendFlags]int{verbs.Fence: 1, verbs.Signaled: 2, verbs.Solicited: 4, verbs.Inline: 8}

// PostSend implements queuePair.
func (q *guestQP) PostSend(wrs ...verbs.SendWR) (int, error) {
	for i := range wrs {
		w := &wrs[i]
		op, known := ibvOpcodes[w.Opcode]
		if !known {
			return i, errors.ErrUnsupported
		}
		flags := 0
		for bit, ibv := range ibvFlags {
			if w.Flags&bit != 0 {
				flags |= ibv
			}
		}
		inline := "-"
		if len(w.Inline) > 0 {
			inline = hex.EncodeToString(w.Inline)
		}
		q.g.posted[[2]uint64{uint64(q.n), w.ID}] = map[verbs.Opcode]verbs.WCOpcode{
			verbs.OpWrite: verbs.WCWrite, verbs.OpSend: verbs.WCSend, verbs.OpRead: verbs.WCRead,
			verbs.OpSendInv: verbs.WCSend,
		}[w.Opcode]
		err := q.g.do("post %d %d %d %d %d %d %d %s %s", q.n, w.ID, op, flags, w.RemoteAddr, w.RKey, w.Invalidate,
			inline, pieces(w.SGEs))
		if err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// guestListener is the one that listens in the guest.
type guestListener struct{ g *guest }

func (l guestListener) Close() { _ = l.g.do("unlisten") }

func (g *guest) listen(backlog int) (interface{ Close() }, error) {
	err := g.do("listen %v %d %d", g.v.cable.Local, g.v.cable.Port, backlog)
	return guestListener{g}, err
}

// guestID is a connection in the guest, by its number there.
type guestID struct {
	g *guest
	e *endpoint
	n int
}

func (g *guest) newID(e *endpoint) connection { return &guestID{g, e, e.peer.number} }

// words are a connection's parameters; def stands for what is not given.
func (i *guestID) words(p *cm.Params, def int) string {
	depth := func(n uint16) int {
		switch n {
		case 0:
			return def
		case cm.NoReads:
			return 0
		}
		return int(n)
	}
	return fmt.Sprintf("%d %d %s", depth(p.IRD), depth(p.ORD), dashed(p.PrivateData))
}

// ownDepth are the Reads that an application asks for which does not say how
// many: as those of this NIC do.
const ownDepth = 32

func dashed(b []byte) string {
	if len(b) == 0 {
		return "-"
	}
	return strings.ToLower(hex.EncodeToString(b))
}

func (i *guestID) connect(p cm.Params) error {
	c := i.g.v.cable
	return i.g.do("connect %d %d %v %d %v %d %s", i.n, i.e.peer.number, c.Local, c.Port, c.Remote,
		i.e.peer.remote.Port(), i.words(&p, ownDepth))
}

func (i *guestID) accept(p cm.Params) error {
	return i.g.do("accept %d %d %s", i.n, i.e.peer.number, i.words(&p, -1))
}

func (i *guestID) reject(private []byte) error {
	return i.g.do("reject %d %s", i.n, dashed(private))
}

func (i *guestID) disconnect(bool) error {
	return i.g.do("disconnect %d", i.n)
}
