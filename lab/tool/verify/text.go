package verify

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if r.Omitted > 0 {
		fmt.Fprintf(tw, "%d earlier connections are not listed\t\n", r.Omitted)
	}
	for _, c := range r.Conns {
		fmt.Fprintf(tw, "%v\tird %d\tord %d\tprivate data %d\t\n", c.Remote, c.IRD, c.ORD, c.Private)
		if c.Rejected != "" {
			fmt.Fprintf(tw, "\trejected: %s\t\n", c.Rejected)
		}
		for _, s := range c.Steps {
			fmt.Fprintf(tw, "\t%s\t%v\t%s\t\n", s.Step, s.Elapsed.Round(time.Microsecond), cmp.Or(s.Error, "ok"))
		}
		for _, m := range c.Received {
			fmt.Fprintf(tw, "\treceived %d\tsum %08x\t\t\n", m.Octets, m.Sum)
		}
		if c.Omitted > 0 {
			fmt.Fprintf(tw, "\treceived %d more\t\n", c.Omitted)
		}
		if c.End != "" {
			fmt.Fprintf(tw, "\tended: %s\t\n", c.End)
		}
	}
	return tw.Flush()
}
