// Package ptpconf reads the settings of PTP instances, of the switches' clocks
// and of oscillators by name, for YAML files and flags alike. Names follow
// linuxptp's where it has the setting.
package ptpconf

import (
	"fmt"
	"math"
	"slices"

	"tapir/lab/conf"
	"tapir/ptp"
	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
)

// intervals is what log2 of an interval has to be.
var intervals = fmt.Sprintf("log2 of an interval in seconds, from %d to %d", ptp.MinLogInterval, ptp.MaxLogInterval)

// Instance are the settings of an instance, bound to c. Those of Port are among
// them, for all ports at once.
func Instance(c *ptp.Config) []conf.Field {
	return append([]conf.Field{
		{Name: "domain", Expect: "a domain number from 0 to 255", Set: conf.Number(&c.Domain, 0, 255)},
		{Name: "sdo_id", Expect: "an sdoId from 0 to 0xfff", Set: conf.Number(&c.SdoID, 0, 0xfff)},
		{Name: "minor_version", Expect: "a minorVersionPTP from 0 to 15", Set: conf.Number(&c.MinorVersion, 0, 15)},
		{Name: "priority1", Expect: "a priority from 0 to 255", Set: conf.Number(&c.Priority1, 0, 255)},
		{Name: "priority2", Expect: "a priority from 0 to 255", Set: conf.Number(&c.Priority2, 0, 255)},
		{Name: "clock_class", Expect: "a clockClass from 0 to 255, such as 6 or 248",
			Set: conf.Number(&c.Quality.Class, 0, 255)},
		{Name: "clock_accuracy", Expect: "a clockAccuracy, such as 0x21",
			Set: conf.Number(&c.Quality.Accuracy, 0, 255)},
		{Name: "offset_scaled_log_variance", Expect: "an offsetScaledLogVariance, such as 0x4e5d",
			Set: conf.Number(&c.Quality.Variance, 0, 0xffff)},
		{Name: "gm_capable", Expect: "true or false", Set: conf.Bool(&c.GrandmasterCapable)},
		{Name: "slave_only", Expect: "true or false", Set: conf.Bool(&c.SlaveOnly)},
		{Name: "two_step", Expect: "true or false", Set: conf.Bool(&c.TwoStep)},
		{Name: "p2p_one_step", Expect: "true or false", Set: conf.Bool(&c.P2POneStep)},
		{Name: "free_running", Expect: "true or false", Set: conf.Bool(&c.FreeRunning)},
		{Name: "path_trace", Expect: "true or false", Set: conf.Bool(&c.PathTrace)},
		{Name: "follow_up_info", Expect: "true or false", Set: conf.Bool(&c.FollowUpInfo)},
		{Name: "clock_class_threshold", Expect: "a clock class from 0 to 255",
			Set: conf.Number(&c.MaxClockClass, 0, 255)},
		{Name: "max_steps_removed", Expect: "a number from 2 to 255", Set: conf.Number(&c.MaxStepsRemoved, 2, 255)},
		{Name: "power_profile", Expect: "the edition of IEEE C37.238, 2011 or 2017, or none",
			Set: conf.Choose(&c.Power.Year, map[string]int{"none": 0, "2011": 2011, "2017": 2017})},
		{Name: "power_grandmaster_inaccuracy", Expect: "a number of nanoseconds",
			Set: conf.Number(&c.Power.GrandmasterInaccuracy, 0, math.MaxUint32)},
		{Name: "power_network_inaccuracy", Expect: "a number of nanoseconds",
			Set: conf.Number(&c.Power.NetworkInaccuracy, 0, math.MaxUint32)},
		{Name: "power_total_inaccuracy", Expect: "a number of nanoseconds",
			Set: conf.Number(&c.Power.TotalInaccuracy, 0, math.MaxUint32)},
		{Name: "holdover", Expect: "a duration such as 10s", Set: conf.Duration(&c.HoldoverTime)},
		{Name: "utc_offset", Expect: "TAI - UTC in seconds, such as 37",
			Set: conf.Number(&c.Time.UTCOffset, math.MinInt16, math.MaxInt16)},
		{Name: "utc_offset_valid", Expect: "true or false", Set: conf.Bool(&c.Time.UTCOffsetValid)},
		{Name: "time_traceable", Expect: "true or false", Set: conf.Bool(&c.Time.TimeTraceable)},
		{Name: "frequency_traceable", Expect: "true or false", Set: conf.Bool(&c.Time.FrequencyTraceable)},
		{Name: "ptp_timescale", Expect: "true or false", Set: conf.Bool(&c.Time.PTPTimescale)},
		{Name: "time_source", Expect: "a timeSource, such as 0x20 (GNSS) or 0xa0 (internal oscillator)",
			Set: conf.Number(&c.Time.TimeSource, 0, 255)},
		{Name: "user_description", Expect: "a text of at most 128 octets", Set: conf.String(&c.Description)},
	}, slices.Concat(servoFields(&c.Servo), everyPort(c))...)
}

