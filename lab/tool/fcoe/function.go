package fcoe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/nic/fastlinq"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// functionCommand is about the FCoE function.
const functionCommand = "fcoe-function"

// functionReport is what is told of the FCoE function.
type functionReport struct {
	Stats fastlinq.FCoEStats `json:"stats"`
	Conns []connReport       `json:"connections"`
}

// connReport is what is told of a connection.
type connReport struct {
	CID     int                `json:"cid"`
	State   string             `json:"state"`
	SID     fc.ID              `json:"s_id"`
	DID     fc.ID              `json:"d_id"`
	Queue   int                `json:"queue"`
	Payload int                `json:"payload"` // octets of a frame
	Tasks   int                `json:"tasks"`
	SQ      int                `json:"sq"`
	SQSize  int                `json:"sq_size"`
	SQPage  string             `json:"sq_page"` // address of the page that is read
	Stats   fastlinq.FCoEStats `json:"stats"`
}

// function tells of the function; raw says whether its statistics begin again.
func (n *NIC) function(_ context.Context, raw json.RawMessage) (any, error) {
	var clear bool
	if err := json.Unmarshal(raw, &clear); err != nil {
		return nil, ctl.BadRequest(err)
	}
	var rep functionReport
	var err error
	lost := n.Thread.DoWait(func(frame.Time) { rep, err = n.functionReport(clear) })
	if err = errors.Join(lost, err); err != nil {
		return nil, &ctl.Error{What: err.Error()}
	}
	return rep, nil
}

func (n *NIC) functionReport(clear bool) (rep functionReport, err error) {
	d := fastlinq.Of(n.Device.Hardware)
	if d == nil || fastlinq.FCoE(d) == nil {
		return rep, fmt.Errorf("%s has no FCoE function: start it with --personality fcoe, on FastLinQ hardware",
			n.Device.Config().Name)
	}
	f := fastlinq.FCoE(d)
	if clear {
		f.ClearStats()
	}
	rep.Conns = []connReport{}
	for _, c := range f.Conns() {
		s, sq := c.Session(), c.SQ()
		rep.Conns = append(rep.Conns, connReport{CID: c.CID(), State: c.State(), SID: s.SID, DID: s.DID,
			Queue: c.Queue(), Payload: s.TxPayload, Tasks: c.Tasks(), SQ: sq.Used(), SQSize: sq.Size,
			SQPage: fmt.Sprintf("%#x", sq.Curr), Stats: c.Stats()})
	}
	rep.Stats, err = f.Stats()
	return rep, err
}

// newFunction shows the connections of the FCoE function.
func newFunction(with With, complete cobra.CompletionFunc) *cobra.Command {
	var asJSON, clear bool
	return cli.InOrder(&cobra.Command{
		Use: "function [NIC]", Short: "Print the connections and statistics of a NIC's FCoE function",
		Long: "Function prints the sessions that the FCoE function of FastLinQ hardware has, with their queues and\n" +
			"statistics. tapir show NIC device prints the function as a whole.",
		Example: "  tapir fcoe function nic0\n  tapir fcoe function nic0 --clear",
		Args:    cli.AtMost(1), ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cli.First(args), "its name: tapir fcoe function NIC", func(c *ctl.Client) error {
				var rep functionReport
				if err := c.Command(cmd.Context(), functionCommand, clear, &rep); err != nil {
					return err
				}
				if asJSON {
					e := json.NewEncoder(cmd.OutOrStdout())
					e.SetIndent("", "  ")
					return e.Encode(rep)
				}
				return writeFunction(cmd.OutOrStdout(), &rep)
			})
		},
	}, cli.F(&asJSON, "json", "", "print JSON"), cli.F(&clear, "clear", "", "begin the statistics again"))
}

// writeFunction prints the function for people.
func writeFunction(out io.Writer, rep *functionReport) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CID\tSTATE\tS_ID\tD_ID\tQUEUE\tPAYLOAD\tTASKS\tSQ\tSQ-PAGE\tRX_DATA\tTX_DATA\tRX_BYTES\tTX_BYTES")
	for _, c := range rep.Conns {
		fmt.Fprintf(w, "%d\t%s\t%v\t%v\t%d\t%d\t%d\t%d/%d\t%s\t%d\t%d\t%d\t%d\n", c.CID, c.State, c.SID, c.DID, c.Queue,
			c.Payload, c.Tasks, c.SQ, c.SQSize, c.SQPage, c.Stats.Rx.Data, c.Stats.Tx.Data, c.Stats.Rx.Bytes,
			c.Stats.Tx.Bytes)
	}
	s := &rep.Stats
	fmt.Fprintf(w, "all\t\t\t\t\t\t\t\t\t%d\t%d\t%d\t%d\n", s.Rx.Data, s.Tx.Data, s.Rx.Bytes, s.Tx.Bytes)
	if err := w.Flush(); err != nil {
		return err
	}
	for r, n := range s.Drops {
		if n > 0 {
			fmt.Fprintf(out, "dropped, %v: %d\n", fastlinq.FCoEDrop(r), n)
		}
	}
	return nil
}
