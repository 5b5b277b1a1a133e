package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"tapir/lab/host/link"
)

// fileRow is files of one kind that a command reads.
type fileRow struct {
	name, what string
	secs       int
	seeds      []string                                // patterns below the root of the sources, or commands below
	make       func(t *trial, dir string) error        // makes seeds that are not in the sources
	args       func(t *trial, files []string) []string // the command line
	batch      int                                     // files of one command line
	text       bool
}

func fileRows() (rows []row) {
	yaml := func(name, what string, seeds []string, args ...string) fileRow {
		return fileRow{name: name, what: what, secs: 8, seeds: seeds, batch: 1, text: true,
			args: func(_ *trial, files []string) []string { return append(slices.Clone(args), files...) }}
	}
	for _, f := range []fileRow{
		{name: "captures", what: "captures through inspect", secs: 25, batch: 1,
			seeds: []string{"lab/tool/*/testdata/*.pcap*", "lab/tool/capture/layers/testdata/*.pcap*"},
			args: func(_ *trial, files []string) []string {
				return append([]string{"inspect", "--ladder"},
					files...)
			}},
		{name: "scripts", what: "wire scripts through script", secs: 12, batch: 20, text: true,
			seeds: []string{"lab/tool/script/testdata/*/*/*.wire"},
			args:  func(_ *trial, files []string) []string { return append([]string{"script"}, files...) }},
		{name: "firmware", what: "firmware images of all forms through firmware", secs: 12, batch: 1,
			make: firmwareSeeds,
			args: func(_ *trial, files []string) []string { return append([]string{"firmware"}, files...) }},
		yaml("lab", "lab files through lab graph", []string{"lab/examples/*/lab.yaml"}, "lab", "graph"),
		yaml("nics", "files of NICs through nic -c", []string{"examples/pair.yaml"}, "nic", "-c"),
		yaml("em", "files of managers through em --dry-run", []string{"examples/vesw.yaml"}, "em", "--dry-run", "-c"),
		yaml("hfis", "files of HFIs through vnic -c", []string{"examples/fabric.yaml", "examples/managed.yaml"},
			"vnic", "-c"),
		yaml("switches", "files of switches through sw -c", []string{"examples/switches.yaml"}, "sw", "-c"),
		yaml("ptpsim", "scenarios through ptp sim", []string{"examples/ptp-*.yaml"}, "ptp", "sim", "--duration", "2s"),
	} {
		rows = append(rows, row{name: f.name, what: f.what + ", changed at random", secs: f.secs, run: f.run})
	}
	return append(rows, row{name: "nvm", what: "flash images through ethtool -f of a running NIC, changed at random",
		secs: 12, grows: 32, run: nvmAttack})
}

// Bounds of one command.
const (
	commandMemory  = 700 << 10 // KiB of resident memory
	commandSeconds = 60
)

// run has a command read changed files until the time is over.
func (f fileRow) run(ctx context.Context, t *trial) error {
	seeds, err := f.load(t)
	if err != nil {
		return err
	}
	ns, err := link.NewSpace(nil)
	if err != nil {
		return err
	}
	defer ns.Close()
	t.unit = "files"
	for end := time.Now().Add(t.d); ; {
		var files []string
		for i := range f.batch {
			seed := seeds[t.rng.IntN(len(seeds))]
			file := filepath.Join(t.dir, fmt.Sprint("mutant", i, filepath.Ext(seed.name)))
			if err := os.WriteFile(file, f.change(t.rng, seed.text, seeds), 0o600); err != nil {
				return err
			}
			files = append(files, file)
		}
		peak, err := t.command(ctx, ns, f.args(t, files)...)
		t.after = max(t.after, peak)
		if err != nil {
			return fmt.Errorf("%w: %s", err, f.keep(files))
		}
		if t.count += len(files); ctx.Err() != nil || time.Now().After(end) {
			return ctx.Err()
		}
	}
}

// keep copies the files of a failure to where they outlive the namespace.
func (f fileRow) keep(files []string) string {
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && len(text) < 300 && f.text {
			names = append(names, fmt.Sprintf("%q", text))
		} else if out, err := filepath.Abs("out"); err == nil && os.MkdirAll(out, 0o755) == nil {
			name := filepath.Join(out, "attack-"+f.name+"-"+filepath.Base(file))
			_ = os.WriteFile(name, text, 0o644)
			names = append(names, "kept as out/"+filepath.Base(name))
		}
	}
	return strings.Join(names, ", ")
}

// seed is a file that is read well.
type seed struct {
	name string
	text []byte
}

// maxSeed bounds the files that are changed, in octets.
const maxSeed = 300 << 10

func (f fileRow) load(t *trial) (seeds []seed, err error) {
	var names []string
	for _, pattern := range f.seeds {
		some, _ := filepath.Glob(filepath.Join(t.root, pattern)) // the pattern is good
		names = append(names, some...)
	}
	if f.make != nil {
		dir := filepath.Join(t.dir, "seeds")
		if err := errors.Join(os.Mkdir(dir, 0o700), f.make(t, dir)); err != nil {
			return nil, err
		}
		names, _ = filepath.Glob(dir + "/*")
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(text) <= maxSeed || f.make != nil {
			seeds = append(seeds, seed{name, text})
		}
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("no files like %s in %s: %w", strings.Join(f.seeds, ", "), t.root, fs.ErrNotExist)
	}
	return seeds, nil
}

