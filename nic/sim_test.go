package nic

import (
	"bytes"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// world is a cable in virtual time to which NICs and scripted stations are
// attached: every frame reaches everyone else after a fixed delay.
type world struct {
	t      *testing.T
	now    frame.Time
	pool   *buf.Pool
	nodes  []*node
	events events
	seq    int
	digest hash.Hash // over all frames, in order
	lose   func(from *node, b []byte) bool
}

const delay = frame.Time(10 * time.Microsecond)

// node is a NIC, or without dev a scripted station.
type node struct {
	w     *world
	dev   *device
	hear  func(b []byte, off frame.Offload)
	room  int
	drops []frame.Record // of the NIC's tracer, data copied
	all   []frame.Record
}

type event struct {
	at   frame.Time
	seq  int
	from *node
	data []byte
	off  frame.Offload
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: frame.Time(time.Hour), pool: buf.NewPool(4096, 0), digest: sha256.New()}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			if n.dev == nil {
				continue
			}
			n.dev.IP.DiscardFragments(w.now)
		}
	})
	return w
}

// Transmit implements frame.Link.
func (n *node) Transmit(f *frame.Frame) {
	w := n.w
	if w.now != n.dev.called || !n.dev.Common.Polling {
		w.t.Error("a frame left outside of Poll")
	}
	data := bytes.Clone(f.Bytes())
	off := f.Offload
	id := f.ID
	f.Release()
	w.send(n, data, off)
	n.dev.TxDone(id, w.now, w.now)
}

// Room implements frame.Link.
func (n *node) Room() int { return n.room }

// Trace implements frame.Tracer.
func (n *node) Trace(r *frame.Record) {
	c := *r
	c.Data, c.Notes = bytes.Clone(r.Data), frame.KeepNotes(r.Notes)
	n.all = append(n.all, c)
	if r.Drop != frame.DropNone {
		n.drops = append(n.drops, c)
	}
}

func (w *world) send(from *node, data []byte, off frame.Offload) {
	binary.Write(w.digest, binary.BigEndian, uint64(w.now))
	w.digest.Write(data)
	if w.lose != nil && w.lose(from, data) {
		return
	}
	w.seq++
	heap.Push(&w.events, event{w.now + delay, w.seq, from, data, off})
}

func (w *world) nic(cfg Config) *node {
	n := &node{w: w, room: 64}
	return w.attach(n, cfg, Env{Pool: w.pool, Wire: n})
}

func (w *world) attach(n *node, cfg Config, env Env) *node {
	d, err := newNIC(cfg, env)
	if err != nil {
		w.t.Fatal(err)
	}
	n.dev = d
	d.SetTracer(n)
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) deliver(e event) {
	for _, n := range w.nodes {
		switch {
		case n == e.from:
		case n.dev == nil:
			n.hear(bytes.Clone(e.data), e.off)
		default:
			f := w.pool.Get(len(e.data))
			f.Append(e.data)
			f.Offload = e.off
			n.dev.Receive(frame.Wire, []*frame.Frame{f}, w.now)
		}
	}
}

// poll runs every NIC until it rests and returns the earliest deadline.
func (w *world) poll() frame.Time {
	next := frame.Never
	for _, n := range w.nodes {
		if n.dev == nil {
			continue
		}
		for round := 0; ; round++ {
			again := n.dev.Dispatch(w.now)
			at := n.dev.Poll(w.now)
			if !again && at > w.now {
				next = min(next, at)
				break
			}
			if round > 1000 {
				w.t.Fatalf("%s does not come to rest", n.dev.cfg.Name)
			}
		}
	}
	return next
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		next := w.poll()
		if len(w.events) > 0 {
			next = min(next, w.events[0].at)
		}
		if next > end {
			w.now = end
			return
		}
		w.now = next
		for len(w.events) > 0 && w.events[0].at <= w.now {
			w.deliver(heap.Pop(&w.events).(event))
		}
	}
}

// station is a scripted neighbor: it answers ARP and neighbor solicitations
// and keeps everything else that is for it.
type station struct {
	*node
	mac    ether.Addr
	addrs  []netip.Addr
	mute   bool // does not answer for its addresses
	vlan   uint16
	asked  int // ARP requests and solicitations for its addresses
	frames []received
}

type received struct {
	eth  ether.Header
	ip   ip.Header
	body []byte
	arp  arp.Packet
}

func (w *world) station(mac string, addrs ...string) *station {
	s := &station{node: &node{w: w}}
	s.mac, _ = ether.ParseAddr(mac)
	for _, a := range addrs {
		s.addrs = append(s.addrs, netip.MustParseAddr(a))
	}
	s.node.hear = s.hear
	w.nodes = append(w.nodes, s.node)
	return s
}

func (s *station) owns(a netip.Addr) bool {
	for _, b := range s.addrs {
		if a == b {
			return true
		}
	}
	return false
}

func (s *station) hear(b []byte, _ frame.Offload) {
	h, n, err := ether.Parse(b)
	if err != nil {
		s.w.t.Errorf("bad frame on the wire: %v", err)
	}
	if h.Dst != s.mac && !h.Dst.IsMulticast() {
		return
	}
	r := received{eth: h}
	if h.Type == ether.TypeMACControl {
		return
	}
	if h.Type == ether.TypeARP {
		if r.arp, err = arp.Parse(b[n:]); err != nil {
			s.w.t.Errorf("bad ARP on the wire: %v", err)
		}
		if r.arp.Op == arp.Request && s.owns(r.arp.TargetIP) {
			s.asked++
			if !s.mute {
				s.arp(arp.Reply, r.arp.TargetIP, r.arp.SenderMAC, r.arp.SenderIP)
			}
			return
		}
		s.frames = append(s.frames, r)
		return
	}
	if r.ip, r.body, err = ip.Parse(b[n:]); err != nil {
		s.w.t.Errorf("bad IP packet on the wire: %v", err)
	}
	if r.ip.Proto == ip.ProtoICMPv6 && !r.ip.IsFragment() && s.neighborIn(r) {
		return
	}
	s.frames = append(s.frames, r)
}

