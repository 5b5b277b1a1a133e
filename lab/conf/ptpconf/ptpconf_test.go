package ptpconf

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// values has, for each setting, one that is not the default.
var values = map[string]string{
	"domain": "3", "unicast_masters": "10.0.0.1", "unicast_duration": "60", "unicast_listen": "true", "no_multicast": "true", "sdo_id": "0x100", "minor_version": "0", "priority1": "1", "priority2": "1", "clock_class": "6",
	"clock_accuracy": "0x21", "offset_scaled_log_variance": "0x4e5d", "gm_capable": "false", "slave_only": "true",
	"two_step": "false", "p2p_one_step": "true", "free_running": "true", "path_trace": "true", "follow_up_info": "true",
	"max_steps_removed": "9", "clock_class_threshold": "7", "auto_delay": "true", "holdover": "10s", "utc_offset": "-1", "utc_offset_valid": "true", "time_traceable": "true",
	"frequency_traceable": "true", "ptp_timescale": "false", "time_source": "0x20", "user_description": "rack 4",
	"servo": "linreg", "software_constants": "true", "kp": "0.5", "ki": "0.2", "first_step_threshold": "1ms", "step_threshold": "1us",
	"servo_offset_threshold": "30ns", "servo_num_offset_values": "8", "sanity_freq_limit": "7", "delay_filter": "moving_average",
	"delay_filter_length": "4", "lucky": "16",
	"delay_mechanism": "p2p", "role": "master", "master_only": "true", "disabled": "true", "hybrid_e2e": "true", "as_capable": "true",
	"announce_interval": "-3", "sync_interval": "-4", "delay_req_interval": "-4", "pdelay_req_interval": "2", "announce_receipt_timeout": "5",
	"sync_receipt_timeout": "3", "delay_asymmetry": "-1.5us", "ingress_latency": "120ns", "egress_latency": "80ns",
	"neighbor_prop_delay_thresh": "1us", "allowed_lost_responses": "1", "tx_timestamp_timeout": "1ms", "fault_reset_interval": "4s",
	"local_priority": "7", "power_profile": "2011", "power_grandmaster_inaccuracy": "50", "power_network_inaccuracy": "200", "power_total_inaccuracy": "250",
	"oper_sync_interval": "0", "oper_pdelay_req_interval": "3", "unicast_clients": "3",
}

// Each setting changes something of its own, and refuses what it cannot be.
func TestInstanceSettings(t *testing.T) {
	fresh := func() ptp.Config {
		return ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{7: 1}, 2)
	}
	seen := map[string]string{}
	for _, f := range Instance(new(ptp.Config)) {
		value, ok := values[f.Name]
		if !ok {
			t.Errorf("%s: the test has no value", f.Name)
			continue
		}
		c := fresh()
		if err := conf.Set(Instance(&c), f.Name, value); err != nil {
			t.Error(err)
		}
		if reflect.DeepEqual(c, fresh()) {
			t.Errorf("%s: %s changes nothing", f.Name, value)
		}
		changed := strings.Join(differences(reflect.ValueOf(c), reflect.ValueOf(fresh()), ""), " ")
		if other, twice := seen[changed]; twice {
			t.Errorf("%s and %s change the same", f.Name, other)
		}
		seen[changed] = f.Name
		if f.Name == "user_description" {
			continue
		}
		if err := conf.Set(Instance(&c), f.Name, "x"); err == nil || !strings.Contains(err.Error(), f.Expect) {
			t.Errorf("%s: x: %v", f.Name, err)
		}
	}
	if len(seen) != len(values) {
		t.Errorf("%d settings, %d values", len(seen), len(values))
	}
}

// differences are the paths at which a and b differ.
func differences(a, b reflect.Value, path string) (all []string) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			all = append(all, differences(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return []string{path}
		}
		for i := range a.Len() {
			all = append(all, differences(a.Index(i), b.Index(i), path)...)
		}
	default:
		if !a.Equal(b) {
			all = append(all, path)
		}
	}
	return all
}

func TestValues(t *testing.T) {
	c := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{7: 1}, 2)
	for name, value := range values {
		if err := conf.Set(Instance(&c), name, value); err != nil {
			t.Error(err)
		}
	}
	p := c.Ports[1]
	if c.Servo.FirstStep != 1e6 || c.Servo.StableOffset != 30 || c.Time.UTCOffset != -1 || c.Quality.Variance != 0x4e5d ||
		p.DelayAsymmetry != msg.IntervalOf(-1500) || p.LogSyncInterval != -4 || p.FaultReset != 4*time.Second || p.Role != ptp.MasterRole {
		t.Fatalf("%+v", c)
	}
}

func TestClockSettings(t *testing.T) {
	read := func(text string) (c clock.Config, err error) {
		n, err := conf.Read("f.yaml", []byte(text), "a clock")
		if err != nil {
			t.Fatal(err)
		}
		err = conf.Decode(n, "the settings of a clock", Clock(&c))
		return c, err
	}
	c, err := read("oscillator: {preset: xo, ppb: -12.5, seed: 9}\nquantum: 8ns\njitter: 4ns\nmax_adj: 500000\ndrift_register: true\n")
	if o := c.Oscillator; err != nil || o.PPB != -12.5 || o.WhiteFM != 0.5 || o.Seed != 9 || c.Quantum != 8 || c.Jitter != 4 || c.MaxAdj != 500000 || !c.DriftRegister {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err = read("oscillator: tcxo"); err != nil || c.Oscillator.PPB != 1200 {
		t.Fatalf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"oscillator: quartz":              "f.yaml:1:13: oscillator: oscillator \"quartz\"",
		"oscillator: [xo]":                "f.yaml:1:13: expected the name of a preset",
		"oscillator: {white_fm: -1}":      "f.yaml:1:24: white_fm: expected the Allan deviation",
		"oscillator: {temperature: 5}":    "a sine of temperature needs a period",
		"quantum: 8":                      "f.yaml:1:10: quantum: expected the granularity",
		"quantum: 8ns\noscilator: {a: b}": "f.yaml:2:1: oscilator: unknown key",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{"1d": 24 * time.Hour, "1.5us": 1500, "-2ns": -2, "0": 0} {
		if got, err := conf.ParseDuration(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"d", "1e9d", "5", "x"} {
		if d, err := conf.ParseDuration(s); err == nil {
			t.Errorf("%s: %v", s, d)
		}
	}
}
