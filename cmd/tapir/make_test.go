package main

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runMake runs the Makefile with its own output directory.
func runMake(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	cmd := exec.Command("make", append([]string{"--no-print-directory", "-C", "../.."}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
}

func filesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInstallAndUninstall(t *testing.T) {
	dest := t.TempDir()
	args := []string{"BIN=" + t.TempDir(), "VERSION=v9.8.7", "PREFIX=/usr", "DESTDIR=" + dest}
	runMake(t, append(args, "install")...)
	var others []string
	for _, f := range filesIn(t, dest) {
		if !strings.HasPrefix(f, "usr/share/man/man1/tapir") {
			others = append(others, f)
		}
	}
	if d := cmp.Diff([]string{
		"usr/bin/tapir",
		"usr/share/bash-completion/completions/tapir",
		"usr/share/fish/vendor_completions.d/tapir.fish",
		"usr/share/zsh/site-functions/_tapir",
	}, others); d != "" {
		t.Errorf("beside the man pages: %s", d)
	}
	if n := len(filesIn(t, filepath.Join(dest, "usr/share/man/man1"))); n < 10 {
		t.Errorf("only %d man pages", n)
	}
	out, err := exec.Command(filepath.Join(dest, "usr/bin/tapir"), "version").Output()
	if err != nil || !bytes.HasPrefix(out, []byte("tapir v9.8.7 ")) {
		t.Errorf("version %q, %v", out, err)
	}
	isStatic(t, filepath.Join(dest, "usr/bin/tapir"), elf.EM_NONE)
	runMake(t, append(args, "uninstall")...)
	if left := filesIn(t, dest); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestCrossBuilds(t *testing.T) {
	bin := t.TempDir()
	runMake(t, "BIN="+bin, "cross")
	isStatic(t, filepath.Join(bin, "tapir-linux-amd64"), elf.EM_X86_64)
	isStatic(t, filepath.Join(bin, "tapir-linux-arm64"), elf.EM_AARCH64)
}

// isStatic wants an executable for machine, if not EM_NONE, without a dynamic
// loader.
func isStatic(t *testing.T, file string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if machine != elf.EM_NONE && f.Machine != machine {
		t.Errorf("%s is for %v", file, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a dynamic loader", file)
		}
	}
}
