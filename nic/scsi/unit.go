package scsi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tapir/wire/crc"
)

// Limits that a unit announces in its VPD pages (SBC-3 section 6.6.4).
const (
	maxTransfer  = 8 << 20 // octets that a command takes or gives
	optimal      = 1 << 20 // octets that it had better
	maxWriteSame = 8 << 20 // octets that a WRITE SAME writes
	maxCompare   = 128     // blocks of a COMPARE AND WRITE
	maxUnmap     = 1 << 29 // octets that an UNMAP descriptor covers
	maxUnmaps    = 64      // descriptors of an UNMAP
)

// Config says what a unit is.
type Config struct {
	Size     int64 // octets
	Block    int   // octets of a logical block: 512 or 4096
	Physical int   // octets that the store writes and unmaps best: Block or 4096
	ReadOnly bool
	Thin     bool   // unmapping gives memory back
	Serial   string // names it; units of a system have different ones
	Store    Store
}

// Unit is a logical unit: a disk.
type Unit struct {
	cfg     Config
	blocks  uint64
	naa     uint64
	nexus   []*Nexus
	holder  *Nexus // of the reservation of SPC-2
	persist persistent
	state   struct {
		stopped, protected, writeThrough bool
	}
}

// New makes a unit. The size must be a multiple of the block, and not 0.
func New(cfg Config) (*Unit, error) {
	if cfg.Block != 512 && cfg.Block != 4096 {
		return nil, fmt.Errorf("block of %d octets: 512 or 4096 are possible", cfg.Block)
	}
	if cfg.Size <= 0 || cfg.Size%int64(cfg.Block) != 0 {
		return nil, fmt.Errorf("size of %d octets: not a number of whole blocks of %d octets", cfg.Size, cfg.Block)
	}
	// NAA type 3, locally assigned (SPC-4 section 7.8.6.6.4), from the serial number.
	sum := crc.CRC32C([]byte(cfg.Serial))
	naa := uint64(3)<<60 | uint64(sum)<<28 | uint64(crc.Update(sum, []byte("naa"))>>4)
	return &Unit{cfg: cfg, blocks: uint64(cfg.Size) / uint64(cfg.Block), naa: naa}, nil
}

// Nexus is an initiator port together with a target port. What is reserved and what
// attention is due belong to it.
type Nexus struct {
	port      string // the initiator port
	units     []*Unit
	attention []Sense // by unit; the zero value: none
}

// NewNexus begins a nexus of an initiator port, which units owe an attention for. The port's
// name is that of its TransportID (SPC-4 section 7.6.4.6).
func NewNexus(port string, units []*Unit) *Nexus {
	n := &Nexus{port: port, units: units, attention: make([]Sense, len(units))}
	for i, u := range units {
		if u != nil {
			u.nexus, n.attention[i] = append(u.nexus, n), poweredOn
		}
	}
	return n
}

// Close ends the nexus and its reservations.
func (n *Nexus) Close() {
	for _, u := range n.units {
		if u == nil {
			continue
		}
		u.nexus = slices.DeleteFunc(u.nexus, func(other *Nexus) bool { return other == n })
		if u.holder == n {
			u.holder = nil
		}
	}
}

// Unit is the unit with a LUN of SAM-5 section 4.7, or nil.
func (n *Nexus) Unit(lun uint64) *Unit {
	if i := index(lun); i >= 0 && i < len(n.units) {
		return n.units[i]
	}
	return nil
}

// index is the number of a single-level LUN of peripheral or flat addressing; -1: another.
func index(lun uint64) int {
	if lun<<16 != 0 {
		return -1
	}
	switch top := lun >> 48; {
	case top < 0x100:
		return int(top)
	case top>>14 == 1:
		return int(top & 0x3fff)
	}
	return -1
}

// attentionOf is where the attention that u owes n is.
func (n *Nexus) attentionOf(u *Unit) *Sense { return &n.attention[slices.Index(n.units, u)] }

// Reset is a logical unit reset (SAM-5 section 6.3.3): reservations end, and every nexus
// hears of it.
func (u *Unit) Reset() {
	u.holder, u.state.stopped, u.state.protected = nil, false, false
	u.tell(nil, wasReset)
}

// tell has the unit owe an attention to all but one.
func (u *Unit) tell(but *Nexus, s Sense) {
	for _, n := range u.nexus {
		if n != but {
			*n.attentionOf(u) = s
		}
	}
}

// reportLUNs is the parameter data of REPORT LUNS (SPC-4 section 6.33).
func (n *Nexus) reportLUNs() []byte {
	b := make([]byte, 8)
	for i, u := range n.units {
		switch {
		case u == nil:
		case i < 0x100:
			b = binary.BigEndian.AppendUint64(b, uint64(i)<<48)
		default:
			b = binary.BigEndian.AppendUint64(b, uint64(i|0x4000)<<48)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-8))
	return b
}
