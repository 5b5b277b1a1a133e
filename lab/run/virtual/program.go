package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/station"
	"tapir/lab/topo"
)

// program is a program that a step started: a ping, there are no others.
type program struct {
	step *topo.Step
	res  *result.Step
	ping *station.Ping
	said strings.Builder
	// killed by a step: its exit code says nothing.
	killed bool
}

// kill ends a program as kill -9 does.
func (p *program) kill() error {
	if p.hasEnded() {
		return errors.New("it has ended before")
	}
	p.ping.Cancel()
	p.killed = true
	return nil
}

// run starts a program and, unless it is of the background, waits for its end.
func (l *Lab) run(ctx context.Context, s *topo.Step, res *result.Step) error {
	o, err := station.ParsePing(s.Argv)
	if err != nil {
		return err
	}
	p := &program{step: s, res: res}
	n := l.node(s.On)
	p.ping = n.host.Ping(o, l.world.Now(), func(line string) {
		fmt.Fprintln(&p.said, line)
		l.log.printf("%s | %s", s.Name, line)
	})
	l.programs = append(l.programs, p)
	l.world.Touch(n.place)
	if s.Background {
		return nil
	}
	return l.finish(ctx, p, s.Timeout)
}

// finish waits for a program's end and judges it.
func (l *Lab) finish(ctx context.Context, p *program, timeout time.Duration) error {
	ended, err := l.until(ctx, l.world.Now().Add(timeout), p.hasEnded)
	switch {
	case err != nil:
		return err
	case !ended:
		p.ping.Cancel()
		return fmt.Errorf("not done after %v: %s does not end", timeout, p.step.Name)
	}
	return p.verdict()
}

func (p *program) hasEnded() bool {
	_, ended := p.ping.Ended()
	return ended
}

// verdict is what is wrong with a program that has ended.
func (p *program) verdict() error {
	code, _ := p.ping.Ended()
	p.res.Exit, p.res.Output = &code, p.said.String()
	if p.killed {
		code = p.step.Exit
	}
	return p.step.Verdict(code, fmt.Sprintf("exit code %d", code), p.said.String(), p.said.String())
}

func (l *Lab) program(name string) *program {
	for _, p := range l.programs {
		if p.step.Name == name {
			return p
		}
	}
	return nil
}

// broken is a program in the background that has ended as it should not.
func (l *Lab) broken() error {
	for _, p := range l.programs {
		if p.step.Background && p.hasEnded() {
			if err := p.verdict(); err != nil {
				return err
			}
		}
	}
	return nil
}

// says judges the output of a program.
func (l *Lab) says(c *topo.Condition) error {
	p := l.program(c.Step)
	ended := p.hasEnded()
	if c.Output.MatchString(p.said.String()) {
		return nil
	}
	err := fmt.Errorf("the output of %s does not match %q", c.Step, topo.Plain(c.Output))
	if ended {
		return hopeless{err}
	}
	return err
}

// collectPrograms judges the programs in the background that have ended on
// their own, and ends the others.
func (l *Lab) collectPrograms() {
	for _, p := range l.programs {
		if p.step.Background && p.res.Verdict == result.Passed && p.hasEnded() {
			err := p.verdict()
			if p.res.Judge(err); err != nil {
				l.log.printf("FAIL  line %d: %s: %v", p.step.Line, p.step.Text, err)
			}
		}
		if !p.hasEnded() {
			p.ping.Cancel()
		}
		p.res.Output = p.said.String()
	}
}
