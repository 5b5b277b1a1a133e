package real

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/tool/capture"
	"tapir/lab/topo"
)

// hopeless is the failure of a condition that cannot come to hold any more.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// expect says why a condition does not hold now.
func (b *Bed) expect(ctx context.Context, c *topo.Condition) error {
	if c.Node != "" {
		if err := b.unlessKilled(c.Node, nil); err != nil {
			return hopeless{err}
		}
	}
	switch {
	case c.Output != nil:
		return b.says(c)
	case c.Port != 0:
		ok, err := b.listens(ctx, c.Node, c.Port)
		if err == nil && !ok {
			err = fmt.Errorf("%s does not listen on port %d", c.Node, c.Port)
		}
		return err
	case c.OfPTP():
		return b.keepsTime(ctx, c)
	case c.InSync || c.Role != "":
		return b.manages(ctx, c)
	}
	n, err := b.count(ctx, c)
	if errors.Is(err, errNoVPort) {
		return err
	}
	if err != nil {
		return hopeless{err}
	}
	return c.Bounds(n)
}

// says judges the output of a program.
func (b *Bed) says(c *topo.Condition) error {
	p := b.program(c.Step)
	ended := p.proc.HasEnded() // before what it said is read
	if c.Output.MatchString(p.proc.Said()) {
		return nil
	}
	err := fmt.Errorf("the output of %s does not match %q%s", c.Step, topo.Plain(c.Output), p.said())
	if ended {
		return hopeless{err}
	}
	return err
}

// listens tells whether a NIC has a listener on the port.
func (b *Bed) listens(ctx context.Context, nic string, port uint16) (bool, error) {
	client, err := b.dial(nic)
	if err != nil {
		return false, hopeless{err}
	}
	defer client.Close()
	var ceps []struct {
		Phase string         `json:"phase"`
		Local netip.AddrPort `json:"local"`
	}
	err = client.Show(ctx, "cep", &ceps)
	for _, c := range ceps {
		if c.Phase == "listening" && c.Local.Port() == port {
			return true, nil
		}
	}
	return false, err
}

// count reads the counter that c names.
func (b *Bed) count(ctx context.Context, c *topo.Condition) (uint64, error) {
	if c.Link != "" {
		counts := b.links[c.Link].counts()
		n, _ := counts.Get(c.Counter) // the file was checked
		return n, nil
	}
	rows, err := b.allCounters(ctx, c.Node)
	if c.VESW != 0 {
		rows, err = b.vportCounters(ctx, c)
	}
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.Name == c.Counter {
			return r.Value, nil
		}
	}
	return 0, fmt.Errorf("%s has no counter %s: tapir show lists them, and tapir ethtool -S --all those of vports", c.Node, c.Counter)
}

// allCounters are those of a node with a control socket.
func (b *Bed) allCounters(ctx context.Context, nic string) (rows []result.Counter, err error) {
	client, err := b.dial(nic)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	err = client.Show(ctx, "counters", &rows)
	return rows, err
}

// counters are those of a node that are not zero. A host has none, nor
// has a node that has ended.
func (b *Bed) counters(ctx context.Context, n *node) []result.Counter {
	if n.proc == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countersWithin)
	defer cancel()
	rows, _ := b.allCounters(ctx, n.Name) // why not is judged with the node itself
	return slices.DeleteFunc(rows, func(c result.Counter) bool { return c.Value == 0 })
}

// countersWithin bounds how long a NIC may take to tell its counters.
const countersWithin = 5 * time.Second

// filter judges a step by the complete capture.
func (b *Bed) filter(ctx context.Context, s *topo.Step) error {
	if b.links[s.Condition.Link].part == nil {
		return errors.New("the link was not captured")
	}
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	err := result.Filter(limited, filepath.Join(b.files, capture.LabFile), &s.Condition)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
