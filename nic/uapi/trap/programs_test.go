package trap

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// programs are what the tests run under the supervisor. They print what they
// see and return an exit code.
var programs = map[string]func(args []string) int{
	"look":      look,
	"use":       use,
	"inherit":   inherit,
	"inherited": inherited,
	"pass":      passOn,
	"count":     count,
	"wait":      waitForSignal,
	"exit":      func(args []string) int { n, _ := strconv.Atoi(args[0]); return n },
	"die":       func([]string) int { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"daemon":    daemon,
	"late":      late,
	"nested":    nested,
	"hang": func([]string) int {
		fmt.Println("up")
		for {
			_ = unix.Pause()
		}
	},
	"supervise": supervise,
	"caps":      func([]string) int { fmt.Println(capEff()>>unix.CAP_SYS_TIME&1 == 1); return 0 },
	"loop":      loopCalls,
	"preload":   superviseByLibrary,
	"limited":   limited,
}

func fail(err error) int {
	fmt.Println(err)
	return 1
}

func openDevice(flags int) int {
	fd, err := unix.Open(nodePath, flags, 0)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	return fd
}

// look finds the device by every call that takes a path.
func look([]string) int {
	var st unix.Stat_t
	err := unix.Stat(nodePath, &st)
	fmt.Println("stat", err, st.Mode == unix.S_IFCHR|0o600, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	var stx unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, nodePath, 0, unix.STATX_BASIC_STATS, &stx)
	fmt.Println("statx", err, stx.Mode == unix.S_IFCHR|0o600, stx.Rdev_major, stx.Rdev_minor)
	fmt.Println("access", unix.Access(nodePath, unix.R_OK|unix.W_OK), unix.Access(nodePath, unix.X_OK))
	_, err = unix.Readlink(nodePath, make([]byte, 10))
	fmt.Println("readlink", err)
	fd := openDevice(unix.O_RDWR | unix.O_CLOEXEC)
	st = unix.Stat_t{}
	err = unix.Fstat(fd, &st)
	fmt.Println("fstat", err, st.Mode == unix.S_IFCHR|0o600, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	stx = unix.Statx_t{}
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &stx)
	fmt.Println("statx fd", err, stx.Mode == unix.S_IFCHR|0o600, stx.Rdev_major, stx.Rdev_minor)
	_, err = unix.Openat2(unix.AT_FDCWD, nodePath, &unix.OpenHow{Flags: unix.O_RDWR})
	fmt.Println("openat2", err)
	dir, _ := unix.Open("/dev", unix.O_RDONLY, 0)
	_, err = unix.Openat(dir, "./../dev/tapir-test0", unix.O_RDWR, 0)
	fmt.Println("openat", err)
	_, err = unix.Open(nodePath, unix.O_CREAT|unix.O_EXCL, 0)
	fmt.Println("exclusive", err)
	_, err = unix.Open(nodePath, unix.O_DIRECTORY, 0)
	fmt.Println("directory", err)
	_, err = unix.Open(nodePath+"0", unix.O_RDWR, 0)
	fmt.Println("other", err)
	_, _, errno := unix.Syscall(unix.SYS_OPENAT, ^uintptr(99), 8, 0)
	fmt.Println("bad pointer", errno)
	return 0
}

// use makes requests, and reads and polls natively.
func use([]string) int {
	fd := openDevice(unix.O_RDWR | unix.O_NONBLOCK)
	word := uint64(41)
	_, err := devIoctl(fd, reqStore, unsafe.Pointer(&word))
	fmt.Println("store", err, word)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), reqStore, 8)
	fmt.Println("store nowhere", errno)
	_, err = devIoctl(fd, reqStore+0x100, nil)
	fmt.Println("untrapped request", err)
	buf := make([]byte, 100)
	_, err = unix.Read(fd, buf)
	fmt.Println("read", err)
	_, err = devIoctl(fd, reqPut, nil)
	n, rerr := unix.Read(fd, buf)
	fmt.Println("read", err, rerr, string(buf[:n]))
	_, err = devIoctl(0, reqCount, nil)
	fmt.Println("not the device", err)
	return 0
}

// inherit hands the device to children by dup, fork and execve.
func inherit([]string) int {
	fd := openDevice(unix.O_RDWR | unix.O_CLOEXEC)
	dup, err := unix.Dup(fd)
	if err != nil {
		return fail(err)
	}
	const far = 555
	if err := unix.Dup3(fd, far, unix.O_CLOEXEC); err != nil {
		return fail(err)
	}
	n, err := devIoctl(far, reqCount, nil)
	fmt.Println("dup3", n, err)
	unix.Close(fd)
	unix.Close(far)
	n, err = devIoctl(fd, reqCount, nil)
	fmt.Println("closed", n, err)
	// dup is without close-on-exec, and the child gets it as descriptor 3 too.
	if err := childOf("inherited", []*os.File{os.NewFile(uintptr(dup), "")}, "3", strconv.Itoa(far)); err != nil {
		return fail(err)
	}
	n, err = devIoctl(dup, reqCount, nil)
	fmt.Println("parent", n, err)
	return 0
}

