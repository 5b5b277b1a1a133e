package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
	"tapir/nic/msglog"
)

// nodeLog are the topics of which a lab's capture has what NICs say.
const nodeLog = msglog.WR | msglog.CM | msglog.Errors

// part is a capture that is made while the lab runs, of a link or by a node. In
// the end all become one.
type part struct {
	name string
	disk *os.File
	link *capture.Session // of a link
	done chan struct{}    // of a node: its process has ended the capture
	err  error            // valid after done
}

// newPart makes the file of a part, which goes with the lab.
func (b *bed) newPart(name string) (*part, error) {
	f, err := os.CreateTemp(b.dir, "part")
	if err != nil {
		return nil, err
	}
	b.undo.Add(func() { f.Close() })
	return &part{name: name, disk: f}, nil
}

// recordLink starts the capture of a link at both ends.
func (b *bed) recordLink(c *cable) (err error) {
	if c.part, err = b.newPart("link " + c.Name); err != nil {
		return err
	}
	c.part.link = capture.New(c.part.disk, capture.Info{Name: c.Name, Host: "far", MTU: c.mtu},
		capture.Options{Host: true, Number: true})
	c.part.link.Live()
	return nil
}

// recordNode starts the capture that the process of a node makes, if the link
// is captured, and returns when it has begun.
func (b *bed) recordNode(ctx context.Context, n *node) error {
	if n.Kind != topo.NIC || n.captured == nil {
		return nil
	}
	client, err := b.dial(n.Name)
	if err != nil {
		return err
	}
	p, err := b.newPart(n.Name)
	if err != nil {
		client.Close()
		return err
	}
	p.done = make(chan struct{})
	n.parts = append(n.parts, p)
	begun := make(chan struct{})
	go func() {
		defer close(p.done)
		defer client.Close()
		opt := ctl.CaptureOptions{SnapLen: capture.JoinPrefix, NoContext: true, Log: nodeLog, Begun: func() {
			close(begun)
		}}
		_, p.err = client.Capture(context.WithoutCancel(ctx), opt, p.disk)
	}()
	select {
	case <-begun:
		return nil
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("its capture does not begin: %w", ctx.Err())
	}
}

// end ends the part and returns what reads it.
func (p *part) end() (io.Reader, error) {
	var err error
	if p.link != nil {
		err = p.link.Close()
	} else {
		<-p.done // a node that was killed leaves what it has told
	}
	if _, serr := p.disk.Seek(0, io.SeekStart); err == nil {
		err = serr
	}
	return p.disk, err
}

// join writes the capture of all links from its parts, when nothing runs any
// more.
func (b *bed) join() (err error) {
	var parts []capture.Part
	var j *capture.Join
	for _, c := range b.cables {
		if c.part == nil {
			continue
		}
		if j == nil {
			f, err := os.Create(filepath.Join(b.files, capture.LabFile))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			j = capture.NewJoin(capture.NewLab(f), capture.JoinOptions{})
		}
		more, err := c.describe(j)
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	if j == nil {
		return nil
	}
	lost, err := j.Read(parts)
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("captures: %d frames did not fit into a queue", lost))
	}
	return errors.Join(err, j.Close())
}

// describe tells j of the ends of a link, and returns the parts about them.
func (c *cable) describe(j *capture.Join) ([]capture.Part, error) {
	r, err := c.part.end()
	if err != nil {
		return nil, err
	}
	link := capture.Part{Name: c.part.name, R: r}
	var nodes []capture.Part
	for i, n := range c.ends {
		own := len(n.parts) > 0 && n.captured == c
		iface := j.Add(capture.End{Link: c.Name, Node: n.Name, Far: c.ends[1-i].Name, MTU: c.mtu}, own)
		link.Ifaces = append(link.Ifaces, iface)
		if !own {
			continue
		}
		for _, p := range n.parts {
			r, err := p.end()
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, capture.Part{Name: p.name, R: r, Ifaces: []uint32{iface}, Node: true})
		}
	}
	return append([]capture.Part{link}, nodes...), nil
}
