package perf

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tapir/lab/conf/perfconf"
)

// ProgressLine prints at most one line a second, over itself on a terminal.
type ProgressLine struct {
	W        io.Writer
	Terminal bool
	last     time.Duration
}

// Show prints a Progress in JSON, if it is time for a line.
func (l *ProgressLine) Show(raw json.RawMessage) {
	var p Progress
	if json.Unmarshal(raw, &p) != nil || p.Messages == 0 || p.Elapsed < l.last+time.Second {
		return
	}
	l.last = p.Elapsed
	format := "%6.1f s  %d messages  %d bytes  %.2f Gb/s\n"
	if l.Terminal {
		format = "\r\x1b[K" + format[:len(format)-1]
	}
	fmt.Fprintf(l.W, format, p.Elapsed.Seconds(), p.Messages, p.Bytes, p.Gbps())
}

// End ends the line on a terminal.
func (l *ProgressLine) End() {
	if l.Terminal && l.last > 0 {
		fmt.Fprintln(l.W)
	}
}

// WriteText writes a result for people. A target memory that differs is an
// error.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	switch {
	case r.Op == perfconf.Rping:
		_, err := fmt.Fprintf(w, "%d pings of %d bytes, all data as sent\n", r.Messages, r.Size)
		return err
	case len(r.Checks) > 0:
		fmt.Fprintln(tw, "operation\tbytes\ttime\tGb/s\tverified\t")
		for _, c := range r.Checks {
			fmt.Fprintf(tw, "%s\t%d\t%v\t%.2f\t%v\t\n",
				c.Operation, c.Size, c.Elapsed.Round(time.Microsecond), c.Gbps(), c.Verified)
		}
	case r.Latency != nil:
		l := r.Latency
		fmt.Fprintf(tw, "bytes\tmessages\tmin\tmedian\tmean\t99%%\t99.9%%\tmax\t\n%d\t%d\t%v\t%v\t%v\t%v\t%v\t%v\t\n",
			r.Size, r.Messages, l.Min, l.Median, l.Mean, l.P99, l.P999, l.Max)
	default:
		fmt.Fprintf(tw, "bytes\tmessages\tqps\tdepth\ttime\tGb/s\tmessages/s\t\n%d\t%d\t%d\t%d\t%v\t%.2f\t%.0f\t\n",
			r.Size, r.Messages, r.QPs, r.Depth, r.Elapsed.Round(time.Microsecond), r.Gbps, r.MsgRate)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, c := range r.Checks {
		if !c.Verified {
			return fmt.Errorf("%s of %d bytes: the target memory differs: SHA-256 %s, want %s",
				c.Operation, c.Size, c.SHA256, c.Want)
		}
	}
	return nil
}
