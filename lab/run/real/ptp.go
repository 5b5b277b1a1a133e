package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/ptp"
)

// startPTP starts the PTP instances of NICs. They run until stopPTP.
func (b *bed) startPTP(ctx context.Context) error {
	inner, stop := context.WithCancel(context.Background())
	b.undo.Add(stop)
	b.ptp, b.endPTP = inner, stop
	for _, n := range b.order {
		if n.PTP == nil {
			continue
		}
		if err := b.startClock(ctx, n); err != nil {
			return fmt.Errorf("%s: PTP: %w", n.Name, err)
		}
	}
	b.watchClocks(inner)
	b.watchTables(inner)
	return nil
}

// startClock starts the instance of one NIC and waits until it is there.
func (b *bed) startClock(ctx context.Context, n *node) error {
	client, err := b.dial(n.Name)
	if err != nil {
		return err
	}
	n.ptp = make(chan error, 1)
	go func() {
		defer client.Close()
		job := ptprun.Job{Op: ptprun.Op, File: "ptp of " + n.Name, YAML: string(n.PTP)}
		n.ptp <- client.Perf(b.ptp, job, nil, &json.RawMessage{})
	}()
	return process.Until(ctx, func() (bool, error) {
		select {
		case err := <-n.ptp:
			n.ptp <- err
			return false, err
		default:
		}
		s, err := b.ptpStatus(ctx, n.Name)
		return err == nil && s.Instance != nil, err
	})
}

// stopPTP ends the instances. The error names those that had ended before.
func (b *bed) stopPTP() (err error) {
	for _, n := range b.nodes {
		select {
		case e := <-n.ptp:
			err = errors.Join(err, fmt.Errorf("%s: PTP has ended: %w", n.Name, e))
			n.ptp = nil
		default:
		}
	}
	if b.endPTP != nil {
		b.endPTP()
	}
	for _, n := range b.nodes {
		if n.ptp != nil {
			<-n.ptp
		}
	}
	return err
}

func (b *bed) ptpStatus(ctx context.Context, node string) (s ptprun.Status, err error) {
	err = b.ask(node, func(c *ctl.Client) error { return c.Command(ctx, "ptp.status", nil, &s) })
	return s, err
}

// PTP implements run.World.
func (b *bed) PTP(ctx context.Context, node string) (*ptp.Snapshot, int64, error) {
	s, err := b.ptpStatus(ctx, node)
	return s.Instance, s.Clock.TrueOffset, err
}

// clocksEvery is how often a clock is sampled at first; of many clocks each less often.
const clocksEvery = 100 * time.Millisecond

// watchClocks samples the clocks of PTP nodes until ctx ends, if the lab is recorded.
func (b *bed) watchClocks(ctx context.Context) {
	var names []string
	for _, n := range b.order {
		if n.PTP != nil {
			names = append(names, n.Name)
		}
	}
	c := result.NewClocks(names, b.Now(), time.Duration(1+len(names)/4)*clocksEvery)
	if c == nil || b.opt.Out == "" {
		return
	}
	b.clocks = make(chan []result.Clock, 1)
	go func() {
		for b.Sleep(ctx, c.Next()-b.Now()) == nil {
			c.Take(func(name string) (*ptp.Snapshot, int64) {
				s, truth, _ := b.PTP(ctx, name) // nothing of one that cannot tell
				return s, truth
			})
		}
		b.clocks <- c.Done()
	}()
}
