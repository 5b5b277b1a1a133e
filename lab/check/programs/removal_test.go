package programs

import (
	"context"
	"testing"

	"tapir/lab/host/process"
)

// TestNICEnds ends a NIC under programs that use it: they hear of it as of a
// device that is removed, their peers as of connections that end, and none
// hangs.
func TestNICEnds(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	run := func(nic string, argv ...string) *process.Process {
		p, err := process.Start(ctx, l.side(nic).NS, process.Options{Dir: l.dir, Argv: l.under(nic, Auto, argv)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	watch := run(server, "stdbuf", "-o0", "ibv_asyncwatch", "-d", "rxe0")
	if err := watch.Await(ctx, "async event FD"); err != nil {
		t.Fatal(err)
	}
	passive := run(server, "rping", "-s")
	if err := l.listens(ctx, passive, 1); err != nil {
		t.Fatal(err)
	}
	active := run(client, "rping", "-c", "-v", "-a", IPv4, "-C", "1000000000")
	if err := active.Await(ctx, "ping data"); err != nil {
		t.Fatal(err)
	}
	l.nics[0].Stop()
	for _, c := range []struct {
		what string
		p    *process.Process
		said string
	}{
		{"ibv_asyncwatch", watch, "IBV_EVENT_DEVICE_FATAL"}, {"rping -s", passive, "device removal"}, {"rping -c", active, "DISCONNECT"},
	} {
		err := c.p.Wait(ctx)
		if !c.p.HasEnded() || c.p.Line(c.said) == "" {
			t.Errorf("%s: %v, it says: %s", c.what, err, c.p.Tail())
		}
	}
	l.ctls[0].Close()
	l.ctls = l.ctls[1:]
	if err := l.empty(ctx); err != nil {
		t.Error(err)
	}
}
