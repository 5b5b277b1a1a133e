package swconf

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/nic/dcb"
)

// Queues are the traffic classes of each port: which frames go to which class, which class
// sends next, and which priorities PFC keeps from loss (IEEE 802.1Q-2018 clauses 36 and 37).
// The keys are those of dcb(8).
type Queues struct {
	// TrustDSCP: the priority of an IP packet follows its DSCP. Else, and for other frames,
	// it is that of the outer VLAN tag, and 0 without one.
	TrustDSCP bool
	// DSCPPrio is 1 and the priority of each DSCP; 0 stands for its upper three bits.
	DSCPPrio [dcb.DSCPs]uint8
	// DCB maps priorities to classes, selects classes and has PFC. Unless Mapped, priority n
	// is in class n if anything else of the classes is set or DCBX is on, and in class 0
	// otherwise.
	DCB    dcb.Config
	Mapped bool
	// MaxRate is what each class sends at most, in Mb/s with 24 octets a frame for
	// preamble, FCS and gap; 0: no limit.
	MaxRate [dcb.Classes]int
	// XOFF, XON and Headroom are of the buffer that each port has for received frames of
	// each PFC priority, in octets: from XOFF on the sender has to wait, down to XON. Headroom
	// is for frames that arrive nevertheless.
	XOFF, XON, Headroom int
	// Buffer is a pool of octets that all ports share; 0: each egress queue has its own. A
	// queue may hold at most Alpha times what is free, and so may the frames of a PFC priority
	// that a port has received, in place of XOFF if that is less. Headroom is not in the pool.
	Buffer int
	Alpha  float64
	// Watchdog is after how long a class is dropped that PFC holds; negative: never.
	Watchdog time.Duration
}

// Defaults of the buffers, in octets, and of the watchdog.
const (
	defaultXOFF     = 256 << 10
	defaultHeadroom = 1 << 20
	defaultWatchdog = 200 * time.Millisecond
)

func (q Queues) withDefaults(dcbx bool) Queues {
	if !q.Mapped && (dcbx || q.DCB != dcb.Config{} || q.MaxRate != [dcb.Classes]int{}) {
		for i := range q.DCB.PrioTC {
			q.DCB.PrioTC[i] = uint8(i)
		}
		q.Mapped = true
	}
	if q.Buffer > 0 {
		q.Alpha = cmp.Or(q.Alpha, 1)
	}
	q.XOFF, q.Headroom = cmp.Or(q.XOFF, defaultXOFF), cmp.Or(q.Headroom, defaultHeadroom)
	q.XON, q.Watchdog = cmp.Or(q.XON, q.XOFF/2), cmp.Or(q.Watchdog, defaultWatchdog)
	return q
}

// problem tells the first thing that is wrong with q, with the key; empty: nothing.
func (q Queues) problem() string {
	q = q.withDefaults(false)
	if q.Alpha != 0 && q.Buffer == 0 {
		return "buffer_alpha is of a shared buffer: say buffer, such as 12M"
	}
	if q.XON > q.XOFF {
		return fmt.Sprintf("pfc_xon %d is beyond pfc_xoff %d", q.XON, q.XOFF)
	}
	if err := q.DCB.Validate(); err != nil {
		return "tc_bw: " + err.Error()
	}
	for tc := range q.DCB.TSA {
		if q.DCB.TSA[tc] != dcb.ETS && q.DCB.Weight[tc] > 0 {
			return fmt.Sprintf("tc_bw: class %d is strict, and has no share: say tc_tsa %d:ets", tc, tc)
		}
	}
	for a, tc := range q.DCB.PrioTC {
		for b, other := range q.DCB.PrioTC {
			if tc == other && q.DCB.PFC>>a&1 != q.DCB.PFC>>b&1 {
				return fmt.Sprintf("prio_pfc: priorities %d and %d share class %d, and only one of them has PFC",
					min(a, b), max(a, b), tc)
			}
		}
	}
	return ""
}

// Priority is that of an IP packet of a DSCP.
func (q *Queues) Priority(dscp uint8) uint8 {
	if p := q.DSCPPrio[dscp]; p > 0 {
		return p - 1
	}
	return dscp >> 3
}

