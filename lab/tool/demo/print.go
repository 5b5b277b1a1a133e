package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the report as people read it.
func (r *Report) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "operation\tsize\ttime\trate\tverified")
	for _, c := range r.Checks {
		verdict := "yes, sha256 " + c.SHA256[:16]
		if !c.Verified {
			verdict = "NO: got " + c.SHA256[:16] + ", want " + c.Want[:16]
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", c.Operation, size(c.Size), round(c.Elapsed), rate(c.Gbps()), verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nwire: %s  frames: %s  FPDUs: %d, each with its CRC32C\n", r.Wire, r.Frames, r.FPDUs)
	fmt.Fprintf(&b, "capture: %s\nopen it: wireshark %s\n", r.Capture, r.Capture)
	for _, f := range r.Tcpdump {
		fmt.Fprintf(&b, "tcpdump's: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// size prints octets with a binary unit where one fits exactly.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func round(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// rate prints gigabits per second in a unit that leaves some digits.
func rate(gbps float64) string {
	if gbps < 0.1 {
		return fmt.Sprintf("%.2f Mb/s", gbps*1000)
	}
	return fmt.Sprintf("%.2f Gb/s", gbps)
}
