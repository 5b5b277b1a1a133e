package ctl

import (
	"cmp"
	"context"

	"tapir/nic/fastlinq"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// devlinkCommand asks for what devlink shows of a device.
const devlinkCommand = "devlink"

// Devlink is what devlink shows of a device: what the NIC knows, and its
// netdev.
type Devlink struct {
	view.DevlinkInfo
	Netdev string `json:"netdev"` // the host TAP, or else the wire TAP
}

func devlink(d *served, h *fastlinq.Device, _ nothing, _ frame.Time, done func(Devlink, error)) {
	done(Devlink{DevlinkInfo: h.ShowDevlink(), Netdev: cmp.Or(name(d.HostTAP), name(d.TAP))}, nil)
}

// Devlink describes the device.
func (c *Client) Devlink(ctx context.Context) (i Devlink, err error) {
	return i, c.Command(ctx, devlinkCommand, nil, &i)
}
