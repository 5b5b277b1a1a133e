package ctl

import (
	"context"

	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// ll2Command has a light L2 connection of type TEST send and receive frames.
const ll2Command = "ll2"

func ll2(_ *served, h *fastlinq.Device, job fastlinq.LL2Job, now frame.Time, done func(fastlinq.LL2Report, error)) {
	if err := h.LL2Test(job, now, done); err != nil {
		done(fastlinq.LL2Report{}, err)
	}
}

// LL2Test does a job and waits for it.
func (c *Client) LL2Test(ctx context.Context, job fastlinq.LL2Job) (r fastlinq.LL2Report, err error) {
	return r, c.Command(ctx, ll2Command, job, &r)
}
