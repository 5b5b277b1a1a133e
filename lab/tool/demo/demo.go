// Package demo shows the product at work: two NICs exchange RDMA traffic that
// is verified on both sides and captured on the way.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/schema"
	"tapir/nic/tap/wires"
	"tapir/nic/uapi/rundir"
	"tapir/nic/view"
)

var _ = schema.Add("demo", 1, Report{})

// Options say how to run the demo.
type Options struct {
	// Program is the tapir binary that runs the NICs.
	Program string
	// Out is the directory that receives the captures.
	Out string
	// Frames is the frame mode of both NICs: wire, gso or jumbo.
	Frames string
	// Sizes are the message sizes in octets; none means perfconf.VerifySizes.
	Sizes []int
	// Tcpdump also runs the stock tcpdump on both TAPs.
	Tcpdump bool
	// Wire is one of wires.All, which join processes without TAPs; empty: TAPs, or shared memory
	// where there are none.
	Wire string
}

// Report is what the demo found.
type Report struct {
	Wire   string       `json:"wire"` // tap, or the kind of another wire
	Frames string       `json:"frames"`
	Checks []perf.Check `json:"checks"`

	// What both NICs sent, by their own count: FPDUs, octets of payload behind
	// the DDP headers, and messages by RDMAP opcode.
	FPDUs  uint64 `json:"fpdus"`
	Octets uint64 `json:"octets"`
	// Retransmits counts TCP segments sent again: 0 unless the machine stalls.
	Retransmits uint64     `json:"retransmits"`
	Messages    [16]uint64 `json:"messages"`

	Capture string   `json:"capture"`
	Tcpdump []string `json:"tcpdump,omitempty"`
}

// Verified tells whether every operation left the right octets in memory.
func (r *Report) Verified() bool {
	for _, c := range r.Checks {
		if !c.Verified {
			return false
		}
	}
	return len(r.Checks) > 0
}

// The two NICs.
const (
	server, client = "nic0", "nic1"
	port           = perfconf.DefaultPort
)

var addresses = map[string]netip.Prefix{
	server: netip.MustParsePrefix("10.0.0.1/24"),
	client: netip.MustParsePrefix("10.0.0.2/24"),
}

// startWithin bounds how long a NIC may take to be ready on a busy machine.
const startWithin = time.Minute

// wire is where the NICs are: on TAPs, or on another wire.
type wire interface {
	kind() string
	// start starts the NIC called name and returns when it is ready.
	start(ctx context.Context, name string) error
	// tcpdump starts the stock tcpdump beside the NIC.
	tcpdump(ctx context.Context, name, file string) error
	// stopDumps ends every tcpdump, its file complete.
	stopDumps() error
	// close ends everything and leaves nothing behind.
	close() error
}

