package ib

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// Lengths in octets of the transport headers (section 9.2 and 9.3).
const (
	BTHLen          = 12
	RETHLen         = 16
	AETHLen         = 4
	AtomicETHLen    = 28
	AtomicAckETHLen = 8
	DETHLen         = 8
	ICRCLen         = 4
	// MaxHeaders is the longest sequence of transport headers: BTH, XRCETH and
	// AtomicETH.
	MaxHeaders = BTHLen + 4 + AtomicETHLen
)

// Numbers with a meaning.
const (
	UDPPort     uint16 = 4791       // RoCEv2 (annex A17)
	EtherType   uint16 = 0x8915     // RoCEv1 (annex A16)
	NextHeader  uint8  = 0x1b       // of a GRH before a BTH
	QP1         uint32 = 1          // general services
	QPMulticast uint32 = 0xffffff   // destination of multicast packets
	QKeyQP1     uint32 = 0x80010000 // Q_Key of QP 1
	QKeyCM      uint32 = 0x01234567 // default of rdma_cm's UDP and IPoIB port spaces
	PKeyDefault uint16 = 0xffff     // full member of the default partition
	PSNMask     uint32 = 1<<24 - 1
)

// What can be wrong with a packet.
var (
	ErrShort   = errors.New("ib: packet ends before its headers")
	ErrOpcode  = errors.New("ib: unknown opcode")
	ErrVersion = errors.New("ib: transport header version is not 0")
	ErrPad     = errors.New("ib: more pad than payload")
)

// BTH is a base transport header (section 9.2).
type BTH struct {
	Opcode    Opcode
	Solicited bool // SE
	MigReq    bool // M
	Pad       uint8
	Version   uint8 // TVer
	PKey      uint16
	FECN      bool
	BECN      bool
	DestQP    uint32 // 24 bits
	AckReq    bool
	Reserved  uint8  // 7 bits before the PSN, covered by the ICRC
	PSN       uint32 // 24 bits
}

func bit(v bool, n uint8) uint8 {
	if v {
		return 1 << n
	}
	return 0
}

// Put24 writes the low 24 bits of v to the front of b.
func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func get24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// Put writes h to the front of b, which has BTHLen octets.
func (h *BTH) Put(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = bit(h.Solicited, 7) | bit(h.MigReq, 6) | h.Pad&3<<4 | h.Version&15
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	b[4] = bit(h.FECN, 7) | bit(h.BECN, 6)
	put24(b[5:], h.DestQP)
	b[8] = bit(h.AckReq, 7) | h.Reserved&0x7f
	put24(b[9:], h.PSN)
}

// ParseBTH reads the header at the front of b, which has BTHLen octets.
func ParseBTH(b []byte) BTH {
	_ = b[BTHLen-1]
	return BTH{
		Opcode: Opcode(b[0]), Solicited: b[1]&0x80 != 0, MigReq: b[1]&0x40 != 0,
		Pad: b[1] >> 4 & 3, Version: b[1] & 15,
		PKey: binary.BigEndian.Uint16(b[2:]), FECN: b[4]&0x80 != 0, BECN: b[4]&0x40 != 0, DestQP: get24(b[5:]),
		AckReq: b[8]&0x80 != 0, Reserved: b[8] & 0x7f, PSN: get24(b[9:]),
	}
}

// RETH names remote memory (section 9.3.3).
type RETH struct {
	VA   uint64
	RKey uint32
	Len  uint32 // DMALen
}

// AETH acknowledges (section 9.3.5).
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits
}

// AtomicETH asks for an atomic operation (section 9.3.4).
type AtomicETH struct {
	VA      uint64
	RKey    uint32
	SwapAdd uint64 // value to swap in, or to add
	Compare uint64
}

// DETH addresses a datagram (section 9.3.2).
type DETH struct {
	QKey  uint32
	SrcQP uint32 // 24 bits
}

// Packet is a transport packet: a BTH and the extension headers that its
// opcode has, the others stay as they are. Append and Put write what the
// opcode has.
type Packet struct {
	BTH
	XRCSRQ     uint32 // XRCETH, 24 bits
	DETH       DETH
	RETH       RETH
	Atomic     AtomicETH
	AETH       AETH
	Orig       uint64 // AtomicAckETH: the value before the operation
	Imm        uint32 // ImmDt, host order
	Invalidate uint32 // IETH: R_Key
	Payload    []byte // without pad
}

// HeaderLen is the length in octets of BTH and extension headers of p's
// opcode; a CNP's reserved octets count as headers.
func (p *Packet) HeaderLen() int {
	if p.Opcode == CNP {
		return BTHLen + cnpReserved
	}
	h, _ := p.Opcode.Headers()
	return BTHLen + h.Len()
}

