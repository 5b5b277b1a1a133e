package nic

import (
	"strconv"
	"time"

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

// PTP holds the choices of the NIC's PTP unit: faults of Tx stamps, each of one
// packet in so many, 0 of none.
type PTP struct {
	TxLose, TxDelay, TxDuplicate int
	TxDelayBy                    time.Duration // 0: 20 ms
}

// defaultTxDelay is longer than programs wait for a Tx stamp.
const defaultTxDelay = 20 * time.Millisecond

func (c *PTP) faults() ptp.Faults {
	f := ptp.Faults{LoseEvery: uint64(c.TxLose), DelayEvery: uint64(c.TxDelay), Delay: c.TxDelayBy, DuplicateEvery: uint64(c.TxDuplicate)}
	if f.Delay == 0 {
		f.Delay = defaultTxDelay
	}
	return f
}

// newClock makes the hardware clock: it begins to run with what the system's
// showed when the engine's time was zero.
func (c *Config) newClock(system frame.Clock) (*clock.PHC, error) {
	name := c.PHC.Oscillator
	if name == "" {
		name = "ideal"
	}
	osc, err := clock.Preset(name)
	if err != nil {
		return nil, err
	}
	osc.PPB += c.PHC.PPB
	osc.Seed = c.seed()
	return clock.New(clock.Config{Oscillator: osc, Initial: system.At(0), Quantum: c.PHC.Quantum,
		Jitter: float64(c.PHC.Jitter), DriftRegister: !c.PHC.Exact})
}

// maxPPB is how far a clock may be off: the limit of its correction is beyond.
const maxPPB = 500_000

func ptpParams() []*Param {
	list := []*Param{
		choice(Param{Name: "phc_oscillator", Origin: originTapir, Help: "what drives the hardware clock: ideal, or a crystal, plain, temperature compensated or in an oven"},
			func(c *Config) *string { return &c.PHC.Oscillator },
			named[string]{"ideal", ""}, named[string]{"xo", "xo"}, named[string]{"tcxo", "tcxo"}, named[string]{"ocxo", "ocxo"}),
		{Name: "phc_ppb", Type: "number", Origin: originTapir, Expect: "a number of ppb from -500000 to 500000",
			Help: "frequency offset of the hardware clock in ppb, added to the oscillator's",
			get:  func(c *Config) string { return strconv.FormatFloat(c.PHC.PPB, 'g', -1, 64) },
			set: func(c *Config, v string) error {
				ppb, err := strconv.ParseFloat(v, 64)
				if err != nil || !(ppb >= -maxPPB && ppb <= maxPPB) {
					return errValue
				}
				c.PHC.PPB = ppb
				return nil
			}},
		shortTime(Param{Name: "phc_quantum", Origin: originTapir, Help: "resolution of the hardware clock's stamps"},
			func(c *Config) *time.Duration { return &c.PHC.Quantum }, 1),
		shortTime(Param{Name: "phc_jitter", Origin: originTapir, Help: "standard deviation of the hardware clock's stamps"},
			func(c *Config) *time.Duration { return &c.PHC.Jitter }, 0),
		boolean(Param{Name: "phc_drift_register", Origin: originDriver,
			Help: "adjust the hardware clock's frequency in the steps of the device's drift register; 0 adjusts exactly"},
			func(c *Config) *bool { return &c.PHC.Exact }, true),
	}
	for _, f := range []struct {
		name, help string
		field      func(*Config) *int
	}{
		{"ptp_tx_lose", "of so many PTP event messages one loses its Tx stamp; 0 for none", func(c *Config) *int { return &c.PTP.TxLose }},
		{"ptp_tx_delay", "of so many PTP event messages one gets its Tx stamp late; 0 for none", func(c *Config) *int { return &c.PTP.TxDelay }},
		{"ptp_tx_duplicate", "of so many PTP event messages one gets its Tx stamp twice; 0 for none", func(c *Config) *int { return &c.PTP.TxDuplicate }},
	} {
		list = append(list, number(Param{Name: f.name, Origin: originTapir, Runtime: true, Help: f.help}, f.field, 0, 0, 1<<24))
	}
	return append(list, duration(Param{Name: "ptp_tx_delay_by", Origin: originTapir, Runtime: true, Help: "how late such a Tx stamp comes"},
		func(c *Config) *time.Duration { return &c.PTP.TxDelayBy }, defaultTxDelay, time.Minute, false))
}

// shortTime makes a setting of a time from 0 to a millisecond. def is what
// zero stands for.
func shortTime(p Param, field func(*Config) *time.Duration, def time.Duration) *Param {
	p.Type, p.Expect = "time", "a time such as 8ns, at most 1ms"
	p.get = func(c *Config) string {
		if *field(c) == 0 {
			return short(def)
		}
		return short(*field(c))
	}
	p.set = func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 || d > time.Millisecond {
			return errValue
		}
		*field(c) = d
		return nil
	}
	return &p
}
