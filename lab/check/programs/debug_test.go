package programs

import (
	"strings"
	"testing"
)

// TestDebuggers: debuggers, tracers and sanitizers work under tapir run, by each way with
// -interop, and find nothing wrong in a program that has nothing wrong.
func TestDebuggers(t *testing.T) {
	l := newLab(t)
	build := func(more ...string) string {
		return compiled(t, append(append([]string{"cc", "-g"}, more...), "testdata/ping.c", "-lrdmacm", "-libverbs")...)
	}
	plain := build()
	for _, c := range []struct {
		name, program, want string
		not                 []string // what the client must not say
	}{
		{"gdb", "gdb -batch -ex run --args " + plain, "exited normally", nil},
		{"gdb stops", "gdb -batch -x stop.gdb --args " + plain, "in main", nil},
		{"strace", "strace -f " + plain, "exited with 0", []string{"ENOSYS"}},
		{"valgrind", "valgrind --error-exitcode=9 " + plain, "ERROR SUMMARY: 0 errors", nil},
		{"ASan and UBSan", build("-fsanitize=address,undefined"), "ping 2 back", []string{"ERROR: AddressSanitizer", "runtime error"}},
		{"TSan", build("-fsanitize=thread"), "ping 2 back", []string{"WARNING: ThreadSanitizer"}},
	} {
		modes := []Mode{Auto, Trap, Preload}
		switch {
		case *interop:
		case c.name == "strace": // which makes calls while what it traces waits
			modes = []Mode{Preload}
		default:
			modes = modes[:1]
		}
		for _, m := range modes {
			t.Run(c.name+" "+m.Name, func(t *testing.T) {
				needs(t, strings.Fields(c.program)[0])
				if c.name == "valgrind" && m.Name == Preload.Name { // it sees no system call, and so not what is written there
					c.program, c.want = "valgrind "+plain, "ERROR SUMMARY"
				}
				runCell(t, l, Cell{Name: c.name, Server: plain + " -s " + IPv4, Client: c.program + " " + IPv4, Want: c.want, Not: c.not,
					Files: map[string]string{"stop.gdb": "set breakpoint pending on\nbreak rdma_disconnect\nrun\nbacktrace\ncontinue\n"}}, m)
			})
		}
	}
}
