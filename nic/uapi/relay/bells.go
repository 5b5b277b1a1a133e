package relay

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/ipc"
)

// ringer is a file that its programs may ring instead of writing a command.
type ringer interface {
	abi.File
	// SetBells has the program ring b; nil: it does not any more.
	SetBells(b *doorbell.Bells)
	// Rung does what doorbell n stands for.
	Rung(n int)
}

// fileBells are the doorbells of a file, for the loop of its home.
type fileBells struct {
	*doorbell.Bells
	of     ringer
	memory int         // its descriptor
	rung   func(n int) // made once
	stop   func()
}

// Serve implements proxy.Doorbells.
func (b *fileBells) Serve() { b.Drain(b.rung) }

// giveBells serves doorbell.Command{header, answer} -> {memory, eventfd}: the
// descriptors of the file's doorbells.
func (f *file) giveBells(c *caller, cmd []byte) error {
	of, ok := f.File.(ringer)
	if !ok {
		return unix.EOPNOTSUPP
	}
	if f.bells == nil {
		b, memory, err := doorbell.New()
		if err != nil {
			return err
		}
		f.bells = &fileBells{Bells: b, of: of, memory: memory, rung: of.Rung}
		f.bells.stop = f.home.AddBell(b.FD(), f.bells)
		of.SetBells(b)
		f.belled.Store(true)
		f.s.link.send(&message{Kind: bells, File: f.token}, "", memory)
	}
	var answer []byte
	for _, fd := range []int{f.bells.memory, f.bells.FD()} {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		number, err := c.Install(own, unix.O_CLOEXEC)
		if err != nil {
			return err
		}
		answer = binary.NativeEndian.AppendUint32(answer, uint32(number))
	}
	return c.Write(binary.NativeEndian.Uint64(cmd[8:]), answer)
}

// look does what was rung for: what was posted first goes first.
func (f *file) look() {
	if f.bells != nil && f.bells.Rung() {
		f.bells.Serve()
	}
}

// endBells is the end of the file for them.
func (f *file) endBells() {
	if b := f.bells; b != nil {
		f.bells = nil
		b.stop()
		b.of.SetBells(nil)
		b.End()
		ipc.Close(b.memory)
	}
}

// asksForBells tells whether a command asks for doorbells.
func asksForBells(cmd []byte) bool {
	return len(cmd) == doorbell.CommandLen && binary.NativeEndian.Uint32(cmd) == doorbell.Command
}
