package ctl

import (
	"context"

	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// selftestCommand is the command that runs the selftests: a SelftestMode in, a
// list of SelftestResult out.
const selftestCommand = "selftest"

// SelftestMode says which selftests: with Offline those, too, that cut the wire
// off.
type SelftestMode struct {
	Offline bool `json:"offline"`
}

// SelftestResult is the outcome of a test.
type SelftestResult struct {
	Name string `json:"test"`
	Fail string `json:"fail,omitempty"` // why it failed
}

// selftest runs the selftests and waits for them, or for the client to go.
func selftest(_ *served, h *fastlinq.Device, mode SelftestMode, _ frame.Time, done func([]SelftestResult, error)) {
	if err := h.Selftest(mode.Offline, func(r fastlinq.SelftestReport) { done(results(r), nil) }); err != nil {
		done(nil, err)
	}
}

// results lists all tests in their order; those that were not done passed, as in
// ethtool's output.
func results(r fastlinq.SelftestReport) (list []SelftestResult) {
	for t := range fastlinq.Selftests {
		row := SelftestResult{Name: t.String()}
		for _, one := range r {
			if one.Test == t && one.Err != nil {
				row.Fail = one.Err.Error()
			}
		}
		list = append(list, row)
	}
	return list
}

// Selftest runs the selftests of the NIC.
func (c *Client) Selftest(ctx context.Context, offline bool) (list []SelftestResult, err error) {
	err = c.Command(ctx, selftestCommand, SelftestMode{Offline: offline}, &list)
	return list, err
}
