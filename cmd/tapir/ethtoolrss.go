package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/nic/fastlinq/l2"
)

// rssOptions show and change how received packets are spread over the queues.
func rssOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "x", long: "show-rxfh", example: "-x nic0", usage: "receive flow hash: indirection table, key, function", run: printRXFH},
		{short: "X", long: "rxfh", example: "-X nic0 weight 3 1", usage: "change it: equal N, weight W0 W1 ..., default, start N, hkey XX:XX:..., hfunc toeplitz",
			operands: "equal N|weight W0 W1 ...|default", run: setRXFH},
	}
}

// notHost is the error of what needs a host function, with what ethtool says
// first.
func (d *netdev) notHost(what string) error {
	if d.nic.RSS == nil {
		return fmt.Errorf("%s: %s has no host TAP: start it with --host-tap", what, d.nic.Netdev)
	}
	return nil
}

func printRXFH(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notHost("Cannot get RX flow hash configuration"); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "RX flow hash indirection table for %s with %d RX ring(s):\n", d.name, d.nic.Channels.Combined)
	table := d.nic.RSS.Table
	for i, q := range table {
		if i%8 == 0 {
			fmt.Fprintf(&b, "%5d: ", i)
		}
		fmt.Fprintf(&b, " %5d", q)
		if i%8 == 7 || i == len(table)-1 {
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "RSS hash key:\n%s\nRSS hash function:\n    toeplitz: on\n    xor: off\n    crc32: off\n", colons(d.nic.RSS.Key))
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// colons writes octets in hexadecimal with colons.
func colons(b []byte) string { return strings.ReplaceAll(fmt.Sprintf("% x", b), " ", ":") }

// rxfh is what the operands of -X ask for.
type rxfh struct {
	equal, start uint64
	weights      []uint64
	byDefault    bool
	key          []byte
}

// setRXFH is ethtool -X.
func setRXFH(cmd *cobra.Command, d *netdev, operands []string) error {
	if err := d.notHost("Cannot set RX flow hash configuration"); err != nil {
		return err
	}
	var x rxfh
	if err := x.parse(operands); err != nil {
		return err
	}
	settings, err := x.settings()
	if err != nil {
		return err
	}
	return d.set(cmd, "Cannot set RX flow hash configuration", settings...)
}

func (x *rxfh) parse(operands []string) (err error) {
	if len(operands) == 0 {
		return usagef("-X needs operands: tapir ethtool -X nic0 equal 2: see: tapir ethtool --help")
	}
	for len(operands) > 0 && err == nil {
		operands, err = x.operand(operands[0], operands[1:])
	}
	switch {
	case err != nil:
		return err
	case x.equal > 0 && x.weights != nil:
		return usagef("Equal and weight options are mutually exclusive")
	case x.equal > 0 && x.byDefault:
		return usagef("Equal and default options are mutually exclusive")
	case x.weights != nil && x.byDefault:
		return usagef("Weight and default options are mutually exclusive")
	case x.start > 0 && x.equal == 0 && x.weights == nil:
		return usagef("Start must be used with equal or weight options")
	case x.key != nil && x.byDefault:
		return usagef("Default and hkey options are mutually exclusive")
	}
	return nil
}

// operand takes one operand with its values and returns what follows.
func (x *rxfh) operand(name string, rest []string) ([]string, error) {
	switch name {
	case "default":
		x.byDefault = true
		return rest, nil
	case "weight":
		return x.weigh(rest)
	case "equal", "start", "hkey", "hfunc":
	default:
		return nil, usagef("ethtool (-X): unknown parameter '%s'", name)
	}
	if len(rest) == 0 {
		return nil, usagef("ethtool (-X): no value for parameter '%s'", name)
	}
	value, rest := rest[0], rest[1:]
	var err error
	switch name {
	case "equal":
		if x.equal, err = count(value); x.equal == 0 {
			err = strconv.ErrRange
		}
	case "start":
		x.start, err = count(value)
	case "hkey":
		return rest, x.parseKey(value)
	case "hfunc":
		return rest, hashFunction(value)
	}
	if err != nil {
		return nil, usagef("ethtool (-X): invalid value '%s' for parameter '%s'", value, name)
	}
	return rest, nil
}

func hashFunction(name string) error {
	switch name {
	case "toeplitz":
		return nil
	case "xor", "crc32":
		return fmt.Errorf("Cannot set RX flow hash configuration: hash function: %s is not supported", name)
	}
	return fmt.Errorf("Unknown hash function: %s", name)
}

// weigh takes the weights of the queues: all numbers that follow.
func (x *rxfh) weigh(rest []string) ([]string, error) {
	for len(rest) > 0 {
		w, err := count(rest[0])
		if err != nil {
			break
		}
		x.weights = append(x.weights, w)
		rest = rest[1:]
	}
	if x.weights == nil {
		return nil, usagef("ethtool (-X): no value for parameter 'weight'")
	}
	return rest, nil
}

func (x *rxfh) parseKey(s string) (err error) {
	if x.key, err = hex.DecodeString(strings.ReplaceAll(s, ":", "")); err != nil || len(s) != 3*len(x.key)-1 {
		return usagef("Invalid RSS Hash Key Format")
	}
	switch n := len(x.key); {
	case n > l2.KeyLen:
		return fmt.Errorf("Key is too long for device (%d > %d)", n, l2.KeyLen)
	case n < l2.KeyLen:
		return fmt.Errorf("Key is too short for device (%d < %d)", n, l2.KeyLen)
	}
	return nil
}

// settings are the NIC's for what is asked.
func (x *rxfh) settings() (list []ctl.Setting, err error) {
	if x.key != nil {
		list = append(list, ctl.Setting{Name: "rss_key", Value: colons(x.key)})
	}
	table := "equal"
	switch {
	case x.byDefault:
	case x.equal > 0:
		table, err = entries(func(i uint64) uint64 { return x.start + i%x.equal }), nil
	case x.weights != nil:
		table, err = x.weighted()
	default:
		return list, nil
	}
	return append(list, ctl.Setting{Name: "rss_table", Value: table}), err
}

func entries(queue func(i uint64) uint64) string {
	list := make([]string, l2.TableLen)
	for i := range list {
		list[i] = strconv.FormatUint(queue(uint64(i)), 10)
	}
	return strings.Join(list, ",")
}

// weighted shares the table out by the weights, as ethtool does it.
func (x *rxfh) weighted() (string, error) {
	var sum, partial uint64
	for _, w := range x.weights {
		sum += w
	}
	switch {
	case sum == 0:
		return "", errors.New("At least one weight must be non-zero")
	case sum > l2.TableLen:
		return "", errors.New("Total weight exceeds the size of the indirection table")
	}
	j := -1
	return entries(func(i uint64) uint64 {
		for i >= l2.TableLen*partial/sum {
			j++
			partial += x.weights[j]
		}
		return x.start + uint64(j)
	}), nil
}
