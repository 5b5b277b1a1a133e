// Package nvmf judges connections of NVMe over RDMA by the NVM Express RDMA transport
// specification 1.0 and the base specification 2.0. It is given the messages of both
// directions in order, as a capture has them, and tells a Reporter what breaks which clause.
// It does no I/O and owns no clock.
package nvmf

import (
	"fmt"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/message"
	"tapir/wire/nvme"
)

type phase uint8

const (
	idle phase = iota
	asked
	connected
)

// Conn judges one connection, which is one queue.
type Conn struct {
	to      message.Reporter
	host    int // side
	private nvme.Request
	told    bool // private has sense
	late    bool // not all of it was seen
	phase   phase
	queue   nvme.ConnectFields
	named   bool // by Connect
	cmds    map[uint16]*command
	tail    uint32     // commands sent
	head    uint32     // of them, those that the controller says it has taken
	reads   []*command // of RDMA Reads without an answer, in order; nil: of none that is known
}

// command is one under way.
type command struct {
	nvme.Command
	packet int
	memory []nvme.SGL       // keyed
	length uint64           // of memory
	moved  uint64           // octets
	busy   int              // RDMA Reads that are not answered
	early  *message.Message // the completion, if it came before their answers
}

// Begins tells whether b, the first message of a connection, may be a Connect.
func Begins(b []byte) bool {
	return len(b) >= nvme.SQELen && nvme.Opcode(b[0]) == nvme.Fabrics && b[4] == nvme.Connect
}

// New judges a connection, whose host is a side, from its first message on. Private is the private
// data of the request, nil if it is not known; exact: and its length, too.
func New(to message.Reporter, host, packet int, private []byte, exact bool) *Conn {
	c := &Conn{to: to, host: host, cmds: map[uint16]*command{}}
	if private == nil {
		return c
	}
	r, reason := nvme.ParseRequest(private)
	switch {
	case reason != 0 || exact && len(private) < nvme.PrivateLen:
		c.bad(host, packet, cmFormat, "%d octets: %x", len(private), private[:min(len(private), nvme.PrivateLen)])
	case r.QID == 0 && r.CntlID != 0:
		c.bad(host, packet, cmCntlID, "%d", r.CntlID)
	}
	c.private, c.told = r, reason == 0
	return c
}

// Gap says that messages of a side are missing in front of the next.
func (c *Conn) Gap(_, packet int) { c.vague(packet, "messages are missing from the capture") }

// vague forgets what missing messages may have changed.
func (c *Conn) vague(packet int, why string) {
	c.to.Part(packet, why)
	c.late = true
	clear(c.cmds)
	c.reads = nil
	if c.phase == idle {
		c.phase = asked
	}
}

func (c *Conn) bad(side, packet int, r *clause.Rule, format string, args ...any) {
	c.to.Violate(side, packet, r, fmt.Sprintf(format, args...))
}

// cross reports what messages of both sides prove together.
func (c *Conn) cross(m *message.Message, r *clause.Rule, format string, args ...any) {
	if !c.late && c.to.Seen(1-m.Side) {
		c.bad(m.Side, m.Packet, r, format, args...)
	}
}

// Message judges a message.
func (c *Conn) Message(m *message.Message) {
	if !c.late && !c.to.Seen(1-m.Side) {
		c.vague(m.Packet, "packets are missing from the capture, or in another order than on the wire")
	}
	host := m.Side == c.host
	switch {
	case m.Kind == message.Answer:
		if host {
			c.answered()
		}
	case m.Octets == 0 && m.Kind != message.Read && m.Kind != message.Send: // it asks whether the peer is there
	case m.Octets == 0 && host: // it begins a connection
	case (m.Kind == message.Write || m.Kind == message.Read) && host:
		c.bad(m.Side, m.Packet, hostDrives, "%v of %d octets", m.Kind, m.Octets)
	case m.Kind == message.Write || m.Kind == message.Read:
		c.move(m)
	case host:
		c.command(m)
	default:
		c.completion(m)
	}
}

// answered takes the answer to an RDMA Read.
func (c *Conn) answered() {
	if len(c.reads) == 0 {
		return
	}
	if x := c.reads[0]; x != nil {
		if x.busy--; x.early != nil { // now it is sure that no answer was lost
			c.cross(x.early, memEarly, "%s of packet %d", x.Name(c.admin(x)), x.packet)
			x.early = nil
		}
	}
	c.reads = c.reads[1:]
}

