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
	"errors"
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

// Compiled returns the compiled library: the cached one, or a new one that it
// puts there. Where there is no cache, it goes to dir.
func Compiled(dir string) (string, error) {
	name := fmt.Sprintf("preload-%s-%x.so", runtime.GOARCH, sha256.Sum256(librarySource))
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
	return file, compile(file)
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

func compile(file string) error {
	cc := ""
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			cc = path
			break
		}
	}
	if cc == "" {
		return errors.New("compile the library to preload: no C compiler (cc, gcc or clang) is in PATH: install one, for example: apt install gcc libc6-dev")
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "preload-*")
	if err != nil {
		return err
	}
	tmp.Close()
	defer os.Remove(tmp.Name()) // fails once it has its name
	cmd := exec.Command(cc, "-shared", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", "-U_FILE_OFFSET_BITS", "-o", tmp.Name(), "-x", "c", "-", "-ldl", "-lpthread")
	cmd.Stdin = bytes.NewReader(librarySource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the library to preload: %s: %w: are the C library's headers installed (apt install libc6-dev)?\n%s", cc, err, bytes.TrimSpace(out))
	}
	if err := os.Chmod(tmp.Name(), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// maxInterpreters is how deep scripts may be interpreted by scripts.
const maxInterpreters = 5

// Check tells why ld.so will not preload a library into a program, if so.
func Check(path string) error {
	for range maxInterpreters {
		interpreter, err := interpreterOf(path)
		if err != nil {
			return err
		}
		if interpreter == "" {
			return linked(path)
		}
		path = interpreter
	}
	return nil // execve says it better
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

func linked(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return nil // execve says it better
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("%s is a 32-bit program, into which the library cannot be preloaded: use its 64-bit build", path)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fmt.Errorf("%s is a static program, into which nothing can be preloaded: run it with --via seccomp, or use its dynamic build", path)
}
