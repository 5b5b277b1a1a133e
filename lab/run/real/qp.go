package real

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/nic/iwarp"
)

// askWithin bounds how long a link stands still to learn whose connection it
// has: what is sent again meanwhile, TCP bears.
const askWithin = 2 * time.Second

// findQP implements fault.FindQP, on the thread of a link.
func (b *bed) findQP(name string, ends [2]netip.AddrPort) (uint32, error) {
	type answer struct {
		qpn uint32
		err error
	}
	told := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	go func() {
		qpn, err := b.askQP(ctx, name, ends)
		told <- answer{qpn, err}
	}()
	select {
	case a := <-told:
		return a.qpn, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not answer within %v", name, askWithin)
	}
}

func (b *bed) askQP(ctx context.Context, name string, ends [2]netip.AddrPort) (uint32, error) {
	var all []iwarp.QPInfo
	err := b.ask(name, func(c *ctl.Client) error { return c.Show(ctx, "qp", &all) })
	return steps.QPOf(all, ends), err
}
