package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
	"tapir/nic/tap"
)

// fabric tells whether the node's process is one of Omni-Path.
func (n *node) fabric() bool {
	return n.Kind == topo.HFI || n.Kind == topo.Manager || n.Kind == topo.Gateway
}

// fileArgs are the arguments of a process that reads its configuration, which
// is written into dir.
func (n *node) fileArgs(dir string) ([]string, error) {
	text, err := n.ConfigFile(n.ports...)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, n.Name+".yaml")
	args := []string{"vnic", "-c", file}
	switch n.Kind {
	case topo.Switch:
		args[0] = "sw"
	case topo.Card:
		args[0] = "nic"
	case topo.Manager:
		args[0] = "em"
		if n.EM.Standby {
			args = append(args, "--standby")
		}
	}
	return args, os.WriteFile(file, text, 0o600)
}

// plugLAN makes an Ethernet link of a gateway a port of its bridge.
func (n *node) plugLAN(mtu int, vnet bool) (tap.Queue, error) {
	if n.lans++; n.lans == 1 {
		if err := n.net.AddBridge(topo.GatewayBridge); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprint("eth", n.lans-1)
	return n.openTAP(name, vnet, func() error { return n.bridge(name, mtu, topo.GatewayBridge) })
}

// Manager implements steps.World.
func (b *bed) Manager(ctx context.Context, node string) (role string, inSync bool, err error) {
	var row struct {
		Role   string `json:"role"`
		InSync bool   `json:"in_sync"`
	}
	err = b.ask(node, func(c *ctl.Client) error { return c.Show(ctx, "nic", &row) })
	return row.Role, row.InSync, err
}

// vportCounters are those of the vport that an HFI has in a vESW. Managers make
// vports: one that is missing may come.
func vportCounters(ctx context.Context, client *ctl.Client, node string, vesw uint16) ([]result.Counter, error) {
	var vports []struct {
		VESW uint16 `json:"vesw"`
		TAP  string `json:"tap"`
	}
	var stats []struct {
		Netdev string           `json:"netdev"`
		Stats  []result.Counter `json:"stats"`
		Own    []result.Counter `json:"own"`
	}
	if err := errors.Join(client.Show(ctx, "vport", &vports), client.Show(ctx, "ethtool", &stats)); err != nil {
		return nil, steps.Never(err)
	}
	for _, v := range vports {
		for _, s := range stats {
			if v.VESW == vesw && s.Netdev == v.TAP {
				return append(s.Stats, s.Own...), nil
			}
		}
	}
	return nil, fmt.Errorf("%s has no vport in vESW %d", node, vesw)
}
