// Package nvme reads and writes what NVM Express over Fabrics puts into RDMA messages:
// commands and completions (NVM Express base specification 2.0, section 3.3.3 and 4),
// Fabrics commands, identify structures and log pages, and the private data of connections
// (NVMe RDMA transport specification 1.0, section 3). All fields are little-endian.
package nvme

import (
	"encoding/binary"
	"errors"
)

var le = binary.LittleEndian

// Port is the port of subsystems (section 3.1 of the RDMA transport specification).
const Port = 4420

// DiscoveryNQN names the discovery subsystem of every host and port.
const DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// Lengths in octets.
const (
	SQELen      = 64   // a command
	CQELen      = 16   // a completion
	ConnectLen  = 1024 // the data of Connect
	IdentifyLen = 4096 // an identify structure or list
	PrivateLen  = 32   // private data of a request or reply
	RejectLen   = 4    // private data of a reject
	MaxNQN      = 223  // a qualified name, without its final zero
)

// ErrShort says that there are fewer octets than the structure has.
var ErrShort = errors.New("nvme: too short")

// Opcode is an operation of a queue.
type Opcode uint8

// Operations of the admin queue.
const (
	GetLogPage  Opcode = 0x02
	Identify    Opcode = 0x06
	Abort       Opcode = 0x08
	SetFeatures Opcode = 0x09
	GetFeatures Opcode = 0x0a
	AsyncEvent  Opcode = 0x0c
	KeepAlive   Opcode = 0x18
	Fabrics     Opcode = 0x7f // of every queue
)

// Operations of I/O queues (NVM command set specification 1.0, section 3.2).
const (
	Flush       Opcode = 0x00
	Write       Opcode = 0x01
	Read        Opcode = 0x02
	Compare     Opcode = 0x05
	WriteZeroes Opcode = 0x08
	DSM         Opcode = 0x09
)

// Types of Fabrics commands.
const (
	PropertySet = 0x00
	Connect     = 0x01
	PropertyGet = 0x04
)

// Command is a submission queue entry as it is on the wire.
type Command [SQELen]byte

// Opcode is the operation.
func (c *Command) Opcode() Opcode { return Opcode(c[0]) }

// Set begins a command of a queue: its operation and identifier, and that it has an SGL.
func (c *Command) Set(op Opcode, id uint16) {
	*c = Command{0: byte(op), 1: flagSGL}
	le.PutUint16(c[2:], id)
}

// flagSGL says that the data pointer is an SGL (PSDT 01b).
const flagSGL = 0x40

// HasSGL tells whether the data pointer is an SGL, the only kind of Fabrics, and the command is
// not fused.
func (c *Command) HasSGL() bool { return c[1]&0xc0 == flagSGL }

// Fused tells whether the command belongs to a pair.
func (c *Command) Fused() bool { return c[1]&3 != 0 }

// ID is the command identifier.
func (c *Command) ID() uint16 { return le.Uint16(c[2:]) }

// NSID is the namespace.
func (c *Command) NSID() uint32 { return le.Uint32(c[4:]) }

// SetNSID sets the namespace.
func (c *Command) SetNSID(n uint32) { le.PutUint32(c[4:], n) }

// FabricsType is which Fabrics command it is.
func (c *Command) FabricsType() uint8 { return c[4] }

// SetFabricsType sets which Fabrics command it is.
func (c *Command) SetFabricsType(t uint8) { c[4] = t }

// DWord is double word 10 to 15 of the command.
func (c *Command) DWord(n int) uint32 { return le.Uint32(c[4*n:]) }

// SetDWord sets a double word.
func (c *Command) SetDWord(n int, v uint32) { le.PutUint32(c[4*n:], v) }

// LBA is the first block of an I/O command.
func (c *Command) LBA() uint64 { return le.Uint64(c[40:]) }

// SetLBA sets the first block of an I/O command and the number of blocks, 1 to 65536.
func (c *Command) SetLBA(lba uint64, blocks int) {
	le.PutUint64(c[40:], lba)
	le.PutUint16(c[48:], uint16(blocks-1))
}

// Blocks is the number of blocks of an I/O command, 1 to 65536.
func (c *Command) Blocks() int { return int(le.Uint16(c[48:])) + 1 }

// FUA says in double word 12 that what is written must outlive the system.
const FUA = 1 << 30

// Kind is the type and subtype of an SGL descriptor (base specification section 4.1.2).
type Kind uint8

// Kinds that RDMA has.
const (
	InCapsule       Kind = 0x01 // data block at an offset in the capsule
	Keyed           Kind = 0x40 // memory of the host
	KeyedInvalidate Kind = 0x4f // the same, whose key the completion invalidates
)