func inherited(args []string) int {
	for _, a := range args {
		fd, _ := strconv.Atoi(a)
		n, err := devIoctl(fd, reqCount, nil)
		fmt.Println("child", n, err)
	}
	return 0
}

// passOn sends the device through a socket and uses what arrives.
func passOn([]string) int {
	fd := openDevice(unix.O_RDWR)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fail(err)
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fail(err)
	}
	unix.Close(fd)
	_, got, err := receive(pair[1], make([]byte, 1))
	if err != nil {
		return fail(err)
	}
	calls, err := devIoctl(got, reqCount, nil)
	fmt.Println("received", calls, err)
	return 0
}

// count makes args[0] requests under a timer of 1 kHz whose handler restarts
// system calls, and checks that each was carried out once.
func count(args []string) int {
	want, _ := strconv.Atoi(args[0])
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGALRM) // Go's handlers have SA_RESTART
	ms := unix.Timeval{Usec: 1000}
	if _, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Interval: ms, Value: ms}); err != nil {
		return fail(err)
	}
	fd := openDevice(unix.O_RDWR)
	more := 0
	for i := 1; i <= want; i++ {
		n, err := devIoctl(fd, reqCount, nil)
		if err != nil || n < i+more {
			fmt.Println("call", i, "returned", n, err)
			return 1
		}
		more = n - i
	}
	<-signals
	fmt.Println(want, "commands,", more, "twice")
	return 0
}

// waitForSignal waits in a served call while signals come, whose handler
// restarts system calls.
func waitForSignal([]string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	fd := openDevice(unix.O_RDWR)
	tid := unix.Gettid()
	go func() {
		for {
			time.Sleep(5 * time.Millisecond)
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
		}
	}()
	_, err := devIoctl(fd, reqWait, nil)
	fmt.Println("waited", err)
	return 0
}

// daemon leaves a grandchild behind that opens the device later.
func daemon([]string) int {
	r, w, err := os.Pipe() // its end tells the grandchild that we are gone
	if err != nil {
		return fail(err)
	}
	defer w.Close()
	attr := &syscall.ProcAttr{Env: []string{programEnv + "=late"}, Files: []uintptr{r.Fd(), 1, 2}}
	if _, err := syscall.ForkExec(self(), []string{"late"}, attr); err != nil {
		return fail(err)
	}
	fmt.Println("parent ends")
	return 3
}

// late runs when its parent is gone.
func late([]string) int {
	_, _ = os.Stdin.Read(make([]byte, 1))
	n, err := devIoctl(openDevice(unix.O_RDWR), reqCount, nil)
	fmt.Println("late", n, err)
	return 0
}

func nested([]string) int {
	_, err := Start(Options{Argv: []string{"true"}})
	fmt.Println(err)
	return 0
}

// supervise is a supervisor of its own, for tests of users without rights.
func supervise(args []string) int {
	w := newWorld().program(args[0])
	w.opt.Stdout, w.opt.Stderr = os.Stdout, os.Stdout
	w.opt.Logf = func(format string, a ...any) { fmt.Printf(format+"\n", a...) }
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

// superviseByLibrary runs a shell's command, or a program with its arguments,
// under a supervisor that finds the compiler and the cache of its environment.
func superviseByLibrary(args []string) int {
	w := newWorld()
	if w.opt.Argv = args; len(args) == 1 {
		w.opt.Argv = []string{"/bin/sh", "-c", args[0]}
	}
	w.opt.Via, w.opt.Stdout, w.opt.Stderr = Preload, os.Stdout, os.Stdout
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

// loopCalls makes args[1] system calls of the kind args[0] and prints how
// many nanoseconds each took.
func loopCalls(args []string) int {
	n, _ := strconv.Atoi(args[1])
	call := map[string]func(){
		"getppid": func() { unix.Getppid() },
		"read":    func() { _, _ = unix.Read(-1, nil) },
		"ioctl":   func() { _, _ = unix.IoctlGetInt(-1, unix.TIOCGPGRP) },
		"openat":  func() { _, _ = unix.Open("/nonexistent", unix.O_RDONLY, 0) },
	}[args[0]]
	if args[0] == "served" {
		fd := openDevice(unix.O_RDWR)
		call = func() { _, _ = devIoctl(fd, reqCount, nil) }
	}
	start := time.Now()
	for range n {
		call()
	}
	fmt.Println(float64(time.Since(start).Nanoseconds()) / float64(n))
	return 0
}
