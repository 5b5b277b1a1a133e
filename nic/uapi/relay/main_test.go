package relay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/loop"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// nodeEnv makes this binary the NIC's process.
const nodeEnv = "TAPIR_TEST_NODE"

// superviseEnv makes this binary the supervisor of the program with these
// arguments: the name of a way, and the path of the node.
const superviseEnv = "TAPIR_TEST_SUPERVISE"

// program is the file of testdata/toy.c.
var program string

func TestMain(m *testing.M) {
	trap.Launched()
	if path := os.Getenv(nodeEnv); path != "" {
		os.Exit(beNode(path))
	}
	if name, path, ok := strings.Cut(os.Getenv(superviseEnv), ":"); ok {
		os.Exit(beSupervisor(name, path))
	}
	traptest.Main(m, nil, compile)
}

func compile(dir string) {
	program = filepath.Join(dir, "toy")
	if out, err := exec.Command("cc", "-O1", "-pthread", "-o", program, "testdata/toy.c").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("cc: %v\n%s", err, out))
	}
}

// Commands of the toy device: number, argument, address of the answer.
const (
	opEcho    = iota + 1 // answers the argument plus one
	opFail               // fails with that errno
	opPark               // waits for opUnpark, on the same device
	opUnpark             // answers how many it woke
	opPipe               // answers the number of a new descriptor, from which "hello" can be read
	opRegion             // registers memory at the argument, of regionLen octets
	opFill               // fills the region with its offsets; answers whether that went well
	opSum                // answers the sum of the region's octets
	opFlags              // answers 1 if the descriptor does not block
	opProcess            // answers the id of the process
	opDie                // ends the NIC's process
	opEnd                // ends the device's loop
	opHere               // answers 1 if the device's loop has received the command
	opMallocs            // answers how often the process has allocated memory
	opCount              // answers how often it was made, on this file
	opTell               // writes an octet to the pipe of opListen
	opListen             // answers the number of a new descriptor, a pipe; 1: with last words, 2: which are revoked
	opWaiting            // answers how many commands wait, on the same device
	opRang               // answers how often doorbells of the file were rung
)

const regionLen = 3*4096 + 17

type toyCommand struct{ Op, Arg, Answer uint64 }

// toy is a device of a loop.
type toy struct {
	home  *home
	files map[*toyFile]bool
	says  io.Writer
	name  string
}

type toyFile struct {
	d      *toy
	fd     int
	waits  []abi.Caller
	count  uint64
	region verbs.Memory
	pipe   int
	rang   uint64
}

func (f *toyFile) SetBells(*doorbell.Bells) {}
func (f *toyFile) Rung(int)                 { f.rang++ }

func (d *toy) open(_ abi.Caller, flags int) (abi.File, int, error) {
	if flags&unix.O_DIRECT != 0 {
		return nil, -1, unix.EBUSY // to see an errno of it
	}
	fd, err := unix.MemfdCreate("toy", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, err
	}
	program, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC|flags&unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, err
	}
	f := &toyFile{d: d, fd: fd}
	d.files[f] = true
	return f, program, nil
}

func (f *toyFile) Close() {
	unix.Close(f.fd)
	delete(f.d.files, f)
	fmt.Fprintf(f.d.says, "closed %s\n", f.d.name)
}

// Ioctl implements abi.File.
func (*toyFile) Ioctl(abi.Caller, uint64, []byte) error { return syscall.ENOTTY }

func (f *toyFile) Cancel(c abi.Caller) bool {
	for i, have := range f.waits {
		if have == c {
			f.waits = append(f.waits[:i], f.waits[i+1:]...)
			fmt.Fprintf(f.d.says, "cancelled %s\n", f.d.name)
			return true
		}
	}
	return false
}

func (f *toyFile) Command(c abi.Caller, b []byte) error {
	var cmd toyCommand
	if len(b) != int(unsafe.Sizeof(cmd)) {
		return unix.EINVAL
	}
	cmd = toyCommand{binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])}
	v, err := f.serve(c, cmd)
	if err != nil || cmd.Answer == 0 {
		return err
	}
	return c.Write(cmd.Answer, binary.NativeEndian.AppendUint64(nil, v))
}