// SGL is the descriptor of a command's data.
type SGL struct {
	Kind    Kind
	Address uint64 // of the host's memory, or the offset behind the command
	Length  uint32 // octets; 24 bits with a key
	Key     uint32
}

// SGL reads the first descriptor.
func (c *Command) SGL() (s SGL) {
	s.Kind, s.Address = Kind(c[39]), le.Uint64(c[24:])
	if s.Kind>>4 == Keyed>>4 {
		s.Length, s.Key = le.Uint32(c[32:])&0xffffff, le.Uint32(c[35:])
	} else {
		s.Length = le.Uint32(c[32:])
	}
	return s
}

// SetSGL writes the first descriptor.
func (c *Command) SetSGL(s SGL) {
	le.PutUint64(c[24:], s.Address)
	le.PutUint32(c[32:], s.Length)
	if s.Kind>>4 == Keyed>>4 {
		le.PutUint32(c[35:], s.Key)
	}
	c[39] = byte(s.Kind)
}

// ConnectFields are those of a Connect command.
type ConnectFields struct {
	QID    uint16
	SQSize uint16 // entries, 0's based
	NoFlow bool   // no flow control of the submission queue: SQHD says nothing
	KATO   uint32 // keep-alive timeout in milliseconds; 0: none
}

// Connect reads a Connect command; ok is false with another record format.
func (c *Command) Connect() (f ConnectFields, ok bool) {
	f = ConnectFields{le.Uint16(c[42:]), le.Uint16(c[44:]), c[46]&4 != 0, le.Uint32(c[48:])}
	return f, le.Uint16(c[40:]) == 0
}

// SetConnect writes a Connect command.
func (c *Command) SetConnect(f ConnectFields) {
	le.PutUint16(c[42:], f.QID)
	le.PutUint16(c[44:], f.SQSize)
	if f.NoFlow {
		c[46] |= 4
	}
	le.PutUint32(c[48:], f.KATO)
}

// Property is that of a Property Get or Set: its offset, octets (4 or 8), and value to set.
func (c *Command) Property() (offset uint32, octets int, value uint64) {
	octets = 4
	if c[40]&7 == 1 {
		octets = 8
	}
	return le.Uint32(c[44:]), octets, le.Uint64(c[48:])
}

// SetProperty writes a Property Get or Set.
func (c *Command) SetProperty(offset uint32, octets int, value uint64) {
	if octets == 8 {
		c[40] = 1
	}
	le.PutUint32(c[44:], offset)
	le.PutUint64(c[48:], value)
}

// ConnectData is the data of a Connect command.
type ConnectData struct {
	HostID       [16]byte
	CntlID       uint16 // AnyController at the admin queue
	SubNQN, Host string
}

// AnyController asks for a controller that does not exist yet.
const AnyController = 0xffff

// ParseConnectData reads it.
func ParseConnectData(b []byte) (d ConnectData, err error) {
	if len(b) < ConnectLen {
		return d, ErrShort
	}
	copy(d.HostID[:], b)
	d.CntlID = le.Uint16(b[16:])
	d.SubNQN, d.Host = text(b[256:512]), text(b[512:768])
	return d, nil
}

// Append appends it.
func (d *ConnectData) Append(b []byte) []byte {
	p := make([]byte, ConnectLen)
	copy(p, d.HostID[:])
	le.PutUint16(p[16:], d.CntlID)
	copy(p[256:256+MaxNQN], d.SubNQN)
	copy(p[512:512+MaxNQN], d.Host)
	return append(b, p...)
}

// text is what stands before the first zero.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// Completion is a completion queue entry.
type Completion struct {
	Result uint64
	SQHead uint16
	SQID   uint16 // 0 with Fabrics commands
	ID     uint16 // of the command
	Status Status
}

// Append appends it.
func (c *Completion) Append(b []byte) []byte {
	b = le.AppendUint64(b, c.Result)
	b = le.AppendUint16(b, c.SQHead)
	b = le.AppendUint16(b, c.SQID)
	b = le.AppendUint16(b, c.ID)
	return le.AppendUint16(b, uint16(c.Status)<<1)
}

// ParseCompletion reads one.
func ParseCompletion(b []byte) (c Completion, err error) {
	if len(b) < CQELen {
		return c, ErrShort
	}
	st := Status(le.Uint16(b[14:]) >> 1)
	return Completion{le.Uint64(b), le.Uint16(b[8:]), le.Uint16(b[10:]), le.Uint16(b[12:]), st}, nil
}
