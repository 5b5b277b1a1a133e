package hfiverbs

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/trap"
)

// Commands before GET_CONTEXT and a second one fail, an answer needs its room, errors
// of the device are the program's, and objects cannot be made. GET_CONTEXT itself is
// judged by ibv_devinfo and opainfo in lab/tool/uapi.
func TestCommands(t *testing.T) {
	var broken error
	d := &Device{Query: func() (abi.DeviceAttr, abi.PortAttr, error) {
		return abi.DeviceAttr{Ports: 1}, abi.PortAttr{LID: 7}, broken
	}}
	opened, err := node{d}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	f := opened.(*file)
	program, _ := f.Descriptor()
	defer unix.Close(program)
	defer f.Release()
	check := func(command uint32, room int, want error) []byte {
		t.Helper()
		answer, err := f.serve(nil, command, room)
		if !errors.Is(err, want) {
			t.Errorf("command %d with room for %d octets: %v, want %v", command, room, err, want)
		}
		return answer
	}
	check(abi.CmdQueryPort, 1000, unix.EINVAL)
	check(abi.CmdGetContext, contextLen-1, unix.ENOSPC)
	if f.events, err = trap.NewPipe(0); err != nil {
		t.Fatal(err)
	}
	stopped := 0
	f.stop = func() { stopped++ }
	events, _ := f.events.Descriptor()
	defer unix.Close(events)
	check(abi.CmdGetContext, contextLen, unix.EINVAL)
	check(abi.CmdQueryPort, len(abi.Octets(new(abi.PortAttr)))-1, unix.ENOSPC)
	if a := abi.Get[abi.DeviceAttr](check(abi.CmdQueryDevice, 1000, nil)); a.Ports != 1 {
		t.Errorf("%+v", a)
	}
	if a := abi.Get[abi.PortAttr](check(abi.CmdQueryPort, 1000, nil)); a.LID != 7 {
		t.Errorf("%+v", a)
	}
	for _, command := range []uint32{abi.CmdAllocPD, abi.CmdCreateQP, extended | abi.CmdQueryDevice, 1 << 30} {
		check(command, 1000, unix.EOPNOTSUPP)
	}
	broken = unix.ENODEV
	check(abi.CmdQueryPort, 1000, unix.ENODEV)
	if _, err := unix.Write(program, []byte("command")); !errors.Is(err, unix.EBADF) {
		t.Errorf("a write that nobody sees: %v", err)
	}
}
