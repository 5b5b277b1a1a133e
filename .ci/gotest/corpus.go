package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is kept of a target in testdata/fuzz, where every go test runs
// it. A crasher is no part of that.
const (
	maxKept      = 50       // inputs
	maxKeptSize  = 64 << 10 // octets of all
	maxInputSize = 4 << 10  // octets of one
	keptPrefix   = "corpus-"
	trialPrefix  = "trial-" // of one that is being looked at
)

// held counts what testdata/fuzz has of a target.
type held struct {
	inputs, octets int // kept for their coverage
	crashers       int
}

func (t target) corpus() string { return filepath.Join(t.dir, "testdata", "fuzz", t.name) }

func (t target) held() (h held, err error) {
	files, err := readFiles(t.corpus())
	for _, f := range files {
		switch {
		case strings.HasPrefix(f.name, keptPrefix):
			h.inputs++
			h.octets += len(f.text)
		case !strings.HasPrefix(f.name, trialPrefix):
			h.crashers++
		}
	}
	return h, err
}

type input struct {
	name string
	text []byte
}

// readFiles reads a directory that need not be there, the shortest files first;
// files may vanish meanwhile.
func readFiles(dir string) (all []input, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, input{e.Name(), text})
	}
	slices.SortFunc(all, func(a, b input) int { return len(a.text) - len(b.text) })
	return all, err
}

// keep copies to testdata/fuzz the inputs in the fuzzer's cache that run
// statements of this module which no seed and no shorter input runs.
func (c *campaign) keep(t target) error {
	have, err := t.held()
	if err != nil {
		return err
	}
	found, err := readFiles(filepath.Join(c.cache, filepath.FromSlash(t.pkg), t.name))
	if err != nil || len(found) == 0 {
		return err
	}
	tmp, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cover, err := t.coverage(tmp)
	if err != nil {
		return err
	}
	covered := map[string]bool{}
	if _, err := cover("", covered); err != nil {
		return err
	}
	if err := os.MkdirAll(t.corpus(), 0o755); err != nil {
		return err
	}
	defer os.Remove(t.corpus()) // which fails unless it is empty
	for _, f := range found {
		file := filepath.Join(t.corpus(), keptPrefix+f.name)
		_, err := os.Stat(file)
		if err == nil || len(f.text) > maxInputSize || have.inputs == maxKept || have.octets+len(f.text) > maxKeptSize {
			continue
		}
		trial := filepath.Join(t.corpus(), trialPrefix+f.name)
		if err := os.WriteFile(trial, f.text, 0o644); err != nil {
			return err
		}
		more, err := cover("/^"+filepath.Base(trial)+"$", covered)
		if err == nil && more {
			err = os.Rename(trial, file)
			have.inputs++
			have.octets += len(f.text)
		} else {
			err = errors.Join(err, os.Remove(trial))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// coverage builds the tests of the target's package with coverage of this
// module. What it returns runs the target's seeds that a pattern names, adds the
// statements that they run to covered and tells whether some are new.
func (t target) coverage(tmp string) (func(seeds string, covered map[string]bool) (bool, error), error) {
	deps, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}",
		t.pkg).Output()
	if err != nil {
		return nil, err
	}
	binary, profile := filepath.Join(tmp, "test"), filepath.Join(tmp, "profile")
	err = command("", "go", "test", "-c", "-vet", "off", "-cover", "-covermode", "set", "-coverpkg",
		strings.Join(strings.Fields(string(deps)), ","), "-o", binary, t.pkg)
	return func(seeds string, covered map[string]bool) (more bool, err error) {
		err = command(t.dir, binary, "-test.run", "^"+t.name+"$"+seeds, "-test.coverprofile", profile)
		if err != nil {
			return false, err
		}
		text, err := os.ReadFile(profile)
		if err != nil {
			return false, err
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			block, count, _ := strings.Cut(line, " ")
			if strings.HasSuffix(count, " 0") || !strings.Contains(block, ".go:") || covered[block] {
				continue
			}
			covered[block] = true
			more = true
		}
		return more, nil
	}, err
}

func (h held) String() string {
	if h.inputs == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.1f KiB)", h.inputs, float64(h.octets)/1024)
}
