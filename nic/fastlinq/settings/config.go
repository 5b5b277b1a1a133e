// Package settings holds the configuration of a FastLinQ device with its
// parameters.
package settings

import (
	"cmp"
	"slices"

	"tapir/nic/fastlinq/selftest"
	"tapir/nic/hardware"
	"tapir/nic/param"
)

// Config describes a FastLinQ device and what its driver wants of it. The zero
// value of every field means its default.
type Config struct {
	Engines int // 1 or 2 (CMT); default 1
	CMT     CMT
	// Ethernet and Features are those of the host function's netdev.
	Ethernet Ethernet
	Features Features
	// Interrupts are those of queues and completions.
	Interrupts Interrupts
	// SelftestFault are the selftests that meet a fault.
	SelftestFault selftest.Fault
	// Link is the port, Board what the management firmware looks after.
	Link  Link
	Board Board
	// DCB is LLDP and DCBX of the port.
	DCB DCB
	// Firmware is that of the storms.
	Firmware Firmware
	Health   Health
	ISCSI    ISCSI // of personality iscsi
	FCoE     FCoE  // of personality fcoe
}

// NIC is a configuration beside what else is known of the NIC.
type NIC struct {
	hardware.Shape
	*Config
}

// Params are the settings, bound to c.
func (c *Config) Params() []*param.Row {
	return slices.Concat(c.interruptRows(), c.engineRows(), c.ethernetRows(), c.featureRows(), c.linkRows(),
		c.boardRows(), c.dcbRows(), c.firmwareRows(), c.healthRows(), c.iscsiRows(), c.fcoeRows())
}

// Validate says what is wrong with a configuration whose defaults are filled
// in, and how to mend it.
func (c *NIC) Validate() error {
	return cmp.Or(c.validateEngines(), c.Ethernet.validate(c), c.validateFeatures(), c.validateLink(),
		c.Firmware.validate(), c.DCB.validate(c.Classes.Values()), c.ISCSI.validate(c.RDMA),
		c.FCoE.validate(c.RDMA, c.MTU))
}
