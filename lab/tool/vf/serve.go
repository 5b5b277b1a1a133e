package vf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tapir/lab/tool/ctl"
	"tapir/nic"
	"tapir/nic/fastlinq"
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

// NIC is a NIC whose virtual functions are served.
type NIC struct {
	Device *nic.Device
	Thread ctl.Thread
	// SetNumVFs sets their number, with their host TAPs.
	SetNumVFs func(n int) error
}

// Commands are those of the NIC's control server.
func (n NIC) Commands() map[string]ctl.Answer { return map[string]ctl.Answer{command: n.change} }

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
		return struct{}{}, withErrno(n.SetNumVFs(*c.NumVFs))
	}
	if lost := n.Thread.DoWait(func(now frame.Time) {
		if c.FLR {
			err = b.FLR(c.VF, now)
		} else if c.Set != nil {
			err = c.Set.Apply(b.IOV(), c.VF)
		}
	}); lost != nil {
		err = lost
	}
	return struct{}{}, withErrno(err)
}

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
