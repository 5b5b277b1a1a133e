package dcb

import (
	"errors"
	"fmt"
)

// DSCPs is the number of code points of DSCP.
const DSCPs = 64

// DSCPTable has the priority of each DSCP. DSCPs that are not mapped have priority 0.
type DSCPTable [DSCPs]uint8

// isMapped is the bit beside the priority of a DSCP that has one.
const isMapped = dscpPriority + 1

const dscpPriority = Classes - 1

// Priority is that of a DSCP, which must be below DSCPs.
func (t *DSCPTable) Priority(dscp uint8) (prio uint8, mapped bool) {
	return t[dscp] & dscpPriority, t[dscp]&isMapped != 0
}

// Map gives a DSCP a priority, Unmap takes it away. Both must be in range.
func (t *DSCPTable) Map(dscp, prio uint8) { t[dscp] = isMapped | prio }
func (t *DSCPTable) Unmap(dscp uint8)     { t[dscp] = 0 }

// Port is what the queues of a port act on. The zero value is a port without DCB.
type Port struct {
	Config
	// TrustDSCP: the priority of an IP packet is that of its DSCP. Else it is that of the
	// frame's VLAN tag, and 0 without one.
	TrustDSCP bool
	DSCP      *DSCPTable      // the priority of each DSCP, nil: its upper three bits
	MaxRate   [Classes]uint32 // what each traffic class sends at most, in kb/s; 0: no limit
	Buffers   Buffers
}

// Equal tells whether two are the same.
func (p Port) Equal(o Port) bool {
	if p.DSCP != nil && o.DSCP != nil && *p.DSCP == *o.DSCP {
		p.DSCP, o.DSCP = nil, nil
	}
	return p == o
}

// Admin is what the user of a port has set. The zero value is a port without DCB.
type Admin struct {
	Port          // without what Values fills in
	Mapped   bool // PrioTC counts; else priority n is in class n if anything is set
	Selected bool // TSA counts; else the classes with a Weight are ETS classes
}

// Values is the configuration with its defaults filled in.
func (a *Admin) Values() Port {
	p := a.Port
	for i := range p.PrioTC {
		if !a.Selected && p.Weight[i] > 0 {
			p.TSA[i] = ETS
		}
		if !a.Mapped && a.Port != (Port{}) {
			p.PrioTC[i] = uint8(i)
		}
	}
	return p
}

// Validate returns an error that begins with the setting that no port can act on, as dcb(8)
// calls it.
func (a *Admin) Validate() error {
	v := a.Values()
	for tc, w := range v.Weight {
		if v.TSA[tc] != ETS && w > 0 {
			return fmt.Errorf("tc_bw: class %d is strict, and has no share: set tc_tsa %d:ets", tc, tc)
		}
	}
	if err := v.Config.Validate(); err != nil {
		return fmt.Errorf("tc_bw: %w", err)
	}
	if err := v.Buffers.validate(v.PFC); err != nil {
		return err
	}
	if a.DSCP != nil && !a.TrustDSCP {
		return errors.New("dscp_prio: set trust=dscp too: with trust=pcp DSCPs do not count")
	}
	return nil
}
