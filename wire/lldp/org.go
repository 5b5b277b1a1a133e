package lldp

import (
	"encoding/binary"
	"fmt"
)

// Organizations and subtypes of the TLVs with a field, as the first four octets
// of the value.
var (
	orgMACPHY = [4]byte{0x00, 0x12, 0x0f, 1}
	orgETS    = [4]byte{0x00, 0x80, 0xc2, 9}
	orgETSRec = [4]byte{0x00, 0x80, 0xc2, 10}
	orgPFC    = [4]byte{0x00, 0x80, 0xc2, 11}
	orgApp    = [4]byte{0x00, 0x80, 0xc2, 12}
	orgCEE    = [4]byte{0x00, 0x1b, 0x21, 2}
)

// ETS is the content of the ETS Configuration and Recommendation TLVs (IEEE
// 802.1Q-2018 D.2.8, D.2.9).
type ETS struct {
	Willing bool
	CBS     bool     // the credit-based shaper is supported
	MaxTCs  uint8    // traffic classes that the port has, 1 to 8
	PrioTC  [8]uint8 // traffic class of each priority, 0 to 7, or 15
	Weight  [8]uint8 // percent, by traffic class
	TSA     [8]uint8 // 0 strict, 1 CBS, 2 ETS, 255 vendor
}

// PFC is the content of the PFC Configuration TLV (D.2.10).
type PFC struct {
	Willing bool
	MBC     bool  // MACsec bypass capability
	Cap     uint8 // classes that can have PFC at a time, 0 to 8
	Enabled uint8 // bit n: priority n
}

// Selectors of an application (table D-9).
const (
	SelEtherType = 1 // Protocol 0: the default priority
	SelTCP       = 2 // TCP and SCTP ports
	SelUDP       = 3 // UDP and DCCP ports
	SelPort      = 4 // ports of all four
	SelDSCP      = 5
)

// AppEntry gives a priority to an application.
type AppEntry struct {
	Priority uint8 // 0 to 7
	Selector uint8 // 1 to 7
	Protocol uint16
}

// App is the content of the Application Priority TLV (D.2.11).
type App struct{ Entries []AppEntry }

// MaxApps is how many entries an Application Priority TLV holds.
const MaxApps = (MaxTLV - 5) / 3

// MACPHY is the content of the MAC/PHY Configuration/Status TLV (IEEE
// 802.3-2018 79.3.1).
type MACPHY struct {
	Supported, Enabled bool   // autonegotiation
	Advertised         uint16 // bits of ifMauAutoNegCapAdvertisedBits
	MAU                uint16 // operational MAU type (dot3MauType of RFC 4836)
}

// takeOrg takes a TLV of an organization; false: no field has it.
func (p *PDU) takeOrg(org [4]byte, v []byte) (known bool, err error) {
	switch org {
	case orgMACPHY:
		m := MACPHY{}
		if err = check("MAC/PHY", p.MACPHY != nil, len(v) == 5); err == nil {
			m.Supported, m.Enabled = v[0]&1 != 0, v[0]&2 != 0
			m.Advertised, m.MAU = binary.BigEndian.Uint16(v[1:]), binary.BigEndian.Uint16(v[3:])
			p.MACPHY = &m
		}
	case orgETS:
		if err = check("ETS Configuration", p.ETS != nil, len(v) == 21); err == nil {
			p.ETS, err = parseETS(v)
			p.ETS.Willing, p.ETS.CBS, p.ETS.MaxTCs = v[0]&0x80 != 0, v[0]&0x40 != 0, v[0]&7
			if p.ETS.MaxTCs == 0 {
				p.ETS.MaxTCs = 8
			}
		}
	case orgETSRec:
		if err = check("ETS Recommendation", p.ETSRec != nil, len(v) == 21); err == nil {
			p.ETSRec, err = parseETS(v)
		}
	case orgPFC:
		if err = check("PFC", p.PFC != nil, len(v) == 2); err == nil {
			if v[0]&15 > 8 {
				return true, fmt.Errorf("%w: PFC for %d classes", ErrValue, v[0]&15)
			}
			p.PFC = &PFC{Willing: v[0]&0x80 != 0, MBC: v[0]&0x40 != 0, Cap: v[0] & 15, Enabled: v[1]}
		}
	case orgApp:
		if err = check("Application Priority", p.App != nil, len(v) >= 1 && (len(v)-1)%3 == 0); err == nil {
			p.App = &App{}
			for v = v[1:]; len(v) > 0; v = v[3:] {
				e := AppEntry{Priority: v[0] >> 5, Selector: v[0] & 7, Protocol: binary.BigEndian.Uint16(v[1:])}
				p.App.Entries = append(p.App.Entries, e)
			}
		}
	case orgCEE:
		if err = check("CEE DCBX", p.CEE != nil, true); err == nil {
			p.CEE, err = parseCEE(v)
		}
	default:
		return false, nil
	}
	return true, err
}

