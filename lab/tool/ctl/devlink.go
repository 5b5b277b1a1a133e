package ctl

import (
	"context"
	"encoding/json"

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

func (d *served) devlink(ctx context.Context, _ json.RawMessage) (any, error) {
	return await(d, ctx, withFastLinQ(d, "devlink instance", func(h *fastlinq.Device, _ frame.Time,
		done func(Devlink, error)) {
		i := Devlink{DevlinkInfo: h.ShowDevlink(), Netdev: d.TAP}
		if d.HostTAP != "" {
			i.Netdev = d.HostTAP
		}
		done(i, nil)
	}))
}

// Devlink describes the device.
func (c *Client) Devlink(ctx context.Context) (i Devlink, err error) {
	return i, c.Command(ctx, devlinkCommand, nil, &i)
}
