package siw

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/ctl"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/uapi/relay"
	"tapir/wire/frame"
)

// programArgs is the command line of either side of a stock program.
func (c *Cell) programArgs(serves bool, port uint16) []string {
	server, _ := c.addresses()
	args := append(strings.Fields(c.Program), "-p", fmt.Sprint(port))
	switch {
	case args[0] == "rping" && serves:
		return append(args, "-s", "-a", server.String())
	case args[0] == "rping":
		return append(args, "-c", "-a", server.String())
	case serves:
		return args
	}
	return append(args, server.String())
}

// isRping tells whether the sides are the stock rping.
func (c *Cell) isRping() bool { return c.Rping || strings.HasPrefix(c.Program, "rping ") }

// refused is what perftest's client says when it comes before the server
// listens: it does so twice, and the second time nobody is told when.
const refused = "error: -111"

// attempts bounds how often programs may miss each other like that.
const attempts = 30

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
	return c.Program != "" && strings.Contains(c.clientSaid(nic, guest), refused)
}

// checkProgram wants the table that perftest's client prints at its end.
func (c *Cell) checkProgram(nic *nicEnd, guest *guestEnd) error {
	if c.Program != "" && !c.isRping() && !strings.Contains(c.clientSaid(nic, guest), "#bytes") {
		return fmt.Errorf("the client prints no results: %s", tail(c.clientSaid(nic, guest)))
	}
	return nil
}

// name is that of the cell's NIC. tapir run finds it by that, so no other NIC
// of the machine may have the same.
func (c *Cell) name(port uint16) string {
	if c.Program == "" {
		return "nic0"
	}
	return fmt.Sprintf("siw%d-%d", os.Getpid(), port)
}

// offer makes the sockets that tapir run needs of the cell's NIC.
func (c *Cell) offer(n *node.Node) (withdraw func(), err error) {
	if c.Program == "" {
		return func() {}, nil
	}
	s, err := ctl.Listen(n.Name(), "")
	if err != nil {
		return nil, err
	}
	r, err := relay.Listen(ctl.RunPath(n.Name()))
	if err != nil {
		s.Close()
		return nil, err
	}
	programs := node.NewPrograms()
	programs.Add(n)
	r.Serve(programs.Devices)
	dev := ctl.Device{Device: n.Device, Thread: n, TAP: n.TAP()}
	s.Serve(dev.Served())
	return func() {
		r.Close()
		s.Close()
	}, nil
}

// gentle is how long a program may take to end when it is asked to.
const gentle = 5 * time.Second

// runProgram runs the NIC's side of a cell with a stock program, whose
// report is what it said.
func (w *World) runProgram(ctx context.Context, n *node.Node, c *Cell, port uint16, up func()) nicEnd {
	argv := append([]string{"run", "--nic", n.Name(), "--"}, c.programArgs(c.NICServes, port)...)
	cmd := exec.CommandContext(ctx, w.Tapir, argv...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = gentle
	if err := w.NS.Start(cmd); err != nil {
		return nicEnd{err: err}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := c.awaitProgram(n, ended, up)
	if c.isRping() && lateThread(cmd.ProcessState.ExitCode(), said.String()) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, tail(said.String()))
	}
	return nicEnd{said.String(), err}
}

// awaitProgram waits for the end of the NIC's program, and tells when it
// listens.
func (c *Cell) awaitProgram(n *node.Node, ended <-chan error, up func()) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			if c.NICServes && listens(n) {
				up()
			}
		}
	}
}

// listens tells whether a program listens on the NIC.
func listens(n *node.Node) (yes bool) {
	err := n.DoWait(func(frame.Time) {
		yes = slices.ContainsFunc(n.Device.ShowCEP(), func(p nic.CEPInfo) bool { return p.Phase == "listening" })
	})
	return yes && err == nil
}
