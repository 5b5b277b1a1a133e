package nic

import (
	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/param"
)

// device is a NIC under test with its FastLinQ device.
type device struct {
	*Device
	under
}

// under keeps the FastLinQ device below the parts of the NIC, whose names win.
type (
	under  struct{ deeper }
	deeper struct{ *fastlinq.Device }
)

// usual is the hardware of NICs under test whose configuration names no other.
var usual hardware.Config = &fastlinq.Config{}

// newNIC makes a NIC of the usual hardware, if cfg names no other.
func newNIC(cfg Config, env Env) (*device, error) {
	if cfg.Hardware == nil {
		cfg.Hardware = usual.Clone()
	}
	d, err := New(cfg, env)
	if err != nil {
		return nil, err
	}
	return &device{d, under{deeper{fastlinq.Of(d.Hardware)}}}, nil
}

// fastlinqOf is the configuration of the FastLinQ device.
func fastlinqOf(c *Config) *fastlinq.Config {
	if c.Hardware == nil {
		c.Hardware = &fastlinq.Config{}
	}
	return c.Hardware.(*fastlinq.Config)
}

// allParams are the settings of a NIC of FastLinQ hardware.
func allParams() []*param.Row {
	c := &Config{}
	fastlinqOf(c)
	return c.Params()
}

func (d *device) failures() uint64 { n, _ := d.Failures(); return n }
func (d *device) lastErr() error   { _, err := d.Failures(); return err }
