package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"tapir/lab/node"
	"tapir/nic"
	"tapir/wire/frame"
)

// printEvery is how often new lines of the log are printed; of what comes
// faster than the log keeps lines, the number is.
const printEvery = 50 * time.Millisecond

// printLog prints what n's layers say about the topics of the parameter
// dprint. finish, to be called when n has ended, prints the rest.
func printLog(n *node.Node, w io.Writer) (finish func()) {
	next := uint64(0)
	read := func() { next = printNew(w, n.Name(), n.Device.ShowLog(next), next) }
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(printEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = n.DoWait(func(frame.Time) { read() }) // else n has ended: finish reads
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		read()
	}
}

// printNew prints lines, of which number next was expected first, and returns
// the number of the one to come.
func printNew(w io.Writer, name string, lines []nic.LineInfo, next uint64) uint64 {
	for _, l := range lines {
		if l.Seq > next {
			fmt.Fprintf(w, "%s: %d lines were not printed in time\n", name, l.Seq-next)
		}
		fmt.Fprintf(w, "%s: %s %s %s %s\n", name, l.Time, l.Level, l.Topic, l.Text)
		next = l.Seq + 1
	}
	return next
}
