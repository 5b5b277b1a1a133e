package settings

import (
	"cmp"
	"errors"
	"fmt"

	"tapir/nic/fastlinq/fcoe"
	"tapir/nic/param"
	"tapir/nic/verbs"
)

// FCoE are the parameters of the FCoE function. Zero fields stand for their defaults.
type FCoE fcoe.Params

// Values are the parameters with their defaults, for a NIC with an MTU.
func (f *FCoE) Values(mtu int) fcoe.Params {
	p := fcoe.Params(*f)
	storageDefaults(&p.Params, fcoe.MaxTasks)
	p.MTU = cmp.Or(p.MTU, min(mtu, fcoe.MaxMTU))
	return p
}

func (f *FCoE) validate(p verbs.Personality, mtu int) error {
	if p != verbs.FCoE {
		if *f != (FCoE{}) {
			return errors.New("parameters that begin with fcoe_ are of the FCoE function: use personality fcoe")
		}
		return nil
	}
	v := f.Values(mtu)
	if err := v.Validate(); err != nil {
		return fmt.Errorf("personality fcoe: %w", err)
	}
	return nil
}

// fcoeRows are the settings of the FCoE function.
func (c *Config) fcoeRows() []*param.Row {
	f := &c.FCoE
	return append(storageRows(&f.Params, &storageNames{"fcoe", "FCoE", "sq_num_pbl_pages", "num_cqs", "sequence",
		"sense data and response information", "commands that wait for the driver of a target", fcoe.MaxTasks}),
		param.Number(param.Row{Name: "fcoe_mtu", Origin: param.FastLinQ,
			Help: "octets of an FCoE frame behind the Ethernet header, 302 to 9000; 0: MTU of the NIC"}, &f.MTU,
			0, 0, fcoe.MaxMTU))
}
