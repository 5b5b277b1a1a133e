package trap

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Rule names a system call to trap. With conditions, only calls that meet all
// of them are trapped; the others run at nearly native speed.
type Rule struct {
	Nr   uint32
	When []Cond
}

// Cond holds if argument Arg, its low 32 bits masked by Mask, is Value or, if
// Last is above it, any number from Value to Last.
type Cond struct {
	Arg   uint8
	Mask  uint32
	Value uint32
	Last  uint32
}

// Always returns rules that trap these system calls whatever their arguments.
func Always(nrs ...uint32) (rules []Rule) {
	for _, nr := range nrs {
		rules = append(rules, Rule{Nr: nr})
	}
	return rules
}

// Offsets into struct seccomp_data (seccomp(2)); both architectures are little
// endian, so the low half of an argument comes first.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// filter compiles rules for this architecture. Calls of another one (32-bit
// programs, int 0x80) are trapped too: the supervisor refuses them.
func filter(rules []Rule) []unix.SockFilter {
	prog := []unix.SockFilter{
		load(dataArch),
		jumpIf(unix.BPF_JEQ, nativeArch, 1, 0),
		verdict(unix.SECCOMP_RET_USER_NOTIF),
		load(dataNr),
	}
	if foreignBit != 0 {
		prog = append(prog, jumpIf(unix.BPF_JSET, foreignBit, 0, 1), verdict(unix.SECCOMP_RET_USER_NOTIF))
	}
	byNr := map[uint32][]Rule{}
	var order []uint32
	for _, r := range rules {
		if byNr[r.Nr] == nil {
			order = append(order, r.Nr)
		}
		byNr[r.Nr] = append(byNr[r.Nr], r)
	}
	slices.Sort(order)
	for _, nr := range order {
		block := callBlock(byNr[nr])
		// A conditional jump reaches 255 instructions, a plain one any number.
		prog = append(prog, jumpIf(unix.BPF_JEQ, nr, 1, 0),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(block))})
		prog = append(prog, block...)
	}
	return append(prog, verdict(unix.SECCOMP_RET_ALLOW))
}

// condLen is the number of instructions that a condition takes.
const condLen = 5

// callBlock decides about one system call.
func callBlock(rules []Rule) (block []unix.SockFilter) {
	for _, r := range rules {
		rest := condLen*len(r.When) + 1
		for _, c := range r.When {
			rest -= condLen
			block = append(block, load(dataArgs+8*uint32(c.Arg)),
				unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.Mask},
				jumpIf(unix.BPF_JGE, c.Value, 0, 1),
				jumpIf(unix.BPF_JGT, max(c.Value, c.Last), 0, 1),
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(rest)})
		}
		block = append(block, verdict(unix.SECCOMP_RET_USER_NOTIF))
		if len(r.When) == 0 {
			return block
		}
	}
	return append(block, verdict(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jumpIf(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func verdict(v uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v}
}

// encodeFilter lays out a program as the kernel reads it (struct sock_filter).
func encodeFilter(prog []unix.SockFilter) []byte {
	b, _ := binary.Append(nil, binary.NativeEndian, prog) // it is of fixed size
	return b
}
