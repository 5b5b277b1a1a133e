package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
)

// fabric is an Omni-Path fabric on a bridge: two HFIs, each with its host in a
// namespace, and an Ethernet Manager.
type fabric struct {
	bed
	hosts  [2]*link.Space
	config string
	hfis   *process.Process
	em     *process.Process
}

const fabricYAML = `hfis:
  - {name: hfi1, fabric_tap: fab1, bridge: fabric, netns: %s, guid: 0x0011750101000001, managed: true, icrc: none,
     vnics: [{vesw: 2, ip: 10.2.0.1/24}]}
  - {name: hfi2, fabric_tap: fab2, bridge: fabric, netns: %s, guid: 0x0011750101000002, managed: true, icrc: none,
     vnics: [{vesw: 2, ip: 10.2.0.2/24}]}
`

const managerYAML = `manager: {fabric_tap: fabem, bridge: fabric, guid: 0x00117501010000ff, icrc: none}
nodes:
  - {name: node1, guid: 0x0011750101000001}
  - {name: node2, guid: 0x0011750101000002}
vesws:
  - {name: blue, id: 2, pkey: 0x12, mtu: 1500, members: [node1, node2]}
`

func fabricRows() []row {
	return []row{{name: "mad", what: "MADs and data packets of an Omni-Path fabric, changed at random", secs: 12,
		grows: 32,
		run: func(ctx context.Context, t *trial) error {
			return t.onFabric(ctx, func(f *fabric) error {
				out, err := f.packetSocket(attacker)
				if err != nil {
					return err
				}
				f.raw = out
				return f.mutate(ctx, "fabem", out, func([]byte) bool { return true }, nil)
			})
		}}}
}

// onFabric makes a fabric, attacks it and judges: the hosts reach each other, the
// manager has everything in sync.
func (t *trial) onFabric(ctx context.Context, attack func(f *fabric) error) error {
	f := &fabric{bed: bed{t: t, raw: -1}}
	defer f.drop()
	err := f.make(ctx)
	if err == nil {
		t.before = rss(f.hfis.PID())
		err = attack(f)
	}
	if err == nil {
		err = f.inSync(ctx)
		t.after = rss(f.hfis.PID())
	}
	if err != nil {
		return err
	}
	if t.after > t.before+t.grows<<10 {
		err = fmt.Errorf("memory has grown by %d MiB, at most %d are allowed", (t.after-t.before)>>10, t.grows)
	}
	f.em.Stop()
	f.hfis.Stop()
	return errors.Join(err, noPanic("em", f.em), noPanic("vnic", f.hfis), f.em.Err(), f.hfis.Err(), rundirEmpty())
}

func (f *fabric) make(ctx context.Context) (err error) {
	if f.Space, err = link.NewSpace(link.Quiet); err != nil {
		return err
	}
	var paths [2]string
	for i := range f.hosts {
		if f.hosts[i], err = link.NewSpace(link.Quiet); err != nil {
			return err
		}
		paths[i] = fmt.Sprintf("%s/fd/%d", pidDir(os.Getpid()), f.hosts[i].NS.Fd())
	}
	f.config = filepath.Join(f.t.dir, "em.yaml")
	hfis := filepath.Join(f.t.dir, "hfi.yaml")
	err = errors.Join(os.WriteFile(f.config, []byte(managerYAML), 0o600),
		os.WriteFile(hfis, fmt.Appendf(nil, fabricYAML, paths[0], paths[1]), 0o600),
		f.Net.AddBridge("fabric"), f.Net.SetMTU("fabric", 10000), f.Net.AddVeth(attacker, f.Net, attacker+"p"),
		f.Net.Up(attacker), f.AddPort(attacker+"p", "fabric", 1500))
	if err != nil {
		return err
	}
	if f.hfis, err = f.start(ctx, "vnic", "-c", hfis); err != nil {
		return err
	}
	if err := f.hfis.Await(ctx, "hfi2"); err != nil {
		return fmt.Errorf("vnic: %w", err)
	}
	if err := f.manage(ctx); err != nil {
		return err
	}
	return f.inSync(ctx)
}

func (f *fabric) manage(ctx context.Context) (err error) {
	if f.em, err = f.start(ctx, "em", "-c", f.config); err != nil {
		return err
	}
	if err := f.em.Await(ctx, "ready"); err != nil {
		return fmt.Errorf("em: %w", err)
	}
	return nil
}

// inSync waits until the hosts reach each other.
func (f *fabric) inSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for _, p := range []*process.Process{f.hfis, f.em} {
		if p.HasEnded() {
			return fmt.Errorf("a process of the fabric has ended: %w: %s", p.Err(), p.Tail())
		}
	}
	return process.Until(ctx, func() (bool, error) {
		var out []byte
		err := f.hosts[0].NS.Do(func() (err error) {
			out, err = exec.CommandContext(ctx, "ping", "-c1", "-W1", "10.2.0.2").CombinedOutput()
			return err
		})
		if err != nil && ctx.Err() != nil {
			return false, fmt.Errorf("the hosts of the fabric: %w: %s; em: %s", err, out, f.em.Tail())
		}
		return err == nil, nil
	})
}

func (f *fabric) drop() {
	for _, p := range []*process.Process{f.em, f.hfis} {
		if p != nil {
			p.Kill()
		}
	}
	for _, h := range f.hosts {
		h.Close()
	}
	if f.Space != nil {
		f.bed.drop()
	}
}
