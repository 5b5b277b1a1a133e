package linuxptp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tapir/lab/host/process"
)

// Program is a running program.
type Program struct {
	*process.Process
	name string
}

// Lines returns what the program has printed so far, whole lines only.
func (p *Program) Lines() []string {
	said := p.Said()
	return strings.FieldsFunc(said[:strings.LastIndexByte(said, '\n')+1], func(c rune) bool { return c == '\n' })
}

// Log returns the same as ptp4l's log.
func (p *Program) Log() Log { return Log(p.Lines()) }

// errEnded is the error of a wait for a program that has ended.
var errEnded = errors.New("the program has ended")

// Await waits until what the program has printed satisfies done. The error
// names what was awaited and quotes the program's last lines.
func (p *Program) Await(ctx context.Context, what string, done func(Log) bool) error {
	err := process.Until(ctx, func() (bool, error) {
		ended := p.HasEnded() // nothing comes after this
		switch {
		case done(p.Log()):
			return true, nil
		case ended:
			return false, errEnded
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%s: waiting for %s: %w\n%s", p.name, what, err, p.Tail())
	}
	return nil
}

// AwaitState waits until a port of a ptp4l is in a state, such as "SLAVE".
func (p *Program) AwaitState(ctx context.Context, port int, state string) error {
	return p.Await(ctx, fmt.Sprintf("port %d %s", port, state), func(l Log) bool { return l.State(port) == state })
}
