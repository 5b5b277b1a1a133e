package main

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

// labSteps shows the events of a lab and waits for what its reader says.
type labSteps struct {
	out   io.Writer
	said  chan string // closed at the end of what is said
	ahead int         // events that are not waited for
}

// newLabSteps begins to read lines of in, which may wait for ever.
func newLabSteps(in io.Reader, out io.Writer) *labSteps {
	s := &labSteps{out: out, said: make(chan string)}
	go func() {
		defer close(s.said)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			s.said <- strings.TrimSpace(lines.Text())
		}
	}()
	return s
}

var errLabLeft = errors.New("ended by q")

// step shows an event and returns when the next one may happen.
func (s *labSteps) step(ctx context.Context, e *virtual.Event) error {
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
				return errLabLeft
			case err == nil && n > 0:
				s.ahead = n - 1
			default:
				fmt.Fprintln(s.out, "Enter: the next event; a number: so many; c: all; q: end the lab")
				continue
			}
			return nil
		}
	}
}
