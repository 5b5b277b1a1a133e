package siwt

import (
	"encoding/binary"
	"hash/fnv"
)

const (
	magic = 0x73697774
	half  = 4 << 20 // octets of a server's buffer

	askLen, offerLen, answerLen = 8, 32, 16

	flagReject = 1 // turn the connection down
	flagSRQ    = 2 // receive from a shared receive queue
	flagKiB    = 4 // the size of receives is in KiB
	flagAnswer = 8 // answer Sends

	rejection = "siwt: rejected as requested\x00"
)

// ask is what a client's private data begins with.
type ask struct {
	flags, receives uint8
	size            uint16
}

func (a ask) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = append(b, a.flags, a.receives)
	return binary.LittleEndian.AppendUint16(b, a.size)
}

// parseAsk reads a client's wishes; others' private data, or none, means the
// defaults.
func parseAsk(b []byte) ask {
	if len(b) < askLen || binary.LittleEndian.Uint32(b) != magic {
		return ask{receives: 16, size: 4096}
	}
	return ask{b[4], b[5], binary.LittleEndian.Uint16(b[6:])}
}

// octets is the size of a receive.
func (a ask) octets() int {
	if a.flags&flagKiB != 0 {
		return int(a.size) << 10
	}
	return int(a.size)
}

// private is a client's private data: the wishes, and behind them octets that
// count.
func private(a ask, n int) []byte {
	b := a.appendTo(make([]byte, 0, n))
	for i := len(b); i < n; i++ {
		b = append(b, byte(i))
	}
	return b
}

// offer describes the server's buffer: its STags by what they allow.
type offer struct {
	rw, ro, wo, other, length uint32
	addr                      uint64
}

func (o offer) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, offerLen), magic)
	for _, v := range []uint32{o.rw, o.ro, o.wo, o.other, o.length} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint64(b, o.addr)
}

func parseOffer(b []byte) (o offer, ok bool) {
	if len(b) < offerLen || binary.LittleEndian.Uint32(b) != magic {
		return offer{}, false
	}
	u := binary.LittleEndian.Uint32
	return offer{u(b[4:]), u(b[8:]), u(b[12:]), u(b[16:]), u(b[20:]), binary.LittleEndian.Uint64(b[24:])}, true
}

// answer tells what a Send brought.
type answer struct{ length, sum, invalidated uint32 }

func (a answer) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, answerLen), magic)
	for _, v := range []uint32{a.length, a.sum, a.invalidated} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func parseAnswer(b []byte) (a answer, ok bool) {
	if len(b) != answerLen || binary.LittleEndian.Uint32(b) != magic {
		return answer{}, false
	}
	u := binary.LittleEndian.Uint32
	return answer{u(b[4:]), u(b[8:]), u(b[12:])}, true
}

// sum is FNV-1a.
func sum(b []byte) uint32 {
	h := fnv.New32a()
	h.Write(b)
	return h.Sum32()
}

// fillServer is what a server's buffer holds at first.
func fillServer(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
}

// fillStep is what step number n sends.
func fillStep(b []byte, n int) {
	for i := range b {
		b[i] = byte(i*3 + n + i>>9)
	}
}
