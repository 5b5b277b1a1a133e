// Package ptpconf reads the settings of PTP instances, of the switches' clocks
// and of oscillators by name, for YAML files and flags alike. Names follow
// linuxptp's where it has the setting.
package ptpconf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"tapir/lab/conf"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
)

// errValue is a value that is not what was expected; whoever took it says what
// that is.
var errValue = errors.New("not the expected value")

type (
	field = conf.Field[ptp.Config]
	port  = conf.Field[ptp.PortConfig]
)

// Instance are the settings of an instance. Those of Port are among them, for
// all ports at once.
var Instance = append([]field{
	number("domain", func(c *ptp.Config) *uint8 { return &c.Domain }, 0, 255, "a domain number from 0 to 255"),
	{Name: "sdo_id", Expect: "an sdoId from 0 to 0xfff", Set: func(c *ptp.Config, s string) error { return setInt(&c.SdoID, s, 0, 0xfff) }},
	number("minor_version", func(c *ptp.Config) *uint8 { return &c.MinorVersion }, 0, 15, "a minorVersionPTP from 0 to 15"),
	number("priority1", func(c *ptp.Config) *uint8 { return &c.Priority1 }, 0, 255, "a priority from 0 to 255"),
	number("priority2", func(c *ptp.Config) *uint8 { return &c.Priority2 }, 0, 255, "a priority from 0 to 255"),
	number("clock_class", func(c *ptp.Config) *uint8 { return &c.Quality.Class }, 0, 255, "a clockClass from 0 to 255, such as 6 or 248"),
	number("clock_accuracy", func(c *ptp.Config) *uint8 { return &c.Quality.Accuracy }, 0, 255, "a clockAccuracy, such as 0x21"),
	{Name: "offset_scaled_log_variance", Expect: "an offsetScaledLogVariance, such as 0x4e5d", Set: func(c *ptp.Config, s string) error { return setInt(&c.Quality.Variance, s, 0, 0xffff) }},
	boolean("gm_capable", func(c *ptp.Config) *bool { return &c.GrandmasterCapable }),
	boolean("slave_only", func(c *ptp.Config) *bool { return &c.SlaveOnly }),
	boolean("two_step", func(c *ptp.Config) *bool { return &c.TwoStep }),
	boolean("p2p_one_step", func(c *ptp.Config) *bool { return &c.P2POneStep }),
	boolean("free_running", func(c *ptp.Config) *bool { return &c.FreeRunning }),
	boolean("path_trace", func(c *ptp.Config) *bool { return &c.PathTrace }),
	boolean("follow_up_info", func(c *ptp.Config) *bool { return &c.FollowUpInfo }),
	{Name: "clock_class_threshold", Expect: "a clock class from 0 to 255", Set: func(c *ptp.Config, s string) error { return setInt(&c.MaxClockClass, s, 0, 255) }},
	{Name: "max_steps_removed", Expect: "a number from 2 to 255", Set: func(c *ptp.Config, s string) error { return setInt(&c.MaxStepsRemoved, s, 2, 255) }},
	{Name: "power_profile", Expect: "the edition of IEEE C37.238, 2011 or 2017, or none", Set: setPower},
	inaccuracy("power_grandmaster_inaccuracy", func(c *ptp.Config) *uint32 { return &c.Power.GrandmasterInaccuracy }),
	inaccuracy("power_network_inaccuracy", func(c *ptp.Config) *uint32 { return &c.Power.NetworkInaccuracy }),
	inaccuracy("power_total_inaccuracy", func(c *ptp.Config) *uint32 { return &c.Power.TotalInaccuracy }),
	duration("holdover", func(c *ptp.Config) *time.Duration { return &c.HoldoverTime }),
	{Name: "utc_offset", Expect: "TAI - UTC in seconds, such as 37", Set: func(c *ptp.Config, s string) error { return setInt(&c.Time.UTCOffset, s, math.MinInt16, math.MaxInt16) }},
	boolean("utc_offset_valid", func(c *ptp.Config) *bool { return &c.Time.UTCOffsetValid }),
	boolean("time_traceable", func(c *ptp.Config) *bool { return &c.Time.TimeTraceable }),
	boolean("frequency_traceable", func(c *ptp.Config) *bool { return &c.Time.FrequencyTraceable }),
	boolean("ptp_timescale", func(c *ptp.Config) *bool { return &c.Time.PTPTimescale }),
	{Name: "time_source", Expect: "a timeSource, such as 0x20 (GNSS) or 0xa0 (internal oscillator)", Set: func(c *ptp.Config, s string) error {
		return setInt((*uint8)(&c.Time.TimeSource), s, 0, 255)
	}},
	{Name: "user_description", Expect: "a text of at most 128 octets", Set: func(c *ptp.Config, s string) error { c.Description = s; return nil }},
	{Name: "servo", Expect: "pi, linreg or nullf", Set: func(c *ptp.Config, s string) (err error) { c.Servo.Kind, err = servo.ParseKind(s); return err }},
	boolean("software_constants", func(c *ptp.Config) *bool { return &c.Servo.Software }),
	{Name: "kp", Expect: "the proportional constant of the PI servo, 0 for its own", Set: func(c *ptp.Config, s string) error { return setFloat(&c.Servo.Kp, s) }},
	{Name: "ki", Expect: "the integral constant of the PI servo, 0 for its own", Set: func(c *ptp.Config, s string) error { return setFloat(&c.Servo.Ki, s) }},
	nanoseconds("first_step_threshold", func(c *ptp.Config) *float64 { return &c.Servo.FirstStep }),
	nanoseconds("step_threshold", func(c *ptp.Config) *float64 { return &c.Servo.Step }),
	nanoseconds("servo_offset_threshold", func(c *ptp.Config) *float64 { return &c.Servo.StableOffset }),
	{Name: "servo_num_offset_values", Expect: "a number of offsets from 0 to 1000", Set: func(c *ptp.Config, s string) error { return setInt(&c.Servo.StableCount, s, 0, 1000) }},
	{Name: "sanity_freq_limit", Expect: "a limit in ppb, 0 for none", Set: func(c *ptp.Config, s string) error { return setFloat(&c.Servo.SanityFreqLimit, s) }},
	{Name: "delay_filter", Expect: "moving_median or moving_average", Set: func(c *ptp.Config, s string) (err error) {
		c.Servo.DelayFilter, err = servo.ParseFilter(s)
		return err
	}},
	{Name: "delay_filter_length", Expect: "a number of samples from 1 to 4096", Set: func(c *ptp.Config, s string) error { return setInt(&c.Servo.DelayFilterLength, s, 1, 4096) }},
	{Name: "lucky", Expect: "how many Syncs one is chosen from, 1 to 4096", Set: func(c *ptp.Config, s string) error { return setInt(&c.Servo.Lucky, s, 1, 4096) }},
}, everyPort()...)

