package lldp

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/lldp"
)

// rig is a port whose frames are kept with their times.
type rig struct {
	*Port
	name    string
	sent    []sentFrame
	changes int
	full    bool
}

type sentFrame struct {
	at  frame.Time
	b   []byte
	pdu *lldp.PDU
}

func newRig(t *testing.T, last byte) *rig {
	r := &rig{name: string('a' + rune(last))}
	mac := ether.Addr{2, 0, 0, 0, 0, last}
	r.Port = New(mac, Env{
		Local: func(Scope) *lldp.PDU {
			return &lldp.PDU{Chassis: lldp.MACID(lldp.ChassisMAC, mac), Port: lldp.ID{Subtype: lldp.PortIface, Value: "p"},
				SystemName: r.name}
		},
		Send: func(b []byte, now frame.Time) bool {
			if r.full {
				return false
			}
			pdu, err := lldp.Parse(b[ether.HeaderLen:])
			if err != nil || len(b) < minFrame {
				t.Fatalf("% x: %v", b, err)
			}
			r.sent = append(r.sent, sentFrame{now, bytes.Clone(b), pdu})
			return true
		},
		Changed: func(Scope, frame.Time) { r.changes++ },
	})
	return r
}

// run polls all at their deadlines until a time; each frame reaches the others at once.
func run(now, end frame.Time, rigs ...*rig) frame.Time {
	for {
		next := frame.Never
		for _, r := range rigs {
			n := len(r.sent)
			next = min(next, r.Poll(now))
			for _, f := range r.sent[n:] {
				for _, o := range rigs {
					if o != r {
						o.Receive(f.b, now)
						next = min(next, o.Poll(now))
					}
				}
			}
		}
		if next > end {
			return end
		}
		now = max(next, now)
	}
}

func at(seconds int) frame.Time { return frame.Time(0).Add(time.Duration(seconds) * time.Second) }

// times are the seconds at which frames left.
func (r *rig) times() (list []int) {
	for _, f := range r.sent {
		list = append(list, int(f.at/at(1)))
	}
	return list
}

func on() Params {
	p := Default
	p.Rx, p.Tx = true, true
	return p
}

// A port alone sends at once and each 30 s; a new neighbor has it send four at
// intervals of a second; one that falls silent is forgotten after 121 s.
func TestIntervals(t *testing.T) {
	a, b := newRig(t, 0), newRig(t, 1)
	for _, r := range []*rig{a, b} {
		r.SetParams(NearestBridge, on(), 0)
	}
	a.SetLink(true, 0)
	run(0, at(65), a)
	b.SetLink(true, at(65))
	run(at(65), at(130), a, b)
	if got, want := a.times(), []int{0, 30, 60, 66, 67, 68, 69, 99, 129}; !slices.Equal(got, want) {
		t.Errorf("a sent at %v s, not %v", got, want)
	}
	if got, want := b.times(), []int{65, 67, 68, 69, 70, 100, 130}; !slices.Equal(got, want) {
		t.Errorf("b sent at %v s, not %v", got, want)
	}
	if f := a.sent[0]; f.pdu.TTL != 121 || ether.Addr(f.b) != lldp.NearestBridge {
		t.Errorf("%+v to %x", f.pdu, f.b[:6])
	}
	if n := a.Neighbors(NearestBridge); len(n) != 1 || n[0].PDU.SystemName != "b" || n[0].Since != at(65) {
		t.Errorf("neighbors of a: %+v", n)
	}
	run(at(130), at(130+120), a)
	if n := a.Neighbors(NearestBridge); len(n) != 1 {
		t.Error("b is forgotten too early")
	}
	changes := a.changes
	run(at(130+120), at(130+121), a)
	if n := a.Neighbors(NearestBridge); len(n) != 0 || a.Stats(NearestBridge).Ageouts != 1 || a.changes != changes+1 {
		t.Errorf("after its time: %+v, %+v", n, a.Stats(NearestBridge))
	}
}

