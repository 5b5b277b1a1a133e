package script

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// world is the NIC of an iWARP script with its application, and the link that
// its peer lives on.
type world struct {
	r        *runner
	dev      *nic.Device
	inbox    []*frame.Frame // answers of the peer's station, to be received next
	listener *cm.Listener
	pds      map[string]*verbs.PD
	regions  []*region
	cq       *verbs.CQ
	srq      *verbs.SRQ
	events   []happening // of no connection, not claimed
	turns    int
}

// station is the peer's Ethernet address.
var station = ether.Addr{2, 0, 0, 0, 0, 2}

// maxCompletions is the size of the completion queue.
const maxCompletions = 4096

// newWorld makes the NIC of r and its TCP engine r.engine.
func newWorld(r *runner) (*world, error) {
	set := &r.script.set
	w := &world{r: r, pds: map[string]*verbs.PD{}}
	bits := 24
	if set.v6 {
		bits = 64
	}
	cfg := nic.Config{
		Name: "nic", Addrs: []netip.Prefix{netip.PrefixFrom(set.local(), bits)}, MTU: set.mtu(),
		Seed: set.cfg.Seed, IWARP: set.rdma, TCP: set.cfg,
	}
	if set.cfg.MaxSegs > 1 {
		cfg.Frames = nic.GSO
	}
	var err error
	if w.dev, err = nic.New(cfg, nic.Env{Pool: r.pool, Wire: w}); err != nil {
		return nil, err
	}
	r.engine = w.dev.TCP()
	w.dev.Verbs.OnAsync(w.async)
	if w.cq, err = w.dev.Verbs.CreateCQ(maxCompletions, nil); err != nil {
		return nil, err
	}
	return w, nil
}

// poll lets the NIC do what is due now, and the peer's station and the
// application answer, until all rest. It returns the NIC's next deadline.
func (w *world) poll() frame.Time {
	for {
		next := w.dev.Poll(w.r.now())
		busy := w.answer()
		busy = w.dev.Dispatch(w.r.now()) || busy
		w.collect()
		if w.turns++; !busy || w.turns > maxTurns {
			w.r.turns = max(w.r.turns, w.turns)
			return next
		}
	}
}

// answer delivers what the peer's side has to say without being asked by the
// script. It reports whether there was anything.
func (w *world) answer() bool {
	for n := 1; n <= maxConns; n++ {
		if p := w.r.peers[n]; p != nil {
			p.end.answer()
		}
	}
	frames := w.inbox
	w.inbox = nil
	w.dev.Receive(frame.Wire, frames, w.r.now())
	return len(frames) > 0
}

// post queues a frame from the peer's station to the NIC.
func (w *world) post(typ uint16, size int, fill func(b []byte)) *frame.Frame {
	f := w.r.pool.Get(ether.HeaderLen + size)
	b := f.Extend(ether.HeaderLen + size)
	h := ether.Header{Dst: w.dev.Config().MAC, Src: station, Type: typ}
	fill(b[h.Put(b):])
	w.inbox = append(w.inbox, f)
	return f
}

// deliver gives a segment of the peer to the NIC. It becomes one batch with
// what else is posted before the next poll.
func (w *world) deliver(h *ip.Header, seg []byte, off frame.Offload) {
	typ := ether.TypeIPv4
	if h.Version == 6 {
		typ = ether.TypeIPv6
	}
	f := w.post(typ, h.HeaderLen()+len(seg), func(b []byte) { copy(b[h.Put(b):], seg) })
	f.Offload = off
}

// Room implements frame.Link: the link is never full.
func (w *world) Room() int { return math.MaxInt32 }

// Transmit implements frame.Link.
func (w *world) Transmit(f *frame.Frame) {
	defer f.Release()
	h, n, err := ether.Parse(f.Bytes())
	if err != nil {
		w.broken(err.Error())
		return
	}
	b := f.Bytes()[n:]
	switch h.Type {
	case ether.TypeARP:
		w.askedARP(b)
		return
	case ether.TypeIPv6:
		if w.askedND(b) {
			return
		}
	}
	if h.Dst != station {
		w.broken("frame: to another station, " + h.Dst.String())
		return
	}
	off := f.Offload
	if off.NeedsCsum {
		off.CsumStart -= uint16(n)
	}
	w.r.sent(b, off)
}

