package scsi

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// ports is a unit with three initiator ports: a and b register, c does not.
type ports struct {
	t       *testing.T
	u       *Unit
	a, b, c *Nexus
}

func newPorts(t *testing.T) *ports {
	u, a := disk(t, Config{})
	p := &ports{t, u, a, NewNexus("iqn.b,i,0x2", []*Unit{u}), NewNexus("iqn.c,i,0x3", []*Unit{u})}
	for _, n := range []*Nexus{p.b, p.c} {
		do(n, cdb("000000000000"), nil)
	}
	p.want(Good, p.out(a, 0, 0, 0, 0xa))
	p.want(Good, p.out(p.b, 6, 0, 99, 0xb))
	return p
}

// out is a PERSISTENT RESERVE OUT.
func (p *ports) out(n *Nexus, action, kind byte, key, other uint64) *Command {
	list := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, key), other)
	c, _ := do(n, []byte{0x5f, action, kind, 8: 24, 15: 0}, append(list, make([]byte, 8)...))
	return c
}

// in is a PERSISTENT RESERVE IN.
func (p *ports) in(action byte) []byte {
	_, b := do(p.a, []byte{0x5e, action, 7: 1, 15: 0}, nil)
	return b
}

func (p *ports) want(s Status, c *Command) {
	p.t.Helper()
	if c.Status != s {
		p.t.Errorf("status %#x, want %#x: %+v", c.Status, s, c.Sense)
	}
}

// may tells which of read and write a port may do.
func (p *ports) may(n *Nexus) (s string) {
	if c, _ := do(n, block(0x88, 0, 0, 1), nil); c.Status == Good {
		s = "r"
	}
	if c, _ := do(n, block(0x8a, 0, 0, 1), make([]byte, 512)); c.Status == Good {
		s += "w"
	}
	return s
}

// TestPersistentTypes: what a reservation of each type leaves to its holder, to another
// registrant and to a stranger (SPC-4 table 46).
func TestPersistentTypes(t *testing.T) {
	for kind, want := range map[byte][3]string{
		writeExclusive: {"rw", "r", "r"}, exclusiveAccess: {"rw", "", ""},
		writeExclusiveRegistrants: {"rw", "rw", "r"}, exclusiveRegistrants: {"rw", "rw", ""},
		writeExclusiveAll: {"rw", "rw", "r"}, exclusiveAll: {"rw", "rw", ""},
	} {
		p := newPorts(t)
		p.want(ReservationConflict, p.out(p.c, 1, kind, 0, 0))
		p.want(ReservationConflict, p.out(p.a, 1, kind, 0xb, 0))
		p.want(Good, p.out(p.a, 1, kind, 0xa, 0))
		if got := [3]string{p.may(p.a), p.may(p.b), p.may(p.c)}; got != want {
			t.Errorf("type %d: holder, registrant and stranger may %q, want %q", kind, got, want)
		}
		c, _ := do(p.c, cdb("160000000000"), nil)
		p.want(ReservationConflict, c) // RESERVE(6) beside registrations
		p.want(CheckCondition, p.out(p.a, 2, writeExclusive+exclusiveAccess-kind&3, 0xa, 0))
		p.want(Good, p.out(p.a, 2, kind, 0xa, 0))
		c, _ = do(p.b, cdb("000000000000"), nil)
		if told := c.Sense == reservationsReleased; told != (kind >= writeExclusiveRegistrants) {
			t.Errorf("type %d: the other registrant hears %+v", kind, c.Sense)
		}
		if got := p.may(p.c); got != "rw" {
			t.Errorf("type %d: a stranger may %q after the release", kind, got)
		}
	}
}

// TestPersistentOwnership: a registration outlives its nexus; preempting and clearing take
// registrations away, and tell those that they were of.
func TestPersistentOwnership(t *testing.T) {
	p := newPorts(t)
	p.want(Good, p.out(p.a, 1, exclusiveAccess, 0xa, 0))
	p.a.Close()
	p.a = NewNexus("iqn.a,i,0x1", []*Unit{p.u})
	do(p.a, cdb("000000000000"), nil)
	if got := p.in(1); len(got) != 24 || got[15] != 0xa || got[21] != exclusiveAccess {
		t.Errorf("READ RESERVATION: % x", got)
	}
	if got := p.in(3); !bytes.Contains(got, []byte("iqn.b,i,0x2\x00")) || got[20] != 1 {
		t.Errorf("READ FULL STATUS: % x", got)
	}
	p.want(CheckCondition, p.out(p.b, 4, writeExclusive, 0xb, 0))
	p.want(ReservationConflict, p.out(p.b, 4, writeExclusive, 0xb, 77))
	p.want(Good, p.out(p.b, 4, writeExclusive, 0xb, 0xa))
	if c, _ := do(p.a, cdb("000000000000"), nil); c.Sense != registrationsPreempted {
		t.Errorf("who was preempted hears %+v", c.Sense)
	}
	if got := p.in(0); len(got) != 16 || got[15] != 0xb {
		t.Errorf("READ KEYS: % x", got)
	}
	p.want(Good, p.out(p.a, 0, 0, 0, 0xc))
	p.want(Good, p.out(p.b, 3, 0, 0xb, 0))
	if c, _ := do(p.a, cdb("000000000000"), nil); c.Sense != reservationsPreempted {
		t.Errorf("after CLEAR: %+v", c.Sense)
	}
	if got := p.in(0); len(got) != 8 {
		t.Errorf("READ KEYS after CLEAR: % x", got)
	}
	p.want(Good, p.out(p.a, 6, 0, 0, 0xa))
	p.want(Good, p.out(p.a, 1, writeExclusive, 0xa, 0))
	p.want(Good, p.out(p.a, 0, 0, 0xa, 0)) // the holder's end
	if got := p.in(1); len(got) != 8 {
		t.Errorf("READ RESERVATION: % x", got)
	}
	for _, bad := range [][]byte{{0x5f, 1, 2, 8: 24, 15: 0}, {0x5f, 1, 0x11, 8: 24, 15: 0}, {0x5f, 5, 1, 8: 24, 15: 0},
		{0x5f, 0, 0, 8: 25, 15: 0}} {
		c, _ := do(p.a, bad, make([]byte, 24))
		p.want(CheckCondition, c)
	}
	list := make([]byte, 24)
	list[20] = 1 // APTPL
	if c, _ := do(p.a, []byte{0x5f, 0, 0, 8: 24, 15: 0}, list); c.Sense != invalidParameter {
		t.Errorf("APTPL: %+v", c.Sense)
	}
}
