package trap

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/ipc"
)

// launchName is the child's argv[0]: the same binary, which installs the
// filter and becomes the program. Its arguments: the program's file and the
// program's own argv. Its standard input is the socket to the supervisor,
// which sends the true one through it: thus nothing else that is forked
// meanwhile inherits the socket, and every other descriptor keeps its number.
const launchName = "tapir-launch"

// What the supervisor asks of the child before the filter.
const (
	dropClock = 1 << iota // take CAP_SYS_TIME away
	noKillable
	preloaded // the library serves in place of a filter
)

// reply is what the child says: which step failed, with its errno. With no
// failure the listener comes along; a second one says that execve failed, and
// the end of the socket that it did not.
const (
	stepListening = iota
	stepRepeating // listening, but a signal interrupts a trapped call
	stepPrivileges
	stepSeccomp
	stepExec
	stepStarted // by the preloaded library's parent, with the program's process id
)

// Launched turns a process that Start made into the program and does not
// return; in any other process it does nothing.
func Launched() {
	if len(os.Args) < 3 || os.Args[0] != launchName {
		return
	}
	runtime.LockOSThread() // the filter is of this thread, which execve makes the only one
	become(os.Args[1], os.Args[2:])
	os.Exit(126)
}

func become(path string, argv []string) {
	const above = 200 // the descriptors that programs number themselves
	sock, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, above)
	if err == unix.EINVAL { // above the limit
		sock, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return
	}
	msg := make([]byte, 64<<10)
	n, stdin, err := receive(sock, msg)
	if err != nil || n < 9 || unix.Dup3(stdin, 0, 0) != nil {
		return
	}
	unix.Close(stdin)
	want, prog := msg[0], msg[1:n]
	if want&dropClock != 0 {
		if err := dropSysTime(); err != nil {
			say(sock, stepPrivileges, err, -1)
			return
		}
	}
	if want&preloaded != 0 {
		beParent(sock, path, argv, string(prog))
		return
	}
	step, listener, err := byte(stepListening), -1, error(unix.EINVAL)
	if want&noKillable == 0 {
		listener, err = install(prog, unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	}
	if err == unix.EINVAL { // before Linux 5.19
		step = stepRepeating
		listener, err = install(prog, 0)
	}
	if err != nil {
		say(sock, stepSeccomp, err, -1)
		return
	}
	say(sock, step, nil, listener)
	unix.Close(listener)
	if _, err := unix.Read(sock, msg[:1]); err != nil {
		return
	}
	say(sock, stepExec, syscall.Exec(path, argv, environment(os.Environ())), -1)
}

// libraryEnv tells the child of Options.Library, which it does not load itself.
const libraryEnv = "TAPIR_LIBRARY"

// environment is the program's environment: what the child has, and the library.
func environment(env []string) []string {
	if library := os.Getenv(libraryEnv); library != "" {
		env = loading(env, library)
	}
	return env
}

// loading adds a library to those that programs with an environment load first.
// The address sanitizer of gcc refuses to come after it, unless it is told not to look.
func loading(env []string, library string) (list []string) {
	const asan, anyOrder = "ASAN_OPTIONS", "verify_asan_link_order=0"
	order := anyOrder
	for _, v := range env {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "LD_PRELOAD":
			library += ":" + value
		case asan:
			order = strings.TrimSuffix(value, ":"+anyOrder) + ":" + anyOrder
		case libraryEnv:
		default:
			list = append(list, v)
		}
	}
	return append(list, "LD_PRELOAD="+library, asan+"="+order)
}

// say tells the supervisor; one that is gone has killed us.
func say(sock int, step byte, err error, fd int) {
	_ = unix.Sendmsg(sock, []byte{step, byte(errno.Of(err))}, ipc.Rights(fd), nil, 0)
}

// install puts the filter on this thread and returns the listener. A thread
// that is not root of its user namespace must give up set-user-ID first.
func install(prog []byte, flags uintptr) (int, error) {
	fd, err := seccomp(flags, prog)
	if err == unix.EACCES {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, err
		}
		fd, err = seccomp(flags, prog)
	}
	return fd, err
}

func seccomp(flags uintptr, prog []byte) (int, error) {
	fprog := unix.SockFprog{Len: uint16(len(prog) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// dropSysTime takes away, for good, the right to set the machine's clock.
func dropSysTime() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&hdr, &sets[0]); err != nil {
		return err
	}
	const bit = 1 << unix.CAP_SYS_TIME
	sets[0].Effective &^= bit
	sets[0].Permitted &^= bit
	sets[0].Inheritable &^= bit
	if err := unix.Capset(&hdr, &sets[0]); err != nil {
		return err
	}
	if unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME, 0, 0, 0) == nil {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // then execve gives nothing back
}

// launch starts the child, takes its listener and returns it and the program:
// the same process, or its child with the preloaded library.
func (s *Supervisor) launch(o Options, path string) (*exec.Cmd, *os.Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(pair[0])
	sock := os.NewFile(uintptr(pair[1]), "launch")
	defer sock.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{launchName, path}, o.Argv...), Env: o.Env,
		Dir:   o.Dir,
		Stdin: sock, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if o.Library != "" {
		cmd.Env = append(cmd.Environ(), libraryEnv+"="+o.Library)
	}
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	if o.Stderr != nil {
		cmd.Stderr = o.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	sock.Close() // its end must be the child's alone
	program, err := s.adopt(pair[0], o, path)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, nil, err
	}
	if program == nil {
		program = cmd.Process
	}
	return cmd, program, nil
}

// adopt speaks with the child until the program runs. It returns the program
// if that is another process than the child.
func (s *Supervisor) adopt(sock int, o Options, path string) (*os.Process, error) {
	var want byte
	if !o.KeepSystemClock {
		want |= dropClock
	}
	if o.Repeats {
		want |= noKillable
	}
	stdin := o.Stdin
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		stdin = null
	}
	var how []byte
	if s.preload != nil {
		want |= preloaded
		how = s.preload.environment()
	} else {
		how = encodeFilter(filter(s.rules))
	}
	if err := unix.Sendmsg(sock, append([]byte{want}, how...), unix.UnixRights(int(stdin.Fd())), nil, 0); err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	if s.preload != nil {
		return s.preload.adopt(sock, path)
	}
	return nil, s.adoptListener(sock, path)
}

// adoptListener takes the listener of the child and serves it until the child
// is the program: the socket ends then.
func (s *Supervisor) adoptListener(sock int, path string) error {
	msg := make([]byte, 2)
	n, listener, err := receive(sock, msg)
	if err != nil || n != 2 {
		return fmt.Errorf("start the program: its launcher ended: %v", err)
	}
	if msg[0] != stepListening && msg[0] != stepRepeating {
		return explain(msg[0], unix.Errno(msg[1]))
	}
	s.terms.Repeats = msg[0] == stepRepeating
	s.fd = listener
	s.syncWakeUp()
	if _, err := unix.Write(sock, []byte{0}); err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	s.serveUntil(sock)
	if n, err := unix.Read(sock, msg); err == nil && n == 2 {
		unix.Close(s.fd)
		return &NotFoundError{Name: path, Err: unix.Errno(msg[1])}
	}
	return nil
}

// receive reads a message and the descriptor that comes with it, -1 if none.
func receive(sock int, msg []byte) (n, fd int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(sock, msg, oob, unix.MSG_CMSG_CLOEXEC)
	return n, ipc.Descriptor(oob[:max(oobn, 0)]), err
}
