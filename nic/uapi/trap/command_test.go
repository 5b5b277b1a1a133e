package trap

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

const commandPath = "/dev/tapir-test1"

// Commands of the test's command device: struct {op, answer u64}.
const (
	cmdCount = 1 + iota // answers how often it was made, from 1
	cmdPipe             // answers a descriptor where "ping" is to be read
	cmdWait             // waits for a signal
)

// commander is a device that is written to.
type commander struct {
	calls    atomic.Int64
	opened   atomic.Int64
	twice    atomic.Int64 // releases of what was released
	released chan struct{}
}

func (d *commander) Stat() Stat { return Stat{Mode: unix.S_IFCHR | 0o666, Rdev: unix.Mkdev(231, 192)} }

func (d *commander) Open(int) (File, error) {
	held, err := unix.MemfdCreate("commander", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	const size = 1 << 40
	if err := unix.Ftruncate(held, size); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(held), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK); err != nil {
		return nil, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", held), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		return nil, err
	}
	d.opened.Add(1)
	return &commandFile{d: d, fd: fd, held: held}, nil
}

type commandFile struct {
	d        *commander
	fd, held int
	over     sync.Once
}

func (f *commandFile) Descriptor() (fd, held int) { return f.fd, f.held }

func (f *commandFile) Ioctl(*Call, uint32, uint64) Answer { return Fail(unix.EIO) } // never trapped

func (f *commandFile) Release() {
	once := false
	f.over.Do(func() { once = true })
	if !once {
		f.d.twice.Add(1)
		return
	}
	unix.Close(f.held)
	f.d.released <- struct{}{}
}

func (f *commandFile) Write(c *Call, addr, n uint64) Answer {
	if n != 16 {
		return Fail(unix.EINVAL)
	}
	cmd, err := Get[[2]uint64](c, addr)
	if err != nil {
		return Fail(err)
	}
	var answer int64
	switch cmd[0] {
	case cmdCount:
		answer = f.d.calls.Add(1)
	case cmdPipe:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return Fail(err)
		}
		_, _ = unix.Write(p[1], []byte("ping"))
		unix.Close(p[1])
		number, err := c.Install(p[0], 0, Lowest)
		if err != nil {
			return Fail(err)
		}
		answer = int64(number)
	case cmdWait:
		Park(c, func() { c.Finish(Restart()) })
		return Later()
	}
	if err := Put(c, cmd[1], &answer); err != nil {
		return Fail(err)
	}
	return Return(int64(n))
}

// commands is a world whose program is a part of testdata/commands.c.
func commands(t testing.TB, part string, n int, args ...string) (*world, *commander) {
	t.Helper()
	file, err := commandProgram()
	if err != nil {
		t.Fatal(err)
	}
	return commandWorld(file, part, append([]string{strconv.Itoa(n)}, args...)...)
}

func commandWorld(file, part string, args ...string) (*world, *commander) {
	d := &commander{released: make(chan struct{}, 10000)}
	files := NewFiles()
	files.ServeWrites()
	files.Add(commandPath, d)
	w := &world{opt: Options{Handlers: []Handler{files}, Argv: append([]string{file, part}, args...)}}
	return w, d
}

// allReleased waits for the release of all files, each once.
func (d *commander) allReleased(t *testing.T) {
	t.Helper()
	for range d.opened.Load() {
		testenv.Await(t, d.released, "the release of a file")
	}
	time.Sleep(time.Millisecond) // for those that there must not be
	if n := len(d.released); n > 0 || d.twice.Load() > 0 {
		t.Errorf("%d files are released twice, %d too often", d.twice.Load(), n)
	}
}

// ways are the ways in which calls and memory are reached.
var ways = []Options{{}, {ProcMem: true}, {Repeats: true}, {Via: Preload}}

func eachWay(t *testing.T, test func(t *testing.T, way Options)) {
	for _, way := range ways {
		t.Run(fmt.Sprintf("%v,mem=%v,repeats=%v", way.Via, way.ProcMem, way.Repeats), func(t *testing.T) {
			t.Parallel()
			test(t, way)
		})
	}
}

func (w *world) by(way Options) {
	w.opt.Via, w.opt.ProcMem, w.opt.Repeats = way.Via, way.ProcMem, way.Repeats
}

const commandsUsed = `open 0 1
fstat 0 20666
ioctl -1 Inappropriate ioctl for device
count 1
bad pointer -1 Bad address
bad length -1 Invalid argument
pipe 1 4 ping
dup 1 2 3, 0 1 0
count 2 3 4
dup2 9 5
dup3 9 6
outside Operation not permitted, Operation not permitted
inside 7
mmap 1
other 7
child 8
0: -9
1: 9
2: -9
3: 10
`

func TestCommands(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way Options) {
		w, d := commands(t, "use", int(Reserved().First))
		w.by(way)
		w.want(t, commandsUsed)
		d.allReleased(t)
	})
}

