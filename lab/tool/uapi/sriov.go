package uapi

import (
	"context"
	"syscall"

	"tapir/lab/tool/vf"
	"tapir/nic/fastlinq"
	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/sriov"
	"tapir/nic/view"
)

// serveVFs shows the virtual functions of NICs that can have any; nil: none can.
func serveVFs(devices []*device, sockets *netlink.Proxy) (*sriov.Files, error) {
	var pfs []sriov.PF
	for _, d := range devices {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, none := vf.Change{}.Apply(ctx, d.client)
		cancel()
		if none != nil || d.tap == "" {
			continue
		}
		pfs = append(pfs, sriov.PF{Netdev: d.tap, Bus: uint8(len(pfs) + 1),
			Capability: func() (sriov.Capability, error) { return d.changeVFs(vf.Change{}) },
			VFs: func() (list []sriov.VF, err error) {
				err = d.table("vf", &list)
				return list, err
			},
			Stats: d.vfStats,
			Set: func(n int, words ...string) error {
				set, err := fastlinq.ParseVFSet(words)
				if err != nil { // a number that is too large
					return syscall.EINVAL
				}
				_, err = d.changeVFs(vf.Change{VF: n, Set: &set})
				return err
			},
			SetNumVFs: func(n int) error {
				_, err := d.changeVFs(vf.Change{NumVFs: &n})
				return err
			}})
	}
	if len(pfs) == 0 {
		return nil, nil
	}
	sriov.Register(sockets, pfs...)
	return sriov.NewFiles(pfs...)
}

// changeVFs changes virtual functions, or nothing, and tells of them.
func (d *device) changeVFs(c vf.Change) (sriov.Capability, error) {
	return ask(d, func(ctx context.Context) (sriov.Capability, error) { return c.Apply(ctx, d.client) })
}

// vfStats are the counters of the VFs.
func (d *device) vfStats() (list []sriov.Stats, err error) {
	var all []view.Counter
	if err := d.table("counters", &all); err != nil {
		return nil, err
	}
	for _, c := range all {
		n, name, ok := c.OfVF()
		if !ok || n > len(list) {
			continue
		}
		if n == len(list) {
			list = append(list, sriov.Stats{})
		}
		s := &list[n]
		if to := map[string]*uint64{"rx_packets": &s.RxPackets, "tx_packets": &s.TxPackets, "rx_bytes": &s.RxBytes,
			"tx_bytes": &s.TxBytes, "rx_broadcast": &s.Broadcast, "rx_multicast": &s.Multicast,
			"rx_dropped": &s.RxDropped, "tx_dropped": &s.TxDropped}[name]; to != nil {
			*to = c.Value
		}
	}
	return list, nil
}
