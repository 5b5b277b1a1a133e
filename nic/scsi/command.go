package scsi

import (
	"encoding/binary"
	"slices"
)

// Command is a command on its way. The zero value is ready for Prepare.
type Command struct {
	// Out and In are how many octets it takes and gives at most, once it is prepared.
	Out, In int
	// Exact says that an initiator must send Out octets, no more and no fewer.
	Exact bool
	// Status and Sense tell how it ended, once it is performed.
	Status Status
	Sense  Sense

	unit  *Unit
	nexus *Nexus
	cdb   [16]byte
	lba   uint64
	n     uint64 // blocks
	sync  bool   // written data must be stable at the end
	run   performer
	data  []byte // the parameter data that a light command gives
}

// performer does what a command says. buf is its data, as far as there is any, or where
// the data goes; it returns what the command gives.
type performer func(c *Command, buf []byte) []byte

// kind is a row of the table of commands.
type kind struct {
	op      byte
	action  int    // of commands that have one, else -1
	usage   string // of the bits of the CDB that matter, in hexadecimal (SPC-4 section 6.35.3)
	free    bool   // a reservation of another nexus, or a stopped unit, does not matter
	slow    bool   // performing it touches the store alone
	writes  bool
	prepare func(c *Command) performer
}

// find is the row of a CDB.
func find(cdb []byte) *kind {
	i := slices.IndexFunc(commands, func(k kind) bool {
		return k.op == cdb[0] && (k.action < 0 || k.action == int(cdb[1]&0x1f))
	})
	if i < 0 {
		return nil
	}
	return &commands[i]
}

// hasActions tells whether an opcode has service actions.
func hasActions(op byte) bool {
	return slices.ContainsFunc(commands, func(k kind) bool { return k.op == op && k.action >= 0 })
}

// Prepare checks a command for the unit with that LUN and says how much data it has. If
// it returns false the command has ended, and Status says how.
func (c *Command) Prepare(n *Nexus, lun uint64, cdb []byte) bool {
	*c = Command{unit: n.Unit(lun), nexus: n}
	copy(c.cdb[:], cdb)
	k := find(c.cdb[:])
	op := c.cdb[0]
	switch {
	case c.unit == nil && op != opInquiry && op != opReportLUNs && op != opRequestSense:
		return c.Fail(noLogicalUnit)
	case k == nil && hasActions(op):
		return c.Fail(invalidFieldInCDB)
	case k == nil:
		return c.Fail(invalidOpcode)
	case c.unit != nil && !c.admitted(k):
		return false
	}
	if c.run = k.prepare(c); c.run == nil {
		if c.Status == Good {
			c.Fail(invalidFieldInCDB)
		}
		c.Out, c.In = 0, 0
		return false
	}
	return true
}

// admitted checks what may be in the way of any command.
func (c *Command) admitted(k *kind) bool {
	u := c.unit
	if due := c.nexus.attentionOf(u); *due != (Sense{}) && !k.free {
		s := *due
		*due = Sense{}
		return c.Fail(s)
	}
	switch {
	case k.free:
	case u.holder != nil && u.holder != c.nexus, u.persist.forbids(c.nexus.port, k):
		c.Status = ReservationConflict
		return false
	case u.state.stopped && k.op != opStartStop:
		return c.Fail(stopped)
	case k.writes && (u.cfg.ReadOnly || u.state.protected):
		return c.Fail(writeProtected)
	}
	return true
}

// Fail ends the command with a sense. It returns false.
func (c *Command) Fail(s Sense) bool {
	c.Status, c.Sense = CheckCondition, s
	return false
}

// Slow tells that Perform reads or writes the store, and touches nothing else.
func (c *Command) Slow() bool { return find(c.cdb[:]).slow }

// Unit is the unit that it is for, or nil.
func (c *Command) Unit() *Unit { return c.unit }

// Perform does a command that is prepared. buf is the data that has come for it, fewer
// octets than Out where an initiator sends less, or In octets for what it reads. It
// returns the data for the initiator.
func (c *Command) Perform(buf []byte) []byte {
	if c.Exact && len(buf) != c.Out {
		c.Fail(BadLength)
		return nil
	}
	return c.run(c, buf)
}

// give is the performer of commands that give parameter data and change nothing.
func (c *Command) give(data []byte, allocation int) performer {
	c.data = data[:min(len(data), allocation)]
	c.In = len(c.data)
	return func(c *Command, _ []byte) []byte { return c.data }
}

// nothing is the performer of commands without data that are done already.
func nothing(*Command, []byte) []byte { return nil }

func u16(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
func u32(b []byte) int { return int(binary.BigEndian.Uint32(b)) }

// Opcodes that are named elsewhere.
const (
	opRequestSense = 0x03
	opInquiry      = 0x12
	opStartStop    = 0x1b
	opReportLUNs   = 0xa0
)
