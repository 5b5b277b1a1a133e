package uapi

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/netview"
	"tapir/nic/uapi/nldev"
	"tapir/nic/uapi/phc"
	"tapir/nic/uapi/sysfs"
)

// registerClocks has tools find time stamping where the NICs' clocks are shown.
func registerClocks(p *netlink.Proxy, clocks []phc.Device) {
	netdevs := map[string]netview.Stamping{}
	flags, types, filters := phc.Stamping()
	for _, d := range clocks {
		for name := range d.Netdevs {
			netdevs[name] = netview.Stamping{Clock: uint32(d.Index), Flags: flags, Types: types, Filters: filters}
		}
	}
	netview.Stamps(p, netdevs)
}

// registerRDMA serves RDMA netlink, and shows the NICs' addresses.
func registerRDMA(p *netlink.Proxy, nics []*device, devices []nldev.Device) {
	nldev.Register(p, devices...)
	var views []netview.NIC
	for _, d := range nics {
		views = append(views, netview.NIC{Netdev: cmp.Or(d.tap, d.name), Network: cached(d.network)})
	}
	netview.Register(p, views...)
}

// resources asks for the device's objects. The process ids of a NIC that is in an
// outer PID namespace mean nothing to the program.
func (d *device) resources(below bool) func() ([]nldev.Resource, error) {
	return cached(func() (list []nldev.Resource, err error) {
		err = d.table("resource", &list)
		for i := range list {
			if below {
				list[i].PID = 0
			}
		}
		return list, err
	})
}

// hwPrefixes are what the names of counters of RDMA, and of TCP below it, begin with.
var hwPrefixes = []string{"rdma", "tcp", "roce", "cm"}

// hwCounters are those of the NIC that are about RDMA and what is below it.
func (d *device) hwCounters() (list []sysfs.Counter, err error) {
	var all []sysfs.Counter
	if err := d.table("counters", &all); err != nil {
		return nil, err
	}
	for _, c := range all {
		if prefix, _, _ := strings.Cut(c.Name, "_"); slices.Contains(hwPrefixes, prefix) {
			list = append(list, c)
		}
	}
	return list, nil
}

// network asks how the NIC is connected.
func (d *device) network() (n netview.Network, err error) {
	var row struct {
		MAC      string
		MTU      uint32
		Addrs    []netip.Prefix
		Gateways []netip.Addr
	}
	var neighbors []struct {
		IP         netip.Addr
		MAC, State string
	}
	err = tell(d, func(ctx context.Context) error {
		if err := d.client.Show(ctx, "nic", &row); err != nil {
			return err
		}
		return d.client.Show(ctx, "neigh", &neighbors)
	})
	n = netview.Network{MTU: row.MTU, Addrs: row.Addrs, Gateways: row.Gateways}
	n.MAC, _ = net.ParseMAC(row.MAC) // none where it fails
	for _, of := range neighbors {
		mac, _ := net.ParseMAC(of.MAC) // likewise
		n.Neighbors = append(n.Neighbors, netview.Neighbor{IP: of.IP, MAC: mac, State: of.State})
	}
	return n, err
}
