package vema

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// subscribe makes traps go to the Ethernet Manager.
func (b *bench) subscribe() {
	b.Helper()
	var c mad.ClassPortInfo
	c.TrapLID, c.TrapSL = em.LID, 3
	data := make([]byte, mad.ClassPortInfoLen)
	c.Put(data)
	b.ask(mad.MethodSet, mad.AttrClassPortInfo, 0, data)
}

// traps are those sent by one Poll, and the deadline it returns.
func (b *bench) traps(now frame.Time) (list []mad.Notice, next frame.Time) {
	b.Helper()
	b.sent = nil
	next = b.agent.Poll(now, b.send)
	for _, s := range b.sent {
		h, data, err := mad.ParseVEMA(s.b)
		if err != nil || h.Method != mad.MethodTrap || h.Attr != mad.AttrNotice || len(s.b) != mad.TrapLen ||
			s.to != (mad.Address{LID: em.LID, QP: opa.QPGeneral, SL: 3}) {
			b.Fatalf("trap %+v to %+v: %v", h, s.to, err)
		}
		list = append(list, mad.ParseNotice(data))
	}
	return list, next
}

func opcodes(list []mad.Notice) (ops []mad.TrapOpcode) {
	for _, n := range list {
		ops = append(ops, n.Opcode)
	}
	return ops
}

func TestTraps(t *testing.T) {
	b := newBench(t)
	n := b.create(3)
	if got, next := b.traps(0); got != nil || next != frame.Never {
		t.Fatalf("traps to nobody: %+v", got)
	}
	b.subscribe()
	b.traps(0) // the new base address
	now := frame.Time(2 * Window)
	n.SetRxMode([]ether.Addr{{2, 1}}, []ether.Addr{{1, 0, 0x5e, 0, 0, 9}})
	n.Open()
	got, next := b.traps(now)
	want := []mad.TrapOpcode{mad.TrapUnicastMACs, mad.TrapMulticastMACs, mad.TrapLinkStatus}
	if !slices.Equal(opcodes(got), want) || next != frame.Never {
		t.Fatalf("traps %v, next %d", opcodes(got), next)
	}
	if got[0] != (mad.Notice{IssuerLID: 5, Fabric: 0x301, VESW: 2, PortNum: 0x502, OPAPort: 1, VPort: 3, Opcode: mad.TrapUnicastMACs}) {
		t.Errorf("%+v", got[0])
	}
	if got, _ := b.traps(now); got != nil {
		t.Errorf("told twice: %v", opcodes(got))
	}
}

// The operating system learns late that a vport was removed: what it still says
// of it is told to nobody, not even when another has the number.
func TestNoTrapsOfARemovedVPort(t *testing.T) {
	b := newBench(t)
	n := b.create(3)
	b.subscribe()
	b.port.Remove(3)
	late := func() {
		n.SetRxMode([]ether.Addr{{2, 1}}, []ether.Addr{{1, 0, 0x5e, 0, 0, 9}})
		if err := errors.Join(n.SetMAC(ether.Addr{2, 2}), n.SetMTU(1000)); err != nil {
			t.Error(err)
		}
		n.Open()
		n.Close()
	}
	late()
	if got, next := b.traps(2 * frame.Time(Window)); got != nil || next != frame.Never {
		t.Errorf("traps %v, next %d", opcodes(got), next)
	}
	b.create(3)
	b.traps(4 * frame.Time(Window)) // the new base address
	late()
	if got, _ := b.traps(6 * frame.Time(Window)); got != nil || n.Opened() {
		t.Errorf("traps of another vport %v", opcodes(got))
	}
}

// One trap opens a window, four more pass in it; the rest waits for its end,
// as one trap for each kind of change.
func TestTrapRate(t *testing.T) {
	b := newBench(t)
	n := b.create(3)
	b.subscribe()
	b.traps(0)
	start := frame.Time(time.Hour)
	var passed int
	for i := range 20 {
		n.SetRxMode([]ether.Addr{{2, 1, byte(i)}}, nil)
		got, next := b.traps(start.Add(time.Duration(i) * time.Millisecond))
		passed += len(got)
		if want := start.Add(Window); len(got) == 0 && next != want {
			t.Fatalf("change %d: next at %d, want %d", i, next, want)
		}
	}
	if passed != 1+Burst {
		t.Errorf("%d traps in one window", passed)
	}
	n.Open()
	if got, _ := b.traps(start.Add(Window - 1)); got != nil {
		t.Errorf("too early: %v", opcodes(got))
	}
	got, next := b.traps(start.Add(Window))
	if !slices.Equal(opcodes(got), []mad.TrapOpcode{mad.TrapUnicastMACs, mad.TrapLinkStatus}) || next != frame.Never {
		t.Errorf("after the window: %v", opcodes(got))
	}
	if c := b.agent.Counters(); c.Delayed != 1 {
		t.Errorf("%+v", c)
	}
}

// A port that cannot send loses nothing, and a vport's end ends its traps.
func TestTrapsWait(t *testing.T) {
	b := newBench(t)
	n := b.create(3)
	b.subscribe()
	b.traps(0)
	now := frame.Time(time.Hour)
	n.Open()
	b.deaf = true
	if got, next := b.traps(now); got != nil || next == frame.Never {
		t.Fatalf("a deaf port sent %v", got)
	}
	b.deaf = false
	if got, _ := b.traps(now.Add(Window)); !slices.Equal(opcodes(got), []mad.TrapOpcode{mad.TrapLinkStatus}) {
		t.Errorf("traps %v", opcodes(got))
	}
	n.Close()
	b.port.Remove(3)
	if got, next := b.traps(now.Add(9 * Window)); got != nil || next != frame.Never {
		t.Errorf("traps of a removed vport: %v", opcodes(got))
	}
}