func (f *toyFile) serve(c abi.Caller, cmd toyCommand) (uint64, error) {
	switch cmd.Op {
	case opEcho:
		return cmd.Arg + 1, nil
	case opFail:
		return 0, syscall.Errno(cmd.Arg)
	case opPark:
		f.waits = append(f.waits, c)
		fmt.Fprintf(f.d.says, "parked %s\n", f.d.name)
		return 0, abi.Later
	case opUnpark:
		n := uint64(0)
		for have := range f.d.files {
			have.waits = slices.DeleteFunc(have.waits, func(c abi.Caller) bool {
				waits := c.Waits()
				if waits {
					c.Done(nil)
					n++
				}
				return waits
			})
		}
		return n, nil
	case opPipe:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return 0, err
		}
		unix.Write(p[1], []byte("hello"))
		unix.Close(p[1])
		n, err := c.Install(p[0], int(cmd.Arg))
		return uint64(n), err
	case opListen:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return 0, err
		}
		f.pipe = p[1]
		_ = unix.SetNonblock(p[0], false)
		if cmd.Arg > 0 {
			revoke := c.(abi.LastWords).LastWords(p[1], []byte("bye"))
			if cmd.Arg > 1 {
				revoke()
			}
		}
		n, err := c.Install(p[0], 0)
		return uint64(n), err
	case opTell:
		_, err := unix.Write(f.pipe, []byte("x"))
		return 0, err
	case opRegion:
		m, err := c.Region(cmd.Arg, regionLen, true)
		if err == nil {
			f.region = m
		}
		return 0, err
	case opCount:
		f.count++
		for end := time.Now().Add(3 * time.Millisecond); f.count%25 == 0 && c.Waits() && time.Now().Before(end); {
		} // until a signal interrupts it, on an old kernel
		return f.count, nil
	case opWaiting:
		n := 0
		for have := range f.d.files {
			for _, c := range have.waits {
				if c.Waits() {
					n++
				}
			}
		}
		return uint64(n), nil
	case opRang:
		return f.rang, nil
	case opFlags:
		if c.Nonblocking() {
			return 1, nil
		}
		return 0, nil
	case opProcess:
		return uint64(c.Process()), nil
	case opDie:
		os.Exit(3)
	case opEnd:
		f.d.home.cancel()
		return 0, nil
	case opHere:
		if in := c.(*caller).in; in != nil && in.home == Thread(f.d.home) {
			return 1, nil
		}
		return 0, nil
	case opMallocs:
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Mallocs, nil
	}
	return f.serveRegion(cmd)
}

func (f *toyFile) serveRegion(cmd toyCommand) (uint64, error) {
	switch {
	case f.region == nil:
		return 0, unix.EINVAL
	case cmd.Op == opFill:
		b := make([]byte, regionLen)
		for i := range b {
			b[i] = byte(i)
		}
		if f.region.WriteAt(b[:100], 0) != nil || f.region.WriteAt(b[100:], 100) != nil {
			return 0, nil
		}
		return 1, nil
	}
	var sum uint64
	b := make([]byte, regionLen)
	if err := f.region.ReadAt(b, 0); err != nil {
		return 0, err
	}
	for _, v := range b {
		sum += uint64(v)
	}
	return sum, nil
}

// home is a loop without a NIC. What it was given to do it does in order, also
// after the loop's end.
type home struct {
	*loop.Loop
	cancel context.CancelFunc
	mu     sync.Mutex
	mail   []func(now frame.Time)
	ended  bool
	turn   sync.Mutex // after the end
}

func (h *home) Do(fn func(now frame.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mail = append(h.mail, fn)
	if h.ended {
		go h.drain()
	} else {
		h.Loop.Do(func(frame.Time) { h.drain() })
	}
}

func (h *home) drain() {
	h.turn.Lock()
	defer h.turn.Unlock()
	h.mu.Lock()
	mail := h.mail
	h.mail = nil
	h.mu.Unlock()
	for _, fn := range mail {
		fn(0)
	}
}

func (h *home) run(ctx context.Context) {
	h.Loop.Run(ctx)
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.drain()
}

func (h *home) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) func() {
	s := h.Loop.AddSource(fd, serve, lost)
	return func() { h.Loop.RemoveSource(s) }
}

func (h *home) AddBell(fd int, b proxy.Doorbells) func() { return h.Loop.AddBell(fd, b, func() {}) }

// idle is no NIC.
type idle struct{}

func (idle) Receive(frame.Port, []*frame.Frame, frame.Time) {}
func (idle) Dispatch(frame.Time) bool                       { return false }
func (idle) Poll(frame.Time) frame.Time                     { return frame.Never }
func (idle) TxDone(_ uint64, _, _ frame.Time) bool          { return false }

// beNode serves two toys, each on a loop of its own, until its standard input
// ends.
func beNode(path string) int {
	devices := map[string]Device{}
	for _, name := range []string{"toy0", "toy1"} {
		l, err := loop.New(loop.Config{})
		if err != nil {
			panic(err)
		}
		l.SetEngine(idle{})
		ctx, cancel := context.WithCancel(context.Background())
		h := &home{Loop: l, cancel: cancel}
		go h.run(ctx)
		d := &toy{home: h, files: map[*toyFile]bool{}, says: os.Stdout, name: name}
		devices[name] = Device{Open: d.open, Thread: d.home}
	}
	s, err := Listen(path)
	if err != nil {
		panic(err)
	}
	s.Log = os.Stdout
	s.Serve(func(a Ask) (map[string]Device, error) {
		if len(a.NICs) > 0 && a.NICs[0] == "strange" {
			return nil, &Refused{What: "strange is not here", Remedy: "start it here"}
		}
		return devices, nil
	})
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Close()
	return 0
}

