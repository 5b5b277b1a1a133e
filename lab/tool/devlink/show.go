package devlink

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
)

func devShow(c *call) error {
	return c.each("dev", "", func(d *device) (string, any, error) { return d.handle() + "\n", object{}, nil })
}

func devInfo(c *call) error {
	return c.each("info", "", func(d *device) (string, any, error) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s:\n  driver %s\n", d.handle(), d.Driver)
		info := object{{"driver", d.Driver}}
		if d.Serial != "" {
			fmt.Fprintf(&b, "  serial_number %s\n", d.Serial)
			info = append(info, member{"serial_number", d.Serial})
		}
		b.WriteString("  versions:\n")
		versions := object{}
		for _, kind := range []struct {
			name string
			list []view.DevlinkVersion
		}{{"fixed", d.Fixed}, {"running", d.Running}, {"stored", d.Stored}} {
			if len(kind.list) == 0 {
				continue
			}
			fmt.Fprintf(&b, "      %s:\n", kind.name)
			of := object{}
			for _, v := range kind.list {
				fmt.Fprintf(&b, "        %s %s\n", v.Name, v.Version)
				of = append(of, member{v.Name, v.Version})
			}
			versions = append(versions, member{kind.name, of})
		}
		return b.String(), append(info, member{"versions", versions}), nil
	})
}

func resourceShow(c *call) error {
	return c.each("resources", "", func(d *device) (string, any, error) {
		text := d.handle() + ":\n"
		rows := []object{}
		for _, r := range d.Resources {
			row := object{{"name", r.Name}, {"size", r.Size}}
			text += fmt.Sprintf("  name %s size %d", r.Name, r.Size)
			if r.Occ != nil {
				text += fmt.Sprintf(" occ %d", *r.Occ)
				row = append(row, member{"occ", *r.Occ})
			}
			text += " unit entry dpipe_tables none\n"
			rows = append(rows, append(row, member{"unit", "entry"}, member{"dpipe_tables", []string{}}))
		}
		return text, rows, nil
	})
}

// portShow lists one port for each device, number 0.
func portShow(c *call) error {
	const port = "/0"
	c.dev = strings.TrimSuffix(c.dev, port)
	return c.each("port", port, func(d *device) (string, any, error) {
		return fmt.Sprintf("%s%s: type eth netdev %s flavour physical port 0 splittable false\n", d.handle(), port,
				d.Netdev), object{{"type", "eth"}, {"netdev", d.Netdev}, {"flavour", "physical"}, {"port", 0},
				{"splittable", false}}, nil
	})
}

// driverParam is the setting of a NIC that is a devlink parameter of the
// FastLinQ driver.
const driverParam = "iwarp_cmt"

func checkParam(name string) error {
	if name != driverParam {
		return fmt.Errorf("there is no parameter %q: choose %s; settings of the NIC are changed by tapir set", name,
			driverParam)
	}
	return nil
}

func paramShow(c *call) error {
	if name := c.values[0]; name != "" {
		if err := checkParam(name); err != nil {
			return err
		}
	}
	return c.each("param", "", func(d *device) (string, any, error) {
		var list []view.ParamInfo
		if err := d.client.Show(c, "params", &list); err != nil {
			return "", []object{}, err
		}
		on := slices.ContainsFunc(list, func(p view.ParamInfo) bool { return p.Name == driverParam && p.Value == "1" })
		return fmt.Sprintf("%s:\n  name %s type driver-specific\n    values:\n      cmode runtime value %t\n",
				d.handle(), driverParam, on),
			[]object{{{"name", driverParam}, {"type", "driver-specific"},
				{"values", []object{{{"cmode", "runtime"}, {"value", on}}}}}}, nil
	})
}

func paramSet(c *call) error {
	name, value, mode := c.values[0], c.values[1], c.values[2]
	if err := checkParam(name); err != nil {
		return err
	}
	to, ok := map[string]string{"true": "1", "false": "0"}[value]
	switch {
	case !ok:
		return usage.Errorf("value %s: expected true or false", value)
	case mode == "driverinit" || mode == "permanent":
		return fmt.Errorf("cmode %s: %s is of cmode runtime", mode, name)
	case mode != "runtime":
		return usage.Errorf("cmode %s: expected runtime", mode)
	}
	return c.one(func(d *device) error { return d.client.Set(c, []ctl.Setting{{Name: name, Value: to}}, nil) })
}

func healthShow(c *call) error {
	if name := c.values[0]; name != "" {
		if err := checkReporter(name); err != nil {
			return err
		}
	}
	return c.each("health", "", func(d *device) (string, any, error) {
		h, state := &d.Health, "error"
		if h.State == "healthy" {
			state = h.State
		}
		return fmt.Sprintf("%s:\n  reporter %s\n"+
				"    state %s error %d recover %d grace_period %d auto_recover %t auto_dump true\n",
				d.handle(), reporterName, state, h.Errors, h.Recoveries, h.Grace, h.AutoRecover),
			[]object{{{"reporter", reporterName}, {"state", state}, {"error", h.Errors}, {"recover", h.Recoveries},
				{"grace_period", h.Grace}, {"auto_recover", h.AutoRecover}, {"auto_dump", true}}}, nil
	})
}

// healthSet changes what the reporter does by itself.
func healthSet(c *call, d *device) error {
	var list []ctl.Setting
	if v := c.values[1]; v != "" {
		to, ok := map[string]string{"true": "1", "false": "0"}[v]
		if !ok {
			return usage.Errorf("auto_recover %s: expected true or false", v)
		}
		list = append(list, ctl.Setting{Name: "auto_recover", Value: to})
	}
	if v := c.values[2]; v != "" {
		if _, err := strconv.ParseUint(v, 10, 32); err != nil {
			return usage.Errorf("grace_period %s: expected a number of milliseconds", v)
		}
		list = append(list, ctl.Setting{Name: "grace_period", Value: v + "ms"})
	}
	if list == nil {
		return usage.Errorf("what to change is missing: expected auto_recover or grace_period")
	}
	return d.client.Set(c, list, nil)
}

func healthDiagnose(c *call, d *device) error {
	h := &d.Health
	text := fmt.Sprintf("State: %s\n", h.State)
	o := object{{"State", h.State}}
	if h.Last != "" {
		text += fmt.Sprintf("Last error: %s, engine %d: %s\n", h.LastKind, h.Engine, h.Last)
		o = append(o, member{"Last error", object{{"kind", h.LastKind}, {"engine", h.Engine}, {"text", h.Last}}})
	}
	text += "Errors:\n "
	kinds := object{}
	for _, k := range h.Kinds {
		text += fmt.Sprintf(" %s: %d", k.Name, k.Count)
		kinds = append(kinds, member{k.Name, k.Count})
	}
	text += fmt.Sprintf("\nRecoveries: %d\nLeaked connection ids: %d\nDump: %d octets\n", h.Recoveries, h.Leaked,
		h.Dump)
	return c.print(text, append(o, member{"Errors", kinds}, member{"Recoveries", h.Recoveries},
		member{"Leaked connection ids", h.Leaked}, member{"Dump", h.Dump}))
}

func dumpShow(c *call, d *device) error {
	dump, err := d.client.HealthDump(c)
	if err != nil {
		return err
	}
	octets := make([]int, len(dump))
	var b strings.Builder
	b.WriteString("dump_data:\n")
	for i, v := range dump {
		octets[i] = int(v)
		fmt.Fprintf(&b, "%02x ", v)
		if i%16 == 15 || i == len(dump)-1 {
			b.WriteByte('\n')
		}
	}
	return c.print(b.String(), object{{"dump_data", octets}})
}
