package script

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"tapir/nic/buf"
	"tapir/nic/toe"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// runner is one run of a script: a NIC's TCP engine, its peers, and the time.
type runner struct {
	script *Script
	trace  io.Writer // nil: none
	engine *toe.Engine
	pool   *buf.Pool
	peers  map[int]*peer
	port   uint16     // of the NIC
	local  netip.Addr // of the NIC, of its peer
	remote netip.Addr
	first  uint16 // port of the peer's first connection
	listen *toe.Listener
	world  *world        // the NIC around the engine, with the protocol iwarp
	bench  bench         // the machine, with another protocol than tcp and iwarp
	sim    simulation    // world, bench, or the engine alone; nil with live
	live   *live         // nil: in virtual time
	at     time.Duration // now, since the start of the script
	ref    time.Duration // when the step before happened
	queue  []*packet     // sent by the NIC, not compared yet
	turns  int
	over   *Over // the wire that frames pass; nil: none
	begun  bool  // the head of the trace is written
}

// epoch is the engine's time at the start of a script. It is not 0, so that
// no time is mistaken for an unset one.
const epoch = frame.Time(1000 * time.Second)

// maxTurns bounds the Polls of a run.
const maxTurns = 1_000_000

// packet is one packet that the NIC has sent. Numbers are relative.
type packet struct {
	at     time.Duration
	peer   *peer // nil: it belongs to no connection of the script
	ip     ip.Header
	tcp    tcp.Header
	off    frame.Offload
	seq    int64
	ack    int64
	n      int
	opts   *tcpOptions
	broken string // what no TCP may send
	unit   *unit  // not the packet itself, but something of the stream in it
}

func (p *packet) text() string {
	if p.unit != nil {
		return p.unit.text
	}
	s := ""
	if super(p.off) {
		s = fmt.Sprintf("[gso %d] ", p.off.GSOSize)
	}
	if ecn := p.ip.TOS & 3; ecn != 0 {
		s += "[" + ecnNames[ecn] + "] "
	}
	return s + segmentText(&p.tcp, p.seq, p.n, p.ack, p.opts, p.tcp.Urgent != 0)
}

// Run runs the script and returns the first thing that is not as it says, an
// *Error. Every packet is written to trace as a line of a script, if that is
// not nil.
func (s *Script) Run(trace io.Writer) error { return s.RunOver(trace, nil) }

// RunOver is Run with every frame carried over a wire of this host, unless over is nil.
func (s *Script) RunOver(trace io.Writer, over *Over) error {
	err := s.runOver(trace, over)
	if over != nil && over.err != nil {
		return &Error{File: s.Name, Line: 1, Col: 1, Msg: over.err.Error()}
	}
	return err
}

func (s *Script) runOver(trace io.Writer, over *Over) error {
	r := s.runner(trace)
	r.over = over
	r.pool = buf.NewPool(1<<14, 0)
	var err error
	switch {
	case s.set.iwarp:
		r.world, err = newVirtual(r)
	case s.set.proto != nil:
		r.bench, err = s.set.proto.start(r)
		r.sim = r.bench
	default:
		r.engine = toe.New(s.set.cfg, r.pool, r, &frame.Notes{})
		r.sim = tcpBench{r}
	}
	if err != nil {
		return &Error{File: s.Name, Line: 1, Col: 1, Msg: err.Error()}
	}
	if err := r.steps(); err != nil {
		return err
	}
	last := s.steps[len(s.steps)-1]
	r.until(r.at, false)
	if err := r.silent(last, moreInAll); err != nil {
		return err
	}
	if left := r.sim.unclaimed(); left != "" {
		return r.fail(last, last.when.word, "unexpected: more has happened than the script says", left)
	}
	return nil
}

// steps runs all steps.
func (r *runner) steps() *Error {
	steps := r.script.steps
	for i, st := range steps {
		batched := i+1 < len(steps) && steps[i+1].when.kind == sameBatch
		if err := r.step(st, batched); err != nil {
			return err
		}
	}
	return nil
}

// soon tells whether it is so, or becomes so when the machine has done what is
// due: at once in virtual time, within the patience with a live machine.
func (r *runner) soon(so func() bool) bool {
	if r.live != nil {
		return r.live.soon(so)
	}
	r.world.poll()
	return so()
}

// runner is a run of s that has not begun.
func (s *Script) runner(trace io.Writer) *runner {
	return &runner{script: s, trace: trace, peers: map[int]*peer{}, port: s.set.port, local: s.set.local(),
		remote: s.set.remote(), first: FirstPort}
}

