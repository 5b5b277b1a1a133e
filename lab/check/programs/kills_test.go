package programs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"tapir/lab/host/process"
)

// TestKills kills a program, or every seventh time a NIC, with SIGKILL when the client has
// sent a random number of octets, or none yet. A program whose peer or NIC is gone ends by
// itself, and a NIC that lives has no object and no descriptor more than before.
func TestKills(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	times := 14
	if *interop {
		times = 200
	}
	random := rand.New(rand.NewPCG(20, 3))
	before := []int{l.descriptors(t, 0), l.descriptors(t, 1)}
	for i := range times {
		k := kill{mode: Modes[i%3], victim: random.IntN(2), nic: i%7 == 6, after: random.Uint64N(400_000)}
		if i%4 == 0 {
			k.after = 0
		}
		if err := l.killed(ctx, k); err != nil {
			t.Fatalf("kill %d, %+v: %v%s", i, k, err, l.state())
		}
		if k.nic {
			before[k.victim] = l.descriptors(t, k.victim)
		}
	}
	soon, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var have []int
	if process.Until(soon, func() (bool, error) {
		have = []int{l.descriptors(t, 0), l.descriptors(t, 1)}
		return have[0] <= before[0] && have[1] <= before[1], nil
	}) != nil {
		t.Errorf("the NICs have %v descriptors, and had %v", have, before)
	}
}

// kill is what is killed: the program or the NIC of the server (0) or the client (1), when
// the client's NIC has sent that many octets.
type kill struct {
	mode   Mode
	victim int
	nic    bool
	after  uint64
}

// killed has two programs talk, kills, and waits for the end of the rest.
func (l *Lab) killed(longer context.Context, k kill) error {
	ctx, cancel := context.WithTimeout(longer, within)
	defer cancel()
	var programs []*process.Process
	for i, argv := range []string{"rping -s -V -S 4096", "rping -c -V -S 4096 -C 1000000 -a " + IPv4} {
		nic := []string{server, client}[i]
		p, err := process.Start(ctx, l.side(nic).NS, process.Options{Dir: l.dir, Argv: l.under(nic, k.mode, strings.Fields(argv))})
		if err != nil {
			return err
		}
		defer p.Stop()
		programs = append(programs, p)
		if i == 0 {
			if err := l.listens(ctx, p, 1); err != nil {
				return err
			}
		}
	}
	begun, err := l.sent(ctx)
	if err != nil {
		return err
	}
	if err := process.Until(ctx, func() (bool, error) {
		now, err := l.sent(ctx)
		return k.after == 0 || now-begun >= k.after, err
	}); err != nil {
		return err
	}
	other := programs[1-k.victim]
	if !k.nic {
		programs[k.victim].Kill()
		if k.after == 0 { // a server may have had no client yet
			other.Stop()
		}
		other.Wait(ctx)
	} else {
		l.nics[k.victim].Kill()
		programs[k.victim].Wait(ctx) // its own NIC is gone
		other.Kill()                 // which would wait for keep-alives
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("a program goes on: %w: %s%s", err, programs[0].Tail(), programs[1].Tail())
	}
	if k.nic {
		if err := l.restart(longer, k.victim); err != nil {
			return err
		}
	}
	return l.empty(longer)
}

// sent is how many octets of TCP the client's NIC has sent.
func (l *Lab) sent(ctx context.Context) (uint64, error) {
	var rows []struct {
		Name  string
		Value uint64
	}
	err := l.ctls[1].Show(ctx, "counters", &rows)
	for _, r := range rows {
		if r.Name == "tcp_bytes_out" {
			return r.Value, err
		}
	}
	return 0, err
}

// restart starts a NIC that was killed.
func (l *Lab) restart(ctx context.Context, i int) error {
	name := []string{server, client}[i]
	l.ctls[i].Close()
	if err := l.startNIC(ctx, name, l.side(name), i+1); err != nil {
		return err
	}
	last := len(l.nics) - 1
	l.nics[i], l.ctls[i] = l.nics[last], l.ctls[last]
	l.nics, l.ctls = slices.Delete(l.nics, last, last+1), slices.Delete(l.ctls, last, last+1)
	return nil
}

// descriptors is how many the process of a NIC has, without those that it opens once, and
// those of the memory of processes, which the garbage collector closes some time after
// their end.
func (l *Lab) descriptors(t *testing.T, i int) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", l.nics[i].PID())
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		switch to, err := os.Readlink(dir + f.Name()); {
		case err != nil: // closed meanwhile
		case strings.HasPrefix(to, "/proc/"), to == "anon_inode:[pidfd]", to == "anon_inode:inotify":
		default:
			n++
		}
	}
	return n
}
