package relay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

const wantCommands = `gone: -1 ENODEV
open: -1 EBUSY
device 231:192, in range 1
echo 42 ok
echo 2 ok
fail: ENOMSG
short: EINVAL
bad answer: EFAULT
bad command: EFAULT
ioctl: ENOTTY
pipe: hello 5 0 ok
pipe: hello 5 1 ok
nonblocking 0 ok
nonblocking 1 ok
process 1 ok
region ok ok 0 wrong, sum ok 1
read-only inside: EFAULT
unmapped: EFAULT EFAULT`

// A command of a program reaches the file in another process, with its memory
// and descriptors, whichever way it comes.
func TestCommands(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "commands").want(t, wantCommands)
		n.hearBoth(t, "closed")
	})
}

// Commands wait, on the receiving loop and on another, and are answered.
func TestWaiting(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "wake").want(t, "woken 1 ok\nwoken 1 ok")
		n.hearBoth(t, "parked")
		n.hearBoth(t, "closed")
	})
}

// A program rings doorbells in memory in place of writing commands, and is told when
// the NIC's process dies.
func TestDoorbells(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "rings").want(t, "0 missed\na child rings too\ntold of the end")
	})
}

// inAllWays runs a test with each way that calls can come.
func inAllWays(t *testing.T, test func(t *testing.T, w way, n *nodeProcess)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, w, startNode(t))
		})
	}
}

// A signal takes a waiting command back; by SA_RESTART it is made again.
func TestSignals(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "signals").want(t, "interrupted: EINTR 1\nrestarted: ok")
		var said []string
		for range 9 { // an old kernel's call is made again before the first one is missed
			said = append(said, n.next(t))
		}
		slices.Sort(said)
		if want := append(slices.Repeat([]string{"cancelled toy0"}, 4), slices.Repeat([]string{"parked toy0"}, 5)...); !slices.Equal(said, want) {
			t.Errorf("the node says %q", said)
		}
		n.hear(t, "closed toy0")
	})
}

// However often signals interrupt commands, each is carried out once.
func TestOnce(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		out, code := n.start(t, w, "timer").end(t)
		var twice int
		_, err := fmt.Sscanf(out, "%d twice", &twice)
		if err != nil || code != 0 || twice > 0 && !w.repeats || twice > 3 { // those of which a signal comes in the very moment of the answer
			t.Errorf("exit code %d, output %s", code, out)
		}
		n.hearBoth(t, "closed")
	})
}

// A file goes over to children, by dup and through execve, and ends once, with
// the last of them.
func TestFamily(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "family").want(t, "child: ok 1\nheir: ok 7\nheir: ok ok 1\nstatus 0")
		n.hear(t, "closed toy0")
	})
}

// letsGo waits until a node has let go of a program that held both devices.
func (n *nodeProcess) letsGo(t *testing.T) {
	t.Helper()
	var said []string
	for range 4 {
		said = append(said, n.next(t))
	}
	slices.Sort(said)
	if want := []string{"cancelled toy0", "cancelled toy1", "closed toy0", "closed toy1"}; !slices.Equal(said, want) {
		t.Fatalf("the node says %q", said)
	}
}

// What a process registers is its own memory, not that of a child at the same
// addresses, and goes with it.
func TestFork(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "forks").want(t, "region: ok\nparent: 1 1\nchild: untouched 1, region ok, 1 1\nthe child's: 0, sum EFAULT, untouched 1")
		n.hear(t, "closed toy0")
	})
}

// What a process has registered is its memory of then: a program that it
// executes has another, at the same addresses.
func TestExecute(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "executes").want(t, "region: ok\na child: ok 1 1\nnothing: ok 1 1\nimage: ok 0, 0 wrong, sum EFAULT\nregion: ok\nimage: ok 1 1")
		n.hear(t, "closed toy0")
	})
}

// A program is killed with commands that wait on both loops.
func TestKilled(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		r := n.start(t, w, "hold")
		n.hearBoth(t, "parked")
		must(t, r.Signal(syscall.SIGKILL))
		if out, code := r.end(t); code != 128+9 {
			t.Fatalf("exit code %d, output %s", code, out)
		}
		n.letsGo(t)
	})
}

