package ethtool

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// match is a device of that name, of the node behind a client.
type match struct {
	d    *Device
	c    *ctl.Client
	node string
}

// Find looks among all running NICs and HFIs for a device: one that is called so, or has an interface that
// is. NAME@NODE is the interface of that node. Where several nodes have an interface of the name, as in
// several namespaces, it is the one in the caller's namespace.
func Find(ctx context.Context, name string) (*Device, *ctl.Client, error) {
	netdev, of, _ := strings.Cut(name, "@")
	var known []string
	var found []match
	for _, running := range ctl.List() {
		if of != "" && running != of {
			continue
		}
		c, err := ctl.Dial(running)
		if err != nil {
			return nil, nil, err
		}
		d, names, err := Open(ctx, c, netdev)
		if d != nil && err == nil {
			found = append(found, match{d, c, running})
			continue
		}
		c.Close()
		if err != nil {
			return nil, nil, err
		}
		known = append(known, names...)
	}
	if len(found) == 0 {
		if known == nil {
			return nil, nil, fmt.Errorf("no NIC is running: start one with: %s", ctl.StartHint)
		}
		return nil, nil, fmt.Errorf("%s is neither a NIC nor the TAP of one: choose one of %s", name,
			strings.Join(known, ", "))
	}
	mine := choose(netdev, found)
	for i := range found {
		if i != mine {
			found[i].c.Close()
		}
	}
	if mine < 0 {
		var each []string
		for _, m := range found {
			each = append(each, netdev+"@"+m.node)
		}
		return nil, nil, usage.Errorf("several nodes have an interface %s: choose one of %s", netdev,
			strings.Join(each, ", "))
	}
	return found[mine].d, found[mine].c, nil
}

// choose is which of several devices is meant: the node of that name, or what has the address of the
// caller's interface; -1: nobody can tell.
func choose(name string, found []match) int {
	if len(found) == 1 {
		return 0
	}
	if i := slices.IndexFunc(found, func(m match) bool { return m.node == name }); i >= 0 {
		return i
	}
	here, err := net.InterfaceByName(name)
	if err != nil {
		return -1
	}
	is := func(m match) bool { return bytes.Equal(m.d.nic.PermAddr[:], here.HardwareAddr) }
	i := slices.IndexFunc(found, is)
	if i >= 0 && slices.ContainsFunc(found[i+1:], is) {
		return -1
	}
	return i
}