func check(name string, twice, fits bool) error {
	switch {
	case twice:
		return fmt.Errorf("%w: %s", ErrDuplicate, name)
	case !fits:
		return fmt.Errorf("%w: %s", ErrLength, name)
	}
	return nil
}

// parseETS reads the tables, which follow an octet.
func parseETS(v []byte) (*ETS, error) {
	e := &ETS{PrioTC: nibbles(v[1:5]), Weight: [8]uint8(v[5:]), TSA: [8]uint8(v[13:])}
	for prio, tc := range e.PrioTC {
		if tc > 7 && tc != 15 {
			return e, fmt.Errorf("%w: traffic class %d of priority %d", ErrValue, tc, prio)
		}
	}
	for tc, n := range e.Weight {
		if n > 100 {
			return e, fmt.Errorf("%w: %d %% for traffic class %d", ErrValue, n, tc)
		}
	}
	return e, nil
}

// nibbles reads a table of priorities, 0 in the upper half of the first octet.
func nibbles(v []byte) (t [8]uint8) {
	for i := range t {
		t[i] = v[i/2] >> (4 * (1 - i%2)) & 15
	}
	return t
}

func appendNibbles(b []byte, t [8]uint8) []byte {
	for i := 0; i < 8; i += 2 {
		b = append(b, t[i]<<4|t[i+1]&15)
	}
	return b
}

func (e *ETS) append(b []byte, flags byte) []byte {
	b = appendNibbles(append(b, flags), e.PrioTC)
	return append(append(b, e.Weight[:]...), e.TSA[:]...)
}

func appendOrg(b []byte, org [4]byte, info ...byte) []byte {
	return AppendTLV(b, TypeOrg, append(org[:], info...)...)
}

// appendOrg appends the TLVs of organizations.
func (p *PDU) appendOrg(b []byte) []byte {
	if m := p.MACPHY; m != nil {
		b = appendOrg(b, orgMACPHY, bit(m.Supported, 1)|bit(m.Enabled, 2), byte(m.Advertised>>8), byte(m.Advertised),
			byte(m.MAU>>8), byte(m.MAU))
	}
	if e := p.ETS; e != nil {
		b = appendOrg(b, orgETS, e.append(nil, bit(e.Willing, 0x80)|bit(e.CBS, 0x40)|e.MaxTCs&7)...)
	}
	if e := p.ETSRec; e != nil {
		b = appendOrg(b, orgETSRec, e.append(nil, 0)...)
	}
	if c := p.PFC; c != nil {
		b = appendOrg(b, orgPFC, bit(c.Willing, 0x80)|bit(c.MBC, 0x40)|c.Cap&15, c.Enabled)
	}
	if p.App != nil {
		v := []byte{0}
		for _, e := range p.App.Entries[:min(len(p.App.Entries), MaxApps)] {
			v = append(v, e.Priority<<5|e.Selector&7, byte(e.Protocol>>8), byte(e.Protocol))
		}
		b = appendOrg(b, orgApp, v...)
	}
	if p.CEE != nil {
		b = appendOrg(b, orgCEE, p.CEE.append(nil)...)
	}
	return b
}

func bit(is bool, b byte) byte {
	if is {
		return b
	}
	return 0
}
