package uapi

import (
	"cmp"
	"context"

	"tapir/lab/tool/dcb"
	"tapir/nic/uapi/dcbnl"
	"tapir/nic/uapi/netlink"
)

// serveDCB has dcb(8) find the NICs that have DCB, by the netdevs that ip(8) shows.
func serveDCB(devices []*device, sockets *netlink.Proxy) {
	var list []dcbnl.Device
	for _, d := range devices {
		netdev := cmp.Or(d.tap, d.name)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, none := dcb.Client(ctx, d.client, netdev).Mode()
		cancel()
		if none != nil {
			continue
		}
		list = append(list, dcbnl.Device{Netdev: netdev, Serve: func(r dcbnl.Request) (dcbnl.Answer, error) {
			return ask(d, func(ctx context.Context) (dcbnl.Answer, error) {
				return dcb.Client(ctx, d.client, netdev).Ask(r)
			})
		}, Tell: func(text string) { d.logf("%s: %s", d.name, text) }})
	}
	dcbnl.Register(sockets, list...)
}
