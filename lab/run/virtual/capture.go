package virtual

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tapir/lab/tool/capture"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// recording is the capture of all links, with what the NICs say.
type recording struct {
	join *capture.Join
	disk *os.File
	path string
}

// nodeLog are the topics of which a capture has what NICs say.
const nodeLog = msglog.WR | msglog.CM | msglog.Errors

// together is how long, in nanoseconds, what a link and a NIC tell of the same
// frame may lie apart: they tell at once, but for the stamps of PTP.
const together = 1e6

// record begins the capture of the link.
func (k *link) record(mtu int) error {
	l := k.lab
	if l.rec == nil {
		path := filepath.Join(l.files, capture.LabFile)
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		l.undo.Add(func() { f.Close() })
		l.rec = &recording{capture.NewJoin(capture.NewLab(f), capture.JoinOptions{Window: together}), f, path}
	}
	k.rec = l.rec
	for i, e := range k.ends {
		end := capture.End{Link: k.Name, Node: e.node.Name, Far: k.ends[1-i].node.Name, MTU: mtu,
			Speed: uint64(k.impairment(i).Rate)}
		if e.node.dev != nil {
			end.MAC = e.node.dev.Config().MAC
		}
		k.ifaces[i] = k.rec.join.Add(end, e.node.dev != nil)
		if e.node.dev != nil {
			e.record(k.rec.join, k.ifaces[i])
		}
	}
	return nil
}

// Trace implements frame.Tracer: a frame enters the cable or leaves it. No two
// links have a number in common.
func (k *link) Trace(r *frame.Record) {
	if r.ID != 0 {
		r.ID = (r.ID-1)*uint64(len(k.lab.links)) + uint64(k.place) + 1
	}
	if k.rec != nil {
		k.rec.join.Link(k.ifaces[r.Port], r)
	}
	if k.reader != nil {
		k.show(r)
	}
}

// nicTracer hands on what a NIC tells of frames on its wire.
type nicTracer struct {
	join  *capture.Join
	iface uint32
}

// Trace implements frame.Tracer.
func (t *nicTracer) Trace(r *frame.Record) {
	if r.Port == frame.Wire {
		t.join.Node(t.iface, r)
	}
}

// record has the NIC at this end tell of its frames, and what it has to say.
func (e *end) record(j *capture.Join, iface uint32) {
	e.node.said = j
	e.node.dev.SetTracer(&nicTracer{j, iface})
}

// finish completes the capture.
func (r *recording) finish() error {
	if r == nil {
		return nil
	}
	if err := errors.Join(r.join.Close(), r.disk.Close()); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}
