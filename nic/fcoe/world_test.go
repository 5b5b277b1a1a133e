package fcoe

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// delay is that of the cable.
const delay = 10 * time.Microsecond

// world is a segment of Ethernet in virtual time.
type world struct {
	t       *testing.T
	now     frame.Time
	nodes   []*station
	hear    func(h ether.Header, body []byte) // scripted; it may send
	wire    []event
	spoil   func(h ether.Header, body []byte) bool // true: the frame is lost
	ops     []fip.Op                               // in the order in which they were sent
	pollers []func()
}

type event struct {
	at   frame.Time
	from *station
	h    ether.Header
	body []byte
}

// station is a node in a world.
type station struct {
	*Node
	w       *world
	mac     ether.Addr
	groups  []ether.Addr
	vlan    uint16
	due     frame.Time
	awake   bool
	changed []*Remote
	drops   map[frame.DropReason]int
	cut     bool
}

func newWorld(t *testing.T) *world { return &world{t: t, now: frame.Time(time.Hour)} }

// node adds a node whose names follow from its number.
func (w *world) node(number byte, cfg Config) *station {
	s := &station{w: w, mac: ether.Addr{2, 0, 0, 0, 0, number}, due: frame.Never, drops: map[frame.DropReason]int{}}
	cfg.MAC = s.mac
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = fc.MaxPayload
	}
	for i := range cfg.Ports {
		p := &cfg.Ports[i]
		p.Node, p.Port = fc.FromMAC(0x1000, s.mac), fc.FromMAC(0x2000+uint16(i), s.mac)
	}
	room := 0
	env := Env{
		Send: func(h ether.Header, body []byte, _ frame.Time) {
			room--
			if !s.cut {
				w.wire = append(w.wire, event{w.now.Add(delay), s, h, bytes.Clone(body)})
			}
		},
		Room: func() int { return room }, Stations: func(vlan uint16, l []ether.Addr) { s.vlan, s.groups = vlan, l },
		Wake: func() { s.awake = true }, Random: rand.New(rand.NewPCG(uint64(number), 1)),
		Changed: func(r *Remote, _ frame.Time) { s.changed = append(s.changed, r) },
	}
	s.Node = New(cfg, env)
	poll := s.Node.Poll
	s.awake = true
	w.nodes = append(w.nodes, s)
	w.pollers = append(w.pollers, func() {
		s.awake, room = false, 64
		next, waiting := poll(w.now)
		if s.due = next; waiting {
			s.due = w.now.Add(time.Microsecond)
		}
	})
	return s
}

// run lets the world go on until a condition holds, at most for a time.
func (w *world) run(limit time.Duration, until func() bool) {
	w.t.Helper()
	end := w.now.Add(limit)
	for !until() {
		for again := true; again; {
			again = false
			for i, s := range w.nodes {
				if s.awake || s.due <= w.now {
					w.pollers[i]()
					again = true
				}
			}
		}
		if until() {
			return
		}
		next := frame.Never
		for _, s := range w.nodes {
			next = min(next, s.due)
		}
		for _, e := range w.wire {
			next = min(next, e.at)
		}
		if next > end {
			w.now = end
			if !until() {
				w.t.Fatalf("it did not happen within %v", limit)
			}
			return
		}
		w.now = max(w.now, next)
		for len(w.wire) > 0 && w.wire[0].at <= w.now {
			e := w.wire[0]
			w.wire = w.wire[1:]
			w.deliver(e)
		}
	}
}

// pass lets a time go by.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	w.run(d, func() bool { return w.now >= end })
}

func (w *world) deliver(e event) {
	if e.h.Type == fip.EtherType {
		if m, err := fip.Parse(e.body); err == nil {
			w.ops = append(w.ops, m.Op)
		}
	}
	if w.spoil != nil && w.spoil(e.h, e.body) {
		return
	}
	for _, s := range w.nodes {
		if s == e.from || s.cut || e.h.Dst != s.mac && !slices.Contains(s.groups, e.h.Dst) {
			continue
		}
		s.awake = true
		if why := s.Receive(e.h, e.body, w.now); why != frame.DropNone {
			s.drops[why]++
		}
	}
	if w.hear != nil && e.from != nil {
		w.hear(e.h, e.body)
	}
}

// send has a scripted station send.
func (w *world) send(src, dst ether.Addr, typ uint16, body []byte) {
	w.wire = append(w.wire, event{w.now.Add(delay), nil, ether.Header{Dst: dst, Src: src, Type: typ}, body})
}

// disk is a unit in memory.
func disk(t *testing.T, size int64) *scsi.Unit {
	u, err := scsi.New(scsi.Config{Size: size, Block: 512, Physical: 512, Thin: true, Serial: "disk",
		Store: scsi.NewMemory(size)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// target is the remote target of a station that is ready, or nil.
func (s *station) target() *Remote {
	for _, p := range s.ports {
		for _, r := range p.remotes {
			if r.state == Ready && r.target {
				return r
			}
		}
	}
	return nil
}

// command does a command and waits for its end.
func (s *station) command(q *Request) *Request {
	s.w.t.Helper()
	done := false
	q.Done = func(*Request, frame.Time) { done = true }
	s.target().Submit(q, s.w.now)
	s.awake = true
	s.w.run(time.Minute, func() bool { return done })
	return q
}

// rw is a READ(16) or WRITE(16) of whole blocks of 512 octets.
func rw(op byte, lba uint32, octets int) *Request {
	q := &Request{}
	q.CDB[0] = op
	q.CDB[6], q.CDB[7], q.CDB[8], q.CDB[9] = byte(lba>>24), byte(lba>>16), byte(lba>>8), byte(lba)
	n := octets / 512
	q.CDB[12], q.CDB[13] = byte(n>>8), byte(n)
	data := make([]byte, octets)
	if op == 0x8a {
		r := rand.New(rand.NewPCG(uint64(lba), 7))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		q.Out = data
	} else {
		q.In = data
	}
	return q
}
