package ring

import "tapir/nic/verbs"

// A program may leave its queues alone and have commands do the work.

// Opcode translates enum ibv_wr_opcode.
func Opcode(number uint32) (op verbs.Opcode, known bool) {
	if number >= uint32(len(opcodes)) {
		return 0, false
	}
	o := opcodes[number]
	return o.op, o.known
}

// Number is the number of enum ibv_wr_opcode, if op has one.
func Number(op verbs.Opcode) (number uint32, known bool) {
	for i, o := range &opcodes {
		if o.known && o.op == op {
			return uint32(i), true
		}
	}
	return 0, false
}

// Fetch moves the oldest completion, as many octets of it as fit, to b in the
// program's place. False: none waits.
func (c *CompletionQueue) Fetch(b []byte) bool {
	if c.ring.filled() == 0 {
		return false
	}
	at := c.ring.other.Load() & c.ring.mask
	copy(b, c.ring.elem(at))
	c.ring.other.Store((at + 1) & c.ring.mask)
	return true
}
