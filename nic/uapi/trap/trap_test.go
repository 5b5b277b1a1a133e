package trap

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

const looked = `stat <nil> true 250 7
statx <nil> true 250 7
access <nil> permission denied
readlink invalid argument
fstat <nil> true 250 7
statx fd <nil> true 250 7
openat2 <nil>
openat <nil>
exclusive file exists
directory not a directory
other no such file or directory
bad pointer bad address
`

func TestLook(t *testing.T) {
	t.Parallel()
	w := newWorld().program("look")
	w.want(t, looked)
	w.allReleased(t, 3)
}

const used = `store <nil> 42
store nowhere bad address
untrapped request inappropriate ioctl for device
read resource temporarily unavailable
read <nil> <nil> ping
not the device inappropriate ioctl for device
`

func TestUse(t *testing.T) {
	t.Parallel()
	for _, procMem := range []bool{false, true} {
		w := newWorld().program("use")
		w.opt.ProcMem = procMem
		w.want(t, used)
		w.allReleased(t, 1)
	}
}

// TestStockPrograms uses dynamic programs, whose libc makes the calls.
func TestStockPrograms(t *testing.T) {
	t.Parallel()
	for _, via := range []Via{Seccomp, Preload} {
		w := newWorld()
		w.opt.Via = via
		w.opt.Argv = []string{"sh", "-c", `cd /dev; test -c tapir-test0 && stat -c '%F %t:%T' ./tapir-test0; exec 7<>tapir-test0; stat -L -c %F - <&7; true 8<&7`}
		w.want(t, "character special file fa:7\ncharacter special file\n")
		w.allReleased(t, 1)
	}
}

func TestDescriptorsWander(t *testing.T) {
	t.Parallel()
	w := newWorld().program("inherit")
	w.want(t, "dup3 1 <nil>\nclosed 0 bad file descriptor\nchild 2 <nil>\nchild 0 bad file descriptor\nparent 3 <nil>\n")
	w.allReleased(t, 1)
	w = newWorld().program("pass")
	w.want(t, "received 1 <nil>\n")
	w.allReleased(t, 1)
}

// TestEnd tells how a program ends, and that its files are released.
func TestEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
	}{{"exit", []string{"0"}, 0}, {"exit", []string{"7"}, 7}, {"die", nil, 128 + 9}} {
		if out, code := newWorld().program(c.name, c.args...).run(t); code != c.code || out != "" {
			t.Errorf("%s %v: code %d, want %d; output %q", c.name, c.args, code, c.code, out)
		}
	}
	w := newWorld()
	w.opt.Argv = []string{"sh", "-c", "exec 3<" + nodePath + "; kill -9 $$"}
	if _, code := w.run(t); code != 128+9 {
		t.Errorf("code %d", code)
	}
	w.allReleased(t, 1)
}

func TestServedUntilTheLastProcess(t *testing.T) {
	t.Parallel()
	w := newWorld().program("daemon")
	if out, code := w.run(t); code != 3 || out != "parent ends\nlate 1 <nil>\n" {
		t.Fatalf("code %d, output %q", code, out)
	}
	w.allReleased(t, 1)
}

func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := testenv.WriteProgram(plain, []byte("\x7fELF no program")); err != nil {
		t.Fatal(err)
	}
	for argv0, want := range map[string]error{
		"tapir-no-such-program": exec.ErrNotFound,
		"/etc/passwd":           unix.EACCES,
		plain:                   unix.ENOEXEC,
		"":                      exec.ErrNotFound,
	} {
		_, err := Start(Options{Argv: []string{argv0}})
		var e *NotFoundError
		if !errors.As(err, &e) || !errors.Is(err, want) {
			t.Errorf("%q: %v; want %v", argv0, err, want)
		}
	}
	if _, err := Start(Options{}); err == nil {
		t.Error("no arguments at all started something")
	}
}

// TestSignals: a command is carried out once, however often a timer's signal
// interrupts it, whether the kernel holds signals back or makes calls again.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, repeats := range []bool{false, true} {
		w := newWorld().program("count", "3000")
		w.opt.Repeats = repeats
		w.dev.slowEvery = 100
		w.once(t, 3000)
	}
}

func TestWaitIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld().program("wait")
	w.dev.enough = 3
	w.want(t, "waited <nil>\n") // SA_RESTART makes the call again each time
}

func TestSecondListener(t *testing.T) {
	t.Parallel()
	out, _ := newWorld().program("nested").run(t)
	if !strings.Contains(out, "device or resource busy") || !strings.Contains(out, "another supervisor already listens") || !strings.Contains(out, "--via preload") {
		t.Fatal(out)
	}
}

func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		if foreignBit != 0 {
			t.Fatal("only amd64 has x32")
		}
		return
	}
	getpid32 := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80}          // mov eax, 20; int 0x80
	getpidX32 := []byte{0xb8, 39, 0, 0, 0x40, 0x0f, 0x05}      // mov eax, 0x40000027; syscall
	exit0 := []byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05} // mov eax, 60; xor edi, edi; syscall
	for name, code := range map[string][]byte{"int 0x80": getpid32, "x32": getpidX32} {
		var said []string
		w := newWorld()
		program := staticELF(t, append(code, exit0...)...)
		w.opt.Argv = []string{program}
		w.opt.Logf = func(format string, _ ...any) { said = append(said, format) }
		_, got := w.run(t)
		if got == 128+int(unix.SIGSEGV) && faults(program) {
			continue // the kernel has no such calls
		}
		if got != 128+9 || len(said) != 1 || !strings.Contains(said[0], "32-bit") {
			t.Errorf("%s: code %d, said %q", name, got, said)
		}
	}
	w := newWorld()
	w.opt.Argv = []string{staticELF(t, exit0...)}
	w.want(t, "")
}

