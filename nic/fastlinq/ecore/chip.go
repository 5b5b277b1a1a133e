package ecore

import (
	"bytes"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/frame"
)

// Kind is a generation of the chip.
type Kind uint8

// The generations.
const (
	BB Kind = iota // QL45xxx
	AH             // QL41xxx, K2
)

// String is the generation's name.
func (k Kind) String() string { return [...]string{"BB", "AH"}[k] }

// MFMode is how the functions of a port are told apart.
type MFMode uint8

// The modes.
const (
	SingleFunction MFMode = iota
	OVLAN                 // by an outer tag ("SD")
	NPAR                  // by MAC address ("SI")
	UFP
)

// String is the mode's name.
func (m MFMode) String() string { return [...]string{"DEFAULT", "OVLAN", "NPAR", "UFP"}[m] }

// limits of an engine.
type limits struct {
	pfs, ports, vfs int
	res             [NumResources]int
}

var kindLimits = [...]limits{
	BB: {8, 2, 120, [NumResources]int{L2Queue: 256, VPort: 160, RSSEng: 127, PQ: 448, RL: 256, MAC: 512, VLAN: 512,
		CNQRAM: 128, ILT: 7600, LL2Queue: 32, CmdQsCQs: 128, RDMAStats: 160, BDQ: 8, SB: 288}},
	AH: {16, 4, 192, [NumResources]int{L2Queue: 320, VPort: 208, RSSEng: 207, PQ: 512, RL: 256, MAC: 512, VLAN: 512,
		CNQRAM: 128, ILT: 11000, LL2Queue: 32, CmdQsCQs: 128, RDMAStats: 208, BDQ: 8, SB: 368}},
}

// Chip is the hardware that all functions of a board share.
type Chip struct {
	Kind  Kind
	MF    MFMode
	Ports int // of an engine: 1, 2 or 4
	emulation
	Engines []*Engine // two: functions sit on both (CMT, "100G")
}

// Engine is one path of the chip.
type Engine struct {
	Regs      hw.Registers
	Functions int // PFs that are enabled on it
	// Overflow is told that the doorbell queue has lost a doorbell of a function: its
	// attention.
	Overflow func(pf int)

	storms  []storm
	version struct { // of the firmware that they run, after so many writes to registers
		writes  uint64
		running uint32
	}
	ramrods [cxt.NumProtocols]Ramrods
}

// NewChip returns a chip with engines, ports and, on each engine, functions. INVAL:
// the kind of chip cannot have them.
func NewChip(kind Kind, engines, ports, functions int, mf MFMode) (*Chip, error) {
	l := &kindLimits[kind]
	switch {
	case engines < 1 || engines > 2:
		return nil, status.Inval.Errorf("chip with %d engines", engines)
	case ports < 1 || ports > l.ports || ports == 3:
		return nil, status.Inval.Errorf("%v with %d ports per engine", kind, ports)
	case functions < 1 || functions > l.pfs:
		return nil, status.Inval.Errorf("%v with %d functions per engine: at most %d", kind, functions, l.pfs)
	}
	c := &Chip{Kind: kind, MF: mf, Ports: ports}
	for range engines {
		e := &Engine{Functions: functions, storms: make([]storm, functions)}
		e.Regs.Write(rt.RegReady, 1)
		for i := range e.storms {
			e.storms[i].engine, e.storms[i].pf = e, i
		}
		c.Engines = append(c.Engines, e)
	}
	return c, nil
}

// Handle has fn execute the ramrods of a protocol. The firmware knows those of
// COMMON itself: fn sees them when they are done.
func (e *Engine) Handle(p Protocol, fn Ramrods) { e.ramrods[p] = fn }

// Handler is what executes the ramrods of a protocol.
func (e *Engine) Handler(p Protocol) Ramrods { return e.ramrods[p] }

// modes are the chip's, for the init tool.
func (c *Chip) modes() rt.Modes {
	m := rt.Modes(0).With([...]rt.Mode{BB: rt.BB, AH: rt.K2}[c.Kind]).With(c.mode()).
		With([...]rt.Mode{1: rt.Ports1, 2: rt.Ports2, 4: rt.Ports4}[c.Ports]).
		With([...]rt.Mode{SingleFunction: rt.SF, OVLAN: rt.MFSD, NPAR: rt.MFSI, UFP: rt.MFSD}[c.MF])
	if len(c.Engines) > 1 {
		m = m.With(rt.CMT)
	}
	return m
}

// storm is the firmware of one function.
type storm struct {
	engine *Engine
	pf     int
	faults
	counted

	hwfn    *Hwfn // whose rings it reads; nil: nobody's
	started bool
	tunnels Tunnels
	rung    bool
	events  []spq.Event  // to be told
	event   [1]spq.Event // there is at most, mostly
}

// Ramrods and events of protocol COMMON.
const (
	RamrodPFStart    = 1
	RamrodPFStop     = 2
	RamrodVFStart    = 3
	RamrodVFStop     = 4
	RamrodPFUpdate   = 5
	RamrodRLUpdate   = 6
	RamrodEmpty      = 7
	eventPFStart     = 0
	EventVFPFChannel = 4 // a message of a VF waits
	codeDone         = 0
	codeBadState     = 1
	codeContext      = 2 // the context in memory is not the one that the driver means
	codeNotSupported = 0xff
)

