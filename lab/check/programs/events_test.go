package programs

import (
	"context"
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
)

// TestAsyncwatch has ibv_asyncwatch, by the trap and by the preloaded library, show that
// the port loses its link and has it again.
func TestAsyncwatch(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var watchers []*process.Process
	for _, via := range []string{"trap", "preload"} {
		p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: t.TempDir(), Argv: []string{l.tapir, "run", "--nic", server,
			"--via", via, "--", "stdbuf", "-o0", "ibv_asyncwatch", "-d", "rxe0"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		if err := p.Await(ctx, "async event FD"); err != nil {
			t.Fatal(err)
		}
		watchers = append(watchers, p)
	}
	for _, step := range []struct {
		do    func(string) error
		event string
	}{{l.pair.A.Net.Down, "IBV_EVENT_PORT_ERR (10), port 1"}, {l.pair.A.Net.Up, "IBV_EVENT_PORT_ACTIVE (9), port 1"}} {
		if err := step.do(link.PairTAP); err != nil {
			t.Fatal(err)
		}
		for _, p := range watchers {
			if err := p.Await(ctx, step.event); err != nil {
				t.Errorf("%s: %v", step.event, err)
			}
		}
	}
}
