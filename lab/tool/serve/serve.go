// Package serve runs nodes in the foreground, each with its control socket:
// NICs, Omni-Path HFIs, Ethernet Managers and switches.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
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
	File    string    // that the configurations are from, read again at SIGHUP; empty: none
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
// At SIGHUP reload has those from a file follow it.
func Run[C any, N Node](ctx context.Context, o Options, all []C, name func(*C) string,
	start func(context.Context, C) (N, error), reload func(nodes []N) error) error {
	hangups := make(chan os.Signal, 1)
	if o.File != "" {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running group
	defer func() { running.close() }()
	var metered []ctl.Metered
	var nodes []N
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
		running, nodes = append(running, member{n, s}), append(nodes, n)
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
	go o.followFile(ctx, hangups, func() error { return reload(nodes) })
	return running.await(ctx, stop)
}

// followFile calls reload at each hangup, until ctx ends, and tells of its errors
// line by line.
func (o *Options) followFile(ctx context.Context, hangups <-chan os.Signal, reload func() error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		err := reload()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			fmt.Fprintf(o.Log, "%s: not reloaded: %s\n", o.File, usage.OneLine(err))
		default:
			fmt.Fprintf(o.Log, "%s: reloaded\n", o.File)
		}
	}
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
