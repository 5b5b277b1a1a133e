package ethtool

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
)

// rssOptions show and change how received packets are spread over the queues.
var rssOptions = []Option{
	{Short: "x", Long: "show-rxfh", Example: "-x nic0",
		Usage: "receive flow hash: indirection table, key, function", run: printRXFH},
	{Short: "X", Long: "rxfh", Example: "-X nic0 weight 3 1",
		Usage:    "change it: equal N, weight W0 W1 ..., default, start N, hkey XX:XX:..., hfunc toeplitz",
		Operands: "equal N|weight W0 W1 ...|default", run: changing(rxfhFailed, setRXFH)},
}

const rxfhFailed = "Cannot set RX flow hash configuration"

// needHostTAP is the error of what needs a host function; failed begins
// ethtool's message.
func (c *call) needHostTAP(failed string) error {
	if c.fabric {
		return fmt.Errorf("%s: Operation not supported", failed)
	}
	if c.nic.RSS == nil {
		return fmt.Errorf("%s: %s has no host TAP: start it with --host-tap", failed, c.nic.Netdev)
	}
	return nil
}

func printRXFH(c *call) error {
	if err := c.needHostTAP("Cannot get RX flow hash configuration"); err != nil {
		return err
	}
	c.printf("RX flow hash indirection table for %s with %d RX ring(s):\n", c.Name, c.nic.Channels.Combined)
	table := c.nic.RSS.Table
	for i, q := range table {
		if i%8 == 0 {
			c.printf("%5d: ", i)
		}
		c.printf(" %5d%s", q, either(i%8 == 7 || i == len(table)-1, "\n", ""))
	}
	c.printf("RSS hash key:\n%s\nRSS hash function:\n    toeplitz: on\n    xor: off\n    crc32: off\n",
		colons(c.nic.RSS.Key))
	return nil
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
func setRXFH(c *call) ([]ctl.Setting, error) {
	if err := c.needHostTAP(rxfhFailed); err != nil {
		return nil, err
	}
	var x rxfh
	if err := x.parse(c.operands); err != nil {
		return nil, err
	}
	return x.settings()
}

func (x *rxfh) parse(operands []string) (err error) {
	if len(operands) == 0 {
		return usage.Errorf("-X needs operands: tapir ethtool -X nic0 equal 2: see: tapir ethtool --help")
	}
	for len(operands) > 0 && err == nil {
		operands, err = x.operand(operands[0], operands[1:])
	}
	if err != nil {
		return err
	}
	for _, c := range []struct {
		conflict bool
		text     string
	}{
		{x.equal > 0 && x.weights != nil, "Equal and weight options are mutually exclusive"},
		{x.equal > 0 && x.byDefault, "Equal and default options are mutually exclusive"},
		{x.weights != nil && x.byDefault, "Weight and default options are mutually exclusive"},
		{x.start > 0 && x.equal == 0 && x.weights == nil, "Start must be used with equal or weight options"},
		{x.key != nil && x.byDefault, "Default and hkey options are mutually exclusive"},
	} {
		if c.conflict {
			return usage.Errorf("%s", c.text)
		}
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
		return x.parseWeights(rest)
	case "equal", "start", "hkey", "hfunc":
	default:
		return nil, usage.Errorf("ethtool (-X): unknown parameter '%s'", name)
	}
	if len(rest) == 0 {
		return nil, usage.Errorf("ethtool (-X): no value for parameter '%s'", name)
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
		return nil, invalid("-X", value, name)
	}
	return rest, nil
}

func hashFunction(name string) error {
	switch name {
	case "toeplitz":
		return nil
	case "xor", "crc32":
		return fmt.Errorf(rxfhFailed+": hash function: %s is not supported", name)
	}
	return fmt.Errorf("Unknown hash function: %s", name)
}

// parseWeights takes the weights of the queues: all numbers that follow.
func (x *rxfh) parseWeights(rest []string) ([]string, error) {
	for ; len(rest) > 0; rest = rest[1:] {
		w, err := count(rest[0])
		if err != nil {
			break
		}
		x.weights = append(x.weights, w)
	}
	if x.weights == nil {
		return nil, usage.Errorf("ethtool (-X): no value for parameter 'weight'")
	}
	return rest, nil
}

func (x *rxfh) parseKey(s string) (err error) {
	if x.key, err = hex.DecodeString(strings.ReplaceAll(s, ":", "")); err != nil || len(s) != 3*len(x.key)-1 {
		return usage.Errorf("Invalid RSS Hash Key Format")
	}
	switch n := len(x.key); {
	case n > fastlinq.KeyLen:
		return fmt.Errorf("Key is too long for device (%d > %d)", n, fastlinq.KeyLen)
	case n < fastlinq.KeyLen:
		return fmt.Errorf("Key is too short for device (%d < %d)", n, fastlinq.KeyLen)
	}
	return nil
}

// settings are the NIC's for the operands.
func (x *rxfh) settings() (list []ctl.Setting, err error) {
	if x.key != nil {
		list = append(list, ctl.Setting{Name: "rss_key", Value: colons(x.key)})
	}
	table := "equal"
	switch {
	case x.byDefault:
	case x.equal > 0:
		table = entries(func(i uint64) uint64 { return x.start + i%x.equal })
	case x.weights != nil:
		table, err = x.weighted()
	default:
		return list, nil
	}
	return append(list, ctl.Setting{Name: "rss_table", Value: table}), err
}

func entries(queue func(i uint64) uint64) string {
	list := make([]string, fastlinq.TableLen)
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
	case sum > fastlinq.TableLen:
		return "", errors.New("Total weight exceeds the size of the indirection table")
	}
	j := -1
	return entries(func(i uint64) uint64 {
		for i >= fastlinq.TableLen*partial/sum {
			j++
			partial += x.weights[j]
		}
		return x.start + uint64(j)
	}), nil
}