// PutHeaders writes BTH and extension headers to the front of b and returns
// their length.
func (p *Packet) PutHeaders(b []byte) int {
	p.BTH.Put(b)
	at := BTHLen
	if p.Opcode == CNP {
		clear(b[at : at+cnpReserved])
		return at + cnpReserved
	}
	h, _ := p.Opcode.Headers()
	be := binary.BigEndian
	if h&HasXRCETH != 0 {
		be.PutUint32(b[at:], p.XRCSRQ&PSNMask)
		at += 4
	}
	if h&HasDETH != 0 {
		be.PutUint32(b[at:], p.DETH.QKey)
		be.PutUint32(b[at+4:], p.DETH.SrcQP&PSNMask)
		at += DETHLen
	}
	if h&HasRETH != 0 {
		be.PutUint64(b[at:], p.RETH.VA)
		be.PutUint32(b[at+8:], p.RETH.RKey)
		be.PutUint32(b[at+12:], p.RETH.Len)
		at += RETHLen
	}
	if h&HasAtomicETH != 0 {
		be.PutUint64(b[at:], p.Atomic.VA)
		be.PutUint32(b[at+8:], p.Atomic.RKey)
		be.PutUint64(b[at+12:], p.Atomic.SwapAdd)
		be.PutUint64(b[at+20:], p.Atomic.Compare)
		at += AtomicETHLen
	}
	return at + p.putSmall(b[at:], h)
}

func (p *Packet) putSmall(b []byte, h Headers) int {
	at := 0
	be := binary.BigEndian
	if h&HasAETH != 0 {
		be.PutUint32(b[at:], uint32(p.AETH.Syndrome)<<24|p.AETH.MSN&PSNMask)
		at += AETHLen
	}
	if h&HasAtomicAckETH != 0 {
		be.PutUint64(b[at:], p.Orig)
		at += AtomicAckETHLen
	}
	if h&HasImm != 0 {
		be.PutUint32(b[at:], p.Imm)
		at += 4
	}
	if h&HasIETH != 0 {
		be.PutUint32(b[at:], p.Invalidate)
		at += 4
	}
	return at
}

// Append appends headers, payload and pad; p.Pad is set to what the payload
// needs. The ICRC is left to the caller.
func (p *Packet) Append(dst []byte) []byte {
	p.Pad = PadOf(len(p.Payload))
	at := len(dst)
	dst = append(dst, make([]byte, p.HeaderLen())...)
	p.PutHeaders(dst[at:])
	dst = append(dst, p.Payload...)
	return append(dst, make([]byte, p.Pad)...)
}

// PadOf is how many octets of pad n octets of payload need.
func PadOf(n int) uint8 { return uint8(-n & 3) }

// Parse reads a packet from the first octet of its BTH to the last one before
// its ICRC. The payload is borrowed from b. It checks lengths, opcode and
// header version, not whether headers fit together.
func (p *Packet) Parse(b []byte) error {
	if len(b) < BTHLen {
		return ErrShort
	}
	p.BTH = ParseBTH(b)
	h, ok := p.Opcode.Headers()
	switch {
	case p.Version != 0:
		return ErrVersion
	case !ok:
		return ErrOpcode
	}
	n := p.HeaderLen()
	switch {
	case len(b) < n:
		return ErrShort
	case len(b)-n < int(p.Pad):
		return ErrPad
	}
	p.parseHeaders(b[BTHLen:], h)
	p.Payload = b[n : len(b)-int(p.Pad) : len(b)-int(p.Pad)]
	return nil
}

func (p *Packet) parseHeaders(b []byte, h Headers) {
	be := binary.BigEndian
	if h&HasXRCETH != 0 {
		p.XRCSRQ = be.Uint32(b) & PSNMask
		b = b[4:]
	}
	if h&HasDETH != 0 {
		p.DETH = DETH{be.Uint32(b), be.Uint32(b[4:]) & PSNMask}
		b = b[DETHLen:]
	}
	if h&HasRETH != 0 {
		p.RETH = RETH{be.Uint64(b), be.Uint32(b[8:]), be.Uint32(b[12:])}
		b = b[RETHLen:]
	}
	if h&HasAtomicETH != 0 {
		p.Atomic = AtomicETH{be.Uint64(b), be.Uint32(b[8:]), be.Uint64(b[12:]), be.Uint64(b[20:])}
		b = b[AtomicETHLen:]
	}
	if h&HasAETH != 0 {
		p.AETH = AETH{Syndrome(b[0]), get24(b[1:])}
		b = b[AETHLen:]
	}
	if h&HasAtomicAckETH != 0 {
		p.Orig = be.Uint64(b)
		b = b[AtomicAckETHLen:]
	}
	if h&HasImm != 0 {
		p.Imm = be.Uint32(b)
		b = b[4:]
	}
	if h&HasIETH != 0 {
		p.Invalidate = be.Uint32(b)
	}
}

// Describe appends a line such as "QP 17 PSN 5 RC SEND Only MSN 3"; the packet is one of queue pair qpn.
func (p *Packet) Describe(b []byte, qpn uint32) []byte {
	b = strconv.AppendUint(append(b, "QP "...), uint64(qpn), 10)
	b = strconv.AppendUint(append(b, " PSN "...), uint64(p.PSN), 10)
	b = append(append(b, ' '), p.Opcode.String()...)
	if h, _ := p.Opcode.Headers(); h&HasAETH != 0 {
		b = append(append(b, ' '), p.AETH.Syndrome.String()...)
		b = strconv.AppendUint(append(b, " MSN "...), uint64(p.AETH.MSN), 10)
	}
	return b
}
