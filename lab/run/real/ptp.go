package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tapir/lab/host/process"
	"tapir/lab/tool/ptprun"
	"tapir/lab/topo"
)

// startPTP starts the PTP instances of NICs. They run until stopPTP.
func (b *Bed) startPTP(ctx context.Context) error {
	inner, stop := context.WithCancel(context.Background())
	b.later(stop)
	b.ptp, b.endPTP = inner, stop
	for i := range b.lab.Nodes {
		n := b.nodes[b.lab.Nodes[i].Name]
		if n.PTP == nil {
			continue
		}
		if err := b.startClock(ctx, n); err != nil {
			return fmt.Errorf("%s: PTP: %w", n.Name, err)
		}
	}
	return nil
}

// startClock starts the instance of one NIC and waits until it is there.
func (b *Bed) startClock(ctx context.Context, n *node) error {
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
func (b *Bed) stopPTP() (err error) {
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

func (b *Bed) ptpStatus(ctx context.Context, node string) (s ptprun.Status, err error) {
	client, err := b.dial(node)
	if err != nil {
		return s, hopeless{err}
	}
	defer client.Close()
	err = client.Command(ctx, "ptp.status", nil, &s)
	return s, err
}

// keepsTime says why a node's PTP instance is not as c wants it.
func (b *Bed) keepsTime(ctx context.Context, c *topo.Condition) error {
	s, err := b.ptpStatus(ctx, c.Node)
	if err != nil {
		return err
	}
	if s.Instance == nil {
		return fmt.Errorf("%s runs no PTP instance", c.Node)
	}
	return c.KeepsTime(s.Instance, s.Clock.TrueOffset)
}