// step runs one step. The NIC does not answer yet if the next step is in the
// same batch.
func (r *runner) step(s *step, batched bool) *Error {
	if _, out := s.act.(*outbound); !out {
		if err := r.advance(s); err != nil {
			return err
		}
	}
	if err := s.act.do(r, s); err != nil {
		return err
	}
	if !batched {
		r.until(r.at, false)
	}
	for _, p := range r.conns() {
		if p.app != nil && p.app.broken != "" {
			return r.fail(s, s.when.word, p.app.broken, "")
		}
	}
	if r.turns > maxTurns {
		return r.fail(s, s.when.word, "the NIC does not come to rest", "")
	}
	return nil
}

// advance brings the time of a step that does something, during which the NIC
// must be silent.
func (r *runner) advance(s *step) *Error {
	at := s.when.at
	switch s.when.kind {
	case sameBatch, anyTime:
		return nil
	case relative:
		at += r.ref
	}
	if at < r.at && r.live != nil {
		r.live.late(at)
	}
	if at < r.at {
		return r.fail(s, s.when.word, fmt.Sprintf("the time has passed: it is %s already", formatTime(r.at)), "")
	}
	_, looks := s.act.(*expectation)
	if at == r.at && looks {
		return nil // what has been sent at this time may be stated afterwards
	}
	r.until(at, false)
	r.ref = at
	return r.silent(s, moreBefore)
}

const (
	moreBefore = "unexpected: the NIC has sent more before this line"
	moreInAll  = "unexpected: the NIC has sent more than the script says"
)

// silent wants that nothing has been sent that no step has asked for; msg is
// the error.
func (r *runner) silent(s *step, msg string) *Error {
	if len(r.queue) == 0 {
		return nil
	}
	p := r.queue[0]
	return r.fail(s, s.when.word, msg, formatTime(p.at)+" > "+p.text())
}

// window is when the packet of a step may come.
func (r *runner) window(s *step) (from, until time.Duration) {
	base := time.Duration(0)
	switch s.when.kind {
	case anyTime:
		return 0, r.at + farAway
	case relative:
		base = r.ref
	}
	tol := r.script.set.tolerance
	from, until = base+s.when.at-tol, base+s.when.until+tol
	if r.live != nil {
		return r.live.window(from, until, base)
	}
	return from, until
}

// await lets the time pass until the NIC sends something, at most until then.
func (r *runner) await(until time.Duration) *packet {
	if len(r.queue) == 0 {
		r.until(until, true)
	}
	if len(r.queue) == 0 {
		return nil
	}
	p := r.queue[0]
	r.queue = r.queue[1:]
	return p
}

// until lets the time pass, with every deadline of the NIC on its way. It
// stops early at a packet if the caller waits for one.
func (r *runner) until(end time.Duration, packet bool) {
	if r.live != nil {
		r.live.until(end, func() bool { return packet && len(r.queue) > 0 })
		return
	}
	for {
		next := r.poll()
		if r.turns++; packet && len(r.queue) > 0 || r.turns > maxTurns {
			return
		}
		if next == frame.Never || next > frame.Time(end)+epoch {
			r.at = max(r.at, end)
			return
		}
		r.at = max(r.at, time.Duration(next-epoch))
	}
}

// poll lets the NIC do what is due and returns its next deadline.
func (r *runner) poll() frame.Time { return r.sim.poll() }

// simulation is what a script runs against in virtual time.
type simulation interface {
	// poll lets the machine do what is due now and returns its next deadline.
	poll() frame.Time
	// unclaimed says what has happened that no line states.
	unclaimed() string
}

// tcpBench is a TCP engine alone.
type tcpBench struct{ r *runner }

func (b tcpBench) poll() frame.Time  { return b.r.engine.Poll(b.r.now()) }
func (b tcpBench) unclaimed() string { return "" }

func (r *runner) now() frame.Time { return epoch + frame.Time(r.at) }

// conns are the connections so far, in the order of their numbers.
func (r *runner) conns() []*peer {
	return slices.SortedFunc(maps.Values(r.peers), func(a, b *peer) int { return a.number - b.number })
}

// connection is the one between these addresses, nil if there is none.
func (r *runner) connection(local, remote netip.AddrPort) *peer {
	for _, p := range r.peers {
		if p.local == local && p.remote == remote {
			return p
		}
	}
	return nil
}

