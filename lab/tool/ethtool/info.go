package ethtool

import (
	"errors"
	"strconv"
	"strings"

	"tapir/lab/node/nicnode"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
)

// infoOptions describe a device and print its counters.
var infoOptions = []Option{
	{Short: "i", Long: "driver", Example: "-i nic0", Usage: "driver information", run: printDriver},
	{Short: "S", Long: statistics, Example: "-S --all nic0", Usage: "statistics", run: printStats},
	{Short: "P", Long: "show-permaddr", Example: "-P nic0", Usage: "permanent address", run: printPermAddr},
}

// stampOptions show the time stamps of a device.
var stampOptions = []Option{{Short: "T", Long: "show-time-stamping", Example: "-T tap0",
	Usage: "time stamps and hardware clock", run: printTimestamping}}

// selftestOptions run the self-tests.
var selftestOptions = []Option{{Short: "t", Long: "test", Example: "-t nic0 online",
	Usage:    "selftests: offline (default; cuts the wire off for a moment) or online",
	Operands: "offline|online", run: runSelftest}}

// flashOptions write the flash.
var flashOptions = []Option{{Short: "f", Long: "flash", Example: "-f nic0 init_values-8.40.33.0.bin",
	Usage: "write FILE into the flash: storm firmware of any form or the image of a whole flash; else name " +
		"the REGION", Operands: "FILE [REGION]", run: flashFile}}

func printDriver(c *call) error {
	e := *c.nic
	if !c.fabric {
		e.Version += " [storm " + e.StormVersion + "]"
	}
	nicOnly := either(c.fabric, "no", "yes")
	c.printf("driver: %s\nversion: %s\nfirmware-version: %s\nexpansion-rom-version: %s\nbus-info: %s\n"+
		"supports-statistics: yes\nsupports-test: %s\nsupports-eeprom-access: %s\nsupports-register-dump: %s\n"+
		"supports-priv-flags: no\n",
		e.Driver, e.Version, e.FirmwareVersion, e.BootVersion, e.BusInfo, nicOnly, nicOnly, nicOnly)
	return nil
}

// statistics is the option that VFs have, too.
const statistics = "statistics"

func printStats(c *call) error {
	c.printf("NIC statistics:\n")
	line := func(name string, value uint64) { c.printf("     %s: %d\n", name, value) }
	for _, s := range c.nic.Stats {
		if vf, name, of := s.OfVF(); c.vf == 0 {
			line(s.Name, s.Value)
		} else if of && vf == c.vf-1 {
			line(name, s.Value)
		}
	}
	own := c.nic.Own
	if !c.all || c.vf > 0 {
		return nil
	}
	if !c.fabric {
		if err := c.client.Show(c, "counters", &own); err != nil {
			return err
		}
	}
	for _, s := range own {
		if _, _, of := s.OfVF(); !of { // those are there already
			line(s.Name, s.Value)
		}
	}
	return nil
}

func printPermAddr(c *call) error {
	c.printf("Permanent address: %s\n", either(c.nic.PermAddr.IsZero(), "not set", c.nic.PermAddr.String()))
	return nil
}

func printTimestamping(c *call) error {
	caps, err := c.client.HWTimestampCaps(c)
	if err != nil {
		return err
	}
	c.printf("Time stamping parameters for %s:\nCapabilities:\n\thardware-transmit\n\tsoftware-transmit\n"+
		"\thardware-receive\n"+
		"\tsoftware-receive\n\tsoftware-system-clock\n\thardware-raw-clock\n"+
		"PTP Hardware Clock: %s\nHardware Transmit Timestamp Modes:\n", c.Name, caps.Clock)
	for _, t := range caps.TxTypes {
		c.printf("\t%v\n", t)
	}
	c.printf("Hardware Receive Filter Modes:\n")
	for _, f := range caps.RxFilters {
		c.printf("\t%v\n", f)
	}
	return nil
}

// runSelftest prints the report as ethtool does. The error tells why tests
// failed.
func runSelftest(c *call) error {
	mode := "offline"
	if len(c.operands) > 0 {
		mode = strings.Join(c.operands, " ")
	}
	if mode != "offline" && mode != "online" {
		return usage.Errorf("-t takes offline or online: tapir ethtool -t %s online", c.Name)
	}
	list, err := c.client.Selftest(c, mode == "offline")
	if err != nil {
		return err
	}
	rows := ""
	var failed []string
	for _, t := range list {
		if t.Fail != "" {
			failed = append(failed, t.Name+": "+t.Fail)
		}
		rows += t.Name + strings.Repeat("\t", (31-len(t.Name))/8) + "\t " + either(t.Fail == "", "0", "1") + "\n"
	}
	c.printf("The test result is %s\nThe test extra info:\n%s\n", either(failed == nil, "PASS", "FAIL"), rows)
	if failed != nil {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

// parseRegion parses the name of an image, or its number as ethtool has it.
func parseRegion(s string) (fastlinq.NVMType, error) {
	for _, t := range []fastlinq.NVMType{fastlinq.NVMTypeMFW, fastlinq.NVMTypeMBI, fastlinq.NVMTypeInitHW} {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 32)
	return fastlinq.NVMType(n), err
}

func flashFile(c *call) (err error) {
	if len(c.operands) == 0 || len(c.operands) > 2 {
		return usage.Errorf("-f takes a file, and perhaps a region: tapir ethtool -f %s init_values-8.40.33.0.bin",
			c.Name)
	}
	region := fastlinq.NVMType(0)
	if len(c.operands) == 2 {
		if region, err = parseRegion(c.operands[1]); err != nil {
			return usage.Errorf("region %q: use 0 (the file says what it is), MFW, MBI, INIT_HW, or the number of one",
				c.operands[1])
		}
	}
	file, err := nicnode.ReadFlashFile(c.operands[0])
	if err != nil {
		return err
	}
	return c.client.Flash(c, region, file)
}
