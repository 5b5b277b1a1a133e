package nicnode_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"tapir/nic/loop"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Every notification wakes one of those who wait, whatever their number.
func TestManyWaitOnOneChannel(t *testing.T) {
	client, server := connect()
	defer client.Close()
	defer server.Close()
	const events = 50
	var got sync.Map
	var wait sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, events)
	for range 4 {
		wait.Go(func() {
			for {
				cq, err := server.channel.Wait(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				server.do(func(frame.Time) {
					if err := cq.AckEvents(1); err != nil {
						t.Error(err)
					}
					cq.ReqNotify(false)
					var wcs [8]verbs.WC
					for _, wc := range wcs[:cq.Poll(wcs[:])] {
						if _, twice := got.LoadOrStore(wc.ID, true); twice {
							t.Errorf("completion %d twice", wc.ID)
						}
						done <- struct{}{}
					}
				})
			}
		})
	}
	server.do(func(frame.Time) { server.cq.ReqNotify(false) })
	for i := range events {
		server.recv(verbs.RecvWR{ID: uint64(i)})
		client.send(verbs.SendWR{Opcode: verbs.OpSend})
		<-done
	}
	cancel()
	wait.Wait()
}

func TestChannelEndsWithItsNIC(t *testing.T) {
	client, server := connect()
	defer client.Close()
	if err := server.channel.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close with a queue attached: %v", err)
	}
	ended := make(chan error)
	go func() {
		_, err := server.channel.Wait(context.Background())
		ended <- err
	}()
	server.Close()
	if err := <-ended; !errors.Is(err, loop.ErrClosed) {
		t.Error(err)
	}
	if _, err := server.CreateCompChannel(); !errors.Is(err, loop.ErrClosed) {
		t.Error(err)
	}
}

// Blocking calls from within a handler fail instead of blocking for ever.
func TestBlockingCallInHandler(t *testing.T) {
	client, server := connect()
	defer client.Close()
	defer server.Close()
	errs := make(chan error, 2)
	server.do(func(frame.Time) {
		_ = server.cq.SetChannel(nil)
		server.cq.SetHandler(func(cq *verbs.CQ, _ frame.Time) {
			_, err := server.channel.Wait(context.Background())
			errs <- err
			errs <- server.channel.Attach(cq)
		})
		server.cq.ReqNotify(false)
	})
	server.recv(verbs.RecvWR{})
	client.send(verbs.SendWR{Opcode: verbs.OpSend})
	for range 2 {
		if err := <-errs; !errors.Is(err, loop.ErrInCallback) {
			t.Error(err)
		}
	}
}

// What docs/howto/go.md shows is what the examples do.
func TestDocumentedExamples(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	doc, code := read("../../../docs/howto/go.md"), read("example_test.go")
	flat := func(s string) string { return regexp.MustCompile(`\s+`).ReplaceAllString(s, " ") }
	shown := 0
	for _, part := range strings.Split(doc, "```go\n")[1:] {
		snippet, _, _ := strings.Cut(part, "```")
		if strings.HasPrefix(snippet, "package main") {
			continue
		}
		shown++
		if !strings.Contains(flat(code), flat(snippet)) {
			t.Errorf("no example does this:\n%s", snippet)
		}
	}
	if shown < 10 {
		t.Errorf("%d snippets found", shown)
	}
	_, setup, _ := strings.Cut(read("side_test.go"), "// side is")
	if !strings.Contains(doc, setup) {
		t.Error("the program of docs/howto/go.md differs from side_test.go")
	}
}