// peer returns connection n, new at its first use.
func (r *runner) peer(n int) *peer {
	p := r.peers[n]
	if p == nil {
		p = &peer{
			number: n,
			local:  netip.AddrPortFrom(r.local, r.port),
			remote: netip.AddrPortFrom(r.remote, r.first+uint16(n-1)),
		}
		if r.world != nil {
			p.end = newEndpoint(r.world, p)
		}
		p.reopen(r.script.set.isn)
		r.peers[n] = p
	}
	return p
}

// deliver gives a packet of a peer to the NIC, as a NIC without other users
// of its address does: what nobody owns is answered with a reset.
func (r *runner) deliver(h *ip.Header, seg []byte, off frame.Offload) {
	seg = seg[:h.PayloadLen]
	if r.world != nil {
		r.world.deliver(h, seg, off)
		return
	}
	h, seg, off = r.over.carrySegment(h, seg, off)
	if !r.engine.Segment(h, seg, off, r.now()) {
		r.engine.Reset(h, seg)
	}
}

// Room implements toe.Output: the link is never full.
func (r *runner) Room() int { return math.MaxInt32 }

// Transmit implements toe.Output. Whatever the script says, the packet must
// be sound.
func (r *runner) Transmit(f *frame.Frame, _ netip.Addr, _ frame.Time) {
	defer f.Release()
	b, off := r.over.carryIP(f.Bytes(), f.Offload, false)
	r.sent(b, off)
}

// sent takes note of an IP packet of the NIC, borrowed.
func (r *runner) sent(b []byte, off frame.Offload) {
	got := &packet{at: r.at, off: off}
	r.queue = append(r.queue, got)
	h, seg, err := ip.Parse(b)
	if err != nil {
		got.broken = err.Error()
		return
	}
	th, data, err := tcp.Parse(seg)
	if err != nil {
		got.broken = err.Error()
		return
	}
	got.ip, got.tcp, got.n = h, th, len(data)
	pseudo := ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))
	sound := ip.Checksum(seg, pseudo) == 0
	if off.NeedsCsum {
		sound = th.Checksum == ip.Fold(pseudo)
	}
	switch {
	case !sound:
		got.broken = "checksum"
	case !super(off) && len(b) > r.script.set.mtu():
		got.broken = "packet: longer than the MTU"
	case super(off) && len(data) <= int(off.GSOSize):
		got.broken = "super-frame: it holds only one segment"
	}
	got.relate(r, seg, data)
}

// relate finds the connection of a packet and makes its numbers relative.
func (got *packet) relate(r *runner, seg, data []byte) {
	h := &got.tcp
	got.peer = r.connection(netip.AddrPortFrom(got.ip.Src, h.SrcPort), netip.AddrPortFrom(got.ip.Dst, h.DstPort))
	p := got.peer
	if p == nil {
		got.broken = fmt.Sprintf("to no connection of the script: %v:%d", got.ip.Dst, h.DstPort)
		return
	}
	if h.Flags.Has(tcp.SYN) && !p.based {
		p.base, p.based = uint32(h.Seq), true
		p.took = h.Opts.HasTS
	}
	if h.Opts.HasTS && !p.tsBased {
		p.tsBase, p.tsBased = h.Opts.TSVal-uint32(got.at/time.Millisecond), true
	}
	if h.Opts.HasTS {
		p.tsOut = int64(int32(h.Opts.TSVal - p.tsBase))
	}
	got.seq, got.ack = int64(int32(uint32(h.Seq)-p.base)), int64(int32(uint32(h.Ack)-p.isn))
	var err error
	if got.opts, err = decodeOptions(seg[tcp.HeaderLen:len(seg)-len(data)], p.isn, p.tsBase); err != nil {
		got.broken = err.Error()
	}
	if p.end != nil {
		p.end.received(got, data)
		return
	}
	for i, b := range data {
		if b != octet(nicSalt, got.seq-1+int64(i)) {
			got.broken = fmt.Sprintf("payload: octet %d of the stream is wrong", got.seq-1+int64(i))
			break
		}
	}
}

// fail makes the report of a step that failed, marked at w.
func (r *runner) fail(s *step, w word, msg, got string) *Error {
	return &Error{
		File: s.line.file, Line: s.line.number, Col: w.col, Width: w.width(), Source: s.line.source,
		Msg: msg, Got: got,
	}
}

func (r *runner) tracef(dir, text string, at time.Duration) {
	if r.trace == nil {
		return
	}
	if r.world != nil {
		r.rung(dir, text, at)
	} else {
		fmt.Fprintf(r.trace, "%s %s %s\n", formatTime(at), dir, text)
	}
}
