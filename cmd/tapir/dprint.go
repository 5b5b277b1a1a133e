package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// printEvery is how often new lines of the log are printed; of what comes
// faster than the log keeps lines, the number is.
const printEvery = 50 * time.Millisecond

// nicOutput says what tapir nic tells beside its ready lines.
type nicOutput struct {
	verbose bool
	format  string // of the log
	metrics string // address; empty: not served
}

func (o *nicOutput) check() error {
	if o.format != "text" && o.format != "json" {
		return usage.Errorf("--log-format %s: choose text or json", o.format)
	}
	if o.metrics != "" {
		if _, err := ctl.MetricsAddr(o.metrics); err != nil {
			return usage.Wrap(err)
		}
	}
	return nil
}

// printer prints lines of a NIC's log, of which number next was expected
// first, and returns the number of the one to come.
type printer func(name string, lines []view.LineInfo, next uint64) uint64

func (o *nicOutput) printer(w io.Writer) printer {
	if o.format == "json" {
		return func(name string, lines []view.LineInfo, next uint64) uint64 {
			return printObjects(w, name, lines, next)
		}
	}
	return func(name string, lines []view.LineInfo, next uint64) uint64 { return printNew(w, name, lines, next) }
}

// serveMetrics serves those of all NICs at addr.
func serveMetrics(addr string, nics []*running) (*ctl.MetricsServer, error) {
	var all []ctl.Metered
	for _, n := range nics {
		if m, ok := n.served.(ctl.Metered); ok {
			all = append(all, m)
		}
	}
	return ctl.ListenMetrics(addr, all...)
}

// printLog prints what n's layers say, as the message level asks for. finish,
// to be called when n has ended, prints the rest.
func printLog(n *nicnode.Node, print printer) (finish func()) {
	next := uint64(0)
	read := func() { next = print(n.Name(), n.Device.ShowLog(next), next) }
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

// logObject is a line as a JSON object. A number that is left out is a line
// that was not printed in time.
type logObject struct {
	NIC string `json:"nic"`
	view.LineInfo
}

func printObjects(w io.Writer, name string, lines []view.LineInfo, next uint64) uint64 {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range lines {
		_ = e.Encode(logObject{name, l}) // who reads standard error may go
		next = l.Seq + 1
	}
	return next
}

// printNew prints lines, of which number next was expected first, and returns
// the number of the one to come.
func printNew(w io.Writer, name string, lines []view.LineInfo, next uint64) uint64 {
	for _, l := range lines {
		if l.Seq > next {
			fmt.Fprintf(w, "%s: %d lines were not printed in time\n", name, l.Seq-next)
		}
		fmt.Fprintf(w, "%s: %s %s %s %s\n", name, l.Time, l.Level, l.Topic, l.Text)
		next = l.Seq + 1
	}
	return next
}