func (s *station) neighborIn(r received) bool {
	m, err := icmp.Parse(r.body)
	if err != nil || !icmp.Verify6(r.ip.Src, r.ip.Dst, r.body) {
		s.w.t.Errorf("bad ICMPv6 on the wire")
	}
	if m.Type != icmp.NeighborSolicitation {
		return false
	}
	n, err := m.Neighbor()
	if err != nil || !s.owns(n.Target) {
		return false
	}
	s.asked++
	if !s.mute {
		msg := icmp.Neighbor{Target: n.Target, Solicited: true, Override: true, Options: icmp.Options{TargetMAC: s.mac}}
		s.neighbor(icmp.NeighborAdvertisement, msg, n.Target, r.ip.Src, r.eth.Src)
	}
	return true
}

// transmit sends payload of the EtherType typ to dst.
func (s *station) transmit(dst ether.Addr, typ uint16, payload []byte) {
	h := ether.Header{Dst: dst, Src: s.mac, Type: typ}
	if s.vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: s.vlan}
	}
	s.w.send(s.node, append(h.AppendTo(nil), payload...), frame.Offload{})
}

func (s *station) arp(op uint16, sender netip.Addr, dst ether.Addr, target netip.Addr) {
	p := arp.Packet{Op: op, SenderMAC: s.mac, SenderIP: sender, TargetIP: target}
	if op == arp.Reply {
		p.TargetMAC = dst
	}
	s.transmit(dst, ether.TypeARP, p.AppendTo(nil))
}

func (s *station) neighbor(typ uint8, msg icmp.Neighbor, src, to netip.Addr, dst ether.Addr) {
	m := msg.Message(typ, nil)
	s.ip(dst, ip.Header{TTL: 255, Proto: ip.ProtoICMPv6, Src: src, Dst: to}, icmpBytes(m, src, to))
}

// icmpBytes encodes m with its checksum.
func icmpBytes(m icmp.Message, src, dst netip.Addr) []byte {
	b := make([]byte, m.Len())
	m.Put(b)
	if src.Is4() {
		icmp.SetChecksum4(b)
	} else {
		icmp.SetChecksum6(src, dst, b)
	}
	return b
}

// packet encodes an IP packet; h needs no Version and length.
func packet(h ip.Header, body []byte) []byte {
	h.Version = 6
	if h.Src.Is4() {
		h.Version = 4
	}
	if h.TTL == 0 {
		h.TTL = 64
	}
	h.PayloadLen = len(body)
	b := make([]byte, h.HeaderLen())
	h.Put(b)
	return append(b, body...)
}

func etherType(a netip.Addr) uint16 {
	if a.Is4() {
		return ether.TypeIPv4
	}
	return ether.TypeIPv6
}

// ip sends an IP packet to the station dst.
func (s *station) ip(dst ether.Addr, h ip.Header, body []byte) {
	s.transmit(dst, etherType(h.Src), packet(h, body))
}

// echoBody is the ICMP message of an echo request with n octets of data.
func echoBody(src, dst netip.Addr, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	typ := icmp.Echo4
	if src.Is6() {
		typ = icmp.Echo6
	}
	return icmpBytes(icmp.Echo(typ, 77, 3, data), src, dst)
}

func protoICMP(a netip.Addr) uint8 {
	if a.Is4() {
		return ip.ProtoICMP
	}
	return ip.ProtoICMPv6
}

// ping sends an echo request, in fragments of at most mtu octets.
func (s *station) ping(d *device, src, dst netip.Addr, n, mtu int) {
	for _, p := range fragments(ip.Header{Proto: protoICMP(src), Src: src, Dst: dst, ID: 9, FragID: 9}, echoBody(src, dst, n), mtu) {
		s.transmit(d.cfg.MAC, etherType(src), p)
	}
}

// fragments cuts an IP packet.
func fragments(h ip.Header, body []byte, mtu int) (parts [][]byte) {
	head := ip.HeaderLen4
	if h.Src.Is6() {
		head = ip.HeaderLen6
	}
	if len(body)+head <= mtu {
		return [][]byte{packet(h, body)}
	}
	if h.Src.Is6() {
		head += ip.FragmentExtLen
	}
	h.Fragment = true
	for off, limit := 0, (mtu-head)&^7; off < len(body); off += limit {
		end := min(off+limit, len(body))
		h.FragOffset, h.MF = uint16(off), end < len(body)
		parts = append(parts, packet(h, body[off:end]))
	}
	return parts
}

// take returns and forgets what the station has received.
func (s *station) take() []received {
	f := s.frames
	s.frames = nil
	return f
}

// counter reads one of the NIC's counters.
func (n *node) counter(name string) uint64 {
	for _, c := range n.dev.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	n.w.t.Fatalf("no counter %s", name)
	return 0
}

func prefixes(s ...string) (p []netip.Prefix) {
	for _, x := range s {
		p = append(p, netip.MustParsePrefix(x))
	}
	return p
}
