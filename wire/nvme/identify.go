package nvme

import "net/netip"

// Properties of a controller: offsets of registers (base specification section 3.1.3).
const (
	PropCAP  = 0x00
	PropVS   = 0x08
	PropCC   = 0x14
	PropCSTS = 0x1c
)

// Bits of CC and CSTS.
const (
	CCEnable         = 1
	CCShutdown       = 3 << 14 // normal or abrupt
	CSTSReady        = 1
	CSTSFatal        = 1 << 1
	CSTSShutdownDone = 2 << 2
)

// CC is the configuration that enables a controller: 64-octet commands, 16-octet completions.
const CC = CCEnable | 6<<16 | 4<<20

// Capabilities are CAP: queues of entries that need not lie together, the NVM command set, pages
// of 4 KiB; ready in units of 500 ms.
func Capabilities(entries int, ready uint8) uint64 {
	return uint64(entries-1) | 1<<16 | uint64(ready)<<24 | 1<<37
}

// MaxEntries is what CAP says of the entries of a queue.
func MaxEntries(capabilities uint64) int { return int(capabilities&0xffff) + 1 }

// What an Identify asks for: CNS, the low octet of double word 10.
const (
	CNSNamespace   = 0
	CNSController  = 1
	CNSNamespaces  = 2
	CNSDescriptors = 3
)

// ControllerInfo is what Identify tells of a controller.
type ControllerInfo struct {
	Serial, Model, Firmware string
	SubNQN                  string
	Discovery               bool
	CntlID                  uint16
	Version                 uint32
	MDTS                    uint8  // octets of a transfer are 4096 << MDTS at most
	Events                  uint32 // optional asynchronous events (OAES)
	EventRequests           int    // that may wait
	ErrorEntries            int    // of the error log
	MaxCommand              uint16
	Namespaces              uint32
	Commands                uint16 // optional I/O commands (ONCS)
	VolatileCache           bool
	CapsuleLen              int // octets of an I/O command with data in the capsule
}

// Optional I/O commands (ONCS), optional asynchronous events (OAES).
const (
	HasCompare     = 1 << 0
	HasDSM         = 1 << 2
	HasWriteZeroes = 1 << 3
	EventNamespace = 1 << 8 // the attributes of namespaces have changed
)

// Append appends the identify structure (base specification section 5.17.2.1).
func (c *ControllerInfo) Append(b []byte) []byte {
	p := make([]byte, IdentifyLen)
	pad(p[4:24], c.Serial)
	pad(p[24:64], c.Model)
	pad(p[64:72], c.Firmware)
	p[76] = 3 // several ports and controllers
	p[77] = c.MDTS
	le.PutUint16(p[78:], c.CntlID)
	le.PutUint32(p[80:], c.Version)
	le.PutUint32(p[92:], c.Events)
	le.PutUint32(p[96:], 1) // host identifiers of 128 bits
	p[111] = 1
	if c.Discovery {
		p[111] = 2
	}
	p[258] = 3 // aborts at a time, 0's based
	p[259] = byte(c.EventRequests - 1)
	p[260] = 3      // one firmware slot, read only
	p[261] = 1 << 2 // log pages have offsets
	p[262] = byte(max(c.ErrorEntries, 1) - 1)
	le.PutUint16(p[320:], 1)    // keep-alive timeouts in units of 100 ms
	p[512], p[513] = 0x66, 0x44 // 64 and 16 octets
	le.PutUint16(p[514:], c.MaxCommand)
	le.PutUint32(p[516:], c.Namespaces)
	le.PutUint16(p[520:], c.Commands)
	if c.VolatileCache {
		p[525] = 1
	}
	le.PutUint32(p[536:], 1|1<<2|1<<20) // SGLs, with keys, with offsets in the capsule
	le.PutUint32(p[540:], c.Namespaces)
	copy(p[768:768+MaxNQN], c.SubNQN)
	le.PutUint32(p[1792:], uint32(c.CapsuleLen/16))
	le.PutUint32(p[1796:], CQELen/16)
	p[1803] = 1 // descriptors of a command
	return append(b, p...)
}

// ParseController reads the structure.
func ParseController(p []byte) (c ControllerInfo, err error) {
	if len(p) < IdentifyLen {
		return c, ErrShort
	}
	c = ControllerInfo{Serial: unpad(p[4:24]), Model: unpad(p[24:64]), Firmware: unpad(p[64:72]),
		SubNQN: text(p[768:1024]), Discovery: p[111] == 2, CntlID: le.Uint16(p[78:]), Version: le.Uint32(p[80:]),
		MDTS: p[77], Events: le.Uint32(p[92:]), EventRequests: int(p[259]) + 1,
		ErrorEntries: int(p[262]) + 1, MaxCommand: le.Uint16(p[514:]),
		Namespaces: le.Uint32(p[516:]), Commands: le.Uint16(p[520:]), VolatileCache: p[525]&1 != 0,
		CapsuleLen: int(min(le.Uint32(p[1792:]), 1<<20)) * 16}
	return c, nil
}

