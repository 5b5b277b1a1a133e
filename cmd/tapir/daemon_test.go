package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is a process of tapir that runs in the foreground.
type daemon struct {
	t   *testing.T
	env []string
	cmd *exec.Cmd

	mu   sync.Mutex
	text bytes.Buffer // standard output and error
	over bool
}

// Write implements io.Writer.
func (d *daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

// gone tells whether the process has ended.
func (d *daemon) gone() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

func (d *daemon) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// await returns the first match of a pattern in what the process says.
func (d *daemon) await(pattern string) string {
	d.t.Helper()
	want := regexp.MustCompile(pattern)
	for range 1200 {
		if d.gone() {
			break
		}
		if found := want.FindStringSubmatch(d.said()); found != nil {
			return found[len(found)-1]
		}
		time.Sleep(25 * time.Millisecond)
	}
	d.t.Fatalf("%v does not say %q:\n%s", d.cmd.Args, pattern, d.said())
	return ""
}

// world has a runtime directory and the binary of a test.
func world(t *testing.T) (env []string, bin string) {
	t.Helper()
	if !canTAP() {
		t.Skip("needs the right to make TAPs and a network namespace: run as root")
	}
	dir, err := os.MkdirTemp("", "tapir-daemon") // t.TempDir may be longer than a socket path can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "bin", "tapir")
	if err := os.Mkdir(filepath.Dir(bin), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, bin); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir), bin
}

// start runs a line of sh, in which $tapir is the binary, as one process.
func start(t *testing.T, line string) *daemon {
	t.Helper()
	env, bin := world(t)
	return startIn(t, append(env, "tapir="+bin), line)
}

func startIn(t *testing.T, env []string, line string) *daemon {
	t.Helper()
	d := &daemon{t: t, env: env, cmd: exec.Command("sh", "-c", line)}
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = env, d, d
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGCONT)
		d.end(syscall.SIGINT)
	})
	return d
}

// end sends a signal and returns the exit code.
func (d *daemon) end(sig syscall.Signal) int {
	if !d.over {
		_ = d.cmd.Process.Signal(sig)
	}
	return d.wait()
}

// wait returns the exit code.
func (d *daemon) wait() int {
	d.t.Helper()
	if d.over {
		return d.cmd.ProcessState.ExitCode()
	}
	late := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
	_ = d.cmd.Wait() // its exit code says it
	d.over = true
	if !late.Stop() {
		d.t.Errorf("%v did not end in a minute:\n%s", d.cmd.Args, d.said())
	}
	return d.cmd.ProcessState.ExitCode()
}

// run runs another line of sh to its end.
func (d *daemon) run(line string) (text string, code int) {
	d.t.Helper()
	r := startIn(d.t, d.env, line)
	code = r.wait()
	return r.said(), code
}

// ok is run of a line that must succeed.
func (d *daemon) ok(line string) string {
	d.t.Helper()
	text, code := d.run(line)
	if code != 0 {
		d.t.Errorf("%s: exit code %d\n%s", line, code, text)
	}
	return text
}

func (d *daemon) socket(name string) string {
	for _, v := range d.env {
		if dir, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			return filepath.Join(dir, "tapir", name) // the last one counts, and is ours
		}
	}
	return ""
}

// Clients that connect and say nothing are closed after a time, and keep nobody
// else out meanwhile, though there are few descriptors.
func TestSilentClients(t *testing.T) {
	d := start(t, "ip link set lo up; ulimit -n 64; exec $tapir nic --tap quiet0 --ip 10.0.0.1/24 --metrics 0")
	url := d.await(`metrics (http\S+)`)
	var silent []net.Conn
	connect := func(network, address string) {
		for range 100 {
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, c)
		}
	}
	connect("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics"))
	connect("unix", d.socket("nic0.sock"))
	connect("unixpacket", d.socket("nic0.run"))
	d.ok("$tapir show nic0")
	if text := d.ok("$tapir run -- sh -c 'test -e /sys/class/infiniband/rxe0 && echo served'"); !strings.Contains(text, "served") {
		t.Errorf("the program is not served: %s", text)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "tapir_") {
		t.Errorf("metrics: %s, %v", resp.Status, err)
	}
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
			t.Fatal("a silent connection is not closed")
		}
		c.Close()
	}
}

