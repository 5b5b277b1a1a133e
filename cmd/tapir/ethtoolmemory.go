package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

// memoryOptions show the memories of the device, and where it is.
func memoryOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "d", long: "register-dump", example: "-d nic0 raw on >registers", usage: "register dump: raw on|off hex on|off file NAME", operands: "raw on", run: printRegisters},
		{short: "e", long: "eeprom-dump", example: "-e nic0 offset 0x100 length 64", usage: "octets of the flash: raw on|off offset N length N", operands: "offset N", run: printEEPROM},
		{short: "E", long: "change-eeprom", usage: "refused, as the driver does not change single octets", operands: "offset N", run: changeEEPROM},
		{short: "m", long: "module-info", example: "-m nic0 hex on", usage: "memory of the module, decoded: raw on|off hex on|off offset N length N", operands: "hex on", run: printModule},
		{short: "p", long: "identify", example: "-p nic0 5", usage: "let the LED of the port blink, for so many seconds or until Ctrl-C", operands: "N", run: identify},
	}
}

// dumpOperands are those of what shows octets.
type dumpOperands struct {
	raw, hex       bool
	file           string
	ranged         bool // offset or length was given
	offset, length uint32
}

// parseDump reads operands, pairs of a name among known and a value.
func parseDump(option string, operands []string, known ...string) (o dumpOperands, err error) {
	for i := 0; i < len(operands); i += 2 {
		name := operands[i]
		if !slices.Contains(known, name) {
			return o, usagef("%s takes %s, not %q", option, strings.Join(known, ", "), name)
		}
		if i+1 == len(operands) {
			return o, usagef("%s: its value is missing: see: tapir ethtool --help", name)
		}
		if err := o.set(name, operands[i+1]); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *dumpOperands) set(name, v string) error {
	switch name {
	case "raw", "hex":
		if v != "on" && v != "off" {
			return usagef("%s %s: expected on or off", name, v)
		}
		if name == "raw" {
			o.raw = v == "on"
		} else {
			o.hex = v == "on"
		}
	case "file":
		o.file = v
	default:
		n, err := strconv.ParseUint(v, 0, 32)
		if err != nil {
			return usagef("%s %s: expected a number of octets", name, v)
		}
		o.ranged = true
		if name == "offset" {
			o.offset = uint32(n)
		} else if o.length = uint32(n); n == 0 {
			return usagef("length 0: expected a number of octets")
		}
	}
	return nil
}

// print writes octets, of which the first has number o.offset, raw or as ethtool
// does.
func (o *dumpOperands) print(w io.Writer, b []byte) error {
	if o.raw {
		_, err := w.Write(b)
		return err
	}
	var out strings.Builder
	out.WriteString("Offset\t\tValues\n------\t\t------")
	for i, v := range b {
		if i%16 == 0 {
			fmt.Fprintf(&out, "\n0x%04x:\t\t", o.offset+uint32(i))
		}
		fmt.Fprintf(&out, "%02x ", v)
	}
	out.WriteByte('\n')
	_, err := io.WriteString(w, out.String())
	return err
}

// printRegisters is ethtool -d. There is no decoder for the dump: with and
// without hex it is octets.
func printRegisters(cmd *cobra.Command, d *netdev, operands []string) error {
	o, err := parseDump("-d", operands, "raw", "hex", "file")
	if err != nil {
		return err
	}
	var b []byte
	if o.file != "" {
		b, err = os.ReadFile(o.file)
	} else {
		b, err = d.client.Registers(cmd.Context())
	}
	if err != nil {
		return err
	}
	return o.print(cmd.OutOrStdout(), b)
}

// printEEPROM is ethtool -e.
func printEEPROM(cmd *cobra.Command, d *netdev, operands []string) error {
	o, err := parseDump("-e", operands, "raw", "offset", "length")
	if err != nil {
		return err
	}
	b, err := d.client.EEPROM(cmd.Context(), ctl.EEPROMRange{Offset: o.offset, Length: o.length})
	if err != nil {
		return err
	}
	return o.print(cmd.OutOrStdout(), b)
}

// changeEEPROM is ethtool -E, which qede has not either.
func changeEEPROM(_ *cobra.Command, d *netdev, _ []string) error {
	return fmt.Errorf("%s: the driver changes no single octets of the EEPROM: its images have checksums and are written as a whole: tapir ethtool -f", d.name)
}

// printModule is ethtool -m.
func printModule(cmd *cobra.Command, d *netdev, operands []string) error {
	o, err := parseDump("-m", operands, "raw", "hex", "offset", "length")
	if err != nil {
		return err
	}
	if o.raw && o.hex {
		return usagef("raw on and hex on exclude each other")
	}
	m, err := d.client.Module(cmd.Context())
	if err != nil {
		return err
	}
	part := m.Data
	if end := uint64(o.offset) + uint64(o.length); o.offset >= uint32(len(part)) || end > uint64(len(part)) {
		return fmt.Errorf("octets %d to %d of a module memory of %d", o.offset, end, len(part))
	} else if o.length > 0 {
		part = part[:end]
	}
	part = part[o.offset:]
	if o.raw || o.hex || o.ranged {
		return o.print(cmd.OutOrStdout(), part)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), decodeModule(m))
	return err
}

// identify is ethtool -p. The NIC ends it when this process goes.
func identify(cmd *cobra.Command, d *netdev, operands []string) error {
	if len(operands) > 1 {
		return usagef("unexpected argument %q: see: tapir ethtool --help", operands[1])
	}
	seconds := uint64(0)
	if len(operands) == 1 {
		var err error
		if seconds, err = strconv.ParseUint(operands[0], 0, 32); err != nil {
			return usagef("-p %s: expected a number of seconds", operands[0])
		}
	}
	err := d.client.Identify(cmd.Context(), uint32(seconds))
	if cmd.Context().Err() != nil {
		return nil // Ctrl-C is its end
	}
	return err
}
