package rt

import (
	"encoding/binary"

	"tapir/nic/fastlinq/status"
)

// smallArray is the number of words below which packing an array is not worth
// it.
const smallArray = 16

// Zip is the program with its arrays packed by deflate, for those who have an
// Inflate. Patterns and short arrays stay as they are.
func (p *Program) Zip(deflate func(plain []byte) []byte) *Program {
	z := &Program{Ops: append([]Op(nil), p.Ops...), Trees: p.Trees}
	moved := map[uint32]uint32{} // offset of an array: where it is now
	for i, op := range z.Ops {
		if op[0]&15 != opWrite || op[0]>>4&7 != srcArray {
			continue
		}
		at, ok := moved[op[1]]
		if !ok {
			at = uint32(len(z.Array))
			moved[op[1]] = at
			z.Array = append(z.Array, p.packed(op[1], deflate)...)
		}
		z.Ops[i][1] = at
	}
	return z
}

// packed is an array with its header, packed if that is worth it.
func (p *Program) packed(off uint32, deflate func([]byte) []byte) []uint32 {
	words, _, err := p.array(int(off))
	if err != nil {
		return nil // the program was parsed: it has the array
	}
	if p.Array[off]&15 != arrayStandard || len(words) < smallArray || len(words) > maxZipped {
		return p.Array[off : int(off)+1+len(words)]
	}
	b := deflate(octetsOf(words))
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return append([]uint32{uint32(len(b)/4)<<4 | arrayZipped}, wordsOf(b)...)
}

// Zipped counts the arrays that are packed.
func (p *Program) Zipped() (n int) {
	for _, op := range p.Ops {
		if op[0]&15 == opWrite && op[0]>>4&7 == srcArray && p.Array[op[1]]&15 == arrayZipped {
			n++
		}
	}
	return n
}

// CheckZipped unpacks every array that is packed, so that a run cannot fail on
// one half-way. INVAL: one does not unpack, or there is nothing that does it.
func (p *Program) CheckZipped(inflate Inflate) error {
	for i, op := range p.Ops {
		if op[0]&15 != opWrite || op[0]>>4&7 != srcArray || p.Array[op[1]]&15 != arrayZipped {
			continue
		}
		words, _, err := p.array(int(op[1]))
		if err == nil {
			_, err = unzip(words, inflate)
		}
		if err != nil {
			return status.Inval.Errorf("init operation %d: the array at word %d: %v", i, op[1], err)
		}
	}
	return nil
}

// maxZipped is the size of the unpacked array in words.
const maxZipped = 8192

func unzip(words []uint32, inflate Inflate) ([]uint32, error) {
	if inflate == nil {
		return nil, status.Inval.Errorf("a zipped array and nothing that unpacks it")
	}
	plain, err := inflate(octetsOf(words))
	if err != nil || len(plain)%4 != 0 || len(plain) > 4*maxZipped {
		return nil, status.Inval.Errorf("a zipped array of %d octets does not unpack (%d octets): %v", 4*len(words),
			len(plain), err)
	}
	return wordsOf(plain), nil
}

// octetsOf are words as octets, little endian; wordsOf the contrary.
func octetsOf(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func wordsOf(b []byte) []uint32 {
	list := make([]uint32, 0, len(b)/4)
	for ; len(b) >= 4; b = b[4:] {
		list = append(list, binary.LittleEndian.Uint32(b))
	}
	return list
}

// Sections are the operations and arrays of a program as the firmware file has
// them.
func (p *Program) Sections() (ops, array []byte) {
	for _, op := range p.Ops {
		ops = append(ops, octetsOf(op[:])...)
	}
	return ops, octetsOf(p.Array)
}