// bell is a doorbell of the function.
func (s *storm) bell(addr uint32, data uint64, _ int) {
	switch {
	case s.hwfn == nil || s.hwfn.alloc == nil || addr != hw.DoorbellAddr(s.hwfn.alloc.spqCID):
	case s.loses(data):
		s.drop()
		if s.engine.Overflow != nil {
			s.engine.Overflow(s.pf)
		}
	default:
		s.hwfn.alloc.spq.Doorbell(uint16(data))
		s.rung = true
	}
}

// run executes what the doorbells have told of, and writes the events.
func (s *storm) run(now frame.Time) {
	if s.hwfn == nil || s.hwfn.alloc == nil || s.stuck() {
		return
	}
	a := s.hwfn.alloc
	if s.rung {
		s.rung = false
		for el, ok := a.spq.Fetch(); ok; el, ok = a.spq.Fetch() {
			code, data := s.execute(el)
			s.ramrod(el.Protocol, el.Cmd)
			s.events = append(s.events, spq.Event{Protocol: el.Protocol, Opcode: el.Cmd, VF: spq.NoVF, Echo: el.Echo,
				Code: code, Data: data})
		}
	}
	for len(s.events) > 0 {
		e := s.events[0]
		if s.events = s.events[1:]; len(s.events) == 0 {
			s.events = s.event[:0]
		}
		if a.eq.Produce(e) == nil {
			s.hwfn.irq.Event(a.eqPI, now)
		}
		if s.hwfn == nil || s.hwfn.alloc != a {
			return // the handler of the event ended the function
		}
	}
}

// RamrodCount is how many ramrods of a command the firmware has executed.
type RamrodCount struct {
	Protocol cxt.Protocol
	Cmd      uint8
	Count    uint64
}

var commonNames = [...]string{RamrodPFStart: "PF_START", RamrodPFStop: "PF_STOP", RamrodVFStart: "VF_START",
	RamrodVFStop:   "VF_STOP",
	RamrodPFUpdate: "PF_UPDATE", RamrodRLUpdate: "RL_UPDATE", RamrodEmpty: "EMPTY"}

// String names the command: "COMMON PF_START".
func (c RamrodCount) String() string {
	names := commonNames[:]
	if c.Protocol != cxt.Common {
		names = nil
	}
	return c.Protocol.String() + " " + enum.Name(names, c.Cmd, "%d")
}

// next is when it wants to run: at once if there is something.
func (s *storm) next(now frame.Time) frame.Time {
	if s.hwfn != nil && s.hwfn.alloc != nil && !s.stuck() && (s.rung || len(s.events) > 0) {
		return now
	}
	return frame.Never
}

// execute does a ramrod.
func (s *storm) execute(el spq.Element) (code uint8, data uint64) {
	if s.engine.running() == 0 {
		return codeBadState, 0
	}
	fn := s.engine.ramrods[el.Protocol]
	if el.Protocol == cxt.Common {
		if code = s.common(el); code == codeDone && fn != nil {
			fn(s.pf, el)
		}
		return code, 0
	}
	if fn != nil && s.started {
		return fn(s.pf, el)
	}
	return codeNotSupported, 0
}

// common does a ramrod of COMMON.
func (s *storm) common(el spq.Element) (code uint8) {
	switch el.Cmd {
	case RamrodPFStart:
		p, ok := el.Data.(PFStart)
		if s.started || !ok {
			return codeBadState
		}
		s.started, s.tunnels = true, p.Tunnels
	case RamrodPFStop:
		if !s.started {
			return codeBadState
		}
		s.started = false
	case RamrodPFUpdate:
		if t, ok := el.Data.(Tunnels); ok && s.started {
			s.tunnels = t
		}
	case RamrodEmpty:
		if want, ok := el.Data.([]byte); ok && !bytes.Equal(s.hwfn.alloc.cxt.Context(el.CID), want) {
			return codeContext
		}
	case RamrodRLUpdate:
	default:
		return codeNotSupported
	}
	return codeDone
}

// attach is a new driver's rings.
func (s *storm) attach(h *Hwfn) { s.hwfn, s.rung, s.events = h, false, nil }

// detach is their end; what the firmware knows of the function stays until a
// final clean-up.
func (s *storm) detach() { s.hwfn, s.rung, s.events = nil, false, nil }

// cleanup is the final clean-up of a predecessor: true if it is acknowledged.
func (s *storm) cleanup() bool {
	if s.noCleanup() {
		return false
	}
	s.started, s.tunnels = false, Tunnels{}
	return true
}

// FLR resets a function: its driver's rings are no longer read.
func (e *Engine) FLR(pf int) {
	e.storms[pf].detach()
	e.storms[pf].started, e.storms[pf].tunnels = false, Tunnels{}
}

// reset is the reset of the whole engine by its first function.
func (e *Engine) reset() {
	for i := range e.storms {
		e.storms[i].started, e.storms[i].tunnels = false, Tunnels{}
	}
}

// Async has the firmware of a function tell of something itself. NODEV: nobody
// listens.
func (e *Engine) Async(pf int, ev spq.Event) error {
	if pf < 0 || pf >= len(e.storms) {
		return status.NoDev.Errorf("function %d of %d", pf, len(e.storms))
	}
	s := &e.storms[pf]
	if s.hwfn == nil || s.hwfn.alloc == nil {
		return status.NoDev.Errorf("function %d has no event queue", pf)
	}
	ev.Async = true
	s.events = append(s.events, ev)
	return nil
}