func servoFields(c *discipline.Config) []conf.Field {
	return []conf.Field{
		{Name: "servo", Expect: "pi, linreg or nullf", Set: conf.Parsed(&c.Kind, servo.ParseKind)},
		{Name: "software_constants", Expect: "true or false", Set: conf.Bool(&c.Software)},
		{Name: "kp", Expect: "the proportional constant of the PI servo, 0 for its own",
			Set: conf.Float(&c.Kp, 0)},
		{Name: "ki", Expect: "the integral constant of the PI servo, 0 for its own", Set: conf.Float(&c.Ki, 0)},
		{Name: "first_step_threshold", Expect: "a duration such as 20us, 0 for never",
			Set: conf.Nanoseconds(&c.FirstStep)},
		{Name: "step_threshold", Expect: "a duration such as 20us, 0 for never", Set: conf.Nanoseconds(&c.Step)},
		{Name: "servo_offset_threshold", Expect: "a duration such as 20us, 0 for never",
			Set: conf.Nanoseconds(&c.StableOffset)},
		{Name: "servo_num_offset_values", Expect: "a number of offsets from 0 to 1000",
			Set: conf.Number(&c.StableCount, 0, 1000)},
		{Name: "sanity_freq_limit", Expect: "a limit in ppb, 0 for none", Set: conf.Float(&c.SanityFreqLimit, 0)},
		{Name: "delay_filter", Expect: "moving_median or moving_average",
			Set: conf.Parsed(&c.DelayFilter, servo.ParseFilter)},
		{Name: "delay_filter_length", Expect: "a number of samples from 1 to 4096",
			Set: conf.Number(&c.DelayFilterLength, 1, 4096)},
		{Name: "lucky", Expect: "how many Syncs one is chosen from, 1 to 4096",
			Set: conf.Number(&c.Lucky, 1, 4096)},
	}
}

