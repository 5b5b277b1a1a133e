// Package dcb has the operational configuration of Data Center Bridging of one
// port: what DCBX or the user decided, and what queues, pause and transports
// act on (IEEE 802.1Q-2018 clauses 36 to 38).
package dcb

import "fmt"

// Classes is the number of priorities, and the largest number of traffic
// classes.
const Classes = 8

// TSA is the transmission selection algorithm of a traffic class, with the
// numbers of IEEE 802.1Q-2018 table 8-6.
type TSA uint8

// Transmission selection algorithms.
const (
	Strict TSA = 0   // before all ETS classes; the highest class first
	CBS    TSA = 1   // credit-based shaper
	ETS    TSA = 2   // by weight, in what the strict classes leave
	Vendor TSA = 255 // specific to a vendor
)

// String returns the name that iproute2's dcb uses.
func (t TSA) String() string {
	switch t {
	case Strict:
		return "strict"
	case CBS:
		return "cbs"
	case ETS:
		return "ets"
	}
	return "vendor"
}

// Config is what a port acts on. The zero value has all priorities in class 0,
// which is strict, and no priority with PFC: a port without DCB.
type Config struct {
	PrioTC [Classes]uint8 // the traffic class of each priority, 0 to 7
	Weight [Classes]uint8 // the share of each traffic class in percent; only ETS classes have one
	TSA    [Classes]TSA   // how each traffic class is selected
	PFC    uint8          // bit n: priority n is lossless, paused by PFC
}

// Validate returns an error that names the first field that no port can act on:
// a traffic class over 7, or weights of the ETS classes whose sum is not 100
// (IEEE 802.1Q-2018 clause 37.3). Without an ETS class there is no sum.
func (c *Config) Validate() error {
	var sum, ets int
	for i := range c.PrioTC {
		if c.PrioTC[i] >= Classes {
			return fmt.Errorf("priority %d: traffic class %d is over %d", i, c.PrioTC[i], Classes-1)
		}
		if c.TSA[i] == ETS {
			sum += int(c.Weight[i])
			ets++
		}
	}
	if ets > 0 && sum != 100 {
		return fmt.Errorf("the weights of the ETS classes have the sum %d, not 100", sum)
	}
	return nil
}

// TCs returns the number of traffic classes in use: one more than the highest
// that a priority has.
func (c *Config) TCs() int {
	n := uint8(0)
	for _, tc := range c.PrioTC {
		n = max(n, tc)
	}
	return int(n) + 1
}

// Priority is what DCB has given to the frames of a protocol.
type Priority struct {
	On  bool
	PCP uint8 // 0 to 7
	// ByDSCP: the DSCP of the IP header tells the priority, and untagged frames stay so;
	// else they get a tag with VLAN 0, unless PCP is 0.
	ByDSCP bool
	DSCP   uint8 // 0 to 63
}

// State is what DCBX has come to, and the ports of a NIC act on.
type State struct {
	InUse bool // DCBX is on: Config takes the place of a port's own
	Config
	IWARP, RoCE, RoCEv2, FCoE Priority
}
