// Package figures is what the programs that measure have in common: they choose
// what to measure, name the machine and put their figures into a document between
// two marks.
package figures

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Machine describes the processors, the kernel and Go's version.
func Machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), Linux %s, %s", runtime.NumCPU(), model, word("/proc/sys/kernel/osrelease"),
		runtime.Version())
}

// Load is the load average of 1, 5 and 15 minutes.
func Load() string {
	f := strings.Fields(word("/proc/loadavg"))
	return strings.Join(f[:min(3, len(f))], " ")
}

func word(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// Put replaces what stands between the lines begin and end of a document. A
// document without them is not changed.
func Put(file, begin, end string, figures []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(begin+"\n"))
	_, after, ok2 := bytes.Cut(rest, []byte(end+"\n"))
	if !ok || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing", file, begin, end)
	}
	return os.WriteFile(file, slices.Concat(before, []byte(begin+"\n"), figures, []byte(end+"\n"), after), 0o644)
}

// Median is the value in the middle, or the mean of the two there; NaN without
// values.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Choose returns the names of a list divided by commas, each of which must be one
// of all; all if the list is empty.
func Choose(list string, all []string) ([]string, error) {
	if list == "" {
		return all, nil
	}
	chosen := strings.Split(list, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("unknown name %q: use %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}
