// Package library makes the library by which a supervisor (nic/uapi/trap) serves
// programs where seccomp is refused: preload.c, compiled when it is first
// needed.
package library

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	_ "embed" // the library's source
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

//go:embed c/preload.c
var librarySource []byte

// LibC is the C library that a program is linked with, and for which the
// library must be compiled.
type LibC struct {
	name      string
	compilers []string
	remedy    string
}

var (
	gnu  = LibC{name: "gnu", compilers: []string{"cc", "gcc", "clang"}, remedy: "apt install gcc libc6-dev"}
	musl = LibC{name: "musl", compilers: []string{"musl-gcc", "cc", "gcc", "clang"},
		remedy: "apt install musl-tools, or apk add gcc musl-dev"}
)

// Compiled returns the library compiled for a C library: the cached one, or a
// new one that it puts there. Where there is no cache, it goes to dir.
func Compiled(dir string, libc LibC) (string, error) {
	name := fmt.Sprintf("preload-%s-%s-%x.so", runtime.GOARCH, libc.name, sha256.Sum256(librarySource))
	if cache, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(cache, "tapir")
		if os.MkdirAll(cache, 0o700) == nil && ours(cache) {
			dir = cache
		}
	}
	file := filepath.Join(dir, name)
	if ours(file) {
		return file, nil
	}
	return file, libc.compile(file)
}

// ours tells whether a file exists and nobody but this user can write it.
func ours(file string) bool {
	st, err := os.Lstat(file)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid() && st.Mode().Perm()&0o022 == 0 && st.Mode()&os.ModeSymlink == 0
}

// compiler finds one that compiles for the C library.
func (c LibC) compiler() (string, error) {
	for _, name := range c.compilers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if c.name == musl.name && name != "musl-gcc" { // what the compiler of this system is for
			if triple, err := exec.Command(path, "-dumpmachine").Output(); err != nil ||
				!bytes.Contains(triple, []byte(musl.name)) {
				continue
			}
		}
		return path, nil
	}
	if c.name == musl.name {
		return "", fmt.Errorf("compile the library to preload: the program is linked with musl, and no compiler for "+
			"that (musl-gcc, or cc of a system with musl) is in PATH: install one, for example: %s, or use "+
			"--via trap", c.remedy)
	}
	return "", fmt.Errorf("compile the library to preload: no C compiler (cc, gcc or clang) is in PATH: install "+
		"one, for example: %s", c.remedy)
}

func (c LibC) compile(file string) error {
	cc, err := c.compiler()
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "preload-*")
	if err != nil {
		return err
	}
	tmp.Close()
	defer os.Remove(tmp.Name()) // fails once it has its name
	cmd := exec.Command(cc, "-shared", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", "-U_FILE_OFFSET_BITS", "-o", tmp.Name(),
		"-x", "c", "-", "-ldl", "-lpthread")
	cmd.Stdin = bytes.NewReader(librarySource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the library to preload: %s: %w: are the C library's headers installed (%s)?\n%s", cc,
			err, c.remedy, bytes.TrimSpace(out))
	}
	if err := os.Chmod(tmp.Name(), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// maxInterpreters is how deep scripts may be interpreted by scripts.
const maxInterpreters = 5

// Of returns the C library of a program. Error: why ld.so will not preload a
// library into it.
func Of(path string) (LibC, error) {
	for range maxInterpreters {
		interpreter, err := interpreterOf(path)
		if err != nil {
			return gnu, err
		}
		if interpreter == "" {
			return linked(path)
		}
		path = interpreter
	}
	return gnu, nil // execve says it better
}

// interpreterOf is what the first line of a script names; empty: it is none.
func interpreterOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil // as an executable that may not be read: tried
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	rest, script := strings.CutPrefix(line, "#!")
	if fields := strings.Fields(rest); script && len(fields) > 0 {
		return fields[0], nil
	}
	return "", nil
}

func linked(path string) (LibC, error) {
	f, err := elf.Open(path)
	if err != nil {
		return gnu, nil // execve says it better
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 {
		return gnu,
			fmt.Errorf("%s is a 32-bit program, into which the library cannot be preloaded: use its 64-bit build", path)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if loader, err := io.ReadAll(io.LimitReader(p.Open(), 4096)); err == nil &&
			bytes.Contains(loader, []byte("ld-musl")) {
			return musl, nil
		}
		return gnu, nil
	}
	return gnu, fmt.Errorf("%s is a static program, into which nothing can be preloaded: run it with --via trap, "+
		"or use its dynamic build", path)
}
