package settings

import (
	"fmt"

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

// firmwareRows are the settings of the storm firmware.
func (c *Config) firmwareRows() []*param.Row {
	return []*param.Row{
		param.Choice(param.Row{Name: "fw_load_policy", Origin: param.FastLinQ, Runtime: true,
			Help: "where the driver takes the storm firmware from when it loads: built in, the flash, or the file " +
				"of --firmware"}, &c.Firmware.Policy,
			param.Named("driver", LoadDriver), param.Named("flash", LoadFlash), param.Named("disk", LoadDisk)),
	}
}
