package verify

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

	rejection = "verify: rejected as requested\x00"
)

// ask is what a client's private data begins with.
type ask struct {
	Magic           uint32
	Flags, Receives uint8
	Size            uint16
}

// parseAsk reads a client's wishes; others' private data, or none, means the
// defaults.
func parseAsk(b []byte) ask {
	if a, ok := parse[ask](b); ok && a.Magic == magic {
		return a
	}
	return ask{Receives: 16, Size: 4096}
}

// parse reads a structure at the front of b, little-endian.
func parse[T any](b []byte) (v T, ok bool) {
	_, err := binary.Decode(b, binary.LittleEndian, &v)
	return v, err == nil
}

// render is the reverse of parse.
func render(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // structures of numbers cannot fail
	}
	return b
}

// octets is the size of a receive.
func (a ask) octets() int {
	if a.Flags&flagKiB != 0 {
		return int(a.Size) << 10
	}
	return int(a.Size)
}

// private is a client's private data: the wishes, and behind them octets that
// count.
func private(a ask, n int) []byte {
	b := render(a)
	for i := len(b); i < n; i++ {
		b = append(b, byte(i))
	}
	return b
}

// offer describes the server's buffer: its STags by what they allow.
type offer struct {
	Magic, RW, RO, WO, Other, Length uint32
	Addr                             uint64
}

// answer tells what a Send brought.
type answer struct{ Magic, Length, Sum, Invalidated uint32 }

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
