package sw

import (
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// ptpFrame is a message on Ethernet.
func ptpFrame(typ msg.Type, seq uint16, flags msg.Flags) string {
	p := transport.Port{MAC: host(9)}
	m := msg.Message{Header: msg.Header{Type: typ, Source: msg.PortIdentity{Clock: msg.ClockIdentity{1}, Port: 1}, Sequence: seq, Flags: flags}}
	return string(p.Append(nil, m.Append(nil), transport.Addr{}, ether.Addr{}))
}

// corrections are those of the messages of type typ that left a port.
func (b *bed) corrections(port int, typ msg.Type) (list []time.Duration) {
	b.t.Helper()
	for _, l := range b.wires[port].take() {
		p, ok := transport.Find([]byte(l.b))
		var m msg.Message
		if !ok || m.Parse(p.Body) != nil {
			b.t.Errorf("no message: %x", l.b)
		}
		if m.Type == typ {
			list = append(list, m.Correction.Duration())
		}
	}
	return list
}

// Each copy of a flooded Sync has a delay of its own, and each Follow_Up that
// of its Sync.
func TestFloodedSync(t *testing.T) {
	b := newBed(t, 4, swconf.Config{Mode: swconf.E2ETransparent, Delay: swconf.Delay{Dist: swconf.Uniform, Max: 500 * time.Microsecond}})
	b.send(0, ptpFrame(msg.Sync, 1, msg.FlagTwoStep))
	b.send(0, ptpFrame(msg.FollowUp, 1, 0))
	b.run(time.Millisecond)
	seen := map[time.Duration]bool{}
	for port := 1; port < 4; port++ {
		got := b.wires[port].got
		if len(got) != 2 {
			t.Fatalf("port %d: %d frames", port, len(got))
		}
		left := time.Duration(got[0].at)
		if c := b.corrections(port, msg.FollowUp); len(c) != 1 || c[0] != left {
			t.Errorf("port %d: corrected by %v, it left after %v", port, c, left)
		}
		seen[left] = true
	}
	if len(seen) != 3 {
		t.Errorf("delays %v", seen)
	}
}

// A Sync that finds no room on its link takes its Follow_Up with it, at once.
func TestSyncWithoutRoom(t *testing.T) {
	b := newBed(t, 2, swconf.Config{Mode: swconf.E2ETransparent})
	b.send(0, ptpFrame(msg.Sync, 1, msg.FlagTwoStep))
	b.send(0, ptpFrame(msg.FollowUp, 1, 0))
	tagged := b.s.leave(&b.s.ports[1], &b.s.ports[1].classes[0])
	b.wires[1].room = 0
	b.s.clock.depart(1, tagged.f, tagged.tag, b.now)
	b.wires[1].room = 10
	b.run(0)
	if c := b.s.ClockCounts(); len(b.wires[1].got) != 0 || c.LostStamps != 1 || c.Unmatched != 1 {
		t.Errorf("%d frames left, %+v", len(b.wires[1].got), c)
	}
	if d := b.s.Counts(1).TxDrops; d[drop.TxQueue] != 1 {
		t.Errorf("%v", d)
	}
}

// A Sync that nobody saw come in cannot be corrected and does not pass.
func TestUnseenSync(t *testing.T) {
	b := newBed(t, 2, swconf.Config{Mode: swconf.E2ETransparent})
	text := ptpFrame(msg.Sync, 1, 0)
	f := b.pool.Get(len(text))
	f.Append([]byte(text))
	f.Seen = frame.Never
	b.s.Receive(0, []*frame.Frame{f}, b.now)
	b.run(0)
	if d := b.s.Counts(0).RxDrops; d[DropClock] != 1 || len(b.wires[1].got) != 0 {
		t.Errorf("%v, %d frames left", d, len(b.wires[1].got))
	}
}

// A boundary clock keeps messages of its transport and lets others pass.
func TestBoundaryKeepsMessages(t *testing.T) {
	b := newBed(t, 2, swconf.Config{Mode: swconf.Boundary})
	b.run(0)
	b.send(0, ptpFrame(msg.Sync, 1, 0))
	b.send(0, eth(anyone, host(9), "other"))
	b.run(0)
	if got := b.wires[1].take(); len(got) != 1 || got[0].b != eth(anyone, host(9), "other") {
		t.Errorf("%+v", got)
	}
	other := newBed(t, 2, swconf.Config{Mode: swconf.Boundary, Transport: transport.UDPv4})
	other.send(0, ptpFrame(msg.Sync, 1, 0))
	if other.run(0); len(other.wires[1].take()) != 1 {
		t.Error("a message of another transport does not pass")
	}
}
