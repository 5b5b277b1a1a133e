package ctl

import (
	"context"
	"encoding/json"

	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// ll2Command has a light L2 connection of type TEST send and receive frames.
const ll2Command = "ll2"

var ll2Test = onFastLinQ("light L2", func(_ *served, h *fastlinq.Device, job fastlinq.LL2Job, now frame.Time,
	done func(fastlinq.LL2Report, error)) {
	if err := h.LL2Test(job, now, done); err != nil {
		done(fastlinq.LL2Report{}, err)
	}
})

// ll2 waits for the end, or ends it when the client goes.
func ll2(ctx context.Context, d *served, args json.RawMessage) (any, error) {
	answer, err := ll2Test.run(ctx, d, args)
	if ctx.Err() == nil {
		return answer, err
	}
	return nil, d.on(func(now frame.Time) error {
		fastlinq.Of(d.Device.Hardware).EndLL2Test(now)
		return nil
	})
}

// LL2Test does a job and waits for it.
func (c *Client) LL2Test(ctx context.Context, job fastlinq.LL2Job) (r fastlinq.LL2Report, err error) {
	return r, c.Command(ctx, ll2Command, job, &r)
}