// Run runs the demo: set up, exchange, tear down.
func Run(ctx context.Context, o Options) (rep *Report, err error) {
	if err := os.MkdirAll(o.Out, 0o777); err != nil {
		return nil, err
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	w, err := newWire(o, giveUp)
	if err != nil {
		return nil, err
	}
	defer func() { err = endOf(err, w.close()) }()
	for _, name := range []string{server, client} {
		if err := w.start(ctx, name); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
	rep = &Report{Wire: w.kind(), Frames: o.Frames, Capture: filepath.Join(o.Out, "demo.pcapng")}
	if o.Tcpdump {
		for _, name := range []string{server, client} {
			file := filepath.Join(o.Out, name+".tcpdump.pcap")
			if err := w.tcpdump(ctx, name, file); err != nil {
				return nil, err
			}
			rep.Tcpdump = append(rep.Tcpdump, file)
		}
	}
	if err := rep.exchange(ctx, o); err != nil {
		return nil, err
	}
	return rep, w.stopDumps()
}

// RunAlone is Run with this program and a directory for control sockets of its
// own.
func RunAlone(ctx context.Context, o Options) (rep *Report, err error) {
	if o.Program, err = os.Executable(); err != nil {
		return nil, err
	}
	run, remove, err := rundir.Make("tapir-demo")
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := os.Setenv("XDG_RUNTIME_DIR", run); err != nil {
		return nil, err
	}
	return Run(ctx, o)
}

// endOf is the demo's error, given that of its end. A process that ended by
// itself is the reason for everything else that went wrong.
func endOf(err, closed error) error {
	if e := (*endedError)(nil); errors.As(closed, &e) {
		return e
	}
	return errors.Join(err, closed)
}

// exchange captures the client's NIC while the verified exchange runs.
func (r *Report) exchange(ctx context.Context, o Options) error {
	srv, err := ctl.Dial(server)
	if err != nil {
		return err
	}
	defer srv.Close()
	cli, err := ctl.Dial(client)
	if err != nil {
		return err
	}
	defer cli.Close()
	stop, err := capture(ctx, cli, r.Capture)
	if err != nil {
		return err
	}
	checks, err := verify(ctx, srv, cli, o.Sizes)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	r.Checks = checks
	return errors.Join(r.count(ctx, srv), r.count(ctx, cli))
}

// sent names the counters of messages sent, by RDMAP opcode.
var sent = [...]string{
	"rdma_write_out", "rdma_read_request_out", "rdma_read_response_out", "rdma_send_out",
	"rdma_send_inv_out", "rdma_send_se_out", "rdma_send_se_inv_out", "rdma_terminate_out",
}

// count adds what one NIC has sent.
func (r *Report) count(ctx context.Context, c *ctl.Client) error {
	var list []view.Counter
	if err := c.Show(ctx, "counters", &list); err != nil {
		return err
	}
	for _, v := range list {
		switch i := slices.Index(sent[:], v.Name); {
		case i >= 0:
			r.Messages[i] += v.Value
		case v.Name == "rdma_fpdus_out":
			r.FPDUs += v.Value
		case v.Name == "tcp_retransmits":
			r.Retransmits += v.Value
		case v.Name == "rdma_bytes_out":
			r.Octets += v.Value
		}
	}
	return nil
}

// verify runs both sides of the job. The hashes of memory that the server
// owns come from the server, the others from the client, and both must agree
// with the source.
func verify(ctx context.Context, srv, cli *ctl.Client, sizes []int) ([]perf.Check, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var theirs, ours perf.Report
	served := make(chan error, 1)
	go func() { served <- srv.Perf(ctx, perfconf.Job{Op: perfconf.Verify, Port: port}, nil, &theirs) }()
	if err := listening(ctx, srv); err != nil {
		return nil, err
	}
	job := perfconf.Job{Op: perfconf.Verify, Remote: addresses[server].Addr(), Port: port, Sizes: sizes}
	if err := cli.Perf(ctx, job, nil, &ours); err != nil {
		return nil, err
	}
	if err := <-served; err != nil {
		return nil, err
	}
	if len(ours.Checks) != len(theirs.Checks) {
		return nil, fmt.Errorf("the client checked %d operations, the server %d", len(ours.Checks), len(theirs.Checks))
	}
	for i := range ours.Checks {
		ours.Checks[i].Verified = ours.Checks[i].Verified && theirs.Checks[i].Verified
	}
	return ours.Checks, nil
}

// listening waits until the server's job has opened its port.
func listening(ctx context.Context, srv *ctl.Client) error {
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var ceps []struct {
			Local netip.AddrPort `json:"local"`
		}
		if err := srv.Show(ctx, "cep", &ceps); err != nil {
			return err
		}
		for _, c := range ceps {
			if c.Local.Port() == port {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not listen on port %d", server, port)
}

// captureBuffer holds the whole exchange twice over, so that nothing is lost
// however slow the disk.
const captureBuffer = 128 << 20

// capture starts the NIC's own capture into file and returns when the first
// octets of the file have arrived, which means that it runs.
func capture(ctx context.Context, c *ctl.Client, file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	capCtx, cancel := context.WithCancel(ctx)
	begun := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		st, err := c.Capture(capCtx, ctl.CaptureOptions{Buffer: captureBuffer}, &notifier{f, begun})
		if err == nil && st.Lost > 0 {
			err = fmt.Errorf("%s: %d frames did not fit into the capture's queue", file, st.Lost)
		}
		ended <- errors.Join(err, f.Close())
	}()
	stop = func() error {
		cancel()
		return <-ended
	}
	select {
	case <-begun:
		return stop, nil
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("capture on %s: %w", c.Hello.Name, err)
	case <-time.After(startWithin):
		return nil, errors.Join(fmt.Errorf("capture on %s does not begin", c.Hello.Name), stop())
	}
}

// notifier tells when the first octets pass.
type notifier struct {
	io.Writer
	begun chan struct{}
}

func (n *notifier) Write(p []byte) (int, error) {
	select {
	case n.begun <- struct{}{}:
	default:
	}
	return n.Writer.Write(p)
}

// JSON is the report as one indented object.
func (r *Report) JSON() string {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // plain data
	}
	return string(b)
}

// tunDevice is what makes a TAP.
const tunDevice = "/dev/net/tun"

// NeedsTAP tells whether the demo will run on TAPs: wherever the machine has
// them.
func (o *Options) NeedsTAP() bool {
	_, err := os.Stat(tunDevice)
	return o.Wire == "" && err == nil
}

// NeedsRights tells whether the demo will make interfaces.
func (o *Options) NeedsRights() bool { return o.NeedsTAP() || slices.Contains(wires.Kernel, o.Wire) }

// mtu is that of interfaces, in octets of IP.
func (o *Options) mtu() int {
	if o.Frames == "jumbo" {
		return 9000
	}
	return 1500
}

// CanOpenTUN says why a TAP cannot be made, if the device is closed to this
// user.
func CanOpenTUN() error {
	f, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("TAPs cannot be made: %w", err)
	}
	return f.Close()
}

// newWire makes the wire. It calls lost when a NIC ends by itself: its peer
// might wait for it for ever.
func newWire(o Options, lost func()) (wire, error) {
	if o.NeedsTAP() {
		return newTAPWire(o, lost)
	}
	if o.Wire == "" {
		o.Wire = "shm"
	}
	return newWired(o, lost)
}