// Port are the settings of one port.
var Port = []port{
	{Name: "delay_mechanism", Expect: "e2e, p2p or none", Set: func(p *ptp.PortConfig, s string) error {
		for m, name := range mechanisms {
			if s == name {
				p.DelayMechanism = m
				return nil
			}
		}
		return errValue
	}},
	{Name: "role", Expect: "dynamic, master or slave", Set: func(p *ptp.PortConfig, s string) error {
		for r, name := range roles {
			if s == name {
				p.Role = ptp.Role(r)
				return nil
			}
		}
		return errValue
	}},
	portBool("master_only", func(p *ptp.PortConfig) *bool { return &p.MasterOnly }),
	portBool("disabled", func(p *ptp.PortConfig) *bool { return &p.Disabled }),
	portBool("auto_delay", func(p *ptp.PortConfig) *bool { return &p.AutoDelay }),
	portBool("hybrid_e2e", func(p *ptp.PortConfig) *bool { return &p.HybridE2E }),
	{Name: "unicast_masters", Expect: "IP or MAC addresses of masters, which are asked for unicast service", Many: true,
		Set: func(p *ptp.PortConfig, s string) error {
			a, err := transport.ParseAddr(s)
			p.Unicast.Masters = append(slices.Clip(p.Unicast.Masters), a)
			return err
		}},
	{Name: "unicast_duration", Expect: "the seconds of unicast service to ask for, 10 to 86400", Set: func(p *ptp.PortConfig, s string) error {
		return setInt(&p.Unicast.Duration, s, 10, 86400)
	}},
	portBool("unicast_listen", func(p *ptp.PortConfig) *bool { return &p.Unicast.Listen }),
	portBool("no_multicast", func(p *ptp.PortConfig) *bool { return &p.NoMulticast }),
	{Name: "unicast_clients", Expect: "a number of clients from 1 to 4096", Set: func(p *ptp.PortConfig, s string) error {
		return setInt(&p.Unicast.Limits.Clients, s, 1, 4096)
	}},
	portBool("as_capable", func(p *ptp.PortConfig) *bool { return &p.AsCapable }),
	interval("announce_interval", func(p *ptp.PortConfig) *int8 { return &p.LogAnnounceInterval }),
	interval("sync_interval", func(p *ptp.PortConfig) *int8 { return &p.LogSyncInterval }),
	interval("delay_req_interval", func(p *ptp.PortConfig) *int8 { return &p.LogMinDelayReqInterval }),
	interval("pdelay_req_interval", func(p *ptp.PortConfig) *int8 { return &p.LogMinPdelayReqInterval }),
	{Name: "announce_receipt_timeout", Expect: "a number of announce intervals from 2 to 255", Set: func(p *ptp.PortConfig, s string) error { return setInt(&p.AnnounceReceiptTimeout, s, 2, 255) }},
	{Name: "sync_receipt_timeout", Expect: "a number of sync intervals from 0 to 255", Set: func(p *ptp.PortConfig, s string) error { return setInt(&p.SyncReceiptTimeout, s, 0, 255) }},
	interval("oper_sync_interval", func(p *ptp.PortConfig) *int8 { return &p.OperLogSyncInterval }),
	interval("oper_pdelay_req_interval", func(p *ptp.PortConfig) *int8 { return &p.OperLogPdelayReqInterval }),
	length("delay_asymmetry", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.DelayAsymmetry }),
	length("ingress_latency", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.IngressLatency }),
	length("egress_latency", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.EgressLatency }),
	portDuration("neighbor_prop_delay_thresh", func(p *ptp.PortConfig) *time.Duration { return &p.NeighborPropDelayThresh }),
	{Name: "allowed_lost_responses", Expect: "a number from 1 to 255", Set: func(p *ptp.PortConfig, s string) error { return setInt(&p.AllowedLostResponses, s, 1, 255) }},
	portDuration("tx_timestamp_timeout", func(p *ptp.PortConfig) *time.Duration { return &p.TxTimestampTimeout }),
	portDuration("fault_reset_interval", func(p *ptp.PortConfig) *time.Duration { return &p.FaultReset }),
	{Name: "local_priority", Expect: "a priority from 1 to 255", Set: func(p *ptp.PortConfig, s string) error { return setInt(&p.LocalPriority, s, 1, 255) }},
}

