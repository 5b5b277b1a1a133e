package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// race runs the tests of those pkgs in which goroutines meet, with the race
// detector in them and in the tapir that they start, and reports each race of
// either.
func race(rep *report, pkgs []string, flags ...string) {
	list, err := raceList(pkgs)
	if err != nil {
		rep.check("race detector", err)
		return
	}
	dir, err := os.MkdirTemp("", "race")
	if err != nil {
		rep.check("race detector", err)
		return
	}
	defer os.RemoveAll(dir)
	tapir := filepath.Join(dir, "tapir")
	if err := command("", "go", "build", "-race", "-o", tapir, "./cmd/tapir"); err != nil {
		rep.check("tapir with the race detector", err)
		return
	}
	os.Setenv("TAPIR_BUILT", tapir)
	os.Setenv("GORACE", "log_path="+filepath.Join(dir, "log"))
	fmt.Fprintf(rep.w, "race detector: %d packages in which goroutines meet\n", len(list))
	flags = append(flags, "-race")
	run(rep, "", list, flags)
	rep.retry(runAlone(flags))
	rep.check("no races", raceLogs(filepath.Join(dir, "log.*")))
}

// raceList are those of pkgs to run, if the race detector can run at all.
func raceList(pkgs []string) ([]string, error) {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return nil, err
	}
	cc := append(strings.Fields(string(out)), "gcc")[0]
	if _, err := exec.LookPath(cc); err != nil {
		return nil, fmt.Errorf("it needs a C compiler (Debian and Ubuntu: apt-get install gcc libc6-dev): %w", err)
	}
	os.Setenv("CGO_ENABLED", "1")
	all, err := load([]string{"./..."})
	if err != nil {
		return nil, err
	}
	asked, err := load(pkgs)
	if err != nil {
		return nil, err
	}
	list := concurrent(asked, append(all, asked...))
	if list == nil {
		return nil, errors.New("no goroutines meet in these packages")
	}
	return list, nil
}

// raceLogs returns as an error what the detector wrote, a file a process.
func raceLogs(pattern string) error {
	logs, err := filepath.Glob(pattern)
	var text []byte
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = append(text, b...)
	}
	if len(logs) > 0 {
		err = fmt.Errorf("%d processes have races:\n%s", len(logs), text)
	}
	return err
}