// faults tells whether a program by itself ends with SIGSEGV.
func faults(program string) bool {
	var end *exec.ExitError
	return errors.As(exec.Command(program).Run(), &end) && end.Sys().(syscall.WaitStatus).Signal() == unix.SIGSEGV
}

func TestOldKernels(t *testing.T) {
	t.Parallel()
	for release, old := range map[string]bool{
		"4.19.0-25-amd64": true, "5.4.0-150-generic": true, "5.8.18": true,
		"5.9.0": false, "5.10.0-28-amd64": false, "6.1.0": false, "custom": false,
	} {
		err := tooOld(release)
		if (err != nil) != old {
			t.Errorf("%s: %v", release, err)
		}
		if old && !strings.Contains(err.Error(), "5.9") {
			t.Errorf("%s: no remedy: %v", release, err)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for errno, want := range map[unix.Errno]string{
		unix.EBUSY: "allows one", unix.EINVAL: "CONFIG_SECCOMP_FILTER", unix.EPERM: "seccomp profile", unix.EMFILE: "too many open files",
	} {
		if err := explain(stepSeccomp, errno); !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v", err)
		}
	}
	if err := explain(stepPrivileges, unix.EPERM); !strings.Contains(err.Error(), "clock") {
		t.Errorf("%v", err)
	}
}

// TestOrdinaryUsers runs supervisors as a user without rights, as root of a
// user namespace, and as nobody with no_new_privs set before.
func TestOrdinaryUsers(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "tapir-trap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(self())
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "trap.test")
	if err := errors.Join(os.Chmod(dir, 0o755), testenv.WriteProgram(exe, data)); err != nil {
		t.Fatal(err)
	}
	prefixes := [][]string{{"unshare", "-Ur"}}
	if os.Getuid() == 0 {
		nobody := []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}
		prefixes = append(prefixes, nobody, append(nobody, "--no-new-privs"))
	}
	for _, prefix := range prefixes {
		for _, c := range []struct{ program, arg, want string }{
			{"supervise", "use", used}, {"preload", "stat -c %F " + nodePath, "character special file\n"},
		} {
			argv := append(prefix, exe, c.arg)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), programEnv+"="+c.program)
			if out, err := output(t, cmd); err != nil || out != c.want {
				t.Errorf("%v %s: %v\n%s", prefix, c.program, err, out)
			}
		}
	}
}

// TestSupervisorKilled: neither a program nor a file outlives its supervisor.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	killSupervisor(t, "supervise", "hang")
	killSupervisor(t, "preload", "echo up; while :; do sleep 0.01; done")
}

func killSupervisor(t *testing.T, program, arg string) {
	t.Helper()
	cmd, dir := exec.Command(self(), arg), t.TempDir()
	cmd.Env = append(os.Environ(), programEnv+"="+program, "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer testenv.Guard(t, cmd.Process.Pid, out.(*os.File))()
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 { // ends when the program has
		t.Errorf("%q, %v", rest, err)
	}
	_ = cmd.Wait() // killed
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestOthersOutliveIt: processes that somebody else started, and that are to die
// with the thread that started them, go on when a supervised program ends.
func TestOthersOutliveIt(t *testing.T) {
	for range 10 {
		other := exec.Command("sleep", "60")
		other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		newWorld().program("exit", "0").run(t)
		if err := other.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := other.Wait(); err == nil || err.Error() != "signal: terminated" {
			t.Fatalf("a process of another: %v", err)
		}
	}
}

func TestSystemClockIsOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld().program("caps")
	w.want(t, "false\n")
	w = newWorld().program("caps")
	w.opt.KeepSystemClock = true
	w.want(t, strconv.FormatBool(capEff()>>unix.CAP_SYS_TIME&1 == 1)+"\n")
}

func TestBadRule(t *testing.T) {
	t.Parallel()
	_, err := Start(Options{Argv: []string{"true"}, Handlers: []Handler{NewFiles(Cond{Arg: 6})}})
	if err == nil || !strings.Contains(err.Error(), "no argument 6") {
		t.Fatal(err)
	}
}

// BenchmarkCall measures system calls of a program, alone and supervised.
// Unrelated calls show what the filter costs; openat is trapped and then done
// by the kernel; served is answered here.
func BenchmarkCall(b *testing.B) {
	for _, kind := range []string{"getppid", "read", "ioctl", "openat", "served"} {
		if kind != "served" {
			b.Run(kind+"/alone", func(b *testing.B) {
				cmd := exec.Command(self(), kind, strconv.Itoa(b.N))
				cmd.Env = append(os.Environ(), programEnv+"=loop")
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				report(b, string(out))
			})
		}
		b.Run(kind+"/supervised", func(b *testing.B) {
			out, code := newWorld().program("loop", kind, strconv.Itoa(b.N)).run(b)
			if code != 0 {
				b.Fatal(out)
			}
			report(b, out)
		})
	}
}

func report(b *testing.B, out string) {
	ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ns, "ns/op")
}
