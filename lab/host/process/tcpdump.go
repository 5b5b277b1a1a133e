package process

import (
	"context"
	"fmt"
	"regexp"
	"syscall"
	"time"

	"tapir/lab/host/netns"
)

// Dump is a running tcpdump.
type Dump struct{ *Process }

// Tcpdump captures what passes a link into a file until Stop. more are further
// options, then the filter.
func Tcpdump(ctx context.Context, ns *netns.NS, link, file string, more ...string) (Dump, error) {
	// -Z root: no change of user, which a user namespace does not allow.
	p, err := Start(context.WithoutCancel(ctx), ns, Options{
		Argv: append([]string{"tcpdump", "-i", link, "-n", "-Z", "root", "-w", file}, more...)})
	if err == nil {
		if err = p.Await(ctx, "listening on"); err != nil {
			p.Stop()
		}
	}
	if err != nil {
		return Dump{}, fmt.Errorf("tcpdump: %w", err)
	}
	return Dump{p}, nil
}

// dumpWithin bounds how long tcpdump may take to read what the kernel holds
// for it; the kernel hands a block over after a second at the latest, so that
// a tcpdump whose figures stand still for dumpStands has read all of them.
const (
	dumpWithin = time.Minute
	dumpStands = 3 * time.Second
)

var (
	progress = regexp.MustCompile(`tcpdump: (\d+) packets? captured, (\d+) packets? received by filter`)
	dropped  = regexp.MustCompile(`(?m)^([1-9]\d*) packets? dropped by kernel`)
)

// Stop ends the capture once every frame that the filter let through is in the
// file: at SIGUSR1 tcpdump prints how far it is, at its end it would drop the
// rest. A frame that came before the filter was in place counts as received,
// and is never captured. Frames that it has lost are an error.
func (d Dump) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), dumpWithin)
	defer cancel()
	defer d.Process.Stop()
	var reports int
	var figures string
	var since time.Time
	err := Until(ctx, func() (bool, error) {
		if d.HasEnded() {
			return false, fmt.Errorf("has ended: %w: %s", d.Err(), d.Tail())
		}
		syscall.Kill(d.PID(), syscall.SIGUSR1)
		all := progress.FindAllStringSubmatch(d.Said(), -1)
		if len(all) == reports {
			return false, nil
		}
		reports = len(all)
		last := all[reports-1]
		if last[0] != figures {
			figures, since = last[0], time.Now()
		}
		return last[1] == last[2] || time.Since(since) >= dumpStands, nil
	})
	if err != nil {
		return fmt.Errorf("does not keep up: %w: %s", err, d.Tail())
	}
	d.Process.Stop()
	if m := dropped.FindStringSubmatch(d.Said()); m != nil {
		return fmt.Errorf("lost %s frames", m[1])
	}
	return d.Err()
}
