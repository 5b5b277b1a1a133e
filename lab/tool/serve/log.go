package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"tapir/lab/node/nicnode"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// printEvery is how often new lines of the log are printed; of what comes
// faster than the log keeps lines, the number is.
const printEvery = 50 * time.Millisecond

// LogPrinter prints the log of NICs line by line.
type LogPrinter struct {
	w io.Writer
	// print prints a line of the NIC called name; lost lines before it were not
	// printed in time.
	print func(w io.Writer, name string, l *view.LineInfo, lost uint64)
}

// NewLogPrinter returns a printer for a form, text or json.
func NewLogPrinter(w io.Writer, form string) (*LogPrinter, error) {
	print := map[string]func(io.Writer, string, *view.LineInfo, uint64){"text": printLine, "json": printObject}[form]
	if print == nil {
		return nil, usage.Errorf("--log-format %s: choose text or json", form)
	}
	return &LogPrinter{w, print}, nil
}

// follow prints what n's layers say, as the message level asks for. finish,
// to be called when n has ended, prints the rest.
func (p *LogPrinter) follow(n *nicnode.Node) (finish func()) {
	next := uint64(0)
	read := func(frame.Time) {
		for _, l := range n.Device.ShowLog(next) {
			p.print(p.w, n.Name(), &l, l.Seq-next)
			next = l.Seq + 1
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(printEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = n.DoWait(read) // else n has ended: finish reads
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		read(0)
	}
}

// printObject prints a line as a JSON object. A number that is left out is a
// line that was not printed in time.
func printObject(w io.Writer, name string, l *view.LineInfo, _ uint64) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct {
		NIC string `json:"nic"`
		*view.LineInfo
	}{name, l}) // who reads standard error may go
}

func printLine(w io.Writer, name string, l *view.LineInfo, lost uint64) {
	if lost > 0 {
		fmt.Fprintf(w, "%s: %d lines were not printed in time\n", name, lost)
	}
	fmt.Fprintf(w, "%s: %s %s %s %s\n", name, l.Time, l.Level, l.Topic, l.Text)
}
