package real

import (
	"context"
	"fmt"
	"time"

	"tapir/lab/host/fault"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/nic/show"
	"tapir/nic/verbs"
)

// askWithin bounds how long a link stands still to learn whose connection it
// has: what is sent again meanwhile, the transport bears.
const askWithin = 2 * time.Second

// findQP implements fault.FindQP, on the thread of a link.
func (b *bed) findQP(name string, c fault.Connection) (uint32, error) {
	type answer struct {
		qpn uint32
		err error
	}
	told := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	go func() {
		qpn, err := b.askQP(ctx, name, c)
		told <- answer{qpn, err}
	}()
	select {
	case a := <-told:
		return a.qpn, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not answer within %v", name, askWithin)
	}
}

func (b *bed) askQP(ctx context.Context, name string, conn fault.Connection) (uint32, error) {
	ask := func(rows any) error {
		return b.ask(name, func(c *ctl.Client) error { return c.Show(ctx, "qp", rows) })
	}
	if roce := b.lab.Node(name).NIC.NIC.RDMA.Personality == verbs.RoCE; roce != (conn.DestQP != 0) {
		return 0, nil
	} else if !roce {
		var all []show.QPInfo
		err := ask(&all)
		return steps.QPOf(all, conn), err
	}
	var all []show.RoCEQPInfo
	err := ask(&all)
	return steps.RoCEQPOf(all, conn), err
}
