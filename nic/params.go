package nic

import (
	"fmt"
	"slices"
	"strings"
)

// Param is one setting of a NIC that has a name: in `tapir nic`, in a
// nics.yaml, in `tapir set` and in docs/parameters.md.
type Param struct {
	Name    string
	Type    string // "bool", "number", "time", "list" or "choice"
	Expect  string // what a value looks like, for errors
	Help    string // the effect, one line
	Origin  string // where the name is known from
	Runtime bool   // may change while the NIC runs, for new connections

	host bool // of the host function: without a host TAP there is none
	get  func(c *Config) string
	set  func(c *Config, v string) error // errValue: not as Expect says
}

// Params returns all named settings, in the order of the documents.
func Params() []*Param { return slices.Clone(params) }

// FindParam returns the setting called name (`-` and `_` are the same), or
// nil.
func FindParam(name string) *Param {
	name = strings.ReplaceAll(name, "-", "_")
	for _, p := range params {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Get is the setting's value in c, defaults filled in, as Set reads it.
func (p *Param) Get(c *Config) string { return p.get(c) }

// Set takes the setting's value into c. The error names the setting and what
// was expected.
func (p *Param) Set(c *Config, v string) error {
	if p.set(c, strings.TrimSpace(v)) != nil {
		return fmt.Errorf("%s: %q: expected %s", p.Name, v, p.Expect)
	}
	return nil
}

// Setting is one value for a named setting.
type Setting struct{ Name, Value string }

// ParamInfo describes a setting and its present value for display.
type ParamInfo struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Type    string `json:"type"`
	Runtime bool   `json:"runtime"` // may be changed while the NIC runs
	Help    string `json:"help"`
}

// ShowParams describes the named settings and their values.
func (d *Device) ShowParams() []ParamInfo {
	list := make([]ParamInfo, len(params))
	for i, p := range params {
		list[i] = ParamInfo{Name: p.Name, Value: p.get(&d.cfg), Type: p.Type, Runtime: p.Runtime, Help: p.Help}
	}
	return list
}

// Set changes settings while the NIC runs, all or none. They count for what
// begins from now on: connections that exist keep theirs.
func (d *Device) Set(settings ...Setting) error {
	cfg := d.cfg
	for _, s := range settings {
		p := FindParam(s.Name)
		switch {
		case p == nil:
			return fmt.Errorf("%s: unknown setting; known are %s", s.Name, ParamNames())
		case !p.Runtime:
			return fmt.Errorf("%s: cannot change while the NIC runs: give it when the NIC starts, as --%s", p.Name, Flag(p.Name))
		case p.host && d.function == nil:
			return errNoHost(p)
		}
		if err := p.Set(&cfg, s.Value); err != nil {
			return err
		}
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := d.checkFunction(&cfg); err != nil {
		return err
	}
	if err := d.checkFirmware(&cfg); err != nil {
		return err
	}
	if err := d.checkCoalescing(&cfg); err != nil {
		return err
	}
	d.cfg = cfg
	d.configure()
	if err := d.setFunction(&cfg); err != nil {
		return err
	}
	return d.setCoalescing()
}

// configure hands the settings that may change to the engines.
func (d *Device) configure() {
	d.iwarp.Configure(d.cfg.IWARP)
	d.tcp.engine.SetParams(d.cfg.TCP.Params)
	d.tcp.engine.SetMaxSegs(d.cfg.maxSegs())
	d.common.Log.SetMsglvl(d.cfg.Msglvl)
	d.PTP.SetFaults(d.cfg.PTP.faults())
	d.Schedule(d.now, d.Manage) // in the next Poll, which knows the time
}

// ParamNames lists the names of all settings, for messages.
func ParamNames() string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

// Flag is the name of a setting as a flag of the command line.
func Flag(name string) string { return strings.ReplaceAll(name, "_", "-") }
