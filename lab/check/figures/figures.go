// Package figures is what the programs that measure have in common: they choose
// what to measure, name the machine and put their figures into a document between
// two marks.
package figures

import (
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
	around, _, err := Between(string(text), begin, end)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(around[0]+string(figures)+around[1]), 0o644)
}

// Between is what stands between the lines begin and end of a document, and what is
// around it, with these lines.
func Between(text, begin, end string) (around [2]string, between string, err error) {
	before, rest, ok := strings.Cut(text, begin+"\n")
	between, after, ok2 := strings.Cut(rest, end+"\n")
	if !ok || !ok2 {
		return around, "", fmt.Errorf("the lines %q and %q, marks of the figures, are missing", begin, end)
	}
	return [2]string{before + begin + "\n", end + "\n" + after}, between, nil
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
