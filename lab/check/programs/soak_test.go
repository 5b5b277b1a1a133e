//go:build soak

package programs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// count is what became of a cell in a mode.
type count struct{ runs, again, failed int }

// TestSoak runs every cell SOAK_ROUNDS times (50) on the same two NICs, each
// round in the next mode, and appends what came of it to the file that SOAK_OUT
// names. It ends early at the end of the round in which SOAK_UNTIL, a duration,
// has passed.
func TestSoak(t *testing.T) {
	if p := Missing(); p != "" {
		t.Fatalf("%s is not installed", p)
	}
	rounds, long := 50, 1000*time.Hour
	var err error
	if s := os.Getenv("SOAK_ROUNDS"); s != "" {
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("SOAK_UNTIL"); s != "" {
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New(t.Context(), tapir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	begun, done := time.Now(), 0
	counts := map[string]*count{} // by mode
	for _, m := range Modes {
		counts[m.Name] = &count{}
	}
	var faults []string
	for ; done < rounds && time.Since(begun) < long; done++ {
		m := Modes[done%len(Modes)]
		faults = append(faults, l.round(t, m, counts)...)
		fmt.Printf("%v: round %d, %s: %v\n", time.Since(begun).Round(time.Second), done+1, m.Name, faults)
	}
	left := l.Close()
	if left != nil {
		t.Error(left)
	}
	if err := report(os.Getenv("SOAK_OUT"), done, time.Since(begun), counts, faults, left); err != nil {
		t.Fatal(err)
	}
}

// round runs every cell once, in the mode or, if it does not bear that, in the
// first that it does.
func (l *Lab) round(t *testing.T, mode Mode, counts map[string]*count) (faults []string) {
	for _, c := range Cells(256 << 20) {
		m := mode
		if !c.In(m) {
			m = c.Only[0]
		}
		n := counts[m.Name]
		n.runs++
		again, err := l.Run(t.Context(), c, m)
		n.again += again
		if err != nil {
			n.failed++
			faults = append(faults, c.Name+", "+m.Name)
			t.Error(err)
			if left := l.empty(t.Context()); left != nil {
				t.Error(left)
			}
		}
	}
	return faults
}

// report appends the table.
func report(file string, rounds int, took time.Duration, counts map[string]*count, faults []string, left error) error {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### Stock RDMA programs\n\n%d programs and variants, %d rounds, each in the next mode, in %v.\n\n"+
		"| mode | runs | failed | restarted after an error of their own |\n|---|---|---|---|\n", len(Cells(0)), rounds, took.Round(time.Second))
	for _, m := range Modes {
		n := counts[m.Name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", m.Name, n.runs, n.failed, n.again)
	}
	verdict := "In the end nothing was left in the NICs."
	if left != nil {
		verdict = "In the end: " + left.Error()
	}
	fmt.Fprintf(&b, "\n%s\n", verdict)
	for _, f := range faults {
		fmt.Fprintf(&b, "\n* failed: %s", f)
	}
	_, err = fmt.Fprintln(out, b.String())
	return errors.Join(err, out.Close())
}
