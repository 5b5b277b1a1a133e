package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/nic"
)

// member is one of an object whose order is kept.
type member struct {
	key   string
	value any
}

// object is a JSON object with its members in order.
type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", p.key, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (o *devlinkOut) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if o.pretty {
		return printJSON(o.w, b)
	}
	_, err = fmt.Fprintf(o.w, "%s\n", b)
	return err
}

// each prints something of each device that args name: a text and a member of
// the object kind.
func (o *devlinkOut) each(ctx context.Context, kind, dev string, show func(d *devlinkDev) (text string, v any)) error {
	return o.eachOf(ctx, kind, dev, "", show)
}

// eachOf is each for a part of the devices, which follows their handles.
func (o *devlinkOut) eachOf(ctx context.Context, kind, dev, part string, show func(d *devlinkDev) (text string, v any)) error {
	list, err := devices(ctx, dev)
	if err != nil {
		return err
	}
	defer closeAll(list)
	var text strings.Builder
	all := object{}
	for _, d := range list {
		t, v := show(d)
		text.WriteString(t)
		all = append(all, member{d.handle() + part, v})
	}
	return o.print(text.String(), object{{kind, all}})
}

func devShow(ctx context.Context, out *devlinkOut, args []string) error {
	dev, _, err := operandsOf(args, true, 0)
	if err != nil {
		return err
	}
	return out.each(ctx, "dev", dev, func(d *devlinkDev) (string, any) { return d.handle() + "\n", object{} })
}

func devInfo(ctx context.Context, out *devlinkOut, args []string) error {
	dev, _, err := operandsOf(args, true, 0)
	if err != nil {
		return err
	}
	return out.each(ctx, "info", dev, func(d *devlinkDev) (string, any) {
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
			list []nic.DevlinkVersion
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
		return b.String(), append(info, member{"versions", versions})
	})
}

func resourceShow(ctx context.Context, out *devlinkOut, args []string) error {
	dev, _, err := operandsOf(args, true, 0)
	if err != nil {
		return err
	}
	return out.each(ctx, "resources", dev, func(d *devlinkDev) (string, any) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s:\n", d.handle())
		rows := []object{}
		for _, r := range d.Resources {
			row := object{{"name", r.Name}, {"size", r.Size}}
			fmt.Fprintf(&b, "  name %s size %d", r.Name, r.Size)
			if r.Occ != nil {
				fmt.Fprintf(&b, " occ %d", *r.Occ)
				row = append(row, member{"occ", *r.Occ})
			}
			b.WriteString(" unit entry dpipe_tables none\n")
			rows = append(rows, append(row, member{"unit", "entry"}, member{"dpipe_tables", []string{}}))
		}
		return b.String(), rows
	})
}

// portShow lists one port for each device, number 0.
func portShow(ctx context.Context, out *devlinkOut, args []string) error {
	dev, _, err := operandsOf(args, true, 0)
	if err != nil {
		return err
	}
	const port = "/0"
	return out.eachOf(ctx, "port", strings.TrimSuffix(dev, port), port, func(d *devlinkDev) (string, any) {
		return fmt.Sprintf("%s%s: type eth netdev %s flavour physical port 0 splittable false\n", d.handle(), port, d.Netdev),
			object{{"type", "eth"}, {"netdev", d.Netdev}, {"flavour", "physical"}, {"port", 0}, {"splittable", false}}
	})
}

// driverParams are the settings of a NIC that are devlink parameters of the
// FastLinQ driver.
var driverParams = []string{"iwarp_cmt"}

// paramOf is the value of a parameter of a NIC.
func paramOf(ctx context.Context, d *devlinkDev, name string) (on bool, err error) {
	var list []nic.ParamInfo
	err = d.client.Show(ctx, "params", &list)
	return slices.ContainsFunc(list, func(p nic.ParamInfo) bool { return p.Name == name && p.Value == "1" }), err
}

func paramShow(ctx context.Context, out *devlinkOut, args []string) error {
	dev, values, err := operandsOf(args, true, 0, "name")
	if err != nil {
		return err
	}
	if values[0] != "" && !slices.Contains(driverParams, values[0]) {
		return unknownParam(values[0])
	}
	var failed error
	err = out.each(ctx, "param", dev, func(d *devlinkDev) (string, any) {
		var b strings.Builder
		rows := []object{}
		for _, name := range driverParams {
			on, err := paramOf(ctx, d, name)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			fmt.Fprintf(&b, "%s:\n  name %s type driver-specific\n    values:\n      cmode runtime value %t\n", d.handle(), name, on)
			rows = append(rows, object{{"name", name}, {"type", "driver-specific"}, {"values", []object{{{"cmode", "runtime"}, {"value", on}}}}})
		}
		return b.String(), rows
	})
	return errors.Join(failed, err)
}

func unknownParam(name string) error {
	return fmt.Errorf("there is no parameter %q: choose %s; settings of the NIC are changed by tapir set", name, strings.Join(driverParams, ", "))
}

func paramSet(ctx context.Context, out *devlinkOut, args []string) error {
	dev, values, err := operandsOf(args, false, 3, "name", "value", "cmode")
	if err != nil {
		return err
	}
	name, value, mode := values[0], values[1], values[2]
	switch {
	case !slices.Contains(driverParams, name):
		return unknownParam(name)
	case value != "true" && value != "false":
		return usagef("value %s: expected true or false", value)
	case mode == "driverinit" || mode == "permanent":
		return fmt.Errorf("cmode %s: %s is of cmode runtime", mode, name)
	case mode != "runtime":
		return usagef("cmode %s: expected runtime", mode)
	}
	d, err := device(ctx, dev)
	if err != nil {
		return err
	}
	defer d.client.Close()
	return d.client.Set(ctx, []ctl.Setting{{Name: name, Value: map[string]string{"true": "1", "false": "0"}[value]}}, nil)
}
