package siw

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"tapir/lab/host/netns"
)

// settle is how long the last frames may take to reach the capture.
const settle = 150 * time.Millisecond

// dump is a running tcpdump.
type dump struct {
	file string
	cmd  *exec.Cmd
	text *bufio.Scanner
	said string
}

// newDump captures on a port of the bridge: the bridge itself shows a frame after
// it has passed it on, at times behind the answer. The kernel's buffer has a slot
// of snap octets for each frame: the smaller they are, the more frames may wait.
func newDump(ns *netns.NS, port, file string, snap int) (*dump, error) {
	d := &dump{file: file}
	d.cmd = exec.Command("tcpdump", "-i", port, "-s", fmt.Sprint(snap), "-n", "--immediate-mode", "-B", "131072", "-Z",
		"root", "-w", file, "tcp")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := ns.Start(d.cmd); err != nil {
		return nil, err
	}
	d.text = bufio.NewScanner(r)
	for d.text.Scan() {
		d.said += d.text.Text() + "\n"
		if strings.Contains(d.text.Text(), "listening on") {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", d.cmd.Wait(), d.said)
}

var lost = regexp.MustCompile(`(?m)^([1-9][0-9]*) packets? dropped by kernel`)

// stop ends the capture; frames that tcpdump has lost are an error.
func (d *dump) stop() error {
	time.Sleep(settle)
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	for d.text.Scan() {
		d.said += d.text.Text() + "\n"
	}
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("tcpdump: %w: %s", err, d.said)
	}
	if m := lost.FindString(d.said); m != "" {
		return fmt.Errorf("tcpdump: %s", m)
	}
	return nil
}
