package vf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tapir/lab/tool/ctl"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/uapi/sriov"
	"tapir/wire/frame"
)

// command changes virtual functions: a Change in.
const command = "vf"

// Change is what is to change of a NIC's virtual functions.
type Change struct {
	NumVFs *int            `json:"numvfs,omitempty"` // their number
	VF     int             `json:"vf,omitempty"`     // else one of them
	FLR    bool            `json:"flr,omitempty"`    // is reset
	Set    *fastlinq.VFSet `json:"set,omitempty"`
}

// Apply makes the change, which may be none, and returns what the device says of SR-IOV then.
func (c Change) Apply(ctx context.Context, to *ctl.Client) (now sriov.Capability, err error) {
	return now, to.Command(ctx, command, c, &now)
}

// NIC is a NIC whose virtual functions are served.
type NIC struct {
	Device *nic.Device
	Thread ctl.Thread
	// SetNumVFs sets their number, with their host TAPs.
	SetNumVFs func(n int) error
	// Netdevs are the host TAPs of the VFs that there are, empty of one elsewhere.
	Netdevs func() []string
}

// Commands are those of the NIC's control server.
func (n NIC) Commands() map[string]ctl.Answer {
	return map[string]ctl.Answer{command: n.change, rssCommand: n.rss}
}

// change does a Change.
func (n NIC) change(_ context.Context, raw json.RawMessage) (any, error) {
	var c Change
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, ctl.BadRequest(fmt.Errorf("the arguments cannot be read: %w", err))
	}
	b, err := n.bridge()
	if err != nil {
		return nil, err
	}
	if c.NumVFs != nil {
		if err := n.SetNumVFs(*c.NumVFs); err != nil {
			return nil, withErrno(err)
		}
	}
	var info fastlinq.IOVInfo
	if lost := n.Thread.DoWait(func(now frame.Time) {
		if info = b.IOV().Info(); c.FLR {
			err = b.FLR(c.VF, now)
		} else if c.Set != nil {
			err = c.Set.Apply(b.IOV(), c.VF)
		}
	}); lost != nil {
		err = lost
	}
	if err != nil {
		return nil, withErrno(err)
	}
	return sriov.Capability{Total: info.Total, Offset: info.Offset, Stride: info.Stride, Vendor: vendor,
		PF: device, VF: info.DeviceID, Netdevs: n.Netdevs()}, nil
}

// What the device is on the bus.
const vendor, device = 0x1077, 0x8070

// bridge is that of the NIC's virtual functions.
func (n NIC) bridge() (*fastlinq.VFBridge, error) {
	cfg := n.Device.Config()
	h := fastlinq.Of(n.Device.Hardware)
	switch {
	case h == nil:
		return nil, &ctl.Error{What: fmt.Sprintf("hardware %s has no virtual functions", cfg.Hardware.Kind())}
	case h.Bridge() == nil:
		return nil, &ctl.Error{What: cfg.Name + " can have no virtual functions", Errno: "EOPNOTSUPP",
			Remedy: "start it with sriov in its file, such as sriov: {numvfs: 4}"}
	}
	return h.Bridge(), nil
}

// withErrno gives an error of SR-IOV its number.
func withErrno(err error) error {
	if err == nil || errors.As(err, new(*ctl.Error)) {
		return err
	}
	return &ctl.Error{What: err.Error(), Errno: fastlinq.VFErrno(err)}
}