func TestReservedRangeIsFull(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way Options) {
		w, d := commands(t, "full", int(Reserved().First))
		w.by(way)
		w.want(t, "64 descriptors: Too many open files\nopen -1 Too many open files\nagain 7 1\nlimit 1\n")
		d.allReleased(t)
	})
}

// TestCommandsOnce: a command is carried out once, however often a timer's
// signal interrupts it.
func TestCommandsOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way Options) {
		const n = 2000
		w, d := commands(t, "timer", n)
		w.by(way)
		w.once(t, n)
		d.allReleased(t)
	})
}

// openElsewhere opens the device and has files serve it.
func (d *commander) openElsewhere(files *Files, flags int) (fd int, f *commandFile, err error) {
	opened, err := d.Open(flags)
	if err != nil {
		return -1, nil, err
	}
	f = opened.(*commandFile)
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return -1, nil, err
	}
	id := FileID{st.Dev, st.Ino}
	files.Adopt(id, f, d.Stat())
	_, err = Watch(f.held, func() { files.Forget(id); f.Release() })
	return f.fd, f, err
}

// lateOpener is a command device whose opening is answered from other
// goroutines.
type lateOpener struct {
	*commander
	files *Files
}

func (d *lateOpener) ServeOpen(c *Call, flags int) Answer {
	go func() {
		fd, _, err := d.openElsewhere(d.files, flags)
		if err != nil {
			c.Finish(Fail(err))
			return
		}
		c.Finish(InstallReserved(fd, flags))
	}()
	return Later()
}

// TestThreadsOpen: descriptors that are placed at the same time get numbers of
// their own.
func TestThreadsOpen(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way Options) {
		w, d := commands(t, "threads", 0)
		files := w.opt.Handlers[0].(*Files)
		files.Add(commandPath, &lateOpener{d, files})
		w.by(way)
		w.want(t, "apart\n")
		d.allReleased(t)
	})
}

// TestKilledAtAnyMoment: a file is released once, wherever its processes were.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way Options) {
		w, d := commands(t, "killed", 60)
		w.by(way)
		w.run(t)
		d.allReleased(t)
		if d.opened.Load() == 0 {
			t.Error("no file was opened")
		}
	})
}

// TestWaitingCommands: threads that wait are cancelled, and interrupted by the
// signals that the kernel has chosen them for, and by no others.
func TestWaitingCommands(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{"cancel": "cancelled\n", "elsewhere": "thread: Interrupted system call\nmain: Interrupted system call\n"} {
		eachWay(t, func(t *testing.T, way Options) {
			w, d := commands(t, part, 0)
			w.by(way)
			w.want(t, want)
			d.allReleased(t)
		})
	}
}

// TestDescriptorLimit: the range lies below the hard limit of the supervisor; a
// lower soft limit of the program is no obstacle.
func TestDescriptorLimit(t *testing.T) {
	t.Parallel()
	file, err := commandProgram()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit        string
		first, count int
	}{{"-n 256", 192, 64}, {"-n 100", 50, 50}, {"-Sn 256", reservedFirst, 64}} {
		for _, via := range []Via{Seccomp, Preload} {
			cmd := exec.Command("sh", "-c", "ulimit "+c.limit+`; exec "$0" "$@"`, self(), via.String(), file, strconv.Itoa(c.first))
			cmd.Env = append(os.Environ(), programEnv+"=limited")
			out, err := output(t, cmd)
			want := fmt.Sprintf("%d descriptors: Too many open files\nopen -1 Too many open files\nagain 7 1\nlimit 1\n", c.count)
			if err != nil || out != want {
				t.Errorf("%s %v: %v\n%s", c.limit, via, err, out)
			}
		}
	}
}

// limited is a supervisor with few descriptors.
func limited(args []string) int {
	w, _ := commandWorld(args[1], "full", args[2])
	w.opt.Stdout, w.opt.Stderr = os.Stdout, os.Stdout
	if args[0] == Preload.String() {
		w.opt.Via = Preload
	}
	p, err := Start(w.opt)
	if err != nil {
		return fail(err)
	}
	code, err := p.Wait()
	if err != nil {
		return fail(err)
	}
	return code
}

// BenchmarkCommand measures system calls of a program whose command device is
// served: write and dup of other files show what the reserved range costs
// everybody, command is a write that is served.
func BenchmarkCommand(b *testing.B) {
	for _, kind := range []string{"write", "dup", "command"} {
		if kind != "command" {
			b.Run(kind+"/alone", func(b *testing.B) {
				w, _ := commands(b, "loop", b.N, kind)
				out, err := exec.Command(w.opt.Argv[0], w.opt.Argv[1:]...).Output()
				if err != nil {
					b.Fatal(err)
				}
				report(b, string(out))
			})
		}
		for _, via := range []Via{Seccomp, Preload} {
			b.Run(kind+"/"+via.String(), func(b *testing.B) {
				w, _ := commands(b, "loop", b.N, kind)
				w.opt.Via = via
				out, code := w.run(b)
				if code != 0 {
					b.Fatal(out)
				}
				report(b, out)
			})
		}
	}
}
