package vf

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

var _ = schema.Add("vf rss", 1, RSS{})

// rssCommand reads the RSS of a virtual function, whose number comes in: an RSS.
const rssCommand = "vf-rss"

// RSS is the indirection table of a virtual function, with queues by their numbers in it, and
// the hash key.
type RSS struct {
	VF    int    `json:"vf"`
	Table []int  `json:"table"`
	Key   string `json:"key"` // hexadecimal, with colons
}

// rss answers with the RSS of a VF. EPERM: query_rss is off; EINVAL: there is no such VF, or
// it has no RSS.
func (n NIC) rss(_ context.Context, raw json.RawMessage) (any, error) {
	var q RSS
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, ctl.BadRequest(fmt.Errorf("the number of a VF cannot be read: %w", err))
	}
	b, err := n.bridge()
	if err != nil {
		return nil, err
	}
	var key [fastlinq.KeyLen]byte
	if lost := n.Thread.DoWait(func(frame.Time) { q.Table, key, err = b.IOV().RSSConfig(q.VF) }); lost != nil {
		err = lost
	}
	q.Key = strings.ReplaceAll(fmt.Sprintf("% x", key), " ", ":")
	return q, withErrno(err)
}

// newRSS is the subcommand that reads it.
func newRSS(with With, complete cobra.CompletionFunc) *cobra.Command {
	const use = "rss NIC vf N"
	var asJSON bool
	cmd := &cobra.Command{Use: use, Short: "Print a virtual function's RSS table and key, if query_rss is on",
		Example: "  tapir vf set nic0 vf 0 query_rss on\n  tapir vf rss nic0 vf 0", ValidArgsFunction: complete,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 3 {
				return usage.Errorf("expected %s", use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, _, err := number(args[1:])
			if err != nil {
				return usage.Wrap(err)
			}
			return with(args[0], "its name: tapir vf "+use, func(c *ctl.Client) error {
				var r RSS
				if err := c.Command(cmd.Context(), rssCommand, RSS{VF: n}, &r); err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
				}
				_, err := io.WriteString(cmd.OutOrStdout(), r.text())
				return err
			})
		}}
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return cmd
}

// text is the table as ethtool -x prints one.
func (r *RSS) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "RX flow hash indirection table for VF %d:\n", r.VF)
	for i, q := range r.Table {
		if i%8 == 0 {
			fmt.Fprintf(&b, "%5d: ", i)
		}
		fmt.Fprintf(&b, " %5d", q)
		if i%8 == 7 || i == len(r.Table)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String() + "RSS hash key:\n" + r.Key + "\n"
}
