// Package mirror shows a running capture on a TAP of its own, where stock tcpdump sees the
// frames of a NIC whose wire has no interface.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/nic/tap"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Run shows the frames of a NIC on the TAP called name, until ctx ends, and tells people on
// out.
func Run(ctx context.Context, c *ctl.Client, name string, opt ctl.CaptureOptions, out io.Writer) error {
	opt.Bulk, opt.NoContext = 0, true
	opt.Begun = func() {
		fmt.Fprintf(out, "%s is on %s: tcpdump -i %s; end with Ctrl-C\n", c.Hello.Name, name, name)
	}
	n, err := To(name, func(w io.Writer) error {
		_, err := c.Capture(ctx, opt, w)
		return err
	})
	fmt.Fprintln(out, n)
	return err
}

// Counts are what became of the packets of a capture.
type Counts struct {
	Written uint64 // into the TAP
	Left    uint64 // refused by the TAP, such as packets that are no Ethernet frames
}

// bufferSize is room for the longest frame, in octets.
const bufferSize = 1 << 17

// To runs record, which writes a capture in pcapng, and writes each packet of it into the TAP
// called name, which is made if it does not exist, as it comes.
func To(name string, record func(w io.Writer) error) (n Counts, err error) {
	ns, err := netns.Current()
	if err != nil {
		return n, err
	}
	defer ns.Close()
	links, err := link.In(ns)
	if err != nil {
		return n, err
	}
	defer links.Close()
	q, err := links.OpenTAP(tap.Config{Name: name})
	if err != nil {
		return n, err
	}
	defer q.Close()
	_ = ns.Sysctl("ipv6/conf/"+q.Name()+"/disable_ipv6", "1") // else the kernel speaks there, too
	if err := errors.Join(links.SetMTU(q.Name(), maxMTU), links.Up(q.Name())); err != nil {
		return n, err
	}
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := record(w)
		w.CloseWithError(err)
		ended <- err
	}()
	n, err = copyTo(q, r)
	r.CloseWithError(err)
	return n, errors.Join(err, <-ended)
}

// maxMTU is more than any frame of a NIC needs.
const maxMTU = 65521

// copyTo writes packets until the capture ends.
func copyTo(q tap.Queue, r io.Reader) (n Counts, err error) {
	next, err := capture.Blocks(r)
	if errors.Is(err, capture.ErrNotCapture) {
		return n, nil // it ended before it began
	}
	f := frame.New(make([]byte, frame.DefaultHeadroom+bufferSize), nil)
	for err == nil {
		var blk pcapng.Block
		if blk, err = next(); err != nil {
			break
		}
		p, isPacket := blk.(*pcapng.Packet)
		if !isPacket {
			continue
		}
		f.Reset()
		if len(p.Data) < int(p.OrigLen) || len(p.Data) > f.Tailroom() {
			n.Left++
			continue
		}
		f.Append(p.Data)
		if q.Write(f) != nil {
			n.Left++
			continue
		}
		n.Written++
	}
	if err == io.EOF || errors.Is(err, context.Canceled) {
		err = nil
	}
	return n, err
}

// String is what people read.
func (n Counts) String() string {
	return fmt.Sprintf("%d packets mirrored, %d left out", n.Written, n.Left)
}
