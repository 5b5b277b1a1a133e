package main

import (
	"context"
	"fmt"
	"strings"
)

// reporterName is the health reporter of the FastLinQ driver.
const reporterName = "fw_fatal"

// reporterOf finds the device whose reporter args name. The caller closes its
// client.
func reporterOf(ctx context.Context, args []string) (*devlinkDev, error) {
	dev, values, err := operandsOf(args, false, 1, "reporter")
	if err != nil {
		return nil, err
	}
	if values[0] != reporterName {
		return nil, fmt.Errorf("there is no reporter %q: choose %s", values[0], reporterName)
	}
	return device(ctx, dev)
}

// devlinkState is a state as devlink has it: healthy or error.
func devlinkState(d *devlinkDev) string {
	if d.Health.State == "healthy" {
		return "healthy"
	}
	return "error"
}

func healthShow(ctx context.Context, out *devlinkOut, args []string) error {
	dev, values, err := operandsOf(args, true, 0, "reporter")
	if err != nil {
		return err
	}
	if r := values[0]; r != "" && r != reporterName {
		return fmt.Errorf("there is no reporter %q: choose %s", r, reporterName)
	}
	return out.each(ctx, "health", dev, func(d *devlinkDev) (string, any) {
		h, state := &d.Health, devlinkState(d)
		return fmt.Sprintf("%s:\n  reporter %s\n    state %s error %d recover %d grace_period 0 auto_recover false auto_dump true\n",
				d.handle(), reporterName, state, h.Errors, h.Recoveries),
			[]object{{{"reporter", reporterName}, {"state", state}, {"error", h.Errors}, {"recover", h.Recoveries},
				{"grace_period", 0}, {"auto_recover", false}, {"auto_dump", true}}}
	})
}

func healthDiagnose(ctx context.Context, out *devlinkOut, args []string) error {
	d, err := reporterOf(ctx, args)
	if err != nil {
		return err
	}
	defer d.client.Close()
	h := &d.Health
	var b strings.Builder
	fmt.Fprintf(&b, "State: %s\n", h.State)
	o := object{{"State", h.State}}
	if h.Last != "" {
		fmt.Fprintf(&b, "Last error: %s, engine %d: %s\n", h.LastKind, h.Engine, h.Last)
		o = append(o, member{"Last error", object{{"kind", h.LastKind}, {"engine", h.Engine}, {"text", h.Last}}})
	}
	b.WriteString("Errors:\n ")
	kinds := object{}
	for _, k := range h.Kinds {
		fmt.Fprintf(&b, " %s: %d", k.Name, k.Count)
		kinds = append(kinds, member{k.Name, k.Count})
	}
	fmt.Fprintf(&b, "\nRecoveries: %d\nLeaked connection ids: %d\nDump: %d octets\n", h.Recoveries, h.Leaked, h.Dump)
	return out.print(b.String(), append(o, member{"Errors", kinds}, member{"Recoveries", h.Recoveries}, member{"Leaked connection ids", h.Leaked}, member{"Dump", h.Dump}))
}

func healthRecover(ctx context.Context, _ *devlinkOut, args []string) error {
	d, err := reporterOf(ctx, args)
	if err != nil {
		return err
	}
	defer d.client.Close()
	return d.client.Recover(ctx)
}

func dumpShow(ctx context.Context, out *devlinkOut, args []string) error {
	d, err := reporterOf(ctx, args)
	if err != nil {
		return err
	}
	defer d.client.Close()
	dump, err := d.client.HealthDump(ctx)
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
	return out.print(b.String(), object{{"dump_data", octets}})
}

func dumpClear(ctx context.Context, _ *devlinkOut, args []string) error {
	d, err := reporterOf(ctx, args)
	if err != nil {
		return err
	}
	defer d.client.Close()
	return d.client.ClearHealthDump(ctx)
}
