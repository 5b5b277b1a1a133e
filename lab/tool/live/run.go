package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/tool/script"
	"tapir/lab/tool/uapi"
	"tapir/lab/tool/usage"
)

// Result is one script's.
type Result struct {
	Script  *script.Script
	Outcome script.Outcome
	Trace   string // of the exchange, if it was asked for
}

// String is the result as lines of text.
func (r Result) String() string {
	o := &r.Outcome
	text := fmt.Sprintf("%s%s: %v", r.Trace, r.Script.Name, o.State())
	if o.State() == script.Differs {
		text += fmt.Sprintf(": frames %v, inside %v", map[bool]string{true: "hold", false: "differ"}[o.Frames ==
			script.Holds], map[bool]string{true: "holds", false: "differs"}[o.Inside == script.Holds])
	}
	if o.Unseen > 0 {
		text += fmt.Sprintf(" (not seen: %d)", o.Unseen)
	}
	if len(o.Why) == 1 {
		return text + ": " + o.Why[0]
	}
	return strings.Join(append([]string{text}, o.Why...), "\n  ")
}

// Run runs the scripts, each lane one at a time, and returns their results in
// the same order. An error says that the guest does not answer any more; then
// results are missing.
func (w *World) Run(ctx context.Context, scripts []*script.Script, trace bool, done func(Result)) error {
	groups := map[setup][]*script.Script{}
	for _, s := range applicable(scripts, script.Linux, done) {
		k := setup{s.RXE(), s.SiwParameters(), s.MTU()}
		groups[k] = append(groups[k], s)
	}
	var keys []setup
	for k := range groups {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, k := range keys {
		if err := w.prepare(ctx, k); err != nil {
			return err
		}
		err := inLanes(ctx, len(w.lanes), groups[k], trace, done,
			func(lane int, s *script.Script, to io.Writer) (script.Outcome, error) {
				return w.run(w.lanes[lane], s, to)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// applicable are the scripts that can be run against the machine; done gets the others.
func applicable(scripts []*script.Script, m script.Machine, done func(Result)) (list []*script.Script) {
	for _, s := range scripts {
		why := s.NotLive(m)
		if why == "" {
			list = append(list, s)
			continue
		}
		done(Result{Script: s, Outcome: script.Outcome{Frames: script.NotApplicable, Inside: script.NotApplicable,
			Why: []string{why}}})
	}
	return list
}

// inLanes runs scripts, up to lanes of them at a time.
func inLanes(ctx context.Context, lanes int, scripts []*script.Script, trace bool, done func(Result),
	run func(lane int, s *script.Script, to io.Writer) (script.Outcome, error)) (err error) {
	todo := make(chan *script.Script, len(scripts))
	for _, s := range scripts {
		todo <- s
	}
	close(todo)
	var mu sync.Mutex
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for s := range todo {
				var said strings.Builder
				var to io.Writer
				if trace {
					to = &said
				}
				out, e := run(lane, s, to)
				mu.Lock()
				if e == nil {
					e = ctx.Err()
				}
				if e != nil && err == nil {
					err = fmt.Errorf("%s: %w", s.Name, e)
				}
				stop := err != nil
				if e == nil {
					done(Result{s, out, said.String()})
				}
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	all.Wait()
	return err
}

// Machine is where scripts run.
type Machine interface {
	// Run runs them and gives done the results. An error says that the machine does not
	// answer any more; then results are missing.
	Run(ctx context.Context, scripts []*script.Script, trace bool, done func(Result)) error
}

// Against runs scripts against a machine, up to lanes at a time: siw or rxe, which are drivers of
// a guest that is built and booted, or nic, a NIC of this process whose program runs as via
// says. Each result is printed; that the machine differs from a script is an error.
func Against(ctx context.Context, out, log io.Writer, all []*script.Script, kind string, lanes int, trace bool,
	via uapi.Options) (err error) {
	lanes = min(lanes, len(all))
	var m Machine
	switch kind {
	case "nic":
		m, err = NewNICs(ctx, lanes, via)
	case "siw", "rxe":
		var w *World
		if w, err = boot(ctx, log, all, kind, lanes); err == nil {
			defer w.Close()
		}
		m = w
	default:
		err = usage.Errorf("--peer %s: want nic, siw or rxe", kind)
	}
	if err != nil {
		return err
	}
	count := map[script.State]int{}
	err = m.Run(ctx, all, trace, func(r Result) {
		count[r.Outcome.State()]++
		fmt.Fprintln(out, r)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d hold, %d differ, %d not applicable\n", count[script.Holds], count[script.Differs],
		count[script.NotApplicable])
	if n := count[script.Differs]; n > 0 {
		return fmt.Errorf("%s differs from %d of %d scripts", kind, n, len(all))
	}
	return nil
}

// boot builds and boots a guest for scripts of its driver.
func boot(ctx context.Context, log io.Writer, all []*script.Script, driver string, lanes int) (*World, error) {
	if slices.ContainsFunc(all, func(s *script.Script) bool { return s.RXE() != (driver == "rxe") }) {
		return nil, usage.Errorf("--peer siw is for scripts of iWARP, --peer rxe for those of RoCE")
	}
	if !netns.Privileged() {
		return nil, errors.New("a guest needs a network namespace and TAPs: run as root, or in a container with " +
			"CAP_NET_ADMIN and CAP_SYS_ADMIN")
	}
	image, err := peer.Build(ctx, peer.CacheDir(), log)
	if err != nil {
		return nil, err
	}
	return NewWorld(ctx, image, lanes, time.Hour)
}
