package ptprun

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tapir/lab/conf/ptpconf"
	"tapir/lab/tool/schema"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("ptp status", 1, Status{})
	_ = schema.Add("ptp run", 1, Report{})
)

// Status is what is to be known of a NIC's clock and its PTP.
type Status struct {
	NIC   string `json:"nic"`
	Owner string `json:"owner"` // of the PTP unit: host, engine, or empty
	Clock Clock  `json:"clock"`
	Unit  *Unit  `json:"unit,omitempty"` // nil of a switch, which has none
	// Transport and Instance are those of the NIC's own instance, if it runs.
	Transport string        `json:"transport,omitempty"`
	Instance  *ptp.Snapshot `json:"instance,omitempty"`
	// Management is what its management server has counted.
	Management []ptp.Counter `json:"management,omitempty"`
}

// Clock is the state of the hardware clock.
type Clock struct {
	Time        int64   `json:"time_ns"`
	TrueOffset  int64   `json:"true_offset_ns"` // from CLOCK_REALTIME
	Correction  float64 `json:"correction_ppb"` // as it was adjusted last
	TrueRate    float64 `json:"true_rate_ppb"`  // of the corrected clock
	DriftNow    uint32  `json:"drift_register"`
	CounterTime int64   `json:"counter_ns"` // the free counter
}

// Unit is the state of the PTP unit of the host function.
type Unit struct {
	Config    unit.HWConfig  `json:"config"`
	Registers unit.Registers `json:"registers"`
	Stats     unit.Stats     `json:"stats"`
}

// ClockOf describes a hardware clock.
func ClockOf(phc *clock.PHC, system System, now frame.Time) Clock {
	c := Clock{Time: int64(phc.Now(now)), Correction: float64(phc.Frequency()) * (1000.0 / 65536),
		TrueRate: phc.Rate(now),
		DriftNow: uint32(phc.DriftRead()), CounterTime: phc.Counter(now)}
	c.TrueOffset = c.Time - system.Realtime(now)
	return c
}

// StatusOf describes the PTP of d.
func StatusOf(d Node, system System, now frame.Time) Status {
	host := d.PTP.Unit()
	s := Status{NIC: d.Name, Owner: d.PTP.Owner(), Clock: ClockOf(d.PTP.PHC(), system, now),
		Unit: &Unit{host.Config(), host.Registers(), host.Stats()}}
	if i := d.PTP.Instance(); i != nil {
		snapshot := i.Snapshot()
		s.Instance, s.Transport = &snapshot, d.PTP.Port().Kind.String()
		served := d.PTP.Manager().Stats()
		s.Management = served.Counters()
	}
	return s
}

// ErrNoInstance is returned where an instance is needed and none runs.
var ErrNoInstance = errors.New("no PTP instance runs")

// managed are the settings of a running instance, by the names that they have
// in its configuration.
var managed = []struct {
	name   string
	id     msg.ManagementID
	signed bool
}{
	{"priority1", msg.IDPriority1, false}, {"priority2", msg.IDPriority2, false}, {"domain", msg.IDDomain, false},
	{"slave_only", msg.IDSlaveOnly, false}, {"clock_accuracy", msg.IDClockAccuracy, false},
	{"announce_interval", msg.IDLogAnnounceInterval, true}, {"announce_receipt_timeout", msg.IDAnnounceReceiptTimeout,
		false},
	{"sync_interval", msg.IDLogSyncInterval, true}, {"pdelay_req_interval", msg.IDLogMinPdelayReqInterval, true},
	{"delay_mechanism", msg.IDDelayMechanism, false},
}

// Settable are the names of the settings that can change while an instance
// runs.
func Settable() (names []string) {
	for _, m := range managed {
		names = append(names, m.name)
	}
	return names
}

// Set changes settings of d's running instance, one after the other up to the
// first error.
func Set(d Node, settings []ptpconf.Setting, now frame.Time) error {
	i := d.PTP.Instance()
	if i == nil {
		return ErrNoInstance
	}
	for _, s := range settings {
		if err := setOne(i, s, now); err != nil {
			return err
		}
	}
	return nil
}

func setOne(i *ptp.Instance, s ptpconf.Setting, now frame.Time) error {
	for _, m := range managed {
		if m.name != strings.ReplaceAll(s.Name, "-", "_") {
			continue
		}
		v, err := octet(s.Value, m.signed)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", s.Name, s.Value, err)
		}
		if e := i.Set(m.id, 0, &msg.Octet{Value: v}, now); e != 0 {
			return fmt.Errorf("%s: %q: %v", s.Name, s.Value, e)
		}
		return nil
	}
	return fmt.Errorf("%s: cannot change while the instance runs; these can: %s", s.Name,
		strings.Join(Settable(), ", "))
}

// octet reads a value of one octet.
func octet(v string, signed bool) (uint8, error) {
	words := map[string]uint8{"true": 1, "false": 0, "e2e": uint8(msg.DelayE2E), "p2p": uint8(msg.DelayP2P)}
	if n, ok := words[v]; ok {
		return n, nil
	}
	low, high, expect := int64(0), int64(255), "a number from 0 to 255, true, false, e2e or p2p"
	if signed {
		low, high, expect = -128, 127, "a number from -128 to 127"
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < low || n > high {
		return 0, errors.New("expected " + expect)
	}
	return uint8(n), nil
}
