// Kv is a key/value store over RDMA verbs: an upper layer protocol on two NICs
// in one process that goes on when either of them is taken away under traffic
// and comes back.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	taps := flag.Bool("tap", false, "use real TAPs in a namespace of their own (needs root)")
	removals := flag.Int("removals", 4, "how often a NIC is taken away")
	ops := flag.Int("ops", 2000, "operations between two removals")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *taps, *removals, *ops); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		stop()
		os.Exit(1)
	}
}

const (
	keys  = 64
	depth = 8
)

// run works, takes the NICs away in turn, and checks everything.
func run(ctx context.Context, out io.Writer, taps bool, removals, ops int) (err error) {
	w, err := NewWorld(ctx, taps)
	if err != nil {
		return err
	}
	defer func() {
		if e := w.Close(); err == nil {
			err = e
		}
	}()
	s, c := NewServer(serverNIC, storePort, keys, depth), NewClient(clientNIC, storePort, keys, depth, 1)
	leaveServer, leaveClient := w.Layer.RegisterClient(s), w.Layer.RegisterClient(c)
	err = exercise(ctx, out, w, s, c, removals, ops)
	leaveClient()
	leaveServer()
	if err == nil {
		err = verify(s, c)
	}
	if err == nil {
		st := c.Stats()
		fmt.Fprintf(out, "done: %d puts, %d gets, %d connections, %d work requests flushed once each, %d puts sent "+
			"again, %d keys verified\n", st.Puts, st.Gets, st.Connections, st.Flushed, st.Again, keys)
	}
	return err
}

func exercise(ctx context.Context, out io.Writer, w *World, s *Server, c *Client, removals, ops int) error {
	if err := progress(ctx, s, c, 1, ops); err != nil {
		return err
	}
	for i := range removals {
		name := [...]string{serverNIC, clientNIC}[i%2]
		if err := w.Pull(name); err != nil {
			return err
		}
		st := c.Stats()
		fmt.Fprintf(out, "%s taken away after %d puts and %d gets\n", name, st.Puts, st.Gets)
		if err := w.Plug(ctx, name); err != nil {
			return err
		}
		if err := progress(ctx, s, c, i+2, ops); err != nil {
			return err
		}
	}
	return nil
}

// progress waits until the client has connected that often and has done ops
// more operations.
func progress(ctx context.Context, s *Server, c *Client, connections, ops int) error {
	begin := c.Stats()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		st := c.Stats()
		if _, err := s.Puts(); err != nil {
			return fmt.Errorf("server: %w", err)
		}
		switch {
		case st.Fault != nil:
			return fmt.Errorf("client: %w", st.Fault)
		case st.Connections >= connections && st.Puts+st.Gets >= begin.Puts+begin.Gets+ops:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verify compares the table with what the client knows, after both have let
// go of their devices: each key holds the last version that was acknowledged,
// or the one that was under way.
func verify(s *Server, c *Client) error {
	if _, err := s.Puts(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if st := c.Stats(); st.Fault != nil {
		return fmt.Errorf("client: %w", st.Fault)
	}
	for i, k := range c.keys {
		version, err := checkSlot(s.table[i*slotLen:], i)
		if err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
		if version != k.acked && version != k.sent {
			return fmt.Errorf("key %d has version %d; %d was acknowledged, %d sent", i, version, k.acked, k.sent)
		}
	}
	return nil
}
