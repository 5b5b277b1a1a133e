package ctl

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"tapir/wire/frame"
)

// A job that has ended is reported even if its NIC stops just then.
func TestPerfEndsBeforeTheNICStops(t *testing.T) {
	runtimeDir(t)
	for range 20 {
		f := newFake()
		s := serve(t, "nic0", f)
		c := dial(t, "nic0")
		go func() {
			<-f.started
			f.done(map[string]int{"gbps": 7}, nil)
			s.Close()
		}()
		if err := c.Perf(t.Context(), "job", nil, &struct{}{}); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

// Who leaves a job and ends a capture at once gets the whole capture.
func TestCaptureAndJobEndTogether(t *testing.T) {
	runtimeDir(t)
	for range 20 {
		f := newFake()
		s := serve(t, "nic0", f)
		c := dial(t, "nic0")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			<-f.started
			go func() { left <- c.Perf(ctx, "job", nil, nil) }()
			<-f.started
			cancel()
		}()
		var b bytes.Buffer
		if st, err := c.Capture(ctx, CaptureOptions{}, &b); err != nil || st.Written != 1 {
			t.Fatal(st, err)
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s.Close()
	}
}

// held is a file that takes nothing before it may.
type held struct {
	bytes.Buffer
	first, may chan struct{}
}

func (h *held) Write(p []byte) (int, error) {
	if h.Len() == 0 {
		close(h.first)
		<-h.may
	}
	return h.Buffer.Write(p)
}

// Who ends a capture that has just ended by itself still gets the rest of it.
func TestCaptureEndsTwice(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	s := serve(t, "nic0", f)
	c := dial(t, "nic0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := &held{first: make(chan struct{}), may: make(chan struct{})}
	go func() {
		<-file.first
		f.mu.Lock()
		tracer := f.tracer
		f.mu.Unlock()
		tracer.Trace(&frame.Record{Data: make([]byte, 60)})
		for running := true; running; { // until the server has written everything
			s.captures.mu.Lock()
			running = len(s.captures.end) > 0
			s.captures.mu.Unlock()
		}
		cancel()
		var rows []row
		for range 100 { // longer than the answer takes that there is no such capture
			_ = c.Show(t.Context(), "qp", &rows)
		}
		close(file.may)
	}()
	if st, err := c.Capture(ctx, CaptureOptions{Count: 1}, file); err != nil || st.Written != 2 {
		t.Fatal(st, err)
	}
	if p, s := countPackets(t, file.Bytes()); p != 2 || s != 1 {
		t.Fatalf("%d packets, %d statistics", p, s)
	}
}