// pad fills p with text and blanks.
func pad(p []byte, s string) {
	for i := copy(p, s); i < len(p); i++ {
		p[i] = ' '
	}
}

// unpad is the text without the blanks behind it.
func unpad(p []byte) string {
	n := len(p)
	for n > 0 && (p[n-1] == ' ' || p[n-1] == 0) {
		n--
	}
	return string(p[:n])
}

// NamespaceInfo is what Identify tells of a namespace.
type NamespaceInfo struct {
	Blocks    uint64
	BlockLen  int // octets, a power of two
	Used      uint64
	Thin      bool // blocks can be given back
	Protected bool // against writes
	NGUID     [16]byte
}

// Append appends the identify structure (NVM command set specification section 4.1.5.1).
func (n *NamespaceInfo) Append(b []byte) []byte {
	p := make([]byte, IdentifyLen)
	le.PutUint64(p, n.Blocks)
	le.PutUint64(p[8:], n.Blocks)
	le.PutUint64(p[16:], n.Used)
	p[30] = 1 // may be shared by controllers
	p[33] = 1 // blocks given back read as zeros
	if n.Thin {
		p[24], p[33] = 1, 9
	}
	if n.Protected {
		p[99] = 1
	}
	copy(p[104:], n.NGUID[:])
	for shift := n.BlockLen; shift > 1; shift /= 2 {
		p[130]++
	}
	return append(b, p...)
}

// ParseNamespace reads the structure.
func ParseNamespace(p []byte) (n NamespaceInfo, err error) {
	if len(p) < IdentifyLen {
		return n, ErrShort
	}
	format := p[128+4*(p[26]&15):]
	if format[2] > 31 {
		return n, ErrShort
	}
	n = NamespaceInfo{Blocks: le.Uint64(p), BlockLen: 1 << format[2], Used: le.Uint64(p[16:]), Thin: p[24]&1 != 0,
		Protected: p[99]&1 != 0, NGUID: [16]byte(p[104:])}
	return n, nil
}

// AppendDescriptors appends the identification descriptors of a namespace: its NGUID.
func AppendDescriptors(b []byte, nguid [16]byte) []byte {
	p := make([]byte, IdentifyLen)
	p[0], p[1] = 2, 16
	copy(p[4:], nguid[:])
	return append(b, p...)
}

// AppendNamespaces appends the list of active namespaces 1 to n that are above another.
func AppendNamespaces(b []byte, above, n uint32) []byte {
	p := make([]byte, IdentifyLen)
	for at, id := 0, uint64(above)+1; id <= uint64(n) && at < len(p); at, id = at+4, id+1 {
		le.PutUint32(p[at:], uint32(id))
	}
	return append(b, p...)
}

// Log pages.
const (
	LogErrors     = 0x01
	LogHealth     = 0x02
	LogFirmware   = 0x03
	LogNamespaces = 0x04 // those that have changed
	LogDiscovery  = 0x70
)

// SetLogPage writes a Get Log Page of octets from an offset, both multiples of 4.
func (c *Command) SetLogPage(id uint8, octets int, offset uint64) {
	n := uint32(octets/4 - 1)
	c.SetDWord(10, uint32(id)|n<<16)
	c.SetDWord(11, n>>16)
	le.PutUint64(c[48:], offset)
}

// LogPage reads a Get Log Page.
func (c *Command) LogPage() (id uint8, octets int, offset uint64) {
	n := uint64(c.DWord(10)>>16) | uint64(c.DWord(11)&0xffff)<<16
	return c[40], int(4 * (n + 1)), le.Uint64(c[48:])
}

// Entry is a subsystem in the discovery log.
type Entry struct {
	Addr      netip.AddrPort
	NQN       string
	Discovery bool
	PortID    uint16
	Provider  uint8 // RDMA provider: 4 is RoCE v2, 5 iWARP
}

// RDMA providers.
const (
	ProviderRoCEv2 = 4
	ProviderIWARP  = 5
)

// discoveryEntry is the length of an entry of the discovery log, and of its head.
const discoveryEntry = 1024

