package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/tool/capture"
	"tapir/lab/topo"
)

func (b *Bed) newResult() *result.Result {
	r := result.New(b.lab)
	r.Began = b.start
	return r
}

// now is the lab's time.
func (b *Bed) now() time.Duration { return time.Since(b.start) }

// Run runs a lab from its start to its end. The error says why its result could
// not be written; everything else is in the result, which there always is.
func Run(ctx context.Context, lab *topo.Lab, o Options) (*result.Result, error) {
	start := time.Now()
	b, err := Up(ctx, lab, o)
	if err != nil {
		r := result.New(lab)
		r.Began = start
		r.Judge(time.Since(start), err)
		return r, write(o.Out, r)
	}
	r := b.Steps(ctx)
	return r, b.Finish(ctx, r)
}

// Fail fails the lab for a reason that is not in the file.
func (b *Bed) Fail(why error) { b.failed = why }

// Finish ends the lab, judges what only its end shows, and writes the result
// into the output directory.
func (b *Bed) Finish(ctx context.Context, r *result.Result) error {
	b.cancelPending()
	b.collect(ctx, r)
	err := errors.Join(b.failed, b.end())
	b.collectLinks(r)
	if err != nil {
		b.log.printf("FAIL  %v", err)
	}
	r.JudgeCaptures(b.lab.Steps, b.now, func(s *topo.Step) error { return b.filter(ctx, s) }, b.log.printf)
	for i := range r.Nodes {
		n := b.nodes[r.Nodes[i].Name]
		if n.err != nil {
			r.Nodes[i].Error, r.Nodes[i].Output = n.err.Error(), n.proc.Tail()
		}
	}
	r.Judge(b.now(), err)
	if err == nil && r.Error != "" {
		b.log.printf("FAIL  %s", r.Error)
	}
	if b.opt.Out != "" || b.opt.Draw {
		r.Draw(b.recording())
	}
	b.log.printf("lab %s: %s after %d of %d steps", b.lab.Name, r.Verdict, r.Done(), len(r.Steps))
	err = write(b.opt.Out, r)
	b.removeAll()
	return err
}

// recording is where the captures are.
func (b *Bed) recording() result.Recording {
	return result.Recording{Start: b.start.UnixNano(), Open: func(link string) (io.ReadCloser, error) {
		if b.links[link].part == nil {
			return nil, nil
		}
		return os.Open(filepath.Join(b.files, capture.LabFile))
	}}
}

// collect notes what programs and NICs have to tell before they end. A program
// in the background that has ended on its own has to be content.
func (b *Bed) collect(ctx context.Context, r *result.Result) {
	for _, p := range b.pending {
		p.res.Judge(p.err)
	}
	for _, p := range b.started {
		if p.step.Background && p.res.Verdict == result.Passed && p.proc.HasEnded() {
			err := p.verdict()
			if p.res.Judge(err); err != nil {
				b.log.printf("FAIL  line %d: %s: %v", p.step.Line, p.step.Text, err)
			}
		}
		p.res.Output = p.proc.Said()
	}
	for i := range r.Nodes {
		r.Nodes[i].Counters = b.counters(ctx, b.nodes[r.Nodes[i].Name])
	}
}

// collectLinks notes what links have counted when nothing can come any more:
// that is what their captures hold.
func (b *Bed) collectLinks(r *result.Result) {
	for i := range r.Links {
		c := b.links[r.Links[i].Name]
		r.Links[i].Counts = c.counts()
		if b.opt.Out != "" && c.part != nil {
			r.Links[i].Capture = capture.LabFile
		}
	}
}

// write writes the result into out, if it is not empty.
func write(out string, r *result.Result) error {
	if out == "" {
		return nil
	}
	if err := result.Write(out, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