// command runs tapir and judges how it ends: with exit code 0, 1 or 2, by itself
// or when asked to, without a panic, in little memory.
func (t *trial) command(ctx context.Context, ns *link.Space, args ...string) (peak int, err error) {
	cmd := exec.CommandContext(ctx, t.tapir, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, t.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := ns.NS.Start(cmd); err != nil {
		return 0, err
	}
	// What is right by chance runs until it is told to end.
	stop := time.AfterFunc(time.Second, func() { _ = cmd.Process.Signal(os.Interrupt) })
	kill := time.AfterFunc(commandSeconds*time.Second, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	stop.Stop()
	kill.Stop()
	peak = int(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	said := out.String()
	switch {
	case ctx.Err() != nil:
		return peak, ctx.Err()
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		err = fmt.Errorf("does not end within %d s", commandSeconds)
	case status.Signaled() && status.Signal() != syscall.SIGINT, status.ExitStatus() > 2:
		err = fmt.Errorf("ends with %w", err)
	case status.ExitStatus() > 0 && len(strings.TrimSpace(said)) == 0:
		err = fmt.Errorf("exit code %d without a word", status.ExitStatus())
	case peak > commandMemory:
		err = fmt.Errorf("needs %d MiB", peak>>10)
	default:
		err = nil
	}
	for _, bad := range []string{"panic: ", "goroutine ", "fatal error: "} {
		if at := strings.Index(said, bad); at >= 0 && err == nil {
			err = fmt.Errorf("%s", said[at:min(len(said), at+1000)])
		}
	}
	if err != nil {
		return peak, fmt.Errorf("tapir %s: %w: %s", strings.Join(args, " "), err, said[max(0, len(said)-300):])
	}
	return peak, nil
}

// change returns a changed copy of a file.
func (f fileRow) change(r *rand.Rand, text []byte, seeds []seed) []byte {
	text = slices.Clone(text)
	for range 1 + r.IntN(4) {
		if f.text {
			text = changeText(r, text, seeds[r.IntN(len(seeds))].text)
		} else {
			text = changeOctets(r, text)
		}
	}
	return text
}

var (
	words   = regexp.MustCompile(`[A-Za-z0-9_.:/-]+`)
	strange = []string{"", "-1", "0", "1e9", "18446744073709551616", "0x", "~", "[]", "{}", "&a [*a]", "*a",
		"!!binary x",
		"\"", "'", "|", "10.0.0.1/33", "::", "ff:ff:ff:ff:ff:ff", "9999999h", "null", "true", "\x00", "\xff", "NaN",
		"{a: {a: {a: {a: {a: {a: {a: {a: {a: {}}}}}}}}}}", "../../../etc/passwd", "%s%n", "💥"}
)

// changeText puts another word, or one of the other file, in place of one, or
// doubles, swaps or removes lines.
func changeText(r *rand.Rand, text, other []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	i, j := r.IntN(len(lines)), r.IntN(len(lines))
	switch r.IntN(8) {
	case 0:
		lines = slices.Delete(lines, i, i+1)
	case 1:
		lines = slices.Insert(lines, i, lines[j])
	case 2:
		lines[i], lines[j] = lines[j], lines[i]
	case 3:
		return changeOctets(r, text)
	default:
		at := words.FindAllIndex(text, -1)
		from := words.FindAll(other, -1)
		if len(at) == 0 || len(from) == 0 {
			return text
		}
		w, by := at[r.IntN(len(at))], from[r.IntN(len(from))]
		if r.IntN(2) == 0 {
			by = []byte(strange[r.IntN(len(strange))])
		}
		return slices.Concat(text[:w[0]], by, text[w[1]:])
	}
	return bytes.Join(lines, nil)
}

func changeOctets(r *rand.Rand, text []byte) []byte {
	if len(text) < 8 {
		return text
	}
	at := r.IntN(len(text) - 7)
	if r.IntN(2) == 0 {
		at = r.IntN(min(512, len(text)-7))
	}
	switch r.IntN(6) {
	case 0:
		text[at] ^= 1 << r.IntN(8)
	case 1:
		binary.LittleEndian.PutUint32(text[at:], r.Uint32())
	case 2:
		binary.LittleEndian.PutUint32(text[at:], []uint32{0, 1, 0xffffffff, 0x7fffffff, 0x10000}[r.IntN(5)])
	case 3:
		return text[:at]
	case 4:
		n := r.IntN(min(64, len(text)-at))
		return slices.Concat(text[:at], text[at+n:])
	default:
		n := r.IntN(min(64, len(text)-at))
		return slices.Concat(text[:at+n], text[at:])
	}
	return text
}

// firmwareForms are those of tapir firmware.
var firmwareForms = []string{"header", "zipped-header", "bin", "zipped-bin"}

func firmwareSeeds(t *trial, dir string) error {
	for _, form := range firmwareForms {
		out, err := exec.Command(t.tapir, "firmware", "--form", form, "-w", filepath.Join(dir, form)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("tapir firmware: %w: %s", err, out)
		}
	}
	return nil
}

// nvmAttack flashes a running NIC with changed images.
func nvmAttack(ctx context.Context, t *trial) error {
	f := fileRow{name: "nvm", make: firmwareSeeds}
	seeds, err := f.load(t)
	if err != nil {
		return err
	}
	t.unit = "files"
	return t.onBed(ctx, func(b *bed) error {
		file := filepath.Join(t.dir, "image")
		for end := time.Now().Add(t.d); ; t.count++ {
			image := f.change(t.rng, seeds[t.rng.IntN(len(seeds))].text, seeds)
			if err := os.WriteFile(file, image, 0o600); err != nil {
				return err
			}
			if _, err := t.command(ctx, b.Space, "ethtool", "-f", nicName(0), file); err != nil {
				return err
			}
			if time.Now().After(end) {
				t.count++
				return nil
			}
		}
	})
}
