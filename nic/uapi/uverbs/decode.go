package uverbs

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/eventpipe"
)

var native = binary.NativeEndian

// Sizes of the headers, in octets.
const (
	headerLen         = 8
	extendedHeaderLen = 24
)

// extendedFlag marks a command of the extended form.
const extendedFlag = 1 << 31

// command is one row of a table: what the header must say, and who serves it.
type command struct {
	name string
	// in is the length of the request behind the header. An extended request
	// may be longer, if the rest is zero, and as short as least.
	in, least int
	// out is the least room for the answer; 0: there is none.
	out int
	// uhw: a provider may append octets of its own to request and answer.
	uhw bool
	// first: it makes the context, which all others need.
	first bool
	serve func(*request) error
}

// body is a request: fields that it is too short for are zero.
type body []byte

func (b body) u8(off int) uint8   { return b.at(off, 1)[0] }
func (b body) u16(off int) uint16 { return native.Uint16(b.at(off, 2)) }
func (b body) u32(off int) uint32 { return native.Uint32(b.at(off, 4)) }
func (b body) u64(off int) uint64 { return native.Uint64(b.at(off, 8)) }

// at is b from off on, or zeros if it has no field of that size there.
func (b body) at(off, size int) []byte {
	if off+size <= len(b) {
		return b[off:]
	}
	return zeros[:]
}

var zeros [8]byte

func isZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// request is a command being served.
type request struct {
	f   *File
	c   abi.Caller
	cmd *command

	in  body // as the kernel's structure, which begins with the answer's address
	uhw body // the provider's part

	answerAt uint64 // where the program wants the answer
	outLen   int    // its room, in octets
	uhwLen   int    // the provider's room behind it
	extended bool
	io       *ioctl          // nil: it came by write(2)
	events   *eventpipe.Pipe // of the object that is made; nil: the file's first
}

// decode reads the header of b, as ib_uverbs_write does.
func (r *request) decode(b []byte) error {
	r.cmd = nil
	if len(b) < headerLen {
		return syscall.EINVAL
	}
	var err error
	if r.cmd, r.extended, err = commandOf(uint64(native.Uint32(b))); err != nil {
		return err
	}
	inWords, outWords := int(native.Uint16(b[4:])), int(native.Uint16(b[6:]))
	if r.extended {
		return r.decodeExtended(b, inWords*8, outWords*8)
	}
	return r.decodePlain(b, inWords*4, outWords*4)
}

// commandOf finds a command by its number, with extendedFlag if it is one.
func commandOf(number uint64) (cmd *command, wide bool, err error) {
	table := commands[:]
	if wide = number&extendedFlag != 0; wide {
		table = extended[:]
	}
	switch number &^= extendedFlag; {
	case number > 0xff:
		return nil, wide, syscall.EINVAL
	case int(number) >= len(table) || table[number].serve == nil:
		return nil, wide, syscall.EOPNOTSUPP
	}
	return &table[number], wide, nil
}

// decodePlain: both lengths are in words of 4 octets, that of the request with
// its header.
func (r *request) decodePlain(b []byte, in, out int) error {
	if in != len(b) {
		return syscall.EINVAL
	}
	b = b[headerLen:]
	if len(b) < r.cmd.in || out < r.cmd.out {
		return syscall.ENOSPC
	}
	r.in, r.uhw, r.answerAt, r.outLen, r.uhwLen = b, nil, 0, 0, 0
	if r.cmd.out > 0 {
		r.answerAt, r.outLen = r.in.u64(0), out
	}
	if r.cmd.uhw {
		r.in, r.uhw = b[:r.cmd.in], b[r.cmd.in:]
		if r.cmd.out > 0 {
			r.outLen, r.uhwLen = r.cmd.out, out-r.cmd.out
		}
	}
	return nil
}

// decodeExtended: lengths are in words of 8 octets, of the request without its
// headers; the provider's are told apart.
func (r *request) decodeExtended(b []byte, in, out int) error {
	if len(b) < extendedHeaderLen {
		return syscall.EINVAL
	}
	answerAt, reserved := native.Uint64(b[8:]), native.Uint32(b[20:])
	uhwIn, uhwOut := int(native.Uint16(b[16:]))*8, int(native.Uint16(b[18:]))*8
	b = b[extendedHeaderLen:]
	switch {
	case in+uhwIn != len(b):
		return syscall.EINVAL
	case in < r.cmd.least:
		return syscall.ENOSPC
	case reserved != 0, (answerAt == 0) != (out+uhwOut == 0):
		return syscall.EINVAL
	case answerAt != 0 && out < r.cmd.out:
		return syscall.ENOSPC
	case in > r.cmd.in && !isZero(b[r.cmd.in:in]):
		return syscall.EOPNOTSUPP
	}
	r.in, r.uhw = b[:min(in, r.cmd.in)], b[in:]
	r.answerAt, r.outLen, r.uhwLen = answerAt, out, uhwOut
	return nil
}

// words is an answer of these words.
func words(values ...uint32) (b []byte) {
	for _, v := range values {
		b = native.AppendUint32(b, v)
	}
	return b
}

// length is what the answer to an extended command says of its own length: as
// much of struct T as the program has room for.
func length[T any](r *request) uint32 { return uint32(min(r.outLen, int(unsafe.Sizeof(*new(T))))) }

// answer writes core, which it cuts or fills up with zeros to the room that
// the program has, and behind it the provider's part.
func (r *request) answer(core, uhw []byte) error {
	n := r.outLen + min(r.uhwLen, len(uhw))
	if n == 0 && r.io == nil {
		return nil
	}
	whole := make([]byte, n)
	copy(whole[:r.outLen], core)
	if r.io != nil {
		return r.scatter(whole[:r.outLen], uhw)
	}
	copy(whole[r.outLen:], uhw)
	return r.c.Write(r.answerAt, whole)
}

// wantsUHW refuses a program without room for n octets of the provider's: it
// could not find the rings that the command makes.
func (r *request) wantsUHW(n int) error {
	if r.uhwLen < n {
		return syscall.EINVAL
	}
	return nil
}