// AppendDiscovery appends the discovery log (base specification section 5.16.1.23).
func AppendDiscovery(b []byte, generation uint64, list []Entry) []byte {
	p := make([]byte, discoveryEntry*(1+len(list)))
	le.PutUint64(p, generation)
	le.PutUint64(p[8:], uint64(len(list)))
	for i, e := range list {
		q := p[discoveryEntry*(i+1):][:discoveryEntry]
		q[0], q[1], q[2] = 1, 1, 2
		if e.Addr.Addr().Is6() {
			q[1] = 2
		}
		if e.Discovery {
			q[2] = 1
		}
		le.PutUint16(q[4:], e.PortID)
		le.PutUint16(q[6:], AnyController)
		le.PutUint16(q[8:], 32)
		port := e.Addr.Port()
		pad(q[32:64], "")
		digits := q[32:32]
		for div := uint16(10000); div > 0; div /= 10 {
			if port >= div || div == 1 {
				digits = append(digits, byte('0'+port/div%10))
			}
		}
		copy(q[256:256+MaxNQN], e.NQN)
		pad(q[512:768], e.Addr.Addr().String())
		q[768], q[769], q[770] = 1, e.Provider, 1 // connected, RDMA connection manager
	}
	return append(b, p...)
}

// ParseDiscovery reads as many entries as there are octets; total is how many the log has.
func ParseDiscovery(p []byte) (list []Entry, total uint64, err error) {
	if len(p) < 16 {
		return nil, 0, ErrShort
	}
	total = le.Uint64(p[8:])
	for i := uint64(0); i < total && uint64(len(p)) >= discoveryEntry*(i+2); i++ {
		q := p[discoveryEntry*(i+1):][:discoveryEntry]
		e := Entry{NQN: text(q[256:512]), Discovery: q[2] == 1, PortID: le.Uint16(q[4:]), Provider: q[769]}
		if q[0] == 1 { // RDMA
			if a, err := netip.ParseAddr(unpad([]byte(text(q[512:768])))); err == nil {
				port := 0
				for _, c := range unpad([]byte(text(q[32:64]))) {
					port = (port*10 + int(c-'0')) & 0xffff
				}
				e.Addr = netip.AddrPortFrom(a, uint16(port))
			}
		}
		list = append(list, e)
	}
	return list, total, nil
}

// Range is one of the ranges of a Dataset Management command.
type Range struct {
	LBA    uint64
	Blocks uint32
}

// rangeLen is the length of a range.
const rangeLen = 16

// ParseRanges reads ranges.
func ParseRanges(b []byte) (list []Range) {
	for ; len(b) >= rangeLen; b = b[rangeLen:] {
		list = append(list, Range{le.Uint64(b[8:]), le.Uint32(b[4:])})
	}
	return list
}

// Append appends a range.
func (r Range) Append(b []byte) []byte {
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, r.Blocks)
	return le.AppendUint64(b, r.LBA)
}

// ErrorEntry is an entry of the error log (base specification section 5.16.1.2).
type ErrorEntry struct {
	Count  uint64 // of errors up to this one
	SQID   uint16
	ID     uint16 // of the command
	Status Status
	LBA    uint64
	NSID   uint32
}

// errorEntryLen is the length of an entry.
const errorEntryLen = 64

// Append appends an entry.
func (e *ErrorEntry) Append(b []byte) []byte {
	p := make([]byte, errorEntryLen)
	le.PutUint64(p, e.Count)
	le.PutUint16(p[8:], e.SQID)
	le.PutUint16(p[10:], e.ID)
	le.PutUint16(p[12:], uint16(e.Status)<<1)
	le.PutUint16(p[14:], 0xffff) // no octet of the command is at fault
	le.PutUint64(p[16:], e.LBA)
	le.PutUint32(p[24:], e.NSID)
	return append(b, p...)
}

// Health is what the health log counts (base specification section 5.16.1.3).
type Health struct {
	ReadUnits, WriteUnits       uint64 // of 1000 units of 512 octets, rounded up
	ReadCommands, WriteCommands uint64
	MediaErrors, Errors         uint64
}

// healthLen is the length of the health log.
const healthLen = 512

// Append appends the health log.
func (h *Health) Append(b []byte) []byte {
	p := make([]byte, healthLen)
	le.PutUint16(p[1:], 300) // kelvin
	p[3], p[4] = 100, 10     // spare, and its threshold
	for i, v := range []uint64{h.ReadUnits, h.WriteUnits, h.ReadCommands, h.WriteCommands} {
		le.PutUint64(p[32+16*i:], v)
	}
	le.PutUint64(p[160:], h.MediaErrors)
	le.PutUint64(p[176:], h.Errors)
	return append(b, p...)
}

// Features (base specification section 5.27.1).
const (
	FeatureCache      = 0x06
	FeatureQueues     = 0x07
	FeatureEvents     = 0x0b
	FeatureKeepAlive  = 0x0f
	FeatureHostID     = 0x81
	retainEvent       = 1 << 15 // double word 10 of Get Log Page
	eventError        = 0
	transientInternal = 4
)

// RetainEvent tells whether a Get Log Page leaves the event that the page goes with masked.
func (c *Command) RetainEvent() bool { return c.DWord(10)&retainEvent != 0 }

// ErrorEvent is the result of an Asynchronous Event Request that tells of a transient internal
// error, with the error log.
const ErrorEvent = eventError | transientInternal<<8 | LogErrors<<16
