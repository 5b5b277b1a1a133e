// Package hfiverbs serves the verbs device of an Omni-Path HFI,
// /dev/infiniband/uverbsN, to programs under a supervisor (nic/uapi/trap). A
// program can open it, ask what device and port are (GET_CONTEXT, QUERY_DEVICE,
// QUERY_PORT) and wait for asynchronous events, as opainfo and ibv_devinfo do. No
// objects can be made: every other command fails with EOPNOTSUPP.
//
// Layouts are those of include/uapi/rdma/ib_user_verbs.h.
package hfiverbs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/trap"
)

// Device is an HFI.
type Device struct {
	Path string // of the device file
	Stat trap.Stat
	// Query tells what device and port are. It is called from any goroutine; its
	// errors are errnos.
	Query func() (abi.DeviceAttr, abi.PortAttr, error)
	// Watch has tell called for each asynchronous event of device or port, by its number in
	// ibv_event_type, from any goroutine until stop returns. Its errors are errnos.
	Watch func(tell func(event uint32)) (stop func(), err error)
}

// New returns a handler for these devices.
func New(devices ...Device) *trap.Files {
	files := trap.NewFiles(trap.Cond{Arg: 1, Mask: ^uint32(0), Value: abi.VerbsIoctl})
	files.ServeWrites()
	for i := range devices {
		files.Add(devices[i].Path, node{&devices[i]})
	}
	return files
}

// node is the device file.
type node struct{ device *Device }

// Stat implements trap.Node.
func (n node) Stat() trap.Stat { return n.device.Stat }

// Open implements trap.Node.
func (n node) Open(flags int) (trap.File, error) {
	p, err := trap.NewPipe(flags)
	if err != nil {
		return nil, err
	}
	return &file{Pipe: p, device: n.device}, nil
}

// file is an open file. What the program holds is the end of a pipe that is read, so
// that a write which does not come here fails.
type file struct {
	*trap.Pipe
	device *Device
	events *trap.Pipe // asynchronous ones; nil: GET_CONTEXT has not come
	stop   func()     // ends them
}

// Ioctl implements trap.File: programs write commands, as to kernels before Linux 4.20.
func (f *file) Ioctl(*trap.Call, uint32, uint64) trap.Answer { return trap.Fail(unix.ENOTTY) }

// Release implements trap.File.
func (f *file) Release() {
	if f.events != nil {
		f.stop()
		f.events.Release()
	}
	f.Pipe.Release()
}

// Octets of a command: the header {u32 command; u16 length and u16 room for the
// answer, in words}, then the address of the answer (u64).
const (
	headerLen  = 8
	requestLen = headerLen + 8
	mostOctets = 256
	word       = 4
	extended   = 1 << 31 // of a command whose lengths count otherwise; there is none
)

const deviceFatal = 8 // IBV_EVENT_DEVICE_FATAL, the only event that is of no port

// GET_CONTEXT's answer: its octets, and the version of the device's own part, which
// follows if there is room.
const (
	contextLen     = 8
	contextVersion = 1
)

// Write implements trap.Writer: one command.
func (f *file) Write(c *trap.Call, addr, n uint64) trap.Answer {
	if n < requestLen || n > mostOctets {
		return trap.Fail(unix.EINVAL)
	}
	b := make([]byte, n)
	if err := c.Read(addr, b); err != nil {
		return trap.Fail(err)
	}
	command := binary.NativeEndian.Uint32(b)
	if command&extended == 0 && int(binary.NativeEndian.Uint16(b[4:]))*word != len(b) {
		return trap.Fail(unix.EINVAL)
	}
	answer, err := f.serve(c, command, int(binary.NativeEndian.Uint16(b[6:]))*word)
	if err == nil {
		err = c.Write(binary.NativeEndian.Uint64(b[headerLen:]), answer)
	}
	return trap.Result(int64(n), err)
}

// serve returns the answer to a command, for which there is so much room.
func (f *file) serve(c *trap.Call, command uint32, room int) (answer []byte, err error) {
	if (f.events == nil) != (command == abi.CmdGetContext) {
		return nil, unix.EINVAL
	}
	switch command {
	case abi.CmdGetContext:
		if room < contextLen {
			return nil, unix.ENOSPC
		}
		answer, err = f.getContext(c)
		return answer[:min(room, len(answer))], err
	case abi.CmdQueryDevice:
		var a abi.DeviceAttr
		a, _, err = f.device.Query()
		answer = abi.Octets(&a)
	case abi.CmdQueryPort:
		var a abi.PortAttr
		_, a, err = f.device.Query()
		answer = abi.Octets(&a)
	default:
		return nil, unix.EOPNOTSUPP
	}
	if err == nil && room < len(answer) {
		err = unix.ENOSPC
	}
	return answer, err
}

// getContext gives the program the descriptor of its asynchronous events.
func (f *file) getContext(c *trap.Call) ([]byte, error) {
	p, err := trap.NewPackets(0)
	if err != nil {
		return nil, err
	}
	stop, err := f.device.Watch(func(event uint32) {
		element := uint64(1) // the port
		if event == deviceFatal {
			element = 0
		}
		record := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint64(nil, element), event)
		// A program that has not read thousands loses events.
		_ = p.Put(binary.NativeEndian.AppendUint32(record, 0))
	})
	if err != nil {
		p.Release()
		return nil, err
	}
	own, _ := p.Descriptor()
	number, err := c.Install(own, unix.O_CLOEXEC, trap.Lowest)
	if err != nil {
		stop()
		p.Release()
		return nil, err
	}
	f.events, f.stop = p, stop
	answer := abi.Octets(&abi.Context{AsyncFD: uint32(number), CompVectors: 1})
	return binary.NativeEndian.AppendUint32(append([]byte(nil), answer...), contextVersion), nil
}
