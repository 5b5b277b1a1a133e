package programs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/tool/tshark"
)

// within bounds a cell.
const within = 90 * time.Second

// attempts bounds how often a cell is begun when an error of the programs' own
// has ended it, each time after a longer pause: on a loaded machine the same error
// comes several times in a row.
const (
	attempts = 20
	pause    = 20 * time.Millisecond
)

// Run runs a cell in a mode. It returns how often the programs were begun anew.
// Error: what was not as it should be, with what both programs and NICs said
// last.
func (l *Lab) Run(ctx context.Context, c Cell, m Mode) (again int, err error) {
	for ; ; again++ {
		err = l.run(ctx, c, m)
		if err == nil || again == attempts-1 || !c.isKnown(err) {
			return again, err
		}
		if left := l.empty(ctx); left != nil {
			return again, errors.Join(err, left)
		}
		select {
		case <-ctx.Done():
			return again, err
		case <-time.After(time.Duration(again) * pause):
		}
	}
}

// isKnown reports whether the programs ended by an error of their own.
func (c *Cell) isKnown(err error) bool {
	return slices.ContainsFunc(c.Known, func(says string) bool { return strings.Contains(err.Error(), says) })
}

func (l *Lab) run(longer context.Context, c Cell, m Mode) (err error) {
	ctx, cancel := context.WithTimeout(longer, cmp.Or(c.Within, within))
	defer cancel()
	m.Restarts = c.Restarts
	var srv, cli *process.Process
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %s: %w%s", c.Name, m.Name, err, l.state())
		}
		err = errors.Join(err, stop("client", cli, err != nil))
		if err != nil && srv != nil {
			soon, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			srv.Wait(soon) // it may have something to say about the client's end
			cancel()
		}
		err = errors.Join(err, stop("server", srv, err != nil))
	}()
	if c.Copies > 0 {
		if err := os.WriteFile(filepath.Join(l.dir, "from"), pattern(c.Copies), 0o600); err != nil {
			return err
		}
	}
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if c.Server != "" {
		if srv, err = process.Start(longer, l.pair.A.NS, process.Options{Dir: l.dir,
			Argv: l.under(server, m, strings.Fields(c.Server))}); err != nil {
			return err
		}
		if err := l.ready(ctx, c, srv); err != nil {
			return err
		}
	}
	if cli, err = process.Start(longer, l.pair.B.NS, process.Options{Dir: l.dir,
		Argv: l.under(client, m, strings.Fields(c.Client))}); err != nil {
		return err
	}
	if err := cli.Wait(ctx); err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	if c.Want != "" && cli.Line(c.Want) == "" {
		return fmt.Errorf("the client does not say %q", c.Want)
	}
	for _, not := range c.Not {
		if line := cli.Line(not); line != "" {
			return fmt.Errorf("the client says %q", line)
		}
	}
	if c.Kills {
		srv.Kill()
	} else if c.Stays {
		srv.Stop()
	} else if srv != nil {
		if err := srv.Wait(ctx); err != nil {
			return fmt.Errorf("the server: %w", err)
		}
	}
	if err := l.copied(c); err != nil {
		return err
	}
	return l.empty(ctx)
}

// stop ends a program, if there is one. Error, if that is wanted: what it said
// last.
func stop(name string, p *process.Process, wanted bool) error {
	if p == nil {
		return nil
	}
	p.Stop()
	if !wanted {
		return nil
	}
	return fmt.Errorf("%s: %s", name, p.Tail())
}

// copied compares what a cell has copied, and removes it.
func (l *Lab) copied(c Cell) error {
	if c.Copies == 0 {
		return nil
	}
	to := filepath.Join(l.dir, "to")
	got, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if len(got) != c.Copies || sha256.Sum256(got) != sha256.Sum256(pattern(c.Copies)) {
		return fmt.Errorf("the copy, of %d octets, differs", len(got))
	}
	return os.Remove(to)
}

// ready waits until the client may come.
func (l *Lab) ready(ctx context.Context, c Cell, srv *process.Process) error {
	switch {
	case c.Joins:
		return l.joins(ctx, srv)
	case !c.Socket:
		return l.listens(ctx, srv, 1)
	}
	err := process.Until(ctx, func() (bool, error) {
		if srv.HasEnded() {
			return false, fmt.Errorf("the server has ended: %w", srv.Err())
		}
		return listening(srv.PID())
	})
	if err != nil || c.Prepare == "" {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", c.Prepare)
	cmd.Dir = l.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("prepare the server: %w: %s", err, out)
	}
	return nil
}

// listening reports whether a socket of TCP listens in the namespace of a
// process.
func listening(pid int) (bool, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return false, err
		}
		for l := range strings.Lines(string(text)) {
			if f := strings.Fields(l); len(f) > 3 && f[3] == "0A" { // the state LISTEN
				return true, nil
			}
		}
	}
	return false, nil
}

// state is what the NICs have when something went wrong: connections, queue
// pairs, what they said, and the end of the capture.
func (l *Lab) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var b strings.Builder
	for i, c := range l.ctls {
		for _, kind := range []string{"cep", "qp", "cq"} {
			var rows json.RawMessage
			if err := c.Show(ctx, kind, &rows); err != nil {
				rows = json.RawMessage(err.Error())
			}
			fmt.Fprintf(&b, "\n%s %s: %s", c.Hello.Name, kind, rows)
		}
		fmt.Fprintf(&b, "\n%s: %s", c.Hello.Name, l.nics[i].Tail())
	}
	if l.capture != "" {
		const last = 15
		lines, err := tshark.Lines(ctx, l.capture, tshark.Options{Disable: []string{"rpcordma"}})
		fmt.Fprintf(&b, "\nthe last frames:\n%s", strings.Join(lines[max(0, len(lines)-last):], "\n"))
		if err != nil {
			fmt.Fprintf(&b, "\n%v", err)
		}
	}
	return b.String()
}
