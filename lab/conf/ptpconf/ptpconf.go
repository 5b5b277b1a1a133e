// Package ptpconf reads the settings of PTP instances, of the switches' clocks
// and of oscillators by name, for YAML files and flags alike. Names follow
// linuxptp's where it has the setting.
package ptpconf

import (
	"fmt"
	"math"
	"slices"
	"time"

	"tapir/lab/conf"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
)

// conf.ErrValue is a value that is not what was expected; whoever took it says what
// that is.

// intervals is what log2 of an interval has to be.
var intervals = fmt.Sprintf("log2 of an interval in seconds, from %d to %d", ptp.MinLogInterval, ptp.MaxLogInterval)

type (
	field = conf.Field[ptp.Config]
	port  = conf.Field[ptp.PortConfig]
)

// Instance are the settings of an instance. Those of Port are among them, for
// all ports at once.
var Instance = append([]field{
	conf.NumberField("domain", "a domain number from 0 to 255", func(c *ptp.Config) *uint8 {
		return &c.Domain
	}, 0, 255),
	conf.NumberField("sdo_id", "an sdoId from 0 to 0xfff", func(c *ptp.Config) *uint16 { return &c.SdoID }, 0, 0xfff),
	conf.NumberField("minor_version", "a minorVersionPTP from 0 to 15", func(c *ptp.Config) *uint8 {
		return &c.MinorVersion
	}, 0, 15), conf.NumberField("priority1", "a priority from 0 to 255", func(c *ptp.Config) *uint8 {
		return &c.Priority1
	}, 0, 255),
	conf.NumberField("priority2", "a priority from 0 to 255", func(c *ptp.Config) *uint8 {
		return &c.Priority2
	}, 0, 255), conf.NumberField("clock_class", "a clockClass from 0 to 255, such as 6 or 248",
		func(c *ptp.Config) *uint8 {
			return &c.Quality.Class
		}, 0, 255),
	conf.NumberField("clock_accuracy", "a clockAccuracy, such as 0x21", func(c *ptp.Config) *uint8 {
		return &c.Quality.Accuracy
	}, 0, 255), conf.NumberField("offset_scaled_log_variance", "an offsetScaledLogVariance, such as 0x4e5d",
		func(c *ptp.Config) *uint16 {
			return &c.Quality.Variance
		}, 0, 0xffff),
	conf.BoolField("gm_capable", "true or false", func(c *ptp.Config) *bool { return &c.GrandmasterCapable }),
	conf.BoolField("slave_only", "true or false", func(c *ptp.Config) *bool { return &c.SlaveOnly }),
	conf.BoolField("two_step", "true or false", func(c *ptp.Config) *bool { return &c.TwoStep }),
	conf.BoolField("p2p_one_step", "true or false", func(c *ptp.Config) *bool { return &c.P2POneStep }),
	conf.BoolField("free_running", "true or false", func(c *ptp.Config) *bool { return &c.FreeRunning }),
	conf.BoolField("path_trace", "true or false", func(c *ptp.Config) *bool { return &c.PathTrace }),
	conf.BoolField("follow_up_info", "true or false", func(c *ptp.Config) *bool { return &c.FollowUpInfo }),
	conf.NumberField("clock_class_threshold", "a clock class from 0 to 255", func(c *ptp.Config) *uint8 {
		return &c.MaxClockClass
	}, 0, 255), conf.NumberField("max_steps_removed", "a number from 2 to 255", func(c *ptp.Config) *uint16 {
		return &c.MaxStepsRemoved
	}, 2, 255),
	{Name: "power_profile", Expect: "the edition of IEEE C37.238, 2011 or 2017, or none", Set: setPower},
	conf.NumberField("power_grandmaster_inaccuracy", "a number of nanoseconds", func(c *ptp.Config) *uint32 {
		return &c.Power.GrandmasterInaccuracy
	}, 0, math.MaxUint32), conf.NumberField("power_network_inaccuracy", "a number of nanoseconds",
		func(c *ptp.Config) *uint32 {
			return &c.Power.NetworkInaccuracy
		}, 0, math.MaxUint32),
	conf.NumberField("power_total_inaccuracy", "a number of nanoseconds", func(c *ptp.Config) *uint32 {
		return &c.Power.TotalInaccuracy
	}, 0, math.MaxUint32), conf.DurationField("holdover", "a duration such as 10s", false,
		func(c *ptp.Config) *time.Duration {
			return &c.HoldoverTime
		}),
	conf.NumberField("utc_offset", "TAI - UTC in seconds, such as 37", func(c *ptp.Config) *int16 {
		return &c.Time.UTCOffset
	}, math.MinInt16, math.MaxInt16), conf.BoolField("utc_offset_valid", "true or false", func(c *ptp.Config) *bool {
		return &c.Time.UTCOffsetValid
	}),
	conf.BoolField("time_traceable", "true or false", func(c *ptp.Config) *bool { return &c.Time.TimeTraceable }),
	conf.BoolField("frequency_traceable", "true or false", func(c *ptp.Config) *bool {
		return &c.Time.FrequencyTraceable
	}), conf.BoolField("ptp_timescale", "true or false", func(c *ptp.Config) *bool { return &c.Time.PTPTimescale }),
	conf.NumberField("time_source", "a timeSource, such as 0x20 (GNSS) or 0xa0 (internal oscillator)",
		func(c *ptp.Config) *msg.TimeSource { return &c.Time.TimeSource }, 0, 255),
	{Name: "user_description", Expect: "a text of at most 128 octets", Set: func(c *ptp.Config, s string) error {
		c.Description = s
		return nil
	}},
	{Name: "servo", Expect: "pi, linreg or nullf", Set: func(c *ptp.Config, s string) (err error) {
		c.Servo.Kind, err = servo.ParseKind(s)
		return err
	}}, conf.BoolField("software_constants", "true or false", func(c *ptp.Config) *bool { return &c.Servo.Software }),
	conf.FloatField("kp", "the proportional constant of the PI servo, 0 for its own", func(c *ptp.Config) *float64 {
		return &c.Servo.Kp
	}, 0), conf.FloatField("ki", "the integral constant of the PI servo, 0 for its own", func(c *ptp.Config) *float64 {
		return &c.Servo.Ki
	}, 0),
	conf.NanosecondsField("first_step_threshold", "a duration such as 20us, 0 for never", func(c *ptp.Config) *float64 {
		return &c.Servo.FirstStep
	}), conf.NanosecondsField("step_threshold", "a duration such as 20us, 0 for never", func(c *ptp.Config) *float64 {
		return &c.Servo.Step
	}),
	conf.NanosecondsField("servo_offset_threshold", "a duration such as 20us, 0 for never",
		func(c *ptp.Config) *float64 {
			return &c.Servo.StableOffset
		}), conf.NumberField("servo_num_offset_values", "a number of offsets from 0 to 1000", func(c *ptp.Config) *int {
		return &c.Servo.StableCount
	}, 0, 1000),
	conf.FloatField("sanity_freq_limit", "a limit in ppb, 0 for none", func(c *ptp.Config) *float64 {
		return &c.Servo.SanityFreqLimit
	}, 0),
	{Name: "delay_filter", Expect: "moving_median or moving_average", Set: func(c *ptp.Config, s string) (err error) {
		c.Servo.DelayFilter, err = servo.ParseFilter(s)
		return err
	}},
	conf.NumberField("delay_filter_length", "a number of samples from 1 to 4096", func(c *ptp.Config) *int {
		return &c.Servo.DelayFilterLength
	}, 1, 4096), conf.NumberField("lucky", "how many Syncs one is chosen from, 1 to 4096", func(c *ptp.Config) *int {
		return &c.Servo.Lucky
	}, 1, 4096),
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
		return conf.ErrValue
	}},
	{Name: "role", Expect: "dynamic, master or slave", Set: func(p *ptp.PortConfig, s string) error {
		for r, name := range roles {
			if s == name {
				p.Role = ptp.Role(r)
				return nil
			}
		}
		return conf.ErrValue
	}},
	conf.BoolField("master_only", "true or false", func(p *ptp.PortConfig) *bool { return &p.MasterOnly }),
	conf.BoolField("disabled", "true or false", func(p *ptp.PortConfig) *bool { return &p.Disabled }),
	conf.BoolField("auto_delay", "true or false", func(p *ptp.PortConfig) *bool { return &p.AutoDelay }),
	conf.BoolField("hybrid_e2e", "true or false", func(p *ptp.PortConfig) *bool { return &p.HybridE2E }),
	{Name: "unicast_masters", Expect: "IP or MAC addresses of masters, which are asked for unicast service", Many: true,
		Set: func(p *ptp.PortConfig, s string) error {
			a, err := transport.ParseAddr(s)
			p.Unicast.Masters = append(slices.Clip(p.Unicast.Masters), a)
			return err
		}},
	conf.NumberField("unicast_duration", "the seconds of unicast service to ask for, 10 to 86400",
		func(p *ptp.PortConfig) *uint32 {
			return &p.Unicast.Duration
		}, 10, 86400), conf.BoolField("unicast_listen", "true or false", func(p *ptp.PortConfig) *bool {
		return &p.Unicast.Listen
	}),
	conf.BoolField("no_multicast", "true or false", func(p *ptp.PortConfig) *bool { return &p.NoMulticast }),
	conf.NumberField("unicast_clients", "a number of clients from 1 to 4096", func(p *ptp.PortConfig) *int {
		return &p.Unicast.Limits.Clients
	}, 1, 4096), conf.BoolField("as_capable", "true or false", func(p *ptp.PortConfig) *bool { return &p.AsCapable }),
	conf.NumberField("announce_interval", intervals, func(p *ptp.PortConfig) *int8 {
		return &p.LogAnnounceInterval
	}, ptp.MinLogInterval, ptp.MaxLogInterval), conf.NumberField("sync_interval", intervals,
		func(p *ptp.PortConfig) *int8 {
			return &p.LogSyncInterval
		}, ptp.MinLogInterval, ptp.MaxLogInterval),
	conf.NumberField("delay_req_interval", intervals, func(p *ptp.PortConfig) *int8 {
		return &p.LogMinDelayReqInterval
	}, ptp.MinLogInterval, ptp.MaxLogInterval), conf.NumberField("pdelay_req_interval", intervals,
		func(p *ptp.PortConfig) *int8 {
			return &p.LogMinPdelayReqInterval
		}, ptp.MinLogInterval, ptp.MaxLogInterval),
	conf.NumberField("announce_receipt_timeout", "a number of announce intervals from 2 to 255",
		func(p *ptp.PortConfig) *uint8 {
			return &p.AnnounceReceiptTimeout
		}, 2, 255), conf.NumberField("sync_receipt_timeout", "a number of sync intervals from 0 to 255",
		func(p *ptp.PortConfig) *uint8 {
			return &p.SyncReceiptTimeout
		}, 0, 255),
	conf.NumberField("oper_sync_interval", intervals, func(p *ptp.PortConfig) *int8 {
		return &p.OperLogSyncInterval
	}, ptp.MinLogInterval, ptp.MaxLogInterval), conf.NumberField("oper_pdelay_req_interval", intervals,
		func(p *ptp.PortConfig) *int8 {
			return &p.OperLogPdelayReqInterval
		}, ptp.MinLogInterval, ptp.MaxLogInterval),
	length("delay_asymmetry", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.DelayAsymmetry }),
	length("ingress_latency", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.IngressLatency }),
	length("egress_latency", func(p *ptp.PortConfig) *msg.TimeInterval { return &p.EgressLatency }),
	conf.DurationField("neighbor_prop_delay_thresh", "a duration such as 800ns", false,
		func(p *ptp.PortConfig) *time.Duration {
			return &p.NeighborPropDelayThresh
		}), conf.NumberField("allowed_lost_responses", "a number from 1 to 255", func(p *ptp.PortConfig) *uint8 {
		return &p.AllowedLostResponses
	}, 1, 255),
	conf.DurationField("tx_timestamp_timeout", "a duration such as 800ns", false,
		func(p *ptp.PortConfig) *time.Duration {
			return &p.TxTimestampTimeout
		}), conf.DurationField("fault_reset_interval", "a duration such as 800ns", false,
		func(p *ptp.PortConfig) *time.Duration {
			return &p.FaultReset
		}),
	conf.NumberField("local_priority", "a priority from 1 to 255", func(p *ptp.PortConfig) *uint8 {
		return &p.LocalPriority
	}, 1, 255),
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
				if p.Name == "local_priority" {
					c.LocalPriority = c.Ports[i].LocalPriority
				}
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
		return conf.ErrValue
	}
	c.Power.Year = year
	return nil
}

func length(name string, of func(*ptp.PortConfig) *msg.TimeInterval) port {
	return port{Name: name, Expect: "a duration such as 120ns or -1.5us", Set: func(p *ptp.PortConfig, s string) error {
		d, err := conf.ParseDuration(s)
		*of(p) = msg.IntervalOf(d)
		return err
	}}
}