var (
	mechanisms = map[msg.DelayMechanism]string{msg.DelayE2E: "e2e", msg.DelayP2P: "p2p", msg.DelayNone: "none"}
	roles      = [...]string{ptp.Dynamic: "dynamic", ptp.MasterRole: "master", ptp.SlaveRole: "slave"}
)

// everyPort makes settings of an instance out of those of a port.
func everyPort() (all []field) {
	for _, p := range Port {
		set := p.Set
		all = append(all, field{Name: p.Name, Expect: p.Expect, Many: p.Many, Set: func(c *ptp.Config, s string) error {
			for i := range c.Ports {
				if err := set(&c.Ports[i], s); err != nil {
					return err
				}
			}
			if p.Name == "local_priority" {
				return setInt(&c.LocalPriority, s, 1, 255)
			}
			return nil
		}})
	}
	return all
}

func setPower(c *ptp.Config, s string) error {
	years := map[string]int{"none": 0, "2011": 2011, "2017": 2017}
	year, ok := years[s]
	if !ok {
		return errValue
	}
	c.Power.Year = year
	return nil
}

// integer is what setInt can fill.
type integer interface {
	~int | ~int8 | ~int16 | ~uint8 | ~uint16 | ~uint32
}

func setInt[T integer](v *T, s string, least, most int64) error {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < least || n > most {
		return errValue
	}
	*v = T(n)
	return nil
}

