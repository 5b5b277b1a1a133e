package siw

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tapir/lab/host/process"
	"tapir/nic/iwarp"
	"tapir/wire/frame"
)

// Program is a stock program on both sides: the NIC's under tapir run, the
// guest's on siw.
type Program struct {
	// Server and Client are command lines, in which ADDR is the server's address
	// and PORT the port; HOST is that of the server's sockets, HERE the side's
	// own address and GID the index of its GID.
	Server, Client string
	Want           string // what a content client says; empty: its exit code says all
	Stays          bool   // the server serves until it is ended
	Sockets        bool   // the server listens at a TCP socket of the kernel
	Silent         bool   // the server does not listen: it is ready once it runs
	Copies         bool   // the client copies the file "from" to the server's "to"
}

// programArgs is the command line of either side of a stock program.
func (c *Cell) programArgs(serves bool, port uint16) []string {
	server, client := c.addresses()
	line, here, gid := c.Program.Client, client, guestGID
	if serves {
		line, here = c.Program.Server, server
	}
	if serves == c.NICServes {
		gid = nicGID
	}
	return strings.Fields(strings.NewReplacer("ADDR", server.String(), "PORT", fmt.Sprint(port), "HERE",
		here.String(),
		"HOST", c.socketHost().String(), "GID", gid).Replace(line))
}

// isRping tells whether the sides are the stock rping.
func (c *Cell) isRping() bool {
	return c.Rping || c.Program != nil && strings.HasPrefix(c.Program.Client, "rping ")
}

// refused is what perftest's client says when it comes before the server
// listens: it does so twice, and the second time nobody is told when.
const refused = "error: -111"

// refusedByErrno is the same on the error output, which is all that is left of a
// client that then crashes: what waits in its standard output goes with it.
const refusedByErrno = "ERRNO: Connection refused."

// refusedRoCE is the same over RoCE: reason 8, invalid service id.
const refusedRoCE = "RDMA_CM_EVENT_REJECTED; error: 8"

// attempts bounds how often programs may miss each other like that.
const attempts = 100

// clientSaid is what the client of a stock program printed.
func (c *Cell) clientSaid(nic *nicEnd, guest *guestEnd) string {
	if c.NICServes {
		return guest.said
	}
	said, _ := nic.report.(string)
	return said
}

// missed tells whether perftest's sides have missed each other. It looks at the
// client alone: the server may still run.
func (c *Cell) missed(nic *nicEnd, guest *guestEnd) bool {
	said := c.clientSaid(nic, guest)
	return c.Program != nil && (strings.Contains(said, refused) || strings.Contains(said, refusedByErrno) ||
		c.RoCE && strings.Contains(said, refusedRoCE))
}

// endedWell tells whether a stock program has done its work, though its exit
// code says otherwise.
func (c *Cell) endedWell(code int, said string) bool {
	if c.isRping() {
		return lateThread(code, said)
	}
	return c.Program != nil && lateGoodbye(code, said)
}

// lateGoodbye tells whether a perftest has printed its results and then, when it
// says goodbye over the connection, found that its peer has gone: that does not
// wait for it to be acknowledged. The results may stand behind, as they wait in
// the program for its end.
func lateGoodbye(code int, said string) bool {
	return code == 1 && perftestFigures.MatchString(said) && strings.Contains(said,
		"Failed to close connection between server and client\n")
}

// perftestFigures are perftest's: a line of them below their names.
var perftestFigures = regexp.MustCompile(`#bytes[^\n]*\n *[0-9]+ +[0-9]+ `)

// checkProgram wants what a content client says.
func (c *Cell) checkProgram(nic *nicEnd, guest *guestEnd) error {
	if c.Program == nil || strings.Contains(c.clientSaid(nic, guest), c.Program.Want) {
		return nil
	}
	return fmt.Errorf("the client does not say %q: %s", c.Program.Want, tail(c.clientSaid(nic, guest)))
}

// Where programs run in the guest.
const (
	guestDir   = "/tmp/"
	inGuestDir = "cd " + guestDir + "; "
)

