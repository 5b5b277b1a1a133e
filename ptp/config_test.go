package ptp

import (
	"strings"
	"testing"

	"tapir/ptp/msg"
)

// TestProfilesAreValid also checks what each profile prescribes.
func TestProfilesAreValid(t *testing.T) {
	for p := range numProfiles {
		cfg := NewConfig(p, id(1), 2)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
		if got, err := ParseProfile(p.String()); err != nil || got != p {
			t.Errorf("ParseProfile(%q) = %v, %v", p.String(), got, err)
		}
	}
	if _, err := ParseProfile("none"); err == nil || !strings.Contains(err.Error(), "g8275.1") {
		t.Errorf("an unknown profile: %v", err)
	}
}

// TestValidate makes one thing wrong at a time.
func TestValidate(t *testing.T) {
	for want, spoil := range map[string]func(c *Config){
		"profile: unknown value":         func(c *Config) { c.Profile = 99 },
		"clock identity":                 func(c *Config) { c.ClockIdentity = msg.ClockIdentity{} },
		"sdoId: 0x1000":                  func(c *Config) { c.SdoID = 0x1000 },
		"minor version: 16":              func(c *Config) { c.MinorVersion = 16 },
		"max steps removed: 1":           func(c *Config) { c.MaxStepsRemoved = 1 },
		"foreign master threshold: 0":    func(c *Config) { c.ForeignThreshold = 0 },
		"data set comparison":            func(c *Config) { c.Algorithm = 9 },
		"clockClass 6":                   func(c *Config) { c.SlaveOnly, c.Quality.Class = true, 6 },
		"power profile":                  func(c *Config) { c.Power.Year = 2012 },
		"holdover time":                  func(c *Config) { c.HoldoverTime = -1 },
		"description: 129":               func(c *Config) { c.Description = strings.Repeat("x", 129) },
		"ports: 0":                       func(c *Config) { c.Ports = nil },
		"ports: a slave-only clock":      func(c *Config) { c.SlaveOnly = true; c.Ports = append(c.Ports, c.Ports[0]) },
		"limits":                         func(c *Config) { c.Limits.Requests = 0 },
		"majorSdoId is 1":                func(c *Config) { c.Profile = GPTP },
		"domain 0 is not in 24..43":      func(c *Config) { c.Profile = G8275x1 },
		"domain 0 is not in 44..63":      func(c *Config) { c.Profile = G8275x2 },
		"port 1: announce interval":      func(c *Config) { c.Ports[0].LogAnnounceInterval = 20 },
		"port 1: sync interval":          func(c *Config) { c.Ports[0].LogSyncInterval = -11 },
		"port 1: delay mechanism":        func(c *Config) { c.Ports[0].DelayMechanism = 77 },
		"port 1: announce receipt":       func(c *Config) { c.Ports[0].AnnounceReceiptTimeout = 1 },
		"port 1: role: unknown":          func(c *Config) { c.Ports[0].Role = 3 },
		"port 1: a port of a slave-only": func(c *Config) { c.SlaveOnly, c.Ports[0].MasterOnly = true, true },
		"port 1: role slave":             func(c *Config) { c.Ports[0].Role, c.Ports[0].MasterOnly = SlaveRole, true },
		"port 1: hybrid":                 func(c *Config) { c.Ports[0].DelayMechanism, c.Ports[0].HybridE2E = msg.DelayP2P, true },
		"port 1: tx timestamp timeout":   func(c *Config) { c.Ports[0].TxTimestampTimeout = 0 },
		"port 1: fault reset":            func(c *Config) { c.Ports[0].FaultReset = -1 },
		"servo":                          func(c *Config) { c.Servo.Kp = -1 },
		"delay filter: 0":                func(c *Config) { c.Servo.DelayFilterLength = 0 },
		"lucky":                          func(c *Config) { c.Servo.Lucky = -1 },
	} {
		cfg := NewConfig(DefaultE2E, id(1), 1)
		spoil(&cfg)
		if _, err := New(cfg, ideal(t), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