// broken takes note of a frame that no NIC may send.
func (w *world) broken(why string) {
	w.r.queue = append(w.r.queue, &packet{at: w.r.at, broken: why, unit: &unit{text: "a frame"}})
}

func (w *world) askedARP(b []byte) {
	q, err := arp.Parse(b)
	switch {
	case err != nil:
		w.broken(err.Error())
	case q.Op == arp.Request && q.TargetIP == w.r.script.set.remote():
		a := arp.Packet{Op: arp.Reply, SenderMAC: station, SenderIP: q.TargetIP, TargetMAC: q.SenderMAC, TargetIP: q.SenderIP}
		w.post(ether.TypeARP, arp.Len, func(b []byte) { a.Put(b) })
	}
}

// askedND answers neighbor discovery and reports whether b was that.
func (w *world) askedND(b []byte) bool {
	h, body, err := ip.Parse(b)
	if err != nil || h.Proto != ip.ProtoICMPv6 {
		return false
	}
	m, err := icmp.Parse(body)
	if err != nil || m.Type != icmp.NeighborSolicitation {
		return err == nil
	}
	q, err := m.Neighbor()
	remote := w.r.script.set.remote()
	if err != nil || q.Target != remote {
		return true
	}
	a := icmp.Neighbor{Target: remote, Solicited: true, Override: true, Options: icmp.Options{TargetMAC: station}}
	am := a.Message(icmp.NeighborAdvertisement, nil)
	ah := ip.Header{Version: 6, TTL: 255, Proto: ip.ProtoICMPv6, Src: remote, Dst: h.Src, PayloadLen: am.Len()}
	w.post(ether.TypeIPv6, ah.HeaderLen()+am.Len(), func(b []byte) {
		n := ah.Put(b)
		am.Put(b[n:])
		icmp.SetChecksum6(ah.Src, ah.Dst, b[n:n+am.Len()])
	})
	return true
}

// happening is something that the application was told and that the script
// must state: an event of a connection, an asynchronous event or a completion.
type happening struct {
	text string // as the script would say it
	ev   *cm.Event
	wc   *verbs.WC
	as   *verbs.AsyncEvent
}

// note puts a happening down for connection e, or for none, and traces it.
func (w *world) note(e *endpoint, h happening) {
	w.r.tracef("!", h.text, w.r.at)
	if e == nil {
		w.events = append(w.events, h)
		return
	}
	e.told = append(e.told, h)
}

// collect takes what the completion queue holds.
func (w *world) collect() {
	var wcs [16]verbs.WC
	for n := w.cq.Poll(wcs[:]); n > 0; n = w.cq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			wc := wcs[i]
			w.note(w.owner(wc.QP), happening{text: w.completionText(&wc), wc: &wc})
		}
	}
}

// owner is the connection whose queue pair is qp.
func (w *world) owner(qp *verbs.QP) *endpoint {
	if e, ok := qp.Context.(*endpoint); ok {
		return e
	}
	return nil
}

func (w *world) async(ev verbs.AsyncEvent, _ frame.Time) {
	var e *endpoint
	if ev.QP != nil {
		e = w.owner(ev.QP)
	}
	w.note(e, happening{text: asyncText(&ev), as: &ev})
}

// unclaimed says what the application was told that no line states, and which
// octets of memory have changed without one; it is empty if there is nothing.
func (w *world) unclaimed() string {
	all := w.events
	for n := 1; n <= maxConns; n++ {
		if p := w.r.peers[n]; p != nil {
			all = append(all, p.end.told...)
		}
	}
	var texts []string
	for _, h := range all {
		texts = append(texts, "expect "+h.text)
	}
	if change := w.changed(); change != "" {
		texts = append(texts, change)
	}
	return strings.Join(texts, "; ")
}

// pd returns the protection domain with that name, new at its first use.
func (w *world) pd(name string) (*verbs.PD, error) {
	if w.pds[name] == nil {
		pd, err := w.dev.Verbs.AllocPD()
		if err != nil {
			return nil, err
		}
		w.pds[name] = pd
	}
	return w.pds[name], nil
}

// hyphenated is a name of several words as one word of a script.
func hyphenated(s fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), " ", "-")
}