// tries runs the exchange, anew when programs have missed each other, and
// compares what was to be copied.
func (w *World) tries(ctx context.Context, n *nic, c *Cell,
	port uint16) (nic nicEnd, guest guestEnd, err error) {
	copies := c.Program != nil && c.Program.Copies
	if copies {
		if err := w.stage(ctx, c); err != nil {
			return nic, guest, err
		}
	}
	nic, guest = w.exchange(ctx, n, c, port)
	for i := 1; i < attempts && c.missed(&nic, &guest); i++ {
		nic, guest = w.exchange(ctx, n, c, w.nextPort())
	}
	if copies {
		err = w.compare(ctx, c)
	}
	return nic, guest, err
}

// The file that is copied, and what the server makes of it.
const (
	original  = "from"
	duplicate = "to"
)

// pattern is what is copied: 300,001 octets.
func pattern() []byte {
	b := make([]byte, 300_001)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}

// stage gives the client the file to be copied.
func (w *World) stage(ctx context.Context, c *Cell) error {
	if c.NICServes {
		return w.Guest.Put(ctx, guestDir+original, 0o600, pattern())
	}
	return os.WriteFile(filepath.Join(w.dir, original), pattern(), 0o600)
}

// compare wants the copy to be equal.
func (w *World) compare(ctx context.Context, c *Cell) error {
	var got []byte
	var err error
	if c.NICServes {
		got, err = os.ReadFile(filepath.Join(w.dir, duplicate))
	} else {
		var b bytes.Buffer
		_, err = w.Guest.Run(ctx, patience, "cat "+guestDir+duplicate, &b)
		got = b.Bytes()
	}
	if err == nil && !bytes.Equal(got, pattern()) {
		err = fmt.Errorf("the copy of %d octets differs: %d octets", len(pattern()), len(got))
	}
	return err
}

// runProgram runs the NIC's side of a cell with a stock program, whose
// report is what it said.
func (w *World) runProgram(ctx context.Context, n *nic, c *Cell, port uint16, p *progress) nicEnd {
	argv := append([]string{w.Tapir, "run", "--nic", n.Name(), "--"}, c.programArgs(c.NICServes, port)...)
	prog, err := process.Start(context.WithoutCancel(ctx), w.NS, process.Options{Argv: argv, Dir: w.dir})
	if err != nil {
		return nicEnd{err: err}
	}
	defer context.AfterFunc(ctx, prog.Stop)()
	for !prog.HasEnded() {
		select {
		case <-prog.Ended():
		case <-time.After(look):
			if c.NICServes && w.ready(ctx, n, c, port) {
				p.listens()
			}
		}
	}
	err = prog.Err()
	switch {
	case c.endedWell(prog.ExitCode(), prog.Said()):
		err = nil
	case err != nil:
		err = fmt.Errorf("%w: %s", err, tail(prog.Said()))
	}
	return nicEnd{prog.Said(), err}
}

// ready tells whether the NIC's server can be reached.
func (w *World) ready(ctx context.Context, n *nic, c *Cell, port uint16) bool {
	switch {
	case c.Program.Sockets:
		return w.socketListens(ctx, port)
	case c.Program.Silent:
		return attached(n)
	case c.RoCE:
		return openListeners(n)
	}
	return listens(n)
}

// attached tells whether a program's queue pair has joined a multicast group.
func attached(n *nic) (yes bool) {
	err := n.DoWait(func(frame.Time) { yes = len(n.Device.Verbs.Groups()) > 0 })
	return yes && err == nil
}

// openListeners tells whether a program listens on a NIC with RoCE.
func openListeners(n *nic) (yes bool) {
	err := n.DoWait(func(frame.Time) { yes = len(n.Device.CM.Listeners()) > 0 })
	return yes && err == nil
}

// listens tells whether a program listens on the NIC.
func listens(n *nic) (yes bool) {
	err := n.DoWait(func(frame.Time) {
		yes = slices.ContainsFunc(n.Device.ShowCEP(), func(p iwarp.CEPInfo) bool { return p.Phase == "listening" })
	})
	return yes && err == nil
}