// Changes are told at once while there is credit, then each second. A port that
// stops says so, and waits two seconds before it starts again.
func TestCreditAndShutdown(t *testing.T) {
	a, b := newRig(t, 0), newRig(t, 1)
	a.SetParams(NearestNonTPMR, on(), 0)
	b.SetParams(NearestNonTPMR, on(), 0)
	a.SetLink(true, 0)
	b.SetLink(true, 0)
	run(0, at(10), a, b)
	a.sent = nil
	for i := range 8 {
		a.name = string('k' + rune(i))
		a.LocalChanged(NearestNonTPMR)
		run(at(10), at(10), a, b)
	}
	run(at(10), at(15), a, b)
	if got, want := a.times(), []int{10, 10, 10, 10, 10, 11}; !slices.Equal(got, want) {
		t.Errorf("changes were told at %v s, not %v", got, want)
	}
	if n := b.Neighbors(NearestNonTPMR); len(n) != 1 || n[0].PDU.SystemName != "r" {
		t.Errorf("b knows %+v", n)
	}
	off := on()
	off.Tx = false
	a.SetParams(NearestNonTPMR, off, at(15))
	a.sent, a.full = nil, true
	run(at(15), at(15), a, b)
	a.full = false
	run(at(15), at(16), a, b)
	if len(a.sent) != 1 || a.sent[0].pdu.TTL != 0 || a.Stats(NearestNonTPMR).NoBuffer != 1 || len(b.Neighbors(NearestNonTPMR)) != 0 {
		t.Fatalf("shutdown: %+v; b knows %+v", a.sent, b.Neighbors(NearestNonTPMR))
	}
	a.sent = nil
	a.SetParams(NearestNonTPMR, on(), at(16))
	run(at(16), at(16), a, b)
	if len(a.sent) != 0 {
		t.Error("no reinitialization delay")
	}
	if run(at(16), at(17), a, b); len(a.sent) == 0 || len(b.Neighbors(NearestNonTPMR)) != 1 {
		t.Errorf("after the delay: %v", a.times())
	}
	a.SetLink(false, at(19))
	if len(a.Neighbors(NearestNonTPMR)) != 0 || a.Poll(at(20)) != frame.Never {
		t.Error("without a link there are neighbors, or something to do")
	}
}

// The ninth neighbor has no room; each scope has its own neighbors.
func TestTooMany(t *testing.T) {
	a := newRig(t, 0)
	a.SetLink(true, 0)
	for s := range Scopes {
		a.SetParams(s, on(), 0)
	}
	for i := range byte(MaxNeighbors + 1) {
		b := newRig(t, i+1)
		b.SetParams(NearestCustomer, on(), 0)
		b.SetLink(true, 0)
		b.Poll(0)
		if _, err := a.Receive(b.sent[0].b, 0); (err != nil) != (i == MaxNeighbors) {
			t.Errorf("neighbor %d: %v", i, err)
		}
	}
	if len(a.Neighbors(NearestCustomer)) != MaxNeighbors || len(a.Neighbors(NearestBridge)) != 0 || a.Stats(NearestCustomer).RxTooMany != 1 {
		t.Errorf("%d neighbors, %+v", len(a.Neighbors(NearestCustomer)), a.Stats(NearestCustomer))
	}
}

// A malformed LLDPDU changes nothing but a counter.
func TestMalformedChangesNothing(t *testing.T) {
	a, b := newRig(t, 0), newRig(t, 1)
	for _, r := range []*rig{a, b} {
		r.SetParams(NearestBridge, on(), 0)
		r.SetLink(true, 0)
	}
	run(0, at(20), a, b)
	good := b.sent[0].b
	before, changes := slices.Clone(a.Neighbors(NearestBridge)), a.changes
	r := rand.New(rand.NewPCG(23, 1))
	bad := 0
	for range 20000 {
		f := bytes.Clone(good)
		for range 1 + r.IntN(3) {
			f[ether.HeaderLen+r.IntN(len(f)-ether.HeaderLen)] = byte(r.Uint32())
		}
		if _, err := lldp.Parse(f[ether.HeaderLen:]); err == nil {
			continue
		}
		bad++
		if taken, err := a.Receive(f, at(20)); !taken || err == nil {
			t.Fatalf("% x: %v %v", f, taken, err)
		}
	}
	n := a.Neighbors(NearestBridge)
	if len(n) != 1 || n[0].Until != before[0].Until || !bytes.Equal(n[0].Raw, before[0].Raw) || a.changes != changes ||
		a.Stats(NearestBridge).RxErrors != uint64(bad) || bad < 1000 {
		t.Errorf("%d malformed: %+v, %+v", bad, n, a.Stats(NearestBridge))
	}
}
