// Package roce makes queue pairs work over RoCE: InfiniBand's transport in UDP
// datagrams (v2) or right behind Ethernet (v1). It is a transport of verbs and a
// verbs.Fabric. Sections are those of the InfiniBand Architecture, volume 1.
//
// The way of an outbound work request:
//
//  1. verbs queues it and calls Posted; the queue pair waits for its turn (engine.go)
//  2. Poll gives it a turn: the request gets its packet sequence numbers (request.go)
//  3. a cursor walks through them; each packet is rendered from memory (send.go),
//     with the headers of the path in front (route.go)
//  4. acknowledgements and responses complete requests, or set the cursor back:
//     go-back-N (complete.go)
//
// The way of inbound packets:
//
//  1. Receive cuts super-frames and checks headers and ICRC (receive.go)
//  2. a request is checked and executed: the responder (respond.go, execute.go)
//  3. Reads and atomic operations leave a resource behind, from which duplicates are
//     answered (resource.go)
//  4. acknowledgements wait for the next Poll: one stands for many (reply.go)
//  5. packets with CE are told of to their senders by CNPs, which slow down (congestion.go)
//  6. datagrams go to their queue pairs and to queue pair 1 (datagram.go)
//
// Receive never sends; all output happens in Poll.
package roce

import (
	"slices"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/timer"
)

const (
	pollFrames = 64        // most frames of a Poll
	turnFrames = 16        // most frames of a queue pair's turn
	turnOctets = 256 << 10 // most octets of it
	maxMADs    = 4096      // datagrams of queue pair 1 that wait
)

// Engine is the RoCE transport of one NIC. It has no clock, goroutine or lock;
// one thread calls it.
type Engine struct {
	env    Env
	dev    *verbs.Device
	gsi    GSI
	timers timer.Heap[*qp]
	ready  []*qp // a queue: those before head have had their turn
	head   int
	parked []*qp // that wait for their traffic class
	made   uint64
	ipID   uint16
	mads   []mad
	in     packet // the one in hand
	// placing is the queue pair whose payload may wait in verbs to be placed.
	placing    *qp
	congestion congestion
	starved    bool       // the pool had no frame in this Poll
	retry      frame.Time // if so, when it is asked again
	stats      Stats
}

// Stats counts what an engine has done.
type Stats struct {
	FramesOut, PacketsOut, OctetsOut uint64 // octets of payload
	PacketsIn, OctetsIn              uint64
	AcksOut, AcksIn                  uint64
	NaksOut, NaksIn                  uint64 // without those of receivers not ready
	RNRNaksOut, RNRNaksIn            uint64
	Timeouts                         uint64 // of the ACK timer
	Adaptive                         uint64 // times that sending went back before the ACK timer
	Retries                          uint64 // times that sending went back
	PacketsAgain                     uint64 // sent again
	Duplicates                       uint64 // requests received again
	OutOfSequence                    uint64 // requests ahead of the one expected
	BadICRC                          uint64
	BadQKeys                         uint64
	ECNMarked                        uint64 // packets with CE
	CNPsOut                          uint64 // congestion notifications
	CNPsHandled, CNPsIgnored         uint64 // those received
	Drops                            frame.Drops
}

// New returns an engine that serves dev and makes itself its transport.
func New(dev *verbs.Device, env Env) *Engine {
	if env.Notes == nil {
		env.Notes = &frame.Notes{}
	}
	e := &Engine{env: env, dev: dev}
	e.startCongestion(env.DCQCN)
	dev.SetTransport((*transport)(e))
	return e
}

// Stats returns the counters, borrowed.
func (e *Engine) Stats() *Stats { return &e.stats }

// Poll sends what is due, at most as much as the output has room for, and
// returns when it wants to be called again.
func (e *Engine) Poll(now frame.Time) frame.Time {
	e.starved, e.retry = false, now.Add(starvedRetry)
	e.flushWrites()
	for q, ok := e.timers.Pop(now); ok; q, ok = e.timers.Pop(now) {
		q.expired(now)
	}
	e.unpark()
	budget := e.sendMADs(e.sendCNPs(pollFrames, now), now)
	for budget > 0 && e.head < len(e.ready) && !e.starved && e.env.Out.Room() > 0 {
		q := e.ready[e.head]
		e.ready[e.head] = nil
		e.head++
		q.queued = false
		before := e.stats.FramesOut
		if q.output(now) {
			q.kick()
		}
		budget -= 1 + int(e.stats.FramesOut-before)
	}
	if e.head == len(e.ready) {
		e.ready, e.head = e.ready[:0], 0
	} else if e.head > 1024 {
		e.ready = append(e.ready[:0], e.ready[e.head:]...)
		e.head = 0
	}
	return max(now, min(e.Deadline(), e.congestion.first.EthernetDue()))
}

// park keeps a queue pair whose traffic class holds it back until the next Poll.
func (e *Engine) park(q *qp) bool {
	if e.env.Holds == nil || !e.env.Holds(&q.route.hop) {
		return false
	}
	if !q.parked {
		q.parked = true
		e.parked = append(e.parked, q)
	}
	return true
}

// unpark has queue pairs ask again whether their traffic class holds them back.
func (e *Engine) unpark() {
	if len(e.parked) == 0 {
		return
	}
	for _, q := range e.parked {
		q.parked = false
		q.kick()
	}
	clear(e.parked)
	e.parked = e.parked[:0]
}

// freed tells whether a queue pair that is parked may send.
func (e *Engine) freed() bool {
	return slices.ContainsFunc(e.parked, func(q *qp) bool { return !e.env.Holds(&q.route.hop) })
}

// starvedRetry is how long the engine waits for a pool without frames.
const starvedRetry = 1e6 // ns

// Deadline is when Poll has something to do; 0: at once.
func (e *Engine) Deadline() frame.Time {
	switch {
	case e.starved:
		return min(e.timers.Next(), e.retry)
	case (e.head < len(e.ready) || len(e.mads) > 0 || len(e.congestion.cnps) > 0) && e.env.Out.Room() > 0:
		return 0
	case len(e.parked) > 0 && e.freed():
		return 0
	}
	return e.timers.Next()
}

// flushWrites places what waits in verbs.
func (e *Engine) flushWrites() {
	q := e.placing
	if q == nil {
		return
	}
	e.placing = nil
	if e.dev.FlushWrites() != nil {
		q.memoryGone()
	}
}

// transport is the engine as verbs sees it.
type transport Engine

var _ verbs.Fabric = (*transport)(nil)

// Opcodes implements verbs.Transport.
func (t *transport) Opcodes() verbs.OpSet {
	return verbs.LocalOps | verbs.Ops(verbs.OpSend, verbs.OpSendInv, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm,
		verbs.OpRead, verbs.OpReadInv, verbs.OpCompSwap, verbs.OpFetchAdd)
}

// QPTypes implements verbs.Fabric.
func (t *transport) QPTypes() qpattr.Types {
	return qpattr.Set(qpattr.RC, qpattr.UC, qpattr.UD, qpattr.XRCInitiator, qpattr.XRCTarget)
}

// NewEndpoint implements verbs.Transport.
func (t *transport) NewEndpoint(v *verbs.QP) verbs.Endpoint {
	e := (*Engine)(t)
	e.made++
	q := &qp{e: e, v: v, typ: v.Type()}
	q.timer = timer.Entry[*qp]{Owner: q, ID: e.made}
	return q
}
