package demo

import (
	"context"
	"fmt"
	"strings"

	"tapir/lab/host/netns"
	"tapir/lab/host/process"
)

// program is a process of the demo, with the name that messages give it.
type program struct {
	*process.Process
	name string
}

// startNIC starts the NIC called name and returns when it is ready. p, unless it is nil, has
// to be stopped also after an error. lost is called when it ends.
func startNIC(ctx context.Context, ns *netns.NS, name string, o Options, lost func(), where ...string) (p *program,
	err error) {
	argv := append([]string{o.Program, "nic", "--name", name, "--ip", addresses[name].String(), "--frames", o.Frames},
		where...)
	r, err := process.Start(context.WithoutCancel(ctx), ns, process.Options{Argv: argv})
	if err != nil {
		return nil, err
	}
	p = &program{r, name}
	if err := p.await(ctx, "ready "+name); err != nil {
		return p, err
	}
	go func() {
		<-p.Ended()
		lost()
	}()
	return p, nil
}

// ended says that a program has ended by itself, and how.
func (p *program) ended() error {
	s := fmt.Sprintf("%s (process %d) ended by itself", p.name, p.PID())
	if err := p.Err(); err != nil {
		s += ": " + err.Error()
	}
	if said := p.complaint(); said != "" {
		s += ": " + strings.TrimPrefix(said, "tapir: ")
	}
	return &endedError{s}
}

// endedError says that a process ended by itself.
type endedError struct{ text string }

func (e *endedError) Error() string { return e.text }

// complaint is the first line after the one that says that the program is ready,
// if there is one.
func (p *program) complaint() (first string) {
	for line := range strings.Lines(p.Said()) {
		switch {
		case strings.HasPrefix(line, "ready "):
			first = ""
		case first == "":
			first = strings.TrimSpace(line)
		}
	}
	return first
}

// await returns when the program has printed a line with the text.
func (p *program) await(ctx context.Context, text string) error {
	soon, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := p.Await(soon, text)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case p.HasEnded():
		return p.ended()
	}
	return fmt.Errorf("%s does not answer within %v", p.name, startWithin)
}

// stop asks the program to end and waits for its end.
func (p *program) stop() error {
	if p.HasEnded() {
		return p.ended()
	}
	if p.Stop(); p.Err() != nil {
		return p.ended()
	}
	return nil
}