// nodeProcess is the NIC's process.
type nodeProcess struct {
	cmd  *exec.Cmd
	path string
	says *bufio.Scanner
	end  io.Closer
}

func startNode(t testing.TB) *nodeProcess {
	t.Helper()
	n := &nodeProcess{path: filepath.Join(t.TempDir(), "toy.run")}
	exe, err := os.Executable()
	must(t, err)
	n.cmd = exec.Command(exe)
	n.cmd.Env = append(os.Environ(), nodeEnv+"="+n.path)
	n.cmd.Stderr = os.Stderr
	in, err := n.cmd.StdinPipe()
	must(t, err)
	out, err := n.cmd.StdoutPipe()
	must(t, err)
	must(t, n.cmd.Start())
	n.end, n.says = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		in.Close()
		defer testenv.Guard(t, n.cmd.Process.Pid, nil)()
		var exit *exec.ExitError
		if err := n.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	})
	n.hear(t, "ready")
	return n
}

// hear waits for the node to say these lines, in this order.
func (n *nodeProcess) hear(t testing.TB, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if got := n.next(t); got != want {
			t.Fatalf("the node says %q, want %q", got, want)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hearBoth waits for both toys to say so, in either order.
func (n *nodeProcess) hearBoth(t testing.TB, what string) {
	t.Helper()
	var said []string
	for range 2 {
		said = append(said, n.next(t))
	}
	slices.Sort(said)
	if want := []string{what + " toy0", what + " toy1"}; !slices.Equal(said, want) {
		t.Fatalf("the node says %q, want %q", said, want)
	}
}

// next is what the node says next.
func (n *nodeProcess) next(t testing.TB) string {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { n.cmd.Process.Signal(unix.SIGQUIT) }) // then it says where its goroutines are
	if !n.says.Scan() {
		t.Fatalf("the node has ended; by itself: %v", late.Stop())
	}
	late.Stop()
	return n.says.Text()
}

// way is how a program's calls come to the node.
type way struct {
	name    string
	via     trap.Via
	procMem bool
	repeats bool
}

var ways = []way{{name: "seccomp"}, {name: "preload", via: trap.Preload}, {name: "proc mem", procMem: true}, {name: "old kernel", repeats: true}}

// run is a supervised program.
type run struct {
	*trap.Program
	client *Client
	out    *os.File
}

// start runs the program with these arguments on the node's devices.
func (n *nodeProcess) start(t testing.TB, w way, args ...string) *run {
	t.Helper()
	c, err := dial(n.path, w)
	must(t, err)
	r := supervise(t, w, c, args...)
	r.client = c
	return r
}

func dial(path string, w way) (*Client, error) {
	c, err := Dial(context.Background(), path, Ask{})
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"toy0", "toy1", "gone"} {
		c.Add("/dev/tapir-"+name, name, trap.Stat{Mode: unix.S_IFCHR | 0o600, Rdev: unix.Mkdev(231, uint32(192+i))})
	}
	return c, nil
}

// beSupervisor runs the program that its arguments name.
func beSupervisor(name, path string) int {
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
	c, err := dial(path, w)
	if err != nil {
		panic(err)
	}
	p, err := trap.Start(trap.Options{Argv: os.Args[1:], Stdout: os.Stdout, Handlers: []trap.Handler{c}, Via: w.via})
	if err != nil {
		panic(err)
	}
	code, err := p.Wait()
	if err != nil {
		panic(err)
	}
	c.Close()
	return code
}

func supervise(t testing.TB, w way, h trap.Handler, args ...string) *run {
	t.Helper()
	r, pw, err := os.Pipe()
	must(t, err)
	p, err := trap.Start(trap.Options{Argv: append([]string{program}, args...),
		Stdout: pw, Stderr: pw, Handlers: []trap.Handler{h}, Via: w.via, ProcMem: w.procMem, Repeats: w.repeats})
	pw.Close()
	must(t, err)
	return &run{p, nil, r}
}

// end waits for the program's end and returns what it printed.
func (r *run) end(t testing.TB) (out string, code int) {
	t.Helper()
	defer testenv.Guard(t, r.PID(), r.out)()
	text, err := io.ReadAll(r.out)
	must(t, err)
	code, err = r.Wait()
	must(t, err)
	if r.client != nil {
		r.client.Close()
	}
	r.out.Close()
	return strings.TrimSpace(string(text)), code
}

func (r *run) want(t testing.TB, want string) {
	t.Helper()
	if out, code := r.end(t); out != want || code != 0 {
		t.Fatalf("exit code %d, output\n%s\nwant\n%s", code, out, want)
	}
}