// Port are the settings of one port, bound to p.
func Port(p *ptp.PortConfig) []conf.Field {
	const length = "a duration such as 120ns or -1.5us"
	return []conf.Field{
		{Name: "delay_mechanism", Expect: "e2e, p2p or none", Set: conf.Choose(&p.DelayMechanism, mechanisms)},
		{Name: "role", Expect: "dynamic, master or slave", Set: conf.Choose(&p.Role, roles)},
		{Name: "master_only", Expect: "true or false", Set: conf.Bool(&p.MasterOnly)},
		{Name: "disabled", Expect: "true or false", Set: conf.Bool(&p.Disabled)},
		{Name: "auto_delay", Expect: "true or false", Set: conf.Bool(&p.AutoDelay)},
		{Name: "hybrid_e2e", Expect: "true or false", Set: conf.Bool(&p.HybridE2E)},
		{Name: "unicast_masters",
			Expect: "IP or MAC addresses of masters, which are asked for unicast service", Many: true,
			Set: conf.Append(&p.Unicast.Masters, transport.ParseAddr)},
		{Name: "unicast_duration", Expect: "the seconds of unicast service to ask for, 10 to 86400",
			Set: conf.Number(&p.Unicast.Duration, 10, 86400)},
		{Name: "unicast_listen", Expect: "true or false", Set: conf.Bool(&p.Unicast.Listen)},
		{Name: "no_multicast", Expect: "true or false", Set: conf.Bool(&p.NoMulticast)},
		{Name: "unicast_clients", Expect: "a number of clients from 1 to 4096",
			Set: conf.Number(&p.Unicast.Limits.Clients, 1, 4096)},
		{Name: "as_capable", Expect: "true or false", Set: conf.Bool(&p.AsCapable)},
		{Name: "announce_interval", Expect: intervals,
			Set: conf.Number(&p.LogAnnounceInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "sync_interval", Expect: intervals,
			Set: conf.Number(&p.LogSyncInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "delay_req_interval", Expect: intervals,
			Set: conf.Number(&p.LogMinDelayReqInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "pdelay_req_interval", Expect: intervals,
			Set: conf.Number(&p.LogMinPdelayReqInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "announce_receipt_timeout", Expect: "a number of announce intervals from 2 to 255",
			Set: conf.Number(&p.AnnounceReceiptTimeout, 2, 255)},
		{Name: "sync_receipt_timeout", Expect: "a number of sync intervals from 0 to 255",
			Set: conf.Number(&p.SyncReceiptTimeout, 0, 255)},
		{Name: "oper_sync_interval", Expect: intervals,
			Set: conf.Number(&p.OperLogSyncInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "oper_pdelay_req_interval", Expect: intervals,
			Set: conf.Number(&p.OperLogPdelayReqInterval, ptp.MinLogInterval, ptp.MaxLogInterval)},
		{Name: "delay_asymmetry", Expect: length, Set: conf.Parsed(&p.DelayAsymmetry, parseInterval)},
		{Name: "ingress_latency", Expect: length, Set: conf.Parsed(&p.IngressLatency, parseInterval)},
		{Name: "egress_latency", Expect: length, Set: conf.Parsed(&p.EgressLatency, parseInterval)},
		{Name: "neighbor_prop_delay_thresh", Expect: "a duration such as 800ns",
			Set: conf.Duration(&p.NeighborPropDelayThresh)},
		{Name: "allowed_lost_responses", Expect: "a number from 1 to 255",
			Set: conf.Number(&p.AllowedLostResponses, 1, 255)},
		{Name: "tx_timestamp_timeout", Expect: "a duration such as 800ns", Set: conf.Duration(&p.TxTimestampTimeout)},
		{Name: "fault_reset_interval", Expect: "a duration such as 800ns", Set: conf.Duration(&p.FaultReset)},
		{Name: "local_priority", Expect: "a priority from 1 to 255", Set: conf.Number(&p.LocalPriority, 1, 255)},
	}
}

var (
	mechanisms = map[string]msg.DelayMechanism{"e2e": msg.DelayE2E, "p2p": msg.DelayP2P, "none": msg.DelayNone}
	roles      = map[string]ptp.Role{"dynamic": ptp.Dynamic, "master": ptp.MasterRole, "slave": ptp.SlaveRole}
)

// everyPort makes settings of an instance out of those of a port.
func everyPort(c *ptp.Config) []conf.Field {
	all := Port(new(ptp.PortConfig))
	for i := range all {
		f := &all[i]
		f.Set = func(s string) error {
			for k := range c.Ports {
				if err := Port(&c.Ports[k])[i].Set(s); err != nil {
					return err
				}
				if f.Name == "local_priority" {
					c.LocalPriority = c.Ports[k].LocalPriority
				}
			}
			return nil
		}
	}
	return all
}

func parseInterval(s string) (msg.TimeInterval, error) {
	d, err := conf.ParseDuration(s)
	return msg.IntervalOf(d), err
}
