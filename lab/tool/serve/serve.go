// Package serve runs nodes in the foreground, each with its control socket:
// NICs, Omni-Path HFIs, Ethernet Managers and switches.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"tapir/lab/tool/ctl"
)

// Node is a node that has been started.
type Node interface {
	// Ready is the line that says so.
	Ready() string
	// Served is the node as its control server wants it; stop begins the end.
	Served(stop func()) ctl.NIC
	// Done is closed when the node has stopped, Err is why.
	Done() <-chan struct{}
	Err() error
	Close() error
}

// concluding is a node that has something left to print when all have ended.
type concluding interface{ conclude() }

// Options say how nodes are run.
type Options struct {
	Version string    // of the binary
	Out     io.Writer // gets a line for each node that is ready
	Log     io.Writer // what goes wrong
	Metrics string    // address for Prometheus, see ctl.MetricsAddr; empty: not served
}

// errStopped is the reason of an end that a client asked for.
var errStopped = errors.New("stopped by a client")

// group is nodes that run together.
type group []member

type member struct {
	Node
	server *ctl.Server
}

// Run starts a node for each configuration, with a control socket of that name,
// and runs them until ctx ends, a client stops one, or one fails. The control
// socket comes first, so that a name in use is found before a TAP is made.
func Run[C any, N Node](ctx context.Context, o Options, all []C, name func(*C) string,
	start func(context.Context, C) (N, error)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running group
	defer func() { running.close() }()
	var metered []ctl.Metered
	for _, cfg := range all {
		s, err := ctl.Listen(name(&cfg), o.Version)
		if err != nil {
			return err
		}
		s.Log = o.Log
		n, err := start(ctx, cfg)
		if err != nil {
			s.Close()
			return err
		}
		running = append(running, member{n, s})
		served := n.Served(func() { stop(errStopped) })
		s.Serve(served)
		if m, ok := served.(ctl.Metered); ok {
			metered = append(metered, m)
		}
		fmt.Fprintln(o.Out, n.Ready())
	}
	if o.Metrics != "" {
		m, err := ctl.ListenMetrics(o.Metrics, o.Log, metered...)
		if err != nil {
			return err
		}
		defer m.Close()
		fmt.Fprintln(o.Out, "metrics", m.URL())
	}
	return running.await(ctx, stop)
}

// await returns when the nodes have to end: with nil if someone wanted it.
func (g group) await(ctx context.Context, stop context.CancelCauseFunc) error {
	for _, n := range g {
		go func() {
			<-n.Done() // at the latest when it is closed
			stop(n.Err())
		}()
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, errStopped) {
		return cause
	}
	return nil
}

// close ends all nodes side by side, each before its control socket, so that
// captures see connections close.
func (g group) close() {
	var wg sync.WaitGroup
	for _, n := range g {
		wg.Go(func() {
			_ = n.Close() // its failure was reported when it happened
			n.server.Close()
		})
	}
	wg.Wait()
	for _, n := range g {
		if c, ok := n.Node.(concluding); ok {
			c.conclude()
		}
	}
}