// command judges a capsule of the host.
func (c *Conn) command(m *message.Message) {
	if m.Kind == message.SendInvalidate {
		c.bad(m.Side, m.Packet, hostSends, "key %#x", m.Key)
	}
	if m.Octets < nvme.SQELen {
		c.bad(m.Side, m.Packet, cmdShort, "%d octets", m.Octets)
		return
	}
	if m.Data == nil {
		c.vague(m.Packet, "the capture has cut capsules off")
		return
	}
	x := &command{Command: nvme.Command(m.Data), packet: m.Packet}
	admin := c.admin(x)
	c.to.PDU(m.Side, m.Packet, "NVMe "+x.Name(admin), string(x.Append(nil, admin)), len(m.Data)-nvme.SQELen)
	c.order(m, x)
	if b := x.Command[1]; b&0xc0 != 0x40 && b&0xc0 != 0x80 || b&0x3c != 0 {
		c.bad(m.Side, m.Packet, cmdPSDT, "flags %#02x", b)
	}
	if n := len(m.Data) - nvme.SQELen; n > 0 && admin {
		c.bad(m.Side, m.Packet, cmdLong, "%s with %d octets", x.Name(admin), n)
	}
	if x.Opcode() == nvme.Fabrics {
		c.property(m, x, admin)
	}
	c.sgl(m, x, m.Data[nvme.SQELen:], admin)
	if old := c.cmds[x.ID()]; old != nil {
		c.cross(m, cmdID, "%d, of packet %d", x.ID(), old.packet)
	}
	c.cmds[x.ID()] = x
	c.tail++
	if most := int(c.queue.SQSize) + 1; c.phase == connected && len(c.cmds) > most {
		c.cross(m, queueFull, "%d of %d", len(c.cmds), most)
	}
}

// admin tells whether the queue is known to be the admin queue.
func (c *Conn) admin(x *command) bool {
	switch f, _ := x.Connect(); {
	case c.named:
		return c.queue.QID == 0
	case x.connects():
		return f.QID == 0
	}
	return c.told && c.private.QID == 0
}

// connects tells whether the command is Connect.
func (x *command) connects() bool {
	return x.Opcode() == nvme.Fabrics && x.FabricsType() == nvme.Connect
}

// order judges the place of a command among those of its queue.
func (c *Conn) order(m *message.Message, x *command) {
	connect := x.connects()
	admin := c.admin(x)
	switch {
	case c.late:
	case c.phase == idle && connect:
		c.connect(m, x)
	case c.phase == idle:
		c.bad(m.Side, m.Packet, connectFirst, "%s", x.Name(admin))
	case connect && c.phase == connected:
		c.bad(m.Side, m.Packet, connectAgain, "")
	case c.phase == asked:
		c.cross(m, connectWait, "%s", x.Name(admin))
	}
}

// connect takes the Connect that makes the queue.
func (c *Conn) connect(m *message.Message, x *command) {
	f, ok := x.Connect()
	c.phase, c.queue, c.named = asked, f, true
	switch {
	case !ok || f.SQSize == 0:
		c.bad(m.Side, m.Packet, connectFormat, "SQSIZE %d", f.SQSize)
	case c.told && f.QID != c.private.QID:
		c.bad(m.Side, m.Packet, cmQueue, "%d instead of %d", f.QID, c.private.QID)
	case c.told && f.SQSize != c.private.HSQSize:
		c.bad(m.Side, m.Packet, cmSize, "%d, SQSIZE %d", c.private.HSQSize, f.SQSize)
	}
}

// property judges a Property Get or Set.
func (c *Conn) property(m *message.Message, x *command, admin bool) {
	if t := x.FabricsType(); t != nvme.PropertyGet && t != nvme.PropertySet {
		return
	}
	if at, n, _ := x.Property(); !admin || x.Command[40]&7 > 1 || int(at)%n != 0 {
		c.bad(m.Side, m.Packet, property, "attributes %#x, offset %#x", x.Command[40], at)
	}
}

// segment is the SGL Last Segment descriptor with an offset in the capsule.
const segment nvme.Kind = 0x31

// sgl judges the memory that a command describes: data is what the capsule has behind it.
func (c *Conn) sgl(m *message.Message, x *command, data []byte, admin bool) {
	list := []nvme.SGL{x.SGL()}
	if s := list[0]; s.Kind == segment && !admin && x.Opcode() != nvme.Fabrics {
		if s.Length%16 != 0 || s.Address > uint64(len(data)) || uint64(s.Length) > uint64(len(data))-s.Address {
			c.bad(m.Side, m.Packet, sglCapsule, "descriptors, %d octets at %d of %d", s.Length, s.Address, len(data))
			return
		}
		list = nil
		for b := data[s.Address:][:s.Length]; len(b) > 0; b = b[16:] {
			var one nvme.Command
			copy(one[24:], b[:16])
			list = append(list, one.SGL())
		}
	}
	for _, s := range list {
		switch {
		case s.Kind == nvme.Keyed || s.Kind == nvme.KeyedInvalidate:
			x.memory = append(x.memory, s)
			x.length += uint64(s.Length)
		case s.Kind == nvme.InCapsule && (!admin || s.Length == 0):
			if s.Address > uint64(len(data)) || uint64(s.Length) > uint64(len(data))-s.Address {
				c.bad(m.Side, m.Packet, sglCapsule, "%d octets at %d of %d", s.Length, s.Address, len(data))
			}
		case s.Length > 0 || s.Kind != 0:
			c.bad(m.Side, m.Packet, sglKind, "%#02x", uint8(s.Kind))
		}
	}
}

// Directions of data: the low bits of an opcode, or of the type of a Fabrics command.
const (
	toController = 1
	toHost       = 2
)

