// Command gotest runs everything that `make test` promises: gofmt, go vet, other
// checks of the sources, the tests and, if asked, every fuzz target for a while.
// It prints each package as it ends and each skip with its reason, treats a skip
// that is not listed as a failure, and ends with one line:
//
//	N passed, N failed, N skipped
//
// Up to three tests that fail run again alone. Those that pass three times there
// are listed, and counted as flaky in that line.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	skips := flag.String("skips", "", "file of allowed skips, one 'package Test # why' per line")
	each := flag.Duration("fuzz", 0, "time for each fuzz target; 0 = do not fuzz")
	budget := flag.Duration("fuzz-budget", 4*time.Minute, "time for all fuzz targets together")
	onlyFuzz := flag.Bool("only-fuzz", false, "leave out the checks and tests")
	pattern := flag.String("targets", "", "regular expression: fuzz only targets whose 'package Name' matches")
	table := flag.String("table", "",
		"file with a table of fuzz runs: -fuzz is CPU time without a budget, targets must be fast, inputs are kept")
	slow := flag.String("slow", "", "file of fuzz targets that may be slow, one 'package Name # why' per line")
	checks := flag.String("checks", "",
		"commands that check the sources while the tests are built, separated by semicolons")
	nested := flag.String("nested", "", "folders of modules inside this one whose tests run too, separated by commas")
	timeout := flag.Duration("timeout", 25*time.Minute, "time for the tests of one package")
	detect := flag.Bool("race", false, "run the race detector over packages in which goroutines meet, and nothing else")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: gotest [flags] packages...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	allowed, err := readList(*skips)
	usage(err)
	chosen, err := regexp.Compile(*pattern)
	usage(err)
	var long *soak
	if *table != "" {
		may, err := readList(*slow)
		usage(err)
		long, err = newSoak(*table, may)
		usage(err)
	}
	limit := []string{"-timeout", timeout.String()}
	rep := newReport(os.Stdout, allowed)
	switch {
	case *detect:
		race(rep, flag.Args(), limit...)
	case !*onlyFuzz:
		rep.check("gofmt", gofmt())
		done := inParallel(rep, *checks, *nested, limit)
		test(rep, "", flag.Args(), limit)
		<-done
		rep.retry(runAlone(limit))
	}
	if *each > 0 {
		fuzz(rep, flag.Args(), chosen, *each, *budget, long)
	}
	if !rep.finish() {
		os.Exit(1)
	}
}

// usage ends the program if err says that it was called wrongly.
func usage(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
}

// atOnce is how many packages, and how many tests of each that allow it, run at
// a time. Half of their time they wait for programs and timers.
var atOnce = strconv.Itoa(2 * runtime.NumCPU())

// test checks the sources of the module in dir and runs their tests.
func test(rep *report, dir string, pkgs, flags []string) {
	rep.check(strings.TrimSpace("go vet "+dir), command(dir, "go", append([]string{"vet"}, pkgs...)...))
	run(rep, dir, pkgs, flags)
}

// run runs tests of the module in dir. What vet finds is said elsewhere.
func run(rep *report, dir string, pkgs, flags []string) {
	args := slices.Concat([]string{"test", "-json", "-vet", "off", "-p", atOnce, "-parallel", atOnce}, flags, pkgs)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		rep.check("go test", err)
		return
	}
	failed := rep.read(dir, out)
	if err := cmd.Wait(); err != nil && !failed {
		rep.check("go test", err)
	}
}

// inParallel runs the commands, and then the tests of the nested modules, one after
// the other beside the tests, and closes what it returns when they are done. The tests of
// nested modules mostly wait for timers and programs.
func inParallel(rep *report, commands, nested string, flags []string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text := range strings.SplitSeq(commands, ";") {
			if args := strings.Fields(text); len(args) > 0 {
				rep.check(strings.Join(args, " "), command("", args[0], args[1:]...))
			}
		}
		for dir := range strings.SplitSeq(nested, ",") {
			if dir != "" {
				test(rep, dir, []string{"./..."}, flags)
			}
		}
	}()
	return done
}

// gofmt names the files that are not formatted.
func gofmt() error {
	out, err := exec.Command("gofmt", "-l", ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if len(out) > 0 {
		return fmt.Errorf("run gofmt -w on:\n%s", out)
	}
	return nil
}

// command runs a command in dir and returns its output as the error if it
// fails.
func command(dir, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return nil
}

// readList reads tests with a reason; no file has none.
func readList(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseList(bytes.NewReader(b))
}

func parseList(r io.Reader) (map[string]bool, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for i, line := range strings.Split(string(b), "\n") {
		line, why, _ := strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 2 || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("line %d: want 'package Test # why it is listed'", i+1)
		}
		allowed[f[0]+" "+f[1]] = true
	}
	return allowed, nil
}
