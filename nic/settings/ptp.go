package settings

import (
	"cmp"
	"strconv"
	"time"

	"tapir/nic/param"
	"tapir/nic/ptp"
	"tapir/ptp/clock"
	"tapir/wire/frame"
)

// PHC describes the NIC's hardware clock. The zero value is exact, with stamps
// of 1 ns.
type PHC struct {
	Oscillator string        // a preset of clock.Preset; empty: ideal
	PPB        float64       // added to the oscillator's frequency offset
	Quantum    time.Duration // of stamps; 0: 1 ns
	Jitter     time.Duration // standard deviation of stamps
	// Exact adjusts the frequency as asked, not in the steps of the device's
	// drift register.
	Exact bool
}

// PTP holds the settings of the NIC's PTP unit: faults of Tx stamps, each of which
// strikes one packet in N, 0 none.
type PTP struct {
	TxLose, TxDelay, TxDuplicate int
	TxDelayBy                    time.Duration // 0: 20 ms
}

// defaultTxDelay is longer than programs wait for a Tx stamp.
const defaultTxDelay = 20 * time.Millisecond

// Faults are those of the PTP unit.
func (c *PTP) Faults() ptp.Faults {
	return ptp.Faults{LoseEvery: uint64(c.TxLose), DelayEvery: uint64(c.TxDelay),
		Delay: cmp.Or(c.TxDelayBy, defaultTxDelay), DuplicateEvery: uint64(c.TxDuplicate)}
}

// Clock makes the hardware clock: it begins to run with what the system's
// showed when the engine's time was zero.
func (c *PHC) Clock(system frame.Clock, seed uint64) (*clock.PHC, error) {
	osc, err := clock.Preset(cmp.Or(c.Oscillator, "ideal"))
	if err != nil {
		return nil, err
	}
	osc.PPB += c.PPB
	osc.Seed = seed
	return clock.New(clock.Config{Oscillator: osc, Initial: system.At(0), Quantum: c.Quantum,
		Jitter: float64(c.Jitter), DriftRegister: !c.Exact})
}

// maxPPB is how far a clock may be off: the limit of its correction is beyond.
const maxPPB = 500_000

// Clock are the settings of a hardware clock and of its PTP unit, which a NIC and
// an HFI port have.
type Clock struct {
	PHC PHC
	PTP PTP
}

// Params are the settings by name, bound to c.
func (c *Clock) Params() []*param.Row { return clockRows(&c.PHC, &c.PTP) }

func clockRows(phc *PHC, ptp *PTP) []*param.Row {
	list := []*param.Row{
		param.Choice(param.Row{Name: "phc_oscillator", Origin: param.Tapir,
			Help: "what drives the hardware clock: ideal, or a crystal, plain, temperature compensated or in an oven"},
			&phc.Oscillator,
			param.Named("ideal", ""), param.Named("xo", "xo"), param.Named("tcxo", "tcxo"),
			param.Named("ocxo", "ocxo")),
		param.Text(param.Row{Name: "phc_ppb", Type: "number", Origin: param.Tapir,
			Expect: "a number of ppb from -500000 to 500000",
			Help:   "frequency offset of the hardware clock in ppb, added to the oscillator's"},
			func() string { return strconv.FormatFloat(phc.PPB, 'g', -1, 64) },
			func(v string) error {
				ppb, err := strconv.ParseFloat(v, 64)
				if err != nil || !(ppb >= -maxPPB && ppb <= maxPPB) {
					return param.ErrValue
				}
				phc.PPB = ppb
				return nil
			}),
		shortTime(param.Row{Name: "phc_quantum", Origin: param.Tapir,
			Help: "resolution of the hardware clock's stamps"},
			&phc.Quantum, 1),
		shortTime(param.Row{Name: "phc_jitter", Origin: param.Tapir,
			Help: "standard deviation of the hardware clock's stamps"},
			&phc.Jitter, 0),
		param.Bool(param.Row{Name: "phc_drift_register", Origin: param.FastLinQ,
			Help: "adjust the hardware clock's frequency in the steps of the device's drift register; " +
				"0 adjusts exactly"}, &phc.Exact, true),
	}
	for _, f := range []struct {
		name, help string
		field      *int
	}{
		{"ptp_tx_lose", "every Nth PTP event message loses its Tx stamp; 0: none does", &ptp.TxLose},
		{"ptp_tx_delay", "every Nth PTP event message gets its Tx stamp late; 0: none does", &ptp.TxDelay},
		{"ptp_tx_duplicate", "every Nth PTP event message gets its Tx stamp twice; 0: none does",
			&ptp.TxDuplicate},
	} {
		list = append(list, param.Number(param.Row{Name: f.name, Origin: param.Tapir, Runtime: true, Help: f.help},
			f.field, 0, 0, 1<<24))
	}
	return append(list, param.Duration(param.Row{Name: "ptp_tx_delay_by", Origin: param.Tapir, Runtime: true,
		Help: "how late such a Tx stamp comes"}, &ptp.TxDelayBy, defaultTxDelay, time.Minute, false))
}

// shortTime makes a setting of a time from 0 to a millisecond. def is what zero
// stands for.
func shortTime(r param.Row, field *time.Duration, def time.Duration) *param.Row {
	r.Type, r.Expect = "time", "a time such as 8ns, at most 1ms"
	return param.Text(r, func() string { return param.Short(cmp.Or(*field, def)) }, func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 || d > time.Millisecond {
			return param.ErrValue
		}
		*field = d
		return nil
	})
}