func (x *command) direction() uint8 {
	if x.Opcode() == nvme.Fabrics {
		return x.FabricsType() & 3
	}
	return uint8(x.Opcode()) & 3
}

// move judges an RDMA Write or Read of the controller.
func (c *Conn) move(m *message.Message) {
	var x *command
	read, within := m.Kind == message.Read, false
	defer func() {
		if read {
			c.reads = append(c.reads, x)
		}
	}()
	if m.Octets == 0 {
		return
	}
	for _, y := range c.cmds {
		for _, s := range y.memory {
			fits := s.Key == m.Key && m.Within(s.Address, uint64(s.Length))
			if s.Key == m.Key && (x == nil || fits && (!within || y.packet < x.packet)) {
				x, within = y, fits
			}
		}
	}
	rule, want := memWrite, uint8(toHost)
	if read {
		rule, want = memRead, toController
	}
	switch {
	case x == nil:
		c.cross(m, memKey, "%v of %d octets, key %#x", m.Kind, m.Octets, m.Key)
	case !within:
		c.cross(m, memRange, "%v of %d octets at %#x, key %#x of packet %d", m.Kind, m.Octets, m.Addr, m.Key, x.packet)
	case x.direction()&want == 0:
		c.cross(m, rule, "%s of packet %d", x.Name(c.admin(x)), x.packet)
	default:
		x.moved += m.Octets
		if read {
			x.busy++
		}
	}
}

// headSlack is how far completions of one controller may overtake each other.
const headSlack = 16

// completion judges a capsule of the controller.
func (c *Conn) completion(m *message.Message) {
	if m.Octets != nvme.CQELen {
		c.bad(m.Side, m.Packet, rspLength, "%d octets", m.Octets)
	}
	if m.Data == nil && m.Octets >= nvme.CQELen {
		c.vague(m.Packet, "the capture has cut capsules off")
		return
	}
	e, err := nvme.ParseCompletion(m.Data)
	if err != nil {
		return
	}
	c.to.PDU(m.Side, m.Packet, "NVMe Completion", string(e.Text(nil)), 0)
	if m.Data[14]&1 != 0 {
		c.bad(m.Side, m.Packet, cqePhase, "")
	}
	x := c.cmds[e.ID]
	if x == nil {
		c.cross(m, cqeID, "%d", e.ID)
		return
	}
	delete(c.cmds, e.ID)
	if x.connects() && c.phase != connected {
		if c.phase = idle; e.Status.Code() == nvme.Success { // else it may try again
			c.phase = connected
		}
	}
	if q := c.queue.QID; e.SQID != q && e.SQID != 0 {
		c.cross(m, cqeQueue, "%d instead of %d", e.SQID, q)
	}
	c.headOf(m, &e)
	c.data(m, x, &e)
}

// headOf judges the SQ Head Pointer.
func (c *Conn) headOf(m *message.Message, e *nvme.Completion) {
	size := uint32(c.queue.SQSize) + 1
	if c.queue.NoFlow || c.late || size == 1 {
		return
	}
	forward := (uint32(e.SQHead) + size - c.head%size) % size
	switch {
	case uint32(e.SQHead) >= size:
		c.bad(m.Side, m.Packet, cqeHead, "%d of %d", e.SQHead, size)
	case forward <= c.tail-c.head:
		c.head += forward
	case size-forward > headSlack:
		c.cross(m, cqeHead, "%d; it was %d, and %d commands were sent since", e.SQHead, c.head%size, c.tail-c.head)
	}
}

// data judges what a command that has ended has moved, and the key that is given up.
func (c *Conn) data(m *message.Message, x *command, e *nvme.Completion) {
	if m.Kind == message.SendInvalidate {
		last := nvme.SGL{}
		if n := len(x.memory); n > 0 {
			last = x.memory[n-1]
		}
		if last.Kind != nvme.KeyedInvalidate || last.Key != m.Key {
			c.cross(m, memInv, "%#x, the command in packet %d has %#x", m.Key, x.packet, last.Key)
		}
	}
	name := x.Name(c.admin(x))
	if x.busy > 0 {
		x.early = m
	}
	whole := !c.admin(x) && (x.Opcode() == nvme.Read || x.Opcode() == nvme.Write || x.Opcode() == nvme.Compare) ||
		c.admin(x) && x.Opcode() == nvme.Identify || x.Opcode() == nvme.Fabrics
	if whole && e.Status.Code() == nvme.Success && x.direction() != 0 && x.moved < x.length {
		c.cross(m, memLess, "%s of packet %d, %d of %d octets", name, x.packet, x.moved, x.length)
	}
}

// Agreed is the queue, in a line.
func (c *Conn) Agreed() string {
	switch kind := "I/O"; {
	case !c.named:
		return "NVMe"
	default:
		if c.queue.QID == 0 {
			kind = "admin"
		}
		return fmt.Sprintf("NVMe %s queue %d of %d entries", kind, c.queue.QID, int(c.queue.SQSize)+1)
	}
}