func setFloat(v *float64, s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return errValue
	}
	*v = f
	return nil
}

func setDuration(v *time.Duration, s string, signed bool) error {
	d, err := ParseDuration(s)
	if err != nil || d < 0 && !signed {
		return errValue
	}
	*v = d
	return nil
}

// ParseDuration reads a duration such as 500ns, 1.5us or 30m; days and a bare
// 0 are possible too.
func ParseDuration(s string) (time.Duration, error) {
	if n := len(s); n > 1 && s[n-1] == 'd' {
		days, err := strconv.ParseFloat(s[:n-1], 64)
		if err != nil || math.Abs(days) > 100*365 {
			return 0, errValue
		}
		return time.Duration(days * float64(24*time.Hour)), nil
	}
	return time.ParseDuration(s)
}

func number(name string, of func(*ptp.Config) *uint8, least, most int64, expect string) field {
	return field{Name: name, Expect: expect, Set: func(c *ptp.Config, s string) error { return setInt(of(c), s, least, most) }}
}

func boolean(name string, of func(*ptp.Config) *bool) field {
	return field{Name: name, Expect: "true or false", Set: func(c *ptp.Config, s string) (err error) {
		*of(c), err = strconv.ParseBool(s)
		return err
	}}
}

func duration(name string, of func(*ptp.Config) *time.Duration) field {
	return field{Name: name, Expect: "a duration such as 10s", Set: func(c *ptp.Config, s string) error { return setDuration(of(c), s, false) }}
}

func inaccuracy(name string, of func(*ptp.Config) *uint32) field {
	return field{Name: name, Expect: "a number of nanoseconds", Set: func(c *ptp.Config, s string) error { return setInt(of(c), s, 0, math.MaxUint32) }}
}

// nanoseconds is a threshold that linuxptp gives in seconds, and which here
// has a unit.
func nanoseconds(name string, of func(*ptp.Config) *float64) field {
	return field{Name: name, Expect: "a duration such as 20us, 0 for never", Set: func(c *ptp.Config, s string) error {
		var d time.Duration
		err := setDuration(&d, s, false)
		*of(c) = float64(d)
		return err
	}}
}

func portBool(name string, of func(*ptp.PortConfig) *bool) port {
	return port{Name: name, Expect: "true or false", Set: func(p *ptp.PortConfig, s string) (err error) {
		*of(p), err = strconv.ParseBool(s)
		return err
	}}
}

func portDuration(name string, of func(*ptp.PortConfig) *time.Duration) port {
	return port{Name: name, Expect: "a duration such as 800ns", Set: func(p *ptp.PortConfig, s string) error { return setDuration(of(p), s, false) }}
}

func interval(name string, of func(*ptp.PortConfig) *int8) port {
	return port{Name: name, Expect: fmt.Sprintf("log2 of an interval in seconds, from %d to %d", ptp.MinLogInterval, ptp.MaxLogInterval), Set: func(p *ptp.PortConfig, s string) error {
		return setInt(of(p), s, ptp.MinLogInterval, ptp.MaxLogInterval)
	}}
}

func length(name string, of func(*ptp.PortConfig) *msg.TimeInterval) port {
	return port{Name: name, Expect: "a duration such as 120ns or -1.5us", Set: func(p *ptp.PortConfig, s string) error {
		var d time.Duration
		err := setDuration(&d, s, true)
		*of(p) = msg.IntervalOf(d)
		return err
	}}
}
