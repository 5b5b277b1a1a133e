package lldp

import (
	"encoding/binary"
	"fmt"
)

// CEE is the content of the DCBX TLV of CEE (DCB Capability Exchange Protocol
// Base Specification 1.01): sub-TLVs with features, nil where one is absent.
type CEE struct {
	Seq, Ack uint32 // the number of the sender's configuration, and the last one that it has seen of the other
	PG       *CEEPG
	PFC      *CEEPFC
	App      *CEEApp
}

// Feature is in front of each feature.
type Feature struct{ Enable, Willing, Error bool }

// CEEPG are priority groups.
type CEEPG struct {
	Feature
	Group  [8]uint8 // of each priority: 0 to 7, or 15: strict, without a limit
	Weight [8]uint8 // percent, by group
	TCs    uint8    // traffic classes that the port has
}

// CEEPFC are the priorities with PFC.
type CEEPFC struct {
	Feature
	Enabled uint8 // bit n: priority n
	TCs     uint8 // traffic classes that can have PFC
}

// CEEAppEntry gives priorities to an application.
type CEEAppEntry struct {
	Protocol   uint16
	Port       bool  // Protocol is a port of TCP and UDP, else an EtherType
	Priorities uint8 // bit n: priority n
}

// CEEApp are applications.
type CEEApp struct {
	Feature
	Entries []CEEAppEntry
}

// Types of the sub-TLVs.
const (
	ceeControl = 1
	ceePG      = 2
	ceePFC     = 3
	ceeApp     = 4
)

// ceeHeader is the length of what is in front of a feature: two versions, flags
// and a subtype.
const ceeHeader = 4

// parseCEE reads the sub-TLVs. The control sub-TLV must be there; unknown
// features are skipped.
func parseCEE(b []byte) (*CEE, error) {
	c, control := &CEE{}, false
	for len(b) > 0 {
		typ, v, rest, err := Next(b)
		if err != nil {
			return c, err
		}
		b = rest
		var f Feature
		if typ >= ceePG && typ <= ceeApp {
			if len(v) < ceeHeader {
				return c, fmt.Errorf("%w: CEE feature %d", ErrLength, typ)
			}
			f = Feature{Enable: v[2]&0x80 != 0, Willing: v[2]&0x40 != 0, Error: v[2]&0x20 != 0}
		}
		switch typ {
		case ceeControl:
			if err = check("CEE control", control, len(v) == 10); err == nil {
				control = true
				c.Seq, c.Ack = binary.BigEndian.Uint32(v[2:]), binary.BigEndian.Uint32(v[6:])
			}
		case ceePG:
			if err = check("CEE priority groups", c.PG != nil, len(v) == ceeHeader+13); err == nil {
				v = v[ceeHeader:]
				c.PG = &CEEPG{Feature: f, Group: nibbles(v), Weight: [8]uint8(v[4:]), TCs: v[12]}
			}
		case ceePFC:
			if err = check("CEE PFC", c.PFC != nil, len(v) == ceeHeader+2); err == nil {
				c.PFC = &CEEPFC{Feature: f, Enabled: v[ceeHeader], TCs: v[ceeHeader+1]}
			}
		case ceeApp:
			if err = check("CEE applications", c.App != nil, (len(v)-ceeHeader)%6 == 0); err == nil {
				c.App = &CEEApp{Feature: f}
				for v = v[ceeHeader:]; len(v) > 0; v = v[6:] {
					e := CEEAppEntry{Protocol: binary.BigEndian.Uint16(v), Port: v[2]&3 == 1, Priorities: v[5]}
					c.App.Entries = append(c.App.Entries, e)
				}
			}
		}
		if err != nil {
			return c, err
		}
	}
	if !control {
		return c, fmt.Errorf("%w: CEE DCBX without a control sub-TLV", ErrMandatory)
	}
	return c, nil
}

func (f Feature) head() []byte {
	return []byte{0, 0, bit(f.Enable, 0x80) | bit(f.Willing, 0x40) | bit(f.Error, 0x20), 0}
}

// append appends the sub-TLVs.
func (c *CEE) append(b []byte) []byte {
	v := binary.BigEndian.AppendUint32(make([]byte, 2, 10), c.Seq)
	b = AppendTLV(b, ceeControl, binary.BigEndian.AppendUint32(v, c.Ack)...)
	if g := c.PG; g != nil {
		v := append(appendNibbles(g.head(), g.Group), g.Weight[:]...)
		b = AppendTLV(b, ceePG, append(v, g.TCs)...)
	}
	if p := c.PFC; p != nil {
		b = AppendTLV(b, ceePFC, append(p.head(), p.Enabled, p.TCs)...)
	}
	if a := c.App; a != nil {
		v := a.head()
		for _, e := range a.Entries {
			// The OUI 00-1B-21 in two parts, with the selector between them.
			v = append(v, byte(e.Protocol>>8), byte(e.Protocol), bit(e.Port, 1), 0x1b, 0x21, e.Priorities)
		}
		b = AppendTLV(b, ceeApp, v...)
	}
	return b
}