// The NIC's process dies in the middle of a command, while others wait: all
// fail, and the program can go on with what is not of a NIC.
func TestNodeDies(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "orphan").want(t, "dying: ENODEV\nparked: ENODEV\nparked: ENODEV\nafterwards: ENODEV\n"+
			"open: -1 ENODEV\nstat: 0, others: 0\nlast words: 3 bye\nlast words: 0")
	})
}

// The supervisor is killed, and its program with it: nothing is left in the
// NIC's process, which serves others.
func TestSupervisorDies(t *testing.T) {
	n := startNode(t)
	cmd := n.holdApart(t, ways[0])
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	n.letsGo(t)
	n.start(t, ways[0], "move").want(t, "failed 0")
}

// holdApart has a program wait in both toys, with a supervisor that is a
// process of its own.
func (n *nodeProcess) holdApart(t *testing.T, w way) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, program, "hold")
	cmd.Env = append(os.Environ(), superviseEnv+"="+w.name+":"+n.path)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	n.hearBoth(t, "parked")
	return cmd
}

// A supervisor that cannot say in time whether a thread waits does not cost it
// its answer: the command comes again.
func TestSupervisorSleeps(t *testing.T) {
	n := startNode(t)
	cmd := n.holdApart(t, ways[1])
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	n.start(t, ways[0], "unpark").want(t, "woken 0 ok")
	n.hear(t, "cancelled toy1", "closed toy1")
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	n.hear(t, "parked toy1")
	n.start(t, ways[0], "unpark").want(t, "woken 1 ok")
	defer testenv.Guard(t, cmd.Process.Pid, nil)()
	must(t, cmd.Wait())
}

// The loop that receives ends, as when its TAP is gone: the supervisor
// receives again, what waits is answered, and another loop takes over.
func TestLoopEnds(t *testing.T) {
	inAllWays(t, func(t *testing.T, w way, n *nodeProcess) {
		n.start(t, w, "outlive").want(t, "end: ok\necho: ok 1\nparked: ok\necho: ok 2\nparked: ok\nthird: ok 6")
		n.hearBoth(t, "parked")
		for range 3 {
			if said := n.next(t); said != "closed toy0" && said != "closed toy1" {
				t.Errorf("the node says %q", said)
			}
		}
	})
}

// The receiving follows the commands from loop to loop.
func TestReceivingMoves(t *testing.T) {
	n := startNode(t)
	n.start(t, ways[0], "move").want(t, "failed 0")
	n.hearBoth(t, "closed")
}

// A node that ends in order fails what waits, and does not wait for who has
// connected and says nothing.
func TestNodeEnds(t *testing.T) {
	n := startNode(t)
	r := n.start(t, ways[0], "hold")
	n.hearBoth(t, "parked")
	silent, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: n.path})
	must(t, err)
	defer silent.Close()
	n.end.Close()
	if out, code := r.end(t); code != int(unix.ENODEV) {
		t.Errorf("exit code %d, output %s", code, out)
	}
	defer testenv.Guard(t, n.cmd.Process.Pid, nil)()
	for n.says.Scan() { // until it has ended
	}
}

func TestRefused(t *testing.T) {
	n := startNode(t)
	_, err := Dial(t.Context(), n.path, Ask{NICs: []string{"strange"}})
	if r := (*Refused)(nil); !errors.As(err, &r) || r.Error() != "strange is not here: start it here" {
		t.Error(err)
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: n.path})
	must(t, err)
	defer c.Close()
	must(t, say(c, Ask{Version: Version + 1}))
	var h Hello
	must(t, hear(c, &h))
	if h.Refused == nil || h.Version != Version || len(h.Devices) != 0 {
		t.Errorf("a supervisor of another version hears %+v", h)
	}
	if _, err := Dial(t.Context(), n.path+".none", Ask{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A command that is served on the loop that receives it allocates nothing:
// what others of the node's goroutines do meanwhile is far less than one
// allocation for each.
func TestCommandAllocatesNothing(t *testing.T) {
	n := startNode(t)
	out, code := n.start(t, ways[0], "mallocs").end(t)
	if got, err := strconv.Atoi(out); err != nil || code != 0 || got > 100 {
		t.Errorf("%s allocations for 1000 commands, exit code %d", out, code)
	}
}
