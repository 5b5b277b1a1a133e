// Package ll2 is the subcommand that sends and receives frames by a light L2
// connection of type TEST of a running NIC.
package ll2

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/wire/ether"
)

var _ = schema.Add("ll2", 1, fastlinq.LL2Report{})

// options are the flags.
type options struct {
	to, dest string
	job      fastlinq.LL2Job
	json     bool
}

// Command is the subcommand. with runs do with a connection to the NIC of that name, or
// to the only one; complete lists NICs.
func Command(with func(name, how string, do func(c *ctl.Client) error) error,
	complete cobra.CompletionFunc) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "ll2 [NIC]",
		Short: "Send and receive raw frames by light L2 of the driver core",
		Long: "Ll2 opens a light L2 connection of type TEST, sends frames of EtherType 0x9000 from it and\n" +
			"counts those that come for the NIC's station. Then it terminates the connection, which gives\n" +
			"all buffers back, and prints what has become of them. tapir show NIC ll2 lists connections.",
		Example: "  tapir ll2 nic0 --to 02:00:00:00:00:02 --count 10 --buffers 4\n" +
			"  tapir ll2 nic1 --count 0 --wait 10s\n  tapir ll2 nic0 --dest lb --to ff:ff:ff:ff:ff:ff",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("unexpected argument %q: see: %s --help", args[1], cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: complete,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.parse(); err != nil {
			return usage.Wrap(err)
		}
		return with(strings.Join(args, ""), "its name: tapir ll2 NIC", func(c *ctl.Client) error {
			r, err := c.LL2Test(cmd.Context(), o.job)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), r)
		})
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.to, "to", "ff:ff:ff:ff:ff:ff", "MAC address that the frames are for")
	f.StringVar(&o.dest, "dest", "nw", "Tx destination: nw (the wire), lb (the NIC's own host TAP) or drop")
	f.IntVar(&o.job.Count, "count", 1, "frames to send; 0 only receives")
	f.IntVar(&o.job.Size, "size", 46, "octets behind the Ethernet header, up to the MTU")
	f.IntVar(&o.job.Buffers, "buffers", 1, "buffers that each frame is sent from, 1 to 12")
	f.Uint16Var(&o.job.VLAN, "vlan", 0, "VLAN to send in, 1 to 4094; 0: that of the NIC")
	f.DurationVar(&o.job.Wait, "wait", 100*time.Millisecond, "how long to receive once all frames have left")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// parse reads what is text.
func (o *options) parse() (err error) {
	if o.job.To, err = ether.ParseAddr(o.to); err != nil {
		return fmt.Errorf("--to %s: %w", o.to, err)
	}
	if o.job.Dest, err = fastlinq.ParseLL2Dest(o.dest); err != nil {
		return fmt.Errorf("--dest %s: %w", o.dest, err)
	}
	return nil
}

func (o *options) print(w io.Writer, r fastlinq.LL2Report) error {
	if o.json {
		return json.NewEncoder(w).Encode(r)
	}
	s := &r.Stats
	_, err := fmt.Fprintf(w, "frames sent   %d posted, %d complete, %d released; %d octets to %v\n"+
		"receive       %d buffers posted, %d complete, %d released; %d frames changed\n"+
		"not sent      %d to drop, %d failed\nnot received  %d too big, %d without a buffer\n",
		r.Sent.Posted, r.Sent.Completed, r.Sent.Released, s.Tx().Bytes, o.job.Dest,
		r.Received.Posted, r.Received.Completed, r.Received.Released, r.Changed,
		s.TxDropped, s.TxFailed, s.TooBig, s.NoBuffer)
	return err
}
