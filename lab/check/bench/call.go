package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"tapir/lab/check/bench/result"
	"tapir/lab/node/nicnode"
	"tapir/nic/uapi/relay"
)

// Device files that calls are made on.
const (
	minimalPath = "/dev/tapir-minimal"
	verbsPath   = "/dev/infiniband/uverbs0"
)

// callCase is a program's system calls on verbsPath, under `tapir run` on a NIC:
// a command that asks and is answered in the program's memory.
func callCase(name string, set nicSetup) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (s sample, err error) {
		nics, err := m.serve(ctx, &set)
		if err != nil {
			return s, err
		}
		defer nics.stop()
		c, err := nics.run(ctx, 0, command("call", callSpec{verbsPath, m.duration})...)
		if err != nil {
			return s, err
		}
		r, err := c.result(m.duration)
		return combine(r, result.Result{}), err
	})
}

// minimalCase is what callCase is compared with: a trapped write that a NIC's
// loop answers without looking at it.
func minimalCase(name string, set nicSetup) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (s sample, err error) {
		c, err := m.role(ctx, set.pins.cpu(0), "trap", trapSpec{m.spec(&set, 0), m.duration})
		if err != nil {
			return s, err
		}
		r, err := c.result(m.duration)
		return combine(r, result.Result{}), err
	})
}

// trapSpec is a NIC whose loop answers the calls of a program that it starts.
type trapSpec struct {
	nicSpec
	Duration time.Duration
}

func trapChild(ctx context.Context, spec *trapSpec) (err error) {
	n, err := spec.nicSpec.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	thread, err := threadOf(n)
	if err != nil {
		return err
	}
	watched, err := spec.watch(n)
	if err != nil {
		return err
	}
	defer watched()
	m := &trapped{write: func(uint64) {}}
	m.opened = func() error { return m.serveOn(thread) }
	m.add(minimalPath)
	done, err := m.start(command("call", callSpec{minimalPath, spec.Duration}))
	if err != nil {
		return err
	}
	return <-done
}

// threadOf is the thread that serves the NIC's own device files.
func threadOf(n *nicnode.Node) (relay.Thread, error) {
	programs := nicnode.NewPrograms()
	programs.Add(n)
	found, err := programs.Devices(relay.Ask{NICs: []string{n.Name()}})
	return found[relay.Uverbs(n.Name())].Thread, err
}

// callsPerTime is how many calls are timed together.
const callsPerTime = 20

// callSpec is a program that makes calls.
type callSpec struct {
	Device   string // file
	Duration time.Duration
}

// callChild is the program: it writes to a device file and reports the median
// time of a call.
func callChild(_ context.Context, spec *callSpec) error {
	runtime.LockOSThread()
	fd, err := syscall.Open(spec.Device, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", spec.Device, err)
	}
	defer syscall.Close(fd)
	command, answer := make([]byte, 8), new([64]byte)
	if spec.Device == verbsPath {
		if _, err := syscall.Write(fd, uverbsCommand(getContext, answer, 8)); err != nil {
			return fmt.Errorf("GET_CONTEXT: %w", err)
		}
		command = uverbsCommand(queryPort, answer, 40, 1)
	}
	var times []time.Duration
	begin := time.Now()
	for at := begin; at.Before(begin.Add(spec.Duration)); {
		for range callsPerTime {
			if n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&command[0])),
				uintptr(len(command))); int(n) != len(command) {
				return fmt.Errorf("write to %s: %d octets, %w", spec.Device, int(n), errno)
			}
		}
		now := time.Now()
		times = append(times, now.Sub(at)/callsPerTime)
		at = now
	}
	if spec.Device == verbsPath && answer[36] == 0 {
		return errors.New("QUERY_PORT was not answered")
	}
	slices.Sort(times)
	return result.Result{Messages: int64(len(times) * callsPerTime), Elapsed: time.Since(begin),
		Latency: times[len(times)/2]}.Print()
}

// Commands (linux/include/uapi/rdma/ib_user_verbs.h).
const (
	getContext = 0
	queryPort  = 2
)

// uverbsCommand asks for n octets of answer.
func uverbsCommand(number uint32, answer *[64]byte, n int, words ...uint64) []byte {
	ne := binary.NativeEndian
	b := ne.AppendUint64(ne.AppendUint64(nil, uint64(number)), uint64(uintptr(unsafe.Pointer(answer))))
	for _, w := range words {
		b = ne.AppendUint64(b, w)
	}
	ne.PutUint16(b[4:], uint16(len(b)/4))
	ne.PutUint16(b[6:], uint16(n/4))
	return b
}
