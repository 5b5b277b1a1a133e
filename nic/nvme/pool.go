package nvme

import (
	"math/bits"

	"tapir/nic/verbs"
)

// Limits of the memory for data.
const (
	maxTransfer = 1 << 20  // octets that a command moves
	minBuffer   = 1 << 12  // octets of the smallest buffer
	maxData     = 64 << 20 // octets of all buffers
	maxIdle     = 8 << 20  // octets of those that are kept for later
)

// buffer is registered memory for the data of a command.
type buffer struct {
	data []byte
	mr   *verbs.MR
}

// sge is the buffer's first n octets.
func (b *buffer) sge(n int) verbs.SGE {
	return verbs.SGE{Addr: b.mr.Addr(), Length: uint32(n), LKey: b.mr.LKey()}
}

// pool holds buffers of powers of two.
type pool struct {
	pd         *verbs.PD
	free       [9][]*buffer // of minBuffer and up
	idle, used int          // octets
}

// class is the class of buffers for n octets.
func class(n int) int { return bits.Len(uint(max(n, minBuffer)-1)) - bits.Len(uint(minBuffer-1)) }

// get gives a buffer of at least n octets; nil: there is none now.
func (p *pool) get(n int) *buffer {
	k := class(n)
	size := minBuffer << k
	if p.used+size > maxData {
		return nil
	}
	var b *buffer
	if list := p.free[k]; len(list) > 0 {
		b, p.free[k] = list[len(list)-1], list[:len(list)-1]
		p.idle -= size
	} else {
		data := make([]byte, size)
		mr, err := p.pd.RegMR(data, verbs.LocalWrite)
		if err != nil {
			return nil
		}
		b = &buffer{data, mr}
	}
	p.used += size
	return b
}

// put takes a buffer back, outside of callbacks.
func (p *pool) put(b *buffer) (drop *verbs.MR) {
	size := len(b.data)
	p.used -= size
	if p.idle+size > maxIdle {
		return b.mr
	}
	p.idle += size
	p.free[class(size)] = append(p.free[class(size)], b)
	return nil
}
