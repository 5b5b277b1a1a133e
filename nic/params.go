package nic

import (
	"tapir/nic/param"
	"tapir/nic/view"
)

// Setting is one value for a named setting.
type Setting struct{ Name, Value string }

// ShowParams describes the named settings and their values.
func (d *Device) ShowParams() []view.ParamInfo {
	return view.Params(d.cfg.Params())
}

// Set changes settings while the NIC runs, all or none. They count for what
// begins from now on: connections that exist keep theirs.
func (d *Device) Set(list ...Setting) error {
	cfg := d.cfg
	cfg.Hardware = cfg.Hardware.Clone()
	rows := cfg.Params()
	for _, s := range list {
		if r := param.Find(rows, s.Name); r != nil && r.Runtime && r.Host && !d.Host.Exists() {
			return errNoHost(r)
		}
		if err := param.Change(rows, s.Name, s.Value); err != nil {
			return err
		}
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := d.Hardware.Check(cfg.shape(), cfg.Hardware); err != nil {
		return err
	}
	d.cfg = cfg
	if d.IWARP != nil {
		d.IWARP.Configure(cfg.IWARP)
	}
	d.TCPEngine.SetParams(cfg.TCP.Params)
	d.tcp.SetSegments()
	d.Common.Log.SetMsglvl(cfg.Msglvl)
	d.PTP.SetFaults(cfg.PTP.Faults())
	err := d.Hardware.Apply(cfg.shape(), cfg.Hardware, d.called)
	d.holds = d.Hardware.Holds()
	return err
}
