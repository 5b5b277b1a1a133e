package ethtool

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// memoryOptions show the memories of the device and let it blink.
var memoryOptions = []Option{
	{Short: "d", Long: "register-dump", Example: "-d nic0 raw on >registers",
		Usage: "register dump: raw on|off hex on|off file NAME", Operands: "raw on", run: printRegisters},
	{Short: "e", Long: "eeprom-dump", Example: "-e nic0 offset 0x100 length 64",
		Usage: "octets of the flash: raw on|off offset N length N", Operands: "offset N", run: printEEPROM},
	{Short: "E", Long: "change-eeprom",
		Usage: "refused, as the driver does not change single octets", Operands: "offset N", run: changeEEPROM},
	{Short: "m", Long: "module-info", Example: "-m nic0 hex on",
		Usage: "memory of the module, decoded: raw on|off hex on|off offset N length N", Operands: "hex on",
		run: printModule},
	{Short: "p", Long: "identify", Example: "-p nic0 5",
		Usage: "blink the port's LED for N seconds, or until Ctrl-C", Operands: "N", run: identify},
}

// dumpOperands are the operands of the options that show octets.
type dumpOperands struct {
	raw, hex       bool
	file           string
	ranged         bool // offset or length was given
	offset, length uint32
}

// parseDump parses operands, pairs of a name among known and a value.
func parseDump(option string, operands []string, known ...string) (o dumpOperands, err error) {
	for i := 0; i < len(operands); i += 2 {
		name := operands[i]
		switch {
		case !slices.Contains(known, name):
			return o, usage.Errorf("%s takes %s, not %q", option, strings.Join(known, ", "), name)
		case i+1 == len(operands):
			return o, missingValue(name)
		}
		if err := o.set(name, operands[i+1]); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *dumpOperands) set(name, v string) (err error) {
	switch name {
	case "raw":
		o.raw, err = wantOnOff(name, v)
	case "hex":
		o.hex, err = wantOnOff(name, v)
	case "file":
		o.file = v
	default:
		n, err := count(v)
		switch {
		case err != nil:
			return usage.Errorf("%s %s: expected a number of octets", name, v)
		case name == "offset":
			o.offset = uint32(n)
		case n == 0:
			return usage.Errorf("length 0: expected a number of octets")
		default:
			o.length = uint32(n)
		}
		o.ranged = true
	}
	return err
}

// dump prints octets, of which the first has number o.offset, raw or as ethtool
// does.
func (c *call) dump(o *dumpOperands, b []byte) {
	if o.raw {
		c.out.Write(b)
		return
	}
	c.printf("Offset\t\tValues\n------\t\t------")
	for i, v := range b {
		if i%16 == 0 {
			c.printf("\n0x%04x:\t\t", o.offset+uint32(i))
		}
		c.printf("%02x ", v)
	}
	c.printf("\n")
}

// printRegisters is ethtool -d. There is no decoder for the dump: with and
// without hex it is octets.
func printRegisters(c *call) error {
	o, err := parseDump("-d", c.operands, "raw", "hex", "file")
	if err != nil {
		return err
	}
	var b []byte
	if o.file != "" {
		b, err = os.ReadFile(o.file)
	} else {
		b, err = c.client.Registers(c)
	}
	if err == nil {
		c.dump(&o, b)
	}
	return err
}

// printEEPROM is ethtool -e.
func printEEPROM(c *call) error {
	o, err := parseDump("-e", c.operands, "raw", "offset", "length")
	if err != nil {
		return err
	}
	b, err := c.client.EEPROM(c, ctl.EEPROMRange{Offset: o.offset, Length: o.length})
	if err == nil {
		c.dump(&o, b)
	}
	return err
}

// changeEEPROM is ethtool -E, which the driver qede lacks, too.
func changeEEPROM(c *call) error {
	if c.fabric {
		_, err := c.client.EEPROM(c, ctl.EEPROMRange{}) // says that there is none
		return err
	}
	return fmt.Errorf("%s: the driver changes no single octets of the EEPROM: "+
		"its images have checksums and are written as a whole: tapir ethtool -f", c.Name)
}

// printModule is ethtool -m.
func printModule(c *call) error {
	o, err := parseDump("-m", c.operands, "raw", "hex", "offset", "length")
	if err != nil {
		return err
	}
	if o.raw && o.hex {
		return usage.Errorf("raw on and hex on exclude each other")
	}
	m, err := c.client.Module(c)
	if err != nil {
		return err
	}
	end := uint64(o.offset) + uint64(o.length)
	if o.offset >= uint32(len(m.Data)) || end > uint64(len(m.Data)) {
		return fmt.Errorf("octets %d to %d of a module memory of %d", o.offset, end, len(m.Data))
	}
	if o.length == 0 {
		end = uint64(len(m.Data))
	}
	if o.raw || o.hex || o.ranged {
		c.dump(&o, m.Data[o.offset:end])
	} else {
		c.printf("%s", decodeModule(m))
	}
	return nil
}

// identify is ethtool -p. The NIC ends it when this process goes.
func identify(c *call) error {
	if len(c.operands) > 1 {
		return usage.Errorf("unexpected argument %q: see: tapir ethtool --help", c.operands[1])
	}
	seconds := uint64(0)
	if len(c.operands) == 1 {
		var err error
		if seconds, err = count(c.operands[0]); err != nil {
			return usage.Errorf("-p %s: expected a number of seconds", c.operands[0])
		}
	}
	err := c.client.Identify(c, uint32(seconds))
	if c.Err() != nil {
		return nil // Ctrl-C is its end
	}
	return err
}
