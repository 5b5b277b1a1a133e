package labs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"tapir/lab/run/virtual"
)

// Stepper shows the events of a lab and waits for its reader between them.
type Stepper struct {
	out   io.Writer
	said  chan string // closed at the end of what is said
	ahead int         // events that are not waited for
}

// NewStepper begins to read lines of in, which may wait for ever.
func NewStepper(in io.Reader, out io.Writer) *Stepper {
	s := &Stepper{out: out, said: make(chan string)}
	go func() {
		defer close(s.said)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			s.said <- strings.TrimSpace(lines.Text())
		}
	}()
	return s
}

var errLeft = errors.New("ended by q")

// Step shows an event and returns when the next one may happen.
func (s *Stepper) Step(ctx context.Context, e *virtual.Event) error {
	fmt.Fprintln(s.out, e)
	if s.ahead > 0 {
		s.ahead--
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case word, more := <-s.said:
			n, err := strconv.Atoi(word)
			switch {
			case !more, word == "c":
				s.ahead = math.MaxInt
			case word == "":
			case word == "q":
				return errLeft
			case err == nil && n > 0:
				s.ahead = n - 1
			default:
				fmt.Fprintln(s.out, "Enter: the next event; N: the next N events; c: all events; q: end the lab")
				continue
			}
			return nil
		}
	}
}
