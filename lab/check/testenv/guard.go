package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long tests wait for what does not come. It is far from what
// a loaded machine needs.
var patience = time.Minute

// Guard watches over a wait for a program: for process pid with its
// descendants and, if out is not nil, for whoever has the pipe open that out
// is an end of. If the wait has not been left by done after a minute, the test
// fails with what every thread of them does and where this process's
// goroutines are, and they are killed. If that ends nothing, the test binary
// panics.
func Guard(t testing.TB, pid int, out *os.File) (done func()) {
	t.Helper()
	over, ended := make(chan struct{}), make(chan struct{})
	link := pipeOf(out)
	go func() {
		defer close(ended)
		select {
		case <-over:
			return
		case <-time.After(patience):
		}
		found := waitedFor(pid, link)
		text := fmt.Sprintf("process %d does not end:\n%s\n%s", pid, threads(found), Goroutines())
		fmt.Fprintln(os.Stderr, text) // the test's own messages are lost if it never ends
		t.Errorf("%s", text)
		for _, p := range found {
			_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended
		}
		select {
		case <-over:
		case <-time.After(time.Minute):
			panic(fmt.Sprintf("process %d was killed, and this still waits", pid))
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-ended
	})
}

// Await receives from c what comes within a minute, or fails.
func Await[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s\n%s", what, Goroutines())
	}
	return v
}

// Goroutines says where those of this process are.
func Goroutines() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a Builder takes everything
	return b.String()
}

// pipeOf is how /proc names the pipe that a file is an end of, "" if none.
func pipeOf(f *os.File) (link string) {
	if f == nil {
		return ""
	}
	raw, err := f.SyscallConn() // Fd would make it block
	if err == nil {
		err = raw.Control(func(fd uintptr) { link, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	}
	if err != nil || !strings.HasPrefix(link, "pipe:") {
		return ""
	}
	return link
}

// waitedFor finds the process, its descendants, and the others that have the
// pipe.
func waitedFor(pid int, link string) (found []int) {
	parents := map[int]int{}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		p, _ := strconv.Atoi(filepath.Base(name))
		parents[p], _ = strconv.Atoi(field(name+"/status", "PPid"))
	}
	for p := range parents {
		mine := p != os.Getpid() && link != "" && has(p, link)
		for up := p; up > 0 && !mine; up = parents[up] {
			mine = up == pid
		}
		if mine {
			found = append(found, p)
		}
	}
	slices.Sort(found)
	return found
}

func has(pid int, link string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(fds, func(name string) bool {
		to, _ := os.Readlink(name)
		return to == link
	})
}

// field is one of a status file of proc(5).
func field(file, key string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// threads tells what those of the processes do.
func threads(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&b, "process %d of %s: %s\n", pid, field(fmt.Sprintf("/proc/%d/status", pid), "PPid"),
			strings.ReplaceAll(strings.TrimRight(string(argv), "\x00"), "\x00", " "))
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			fmt.Fprintf(&b, "  thread %s:", filepath.Base(task))
			for _, key := range []string{"State", "SigPnd", "ShdPnd", "SigBlk", "SigCgt"} {
				fmt.Fprintf(&b, " %s %s", key, field(task+"/status", key))
			}
			call, _ := os.ReadFile(task + "/syscall")
			where, _ := os.ReadFile(task + "/wchan")
			fmt.Fprintf(&b, ", system call %s, in %s\n", strings.TrimSpace(string(call)), where)
		}
	}
	return b.String()
}
