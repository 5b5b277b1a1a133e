package script

import (
	"fmt"
	"strings"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// world is the machine of an iWARP script with its application, and the link
// that its peer lives on.
type world struct {
	r        *runner
	machine  machine
	mac      ether.Addr     // of the machine
	station  ether.Addr     // of the peer
	inbox    []*frame.Frame // answers of the peer's station, to be received next
	listener interface{ Close() }
	regions  []*region
	srq      sharedQueue
	events   []happening // of no connection, not claimed
	turns    int
}

// machine is what a script is about: the application's objects on it, and its
// end of the link. It tells what happens by world.note.
type machine interface {
	register(g *region, access verbs.Access, pd string, addr uint64) (memory, error)
	newQP(e *endpoint, pd string, cfg verbs.QPConfig, shared bool) (queuePair, error)
	newSRQ(n int) (sharedQueue, error)
	listen(backlog int) (interface{ Close() }, error)
	newID(e *endpoint) connection
	counter(name string) (n uint64, ok bool)
	receive(frames []*frame.Frame) // takes them
	// poll lets the machine do what is due now and returns its next deadline.
	poll() frame.Time
}

// memory is a registered region of a machine.
type memory interface {
	RKey() uint32
	Addr() uint64
	Len() uint64
	Valid() bool
	Invalidate() error
	Dereg() error
}

type queuePair interface {
	PostSend(wrs ...verbs.SendWR) (bad int, err error)
	PostRecv(wrs ...verbs.RecvWR) (bad int, err error)
	Modify(to verbs.State) error
	State() verbs.State
}

type sharedQueue interface {
	PostRecv(wrs ...verbs.RecvWR) (bad int, err error)
	SetLimit(n int) error
}

// connection is the application's end of one.
type connection interface {
	connect(p cm.Params) error
	accept(p cm.Params) error
	reject(private []byte) error
	disconnect(abortive bool) error
}

// station is the peer's Ethernet address.
var station = ether.Addr{2, 0, 0, 0, 0, 2}

// maxCompletions is the size of the completion queue.
const maxCompletions = 4096

// poll lets the machine do what is due now, and the peer's station and the
// application answer, until all rest. It returns the machine's next deadline.
func (w *world) poll() frame.Time { return w.machine.poll() }

// answer delivers what the peer's side has to say without being asked by the
// script. It reports whether there was anything.
func (w *world) answer() bool {
	for _, p := range w.r.conns() {
		p.end.answer()
	}
	frames := w.inbox
	w.inbox = nil
	w.machine.receive(frames)
	return len(frames) > 0
}

// post queues a frame from the peer's station to the NIC.
func (w *world) post(typ uint16, size int, fill func(b []byte)) *frame.Frame {
	f := w.r.pool.Get(ether.HeaderLen + size)
	b := f.Extend(ether.HeaderLen + size)
	h := ether.Header{Dst: w.mac, Src: w.station, Type: typ}
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

// sent takes a frame of the machine.
func (w *world) sent(f *frame.Frame) {
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
	if h.Dst != w.station {
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
	case q.Op == arp.Request && q.TargetIP == w.r.remote:
		a := arp.Packet{Op: arp.Reply, SenderMAC: w.station, SenderIP: q.TargetIP, TargetMAC: q.SenderMAC,
			TargetIP: q.SenderIP}
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
	remote := w.r.remote
	if err != nil || q.Target != remote {
		return true
	}
	a := icmp.Neighbor{Target: remote, Solicited: true, Override: true, Options: icmp.Options{TargetMAC: w.station}}
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

	depthless bool // ev tells neither IRD nor ORD
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

// unclaimed says what the application was told that no line states, and which
// octets of memory have changed without one; it is empty if there is nothing.
func (w *world) unclaimed() string {
	all := w.events
	for _, p := range w.r.conns() {
		all = append(all, p.end.told...)
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

// hyphenated is a name of several words as one word of a script.
func hyphenated(s fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), " ", "-")
}
