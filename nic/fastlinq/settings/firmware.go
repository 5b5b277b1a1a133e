package settings

import (
	"fmt"
	"time"

	"tapir/nic/param"
)

// FirmwarePolicy says where the driver takes the storm firmware from, in the
// words of devlink's fw_load_policy.
type FirmwarePolicy uint8

// The policies.
const (
	LoadDriver FirmwarePolicy = iota // the one that is built in
	LoadFlash                        // the image INIT_HW of the flash
	LoadDisk                         // a file: Firmware.File
)

// Firmware is the storm firmware that the driver loads.
type Firmware struct {
	Policy FirmwarePolicy
	File   []byte // with LoadDisk: a file of one of the four forms
}

func (f *Firmware) validate() error {
	if f.Policy == LoadDisk && f.File == nil {
		return fmt.Errorf("fw_load_policy: there is no firmware file: start the NIC with --firmware FILE")
	}
	return nil
}

// Health is what the health reporter does by itself, in the words of devlink.
type Health struct {
	AutoRecover bool          // begin a recovery at a hardware error
	Grace       time.Duration // not so long after the last one
}

// healthRows are the settings of the health reporter.
func (c *Config) healthRows() []*param.Row {
	return []*param.Row{
		param.Bool(param.Row{Name: "auto_recover", Origin: param.FastLinQ, Runtime: true,
			Help: "recover from hardware errors without the operator, by a new load of the function; " +
				"a failed fan waits for the operator"},
			&c.Health.AutoRecover, false),
		param.Duration(param.Row{Name: "grace_period", Origin: param.FastLinQ, Runtime: true,
			Help: "with auto_recover: how long after a recovery an error waits for the operator"},
			&c.Health.Grace, 0, 24*time.Hour, true),
	}
}

// firmwareRows are the settings of the storm firmware.
func (c *Config) firmwareRows() []*param.Row {
	return []*param.Row{
		param.Choice(param.Row{Name: "fw_load_policy", Origin: param.FastLinQ, Runtime: true,
			Help: "where the driver takes the storm firmware from when it loads: built in, the flash, or the file " +
				"of --firmware"}, &c.Firmware.Policy,
			param.Named("driver", LoadDriver), param.Named("flash", LoadFlash), param.Named("disk", LoadDisk)),
	}
}
