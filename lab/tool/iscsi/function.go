package iscsi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// functionCommand is about the iSCSI function.
const functionCommand = "iscsi-function"

// order is what the iSCSI function is to do. A connection is named by its id.
type order struct {
	Clear                     bool // the statistics
	ClearSQ, Terminate, Abort *int
}

// connReport is what is told of a connection.
type connReport struct {
	CID     int            `json:"cid"`
	State   string         `json:"state"`
	Local   netip.AddrPort `json:"local"`
	Remote  netip.AddrPort `json:"remote"`
	Queue   int            `json:"queue"`
	Flags   uint8          `json:"flags"` // header digest 1, data digest 2, InitialR2T 4, ImmediateData 8
	Tasks   int            `json:"tasks"`
	SQ      int            `json:"sq"`
	SQSize  int            `json:"sq_size"`
	UHQ     int            `json:"uhq"`
	UHQSize int            `json:"uhq_size"`
	RxPDUs  uint64         `json:"rx_pdus"`
	TxPDUs  uint64         `json:"tx_pdus"`
	RxBytes uint64         `json:"rx_bytes"`
	TxBytes uint64         `json:"tx_bytes"`
	SRTT    string         `json:"srtt"`
	Station string         `json:"station"`           // that leads to the peer
	Cleared int            `json:"cleared,omitempty"` // PDUs that --clear-sq has thrown away
}

// operate does what an order says, and tells of the connections that there are then.
func (n *NIC) operate(_ context.Context, raw json.RawMessage) (any, error) {
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, ctl.BadRequest(err)
	}
	list := []connReport{}
	var err error
	lost := n.Thread.DoWait(func(frame.Time) { list, err = n.obey(&o) })
	if err = errors.Join(lost, err); err != nil {
		return nil, &ctl.Error{What: err.Error()}
	}
	return list, nil
}

func (n *NIC) obey(o *order) ([]connReport, error) {
	d := fastlinq.Of(n.Device.Hardware)
	if d == nil || fastlinq.ISCSI(d) == nil {
		return nil, fmt.Errorf("%s has no iSCSI function: start it with --personality iscsi", n.Device.Config().Name)
	}
	f := fastlinq.ISCSI(d)
	if o.Clear {
		f.ClearStats()
	}
	cleared, err := act(f, o)
	if err != nil {
		return nil, err
	}
	list := []connReport{}
	for _, c := range f.Conns() {
		sq, uhq := c.Rings()
		i := c.Info()
		r := connReport{CID: c.CID(), State: c.State(), Local: i.Local, Remote: i.Remote, Queue: c.Queue(),
			Flags: uint8(c.Flags()), Tasks: c.Tasks(), SQ: sq.Used(), SQSize: sq.Size, UHQ: uhq.Used(),
			UHQSize: uhq.Size, SRTT: i.SRTT.String(), Station: c.Station().String()}
		if o.ClearSQ != nil && *o.ClearSQ == c.CID() {
			r.Cleared = cleared
		}
		if s, err := c.Stats(); err == nil { // one that has ended has none any more
			r.RxBytes, r.TxBytes, r.RxPDUs, r.TxPDUs = s.RxBytes, s.TxBytes, s.RxPDUs, s.TxPDUs
		}
		list = append(list, r)
	}
	return list, nil
}

// act does what an order says of one connection.
func act(f *fastlinq.ISCSIFunction, o *order) (cleared int, err error) {
	for _, a := range []struct {
		cid *int
		do  func(c *fastlinq.ISCSIConn) error
	}{
		{o.ClearSQ, func(c *fastlinq.ISCSIConn) (err error) {
			if cleared, err = c.ClearSQ(); err == nil { // the stream has a hole
				_, err = c.Terminate(true)
			}
			return err
		}},
		{o.Terminate, func(c *fastlinq.ISCSIConn) error { _, err := c.Terminate(false); return err }},
		{o.Abort, func(c *fastlinq.ISCSIConn) error { _, err := c.Terminate(true); return err }},
	} {
		if a.cid == nil {
			continue
		}
		var found *fastlinq.ISCSIConn
		for _, c := range f.Conns() {
			if c.CID() == *a.cid {
				found = c
			}
		}
		if found == nil {
			return 0, fmt.Errorf("no iSCSI connection %d", *a.cid)
		}
		if err := a.do(found); err != nil {
			return 0, err
		}
	}
	return cleared, nil
}

// newFunction shows the connections of the iSCSI function, and ends them.
func newFunction(with With, complete cobra.CompletionFunc) *cobra.Command {
	var o order
	var asJSON bool
	cmd := &cobra.Command{
		Use: "function [NIC]", Short: "Print or end connections of a NIC's iSCSI function",
		Long: "Function prints the connections that the NIC's iSCSI function has taken over (--offload of target\n" +
			"and initiator), with their queues and statistics. tapir show NIC device prints the function as a whole.",
		Example: "  tapir iscsi function nic0\n  tapir iscsi function nic0 --clear\n" +
			"  tapir iscsi function nic0 --abort 3",
		Args: cli.AtMost(1), ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(strings.Join(args, ""), "its name: tapir iscsi function NIC", func(c *ctl.Client) error {
				var list []connReport
				if err := c.Command(cmd.Context(), functionCommand, o, &list); err != nil {
					return err
				}
				if asJSON {
					e := json.NewEncoder(cmd.OutOrStdout())
					e.SetIndent("", "  ")
					return e.Encode(list)
				}
				return writeConns(cmd.OutOrStdout(), list)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&o.Clear, "clear", false, "begin the statistics again")
	for _, a := range []struct {
		name, help string
		to         **int
	}{{"clear-sq", "`connection` whose send queue to empty; it is reset after that", &o.ClearSQ},
		{"terminate", "`connection` to end in order, when all is sent", &o.Terminate},
		{"abort", "`connection` to reset", &o.Abort}} {
		f.Func(a.name, a.help, func(v string) error {
			n := 0
			if _, err := fmt.Sscanf(v, "%d", &n); err != nil || n < 0 {
				return usage.Errorf("--%s %s: expected the number of a connection", a.name, v)
			}
			*a.to = &n
			return nil
		})
	}
	return cmd
}

// writeConns prints connections for people.
func writeConns(out io.Writer, list []connReport) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CID\tSTATE\tLOCAL\tREMOTE\tQUEUE\tFLAGS\tTASKS\tSQ\tUHQ\t"+
		"RX_PDUS\tTX_PDUS\tRX_BYTES\tTX_BYTES\tSRTT\tSTATION")
	for _, c := range list {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%#x\t%d\t%d/%d\t%d/%d\t%d\t%d\t%d\t%d\t%s\t%s\n", c.CID, c.State, c.Local,
			c.Remote, c.Queue, c.Flags, c.Tasks, c.SQ, c.SQSize, c.UHQ, c.UHQSize, c.RxPDUs, c.TxPDUs, c.RxBytes,
			c.TxBytes, c.SRTT, c.Station)
	}
	return w.Flush()
}