// A NIC that has run out of descriptors says so, and serves clients again when
// there are some.
func TestOutOfDescriptors(t *testing.T) {
	d := start(t, "ip link set lo up; exec $tapir nic --tap full0 --ip 10.0.0.1/24 --metrics 0")
	url := d.await(`metrics (http\S+)`)
	d.ok("$tapir run -- true")
	pid := d.cmd.Process.Pid
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	full := unix.Rlimit{Max: old.Max}
	for { // up to the first number that is free
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, full.Cur)); err != nil {
			break
		}
		full.Cur++
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &full, nil); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ name, network, address string }{
		{"the control socket of nic0", "unix", d.socket("nic0.sock")},
		{"the socket of tapir run", "unixpacket", d.socket("nic0.run")},
		{"the metrics", "tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")},
	} {
		said := regexp.MustCompile(of.name + ": (cannot accept: )?too many open files: raise ulimit -n")
		for n := 0; !said.MatchString(d.said()); n++ { // what the NIC still closed is taken again by a few
			if n == 100 {
				t.Fatalf("%s does not say that it is out of descriptors:\n%s", of.name, d.said())
			}
			c, err := net.Dial(of.network, of.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			time.Sleep(25 * time.Millisecond)
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	d.ok("$tapir show nic0")
	d.ok("$tapir run -- true")
	if resp, err := http.Get(url); err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
	}
}

// connects waits until the process has a socket.
func (d *daemon) connects() {
	d.t.Helper()
	for range 1200 {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.cmd.Process.Pid))
		for _, f := range files {
			if to, _ := os.Readlink(f); strings.HasPrefix(to, "socket:") {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatalf("%v has no socket", d.cmd.Args)
}

// While a NIC is stopped, tapir run and its program end at a signal, in every
// phase, and say what the matter is.
func TestStoppedNIC(t *testing.T) {
	d := start(t, "exec $tapir nic --tap stop0 --ip 10.0.0.1/24")
	d.await("ready")
	pid := d.cmd.Process.Pid
	why := fmt.Sprintf("NIC nic0 does not answer: its process %d is stopped: continue it with: kill -CONT %[1]d", pid)
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := d.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	run := func(what string, ready func(r *daemon), code int, said string) string {
		t.Helper()
		r := startIn(t, d.env, "exec $tapir run "+what)
		ready(r)
		if !strings.HasPrefix(what, "-- true") {
			signal(syscall.SIGSTOP)
		}
		if got := r.end(syscall.SIGTERM); got != code || !strings.Contains(r.said(), said) {
			t.Errorf("tapir run %s: exit code %d, want %d and %q:\n%s", what, got, code, said, r.said())
		}
		signal(syscall.SIGCONT)
		return r.said()
	}
	listens := func(*daemon) {
		for range 600 {
			if text, _ := d.run("$tapir show nic0 cep"); strings.Contains(text, "listening") {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal("rping does not listen")
	}
	run("-- rping -s", listens, 128+15, "")
	run("--via preload -- rping -s", listens, 128+15, "")
	// The shell handles the signal when its call has failed.
	opens := `-- sh -c 'trap "echo caught; exit 7" TERM; while :; do { true </dev/infiniband/rdma_cm; } 2>/dev/null && echo open || sleep 0.1; done'`
	run(opens, func(r *daemon) { r.await("open") }, 7, "caught")
	const failed = "NIC nic0 does not answer: the program's calls fail from now on\ncaught"
	for n := 0; !strings.Contains(run("--via preload "+opens, func(r *daemon) { r.await("open") }, 7, "caught"), failed); n++ {
		if n == 100 { // the signal came while the shell slept
			t.Fatalf("never said: %q", failed)
		}
	}

	signal(syscall.SIGSTOP)
	if text, code := d.run("$tapir run -- true"); code != 1 || !strings.Contains(text, why) {
		t.Errorf("exit code %d: %s", code, text)
	}
	run("-- true", func(r *daemon) { r.connects() }, 1, "interrupted before the program was started")
	d.ok("$tapir run -- true")
}

// At SIGHUP NICs follow their file: what can change while they run is set, the
// rest is named, and a mistake changes nothing. Without a file they end in order.
func TestHangup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nics.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("nics:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("  - {name: a, tap: hup0, ip: 10.0.0.1/24}\n  - {name: b, tap: hup1, ip: 10.0.1.1/24}\n")
	d := start(t, "exec $tapir nic -c "+file)
	d.await("ready b")
	d.ok("$tapir set a tcp_nodelay=0")
	times := 0
	hangup := func(want ...string) {
		t.Helper()
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		times++
		d.await(fmt.Sprintf(`(?s)(nics.yaml: (not )?reloaded.*?){%d}`, times))
		for _, w := range want {
			if !strings.Contains(d.said(), w) {
				t.Errorf("%q is missing:\n%s", w, d.said())
			}
		}
	}
	value := func(nic, name string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + name + `\s+(\S+)\s`).FindStringSubmatch(d.ok("$tapir show " + nic + " params"))
		if found == nil {
			return ""
		}
		return found[1]
	}
	was := value("a", "ird")
	write("  - {name: a, tap: hup0, ip: 10.0.0.1/24, ird: 7, ord: oops}\n")
	hangup(file+":2:", "ord", "not reloaded")
	if got := value("a", "ird"); got != was {
		t.Errorf("a mistake in the file has set ird to %s", got)
	}
	write("  - {name: a, tap: hup0, ip: 10.0.0.2/24, mtu: 1400, ird: 7}\n  - {name: c, tap: hup2, ip: 10.0.2.1/24}\n")
	hangup("a: ip, mtu needs a restart", "c is new: it needs a restart", "b is not there any more")
	if got, kept := value("a", "ird"), value("a", "tcp_nodelay"); got != "7" || kept != "0" {
		t.Errorf("ird %s, tcp_nodelay %s", got, kept)
	}
	d.ok("$tapir show b")
	if code := d.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	plain := start(t, "exec env --default-signal=HUP $tapir nic --tap hup3 --ip 10.0.0.1/24")
	plain.await("ready")
	if code := plain.end(syscall.SIGHUP); code != 0 {
		t.Errorf("without a file: exit code %d: %s", code, plain.said())
	}
	if _, err := os.Lstat(plain.socket("nic0.sock")); err == nil {
		t.Error("without a file: the control socket is left")
	}
	ignoring := startIn(t, plain.env, "exec nohup $tapir nic --tap hup4 --ip 10.0.0.1/24")
	ignoring.await("ready")
	if err := ignoring.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ignoring.ok("$tapir show nic0")
}

// A TAP that is renamed has its new name everywhere, and its link state counts.
func TestRenamedTAP(t *testing.T) {
	d := start(t, "exec $tapir nic --tap before0 --host-tap hostbefore0 --ip 10.0.0.1/24")
	d.await("ready")
	d.ok("ip link set before0 down && ip link set before0 name after0 && ip link set after0 up")
	d.ok("ip link set hostbefore0 down && ip link set hostbefore0 name hostafter0 && ip link set hostafter0 up")
	for _, c := range []struct{ line, want string }{
		{"$tapir show nic0", `\bafter0\b(?s:.*)hostafter0`}, {"$tapir ethtool -i nic0", `\bafter0\b`}, {"$tapir devlink port show nic0", `\bhostafter0\b`},
	} {
		text, want := "", regexp.MustCompile(c.want)
		for range 600 {
			if text, _ = d.run(c.line); want.MatchString(text) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !want.MatchString(text) || strings.Contains(text, "before0") {
			t.Errorf("%s:\n%s", c.line, text)
		}
	}
	link := func(state string) {
		t.Helper()
		for range 600 {
			if text, _ := d.run("$tapir ethtool nic0"); strings.Contains(text, "Link detected: "+state) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("the link is not %q", state)
	}
	link("yes")
	d.ok("ip link set after0 down")
	link("no")
	d.ok("ip link set after0 up")
	link("yes")
}

// What tapir run leaves behind when it is killed goes with the next one.
func TestKilledRun(t *testing.T) {
	d := start(t, "exec $tapir nic --tap kill0 --ip 10.0.0.1/24")
	d.await("ready")
	left := func() (found []string) {
		dirs, err := filepath.Glob(filepath.Join(filepath.Dir(d.socket("")), "tapir-*"))
		if err != nil {
			t.Fatal(err)
		}
		return dirs
	}
	r := startIn(t, d.env, "exec $tapir run --via preload -- sh -c 'echo up; exec sleep 1000'")
	r.await("up")
	if len(left()) == 0 {
		t.Fatal("a run has no directory")
	}
	if err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL); err != nil { // with its launcher
		t.Fatal(err)
	}
	r.wait()
	d.ok("$tapir run --via preload -- true")
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("left: %q", dirs)
	}
}
