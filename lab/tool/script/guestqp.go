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
	if g.v.cable.machine() == Linux {
		cfg.MaxInline = min(cfg.MaxInline, siwInline)
	}
	err := g.do("qp %d %d %d %d %d %d %d", e.peer.number, g.pd(pd), cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE, cfg.MaxInline,
		n)
	if err != nil {
		return nil, err
	}
	q := &guestQP{g, e.peer.number}
	if g.v.cable.machine() == NIC { // siw takes receives in RESET, too
		err = q.Modify(verbs.Init)
	}
	return q, err
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
	switch {
	case n == 0:
		return nil
	case q.g.v.cable.machine() == Linux:
		return errors.ErrUnsupported
	}
	return q.g.do("limit %d", n)
}

// State implements queuePair. siw says that each queue pair is in RESET.
func (q *guestQP) State() verbs.State { return q.g.state(q.n) }

// state is that of queue pair n.
func (g *guest) state(n int) verbs.State {
	s := 0
	text, err := g.call("state %d", n)
	if err == nil {
		_, err = fmt.Sscan(text, &s)
	}
	if err != nil {
		g.v.fail(fmt.Errorf("the state of its queue pair: %w", err))
	}
	return verbs.Reset + verbs.State(s)
}

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

// ibvOpcodes are the operations of the verbs library, and what completes then.
var ibvOpcodes = map[verbs.Opcode]struct {
	ibv int
	wc  verbs.WCOpcode
}{
	verbs.OpWrite: {0, verbs.WCWrite}, verbs.OpWriteImm: {1, verbs.WCWrite}, verbs.OpSend: {2, verbs.WCSend},
	verbs.OpSendImm: {3, verbs.WCSend}, verbs.OpRead: {4, verbs.WCRead}, verbs.OpCompSwap: {5, verbs.WCCompSwap},
	verbs.OpFetchAdd: {6, verbs.WCFetchAdd}, verbs.OpSendInv: {9, verbs.WCSend},
}

var ibvFlags = map[verbs.SendFlags]int{verbs.Fence: 1, verbs.Signaled: 2, verbs.Solicited: 4, verbs.Inline: 8}

// PostSend implements queuePair.
func (q *guestQP) PostSend(wrs ...verbs.SendWR) (int, error) {
	for i := range wrs {
		w := &wrs[i]
		op, known := ibvOpcodes[w.Opcode]
		if !known || w.Imm>>32 != 0 {
			return i, errors.ErrUnsupported
		}
		q.g.posted[[2]uint64{uint64(q.n), w.ID}] = op.wc
		if err := q.g.post(q.n, op.ibv, w, pieces(w.SGEs)); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// post posts to queue pair n.
func (g *guest) post(n, op int, w *verbs.SendWR, pieces string) error {
	flags, extra, inline := 0, w.Invalidate, "-"
	for bit, ibv := range ibvFlags {
		if w.Flags&bit != 0 {
			flags |= ibv
		}
	}
	if w.Opcode != verbs.OpSendInv {
		extra = uint32(w.Imm)
	}
	if len(w.Inline) > 0 {
		inline = hex.EncodeToString(w.Inline)
	}
	return g.do("post %d %d %d %d %d %d %d %s %s %d %d", n, w.ID, op, flags, w.RemoteAddr, w.RKey, extra, inline,
		pieces, w.Atomic.CompareAdd, w.Atomic.Swap)
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