// Fields are the settings of the classes, bound to q.
func (q *Queues) Fields() []conf.Field {
	const class = "a traffic class from 0 to 7"
	pairs := func(name, expect string, most int, set func(at int, value string) error) conf.Field {
		return conf.Field{Name: name, Words: true, Expect: expect, Set: func(s string) error {
			return dcb.EachPair(s, most, set)
		}}
	}
	number := func(v *uint8, most int64) conf.Setter { return conf.Int(v, 0, most) }
	return []conf.Field{
		{Name: "trust", Expect: "pcp or dscp",
			Set: conf.Choose(&q.TrustDSCP, map[string]bool{"pcp": false, "dscp": true})},
		pairs("dscp_prio", "DSCP:PRIORITY from 0 to 63 and 0 to 7, such as `26:3,48:6`", dcb.DSCPs,
			func(at int, v string) error {
				err := number(&q.DSCPPrio[at], dcb.Classes-1)(v)
				q.DSCPPrio[at]++
				return err
			}),
		pairs("prio_tc", "PRIORITY:CLASS, each from 0 to 7, such as `all:0,3:1`", dcb.Classes,
			func(at int, v string) error {
				q.Mapped = true
				return number(&q.DCB.PrioTC[at], dcb.Classes-1)(v)
			}),
		pairs("tc_tsa", "CLASS:strict or CLASS:ets with "+class+", such as `0:ets,1:strict`", dcb.Classes,
			func(at int, v string) error {
				return conf.Choose(&q.DCB.TSA[at], map[string]dcb.TSA{"strict": dcb.Strict, "ets": dcb.ETS})(v)
			}),
		pairs("tc_bw", "CLASS:PERCENT with "+class+", such as `0:30,1:70`", dcb.Classes, func(at int, v string) error {
			return number(&q.DCB.Weight[at], 100)(strings.TrimSuffix(v, "%"))
		}),
		pairs("tc_maxrate", "CLASS:RATE with "+class+", such as `1:2.5G,2:100M`", dcb.Classes,
			func(at int, v string) (err error) {
				q.MaxRate[at], err = parseRate(v)
				return err
			}),
		{Name: "prio_pfc", Words: true, Expect: "PRIORITY:on or off, from 0 to 7, such as `3:on` or `all:off`",
			Set: q.DCB.SetPFC},
		{Name: "buffer", Expect: octetsExpect, Set: conf.Parsed(&q.Buffer, parseOctets)},
		{Name: "buffer_alpha", Expect: "a factor from 0.01 to 100 such as 1 or 0.125",
			Set: conf.Parsed(&q.Alpha, parseAlpha)},
		{Name: "pfc_xoff", Expect: octetsExpect, Set: conf.Parsed(&q.XOFF, parseOctets)},
		{Name: "pfc_xon", Expect: octetsExpect, Set: conf.Parsed(&q.XON, parseOctets)},
		{Name: "pfc_headroom", Expect: octetsExpect, Set: conf.Parsed(&q.Headroom, parseOctets)},
		{Name: "pfc_watchdog", Expect: "a time from 1ms such as 200ms, or off", Set: func(s string) error {
			if s == "off" {
				q.Watchdog = -1
				return nil
			}
			return conf.Time(&q.Watchdog, time.Millisecond, 0)(s)
		}},
	}
}

// parseAlpha reads the factor of a shared buffer.
func parseAlpha(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0.01 && v <= 100) {
		return 0, conf.ErrValue
	}
	return v, nil
}

// parseRate reads a rate, such as 2.5G or 100M, in Mb/s.
func parseRate(s string) (mbps int, err error) {
	unit := 1.0
	text, giga := strings.CutSuffix(s, "G")
	if giga {
		unit = 1000
	} else if t, mega := strings.CutSuffix(text, "M"); mega {
		text = t
	} else {
		return 0, conf.ErrValue
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v*unit >= 1 && v*unit <= 1e6) {
		return 0, conf.ErrValue
	}
	return int(v * unit), nil
}
