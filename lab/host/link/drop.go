package link

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Drop loses frames longer than over octets that leave by a link, at random:
// so many parts per million of them. A kernel without netem can do that with a
// small BPF program behind clsact, which needs CAP_BPF and CAP_NET_ADMIN. A
// super-frame is one frame. It lasts as long as the link.
func (n *Net) Drop(name string, ppm, over int) error {
	return n.with("make lossy", name, func(l netlink.Link) error {
		fd, err := loadProgram(dropProgram(ppm, over))
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		index := l.Attrs().Index
		err = n.h.QdiscAdd(&netlink.GenericQdisc{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0),
				Parent: netlink.HANDLE_CLSACT},
			QdiscType: "clsact",
		})
		if err != nil {
			return fmt.Errorf("clsact: %w", err)
		}
		return n.h.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1,
				Priority: 1, Protocol: unix.ETH_P_ALL},
			Fd: fd, Name: "drop", DirectAction: true,
		})
	})
}

// instruction is struct bpf_insn.
type instruction struct {
	code uint8
	regs uint8 // source<<4 | destination
	off  int16
	imm  int32
}

// dropProgram returns TC_ACT_SHOT with the chance given for frames longer than
// over, else TC_ACT_UNSPEC.
func dropProgram(ppm, over int) []instruction {
	below := uint32(uint64(ppm) << 32 / 1_000_000)
	return []instruction{
		{0x61, 0x10, 0, 0},            // r0 = skb->len
		{0xb5, 0x00, 4, int32(over)},  // if r0 <= over: pass
		{0x85, 0x00, 0, 7},            // r0 = get_prandom_u32()
		{0x36, 0x00, 2, int32(below)}, // if w0 >= below: pass
		{0xb7, 0x00, 0, 2},            // r0 = TC_ACT_SHOT
		{0x95, 0x00, 0, 0},            // exit
		{0xb7, 0x00, 0, -1},           // pass: r0 = TC_ACT_UNSPEC
		{0x95, 0x00, 0, 0},            // exit
	}
}

// loadProgram loads a classifier and returns its descriptor.
func loadProgram(program []instruction) (fd int, err error) {
	license := []byte("MIT\x00")
	attr := struct {
		kind, count    uint32
		program        unsafe.Pointer
		license        unsafe.Pointer
		level, size    uint32
		log            uint64
		version, flags uint32
		name           [16]byte
	}{
		kind: unix.BPF_PROG_TYPE_SCHED_CLS, count: uint32(len(program)),
		program: unsafe.Pointer(&program[0]), license: unsafe.Pointer(&license[0]),
	}
	r, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	if errno != 0 {
		return -1, fmt.Errorf("load a BPF program: %w", errno)
	}
	return int(r), nil
}
