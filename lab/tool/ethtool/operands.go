package ethtool

import (
	"fmt"
	"slices"
	"strconv"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
)

// changing is the function of an option that only changes settings: parse
// turns operands into them. failed begins ethtool's message if the NIC refuses.
func changing(failed string, parse func(c *call) ([]ctl.Setting, error)) func(*call) error {
	return func(c *call) error {
		settings, err := parse(c)
		if err != nil {
			return err
		}
		return c.set(failed, settings...)
	}
}

// set changes settings of the NIC.
func (c *call) set(failed string, settings ...ctl.Setting) error {
	if len(settings) == 0 {
		return nil
	}
	if err := c.client.Set(c, settings, nil); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	return nil
}

// params are the NIC's settings by name.
func (c *call) params() (map[string]string, error) {
	var list []view.ParamInfo
	err := c.client.Show(c, "params", &list)
	values := map[string]string{}
	for _, p := range list {
		values[p.Name] = p.Value
	}
	return values, err
}

// pairs reads operands as ethtool does: names that are known, each with a value
// that parse takes.
func pairs[T any](flag string, operands []string, parse func(string) (T, error),
	known ...string) (map[string]T, error) {
	values := map[string]T{}
	for i := 0; i < len(operands); i += 2 {
		name := operands[i]
		switch {
		case !slices.Contains(known, name):
			return nil, usage.Errorf("ethtool (%s): unknown parameter '%s'", flag, name)
		case i+1 == len(operands):
			return nil, usage.Errorf("ethtool (%s): no value for parameter '%s'", flag, name)
		}
		v, err := parse(operands[i+1])
		if err != nil {
			return nil, invalid(flag, operands[i+1], name)
		}
		values[name] = v
	}
	return values, nil
}

func invalid(flag, value, name string) error {
	return usage.Errorf("ethtool (%s): invalid value '%s' for parameter '%s'", flag, value, name)
}

// each passes every name among operands to take, with all that follows it;
// the value of the name is the first n of these.
func each(operands []string, take func(name string, values []string) (n int, err error)) error {
	for len(operands) > 0 {
		if len(operands) == 1 {
			return missingValue(operands[0])
		}
		n, err := take(operands[0], operands[1:])
		if err != nil {
			return err
		}
		operands = operands[1+n:]
	}
	return nil
}

func missingValue(name string) error {
	return usage.Errorf("%s: its value is missing: see: tapir ethtool --help", name)
}

// count parses a number as ethtool does, in any base.
func count(s string) (uint64, error) { return strconv.ParseUint(s, 0, 32) }

func parseOnOff(s string) (bool, error) {
	if s != "on" && s != "off" {
		return false, strconv.ErrSyntax
	}
	return s == "on", nil
}

// wantOnOff is parseOnOff with a message for the user.
func wantOnOff(name, value string) (bool, error) {
	on, err := parseOnOff(value)
	if err != nil {
		err = usage.Errorf("%s %s: expected on or off", name, value)
	}
	return on, err
}

// either is yes or no, as a condition has it.
func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func onOff(on bool) string { return either(on, "on", "off") }
