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
	for _, s := range scripts {
		if why := s.NotLive(); why != "" {
			done(Result{Script: s, Outcome: script.Outcome{Frames: script.NotApplicable, Inside: script.NotApplicable,
				Why: []string{why}}})
			continue
		}
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
		if err := w.group(ctx, groups[k], trace, done); err != nil {
			return err
		}
	}
	return nil
}

// group runs scripts for which the guest is set up.
func (w *World) group(ctx context.Context, scripts []*script.Script, trace bool, done func(Result)) (err error) {
	todo := make(chan *script.Script, len(scripts))
	for _, s := range scripts {
		todo <- s
	}
	close(todo)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, l := range w.lanes {
		all.Go(func() {
			for s := range todo {
				var said strings.Builder
				var to io.Writer
				if trace {
					to = &said
				}
				out, e := w.run(l, s, to)
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

// Against builds and boots a guest and runs scripts against its driver, siw or rxe, up to lanes
// at a time. Each result is printed; that Linux differs from a script is an error.
func Against(ctx context.Context, out, log io.Writer, all []*script.Script, driver string, lanes int,
	trace bool) error {
	switch {
	case driver != "siw" && driver != "rxe":
		return usage.Errorf("--peer %s: want siw or rxe", driver)
	case slices.ContainsFunc(all, func(s *script.Script) bool { return s.RXE() != (driver == "rxe") }):
		return usage.Errorf("--peer siw is for scripts of iWARP, --peer rxe for those of RoCE")
	}
	if !netns.Privileged() {
		return errors.New("a live peer needs a network namespace and TAPs: run as root, or in a container with " +
			"CAP_NET_ADMIN and CAP_SYS_ADMIN")
	}
	image, err := peer.Build(ctx, peer.CacheDir(), log)
	if err != nil {
		return err
	}
	w, err := NewWorld(ctx, image, min(lanes, len(all)), time.Hour)
	if err != nil {
		return err
	}
	defer w.Close()
	count := map[script.State]int{}
	err = w.Run(ctx, all, trace, func(r Result) {
		count[r.Outcome.State()]++
		fmt.Fprintln(out, r)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d hold, %d differ, %d not applicable\n", count[script.Holds], count[script.Differs],
		count[script.NotApplicable])
	if n := count[script.Differs]; n > 0 {
		return fmt.Errorf("Linux differs from %d of %d scripts", n, len(all))
	}
	return nil
}
