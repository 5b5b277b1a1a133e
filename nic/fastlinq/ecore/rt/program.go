package rt

import (
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Phase is a stage of the initialisation.
type Phase uint8

// The phases, as the init tool numbers them.
const (
	Engine Phase = iota
	Port
	PF
	VF
	QMPF
	numPhases
)

var phaseNames = [...]string{"ENGINE", "PORT", "PF", "VF", "QM_PF"}

// String is the phase's name.
func (p Phase) String() string {
	return enum.Name(phaseNames[:], p, "Phase(%d)")
}

// AnyID is the phase id of operations for every port, PF or VF.
const AnyID = 0xffff

// Mode is a property of the device that operations may ask for.
type Mode uint8

// The modes.
const (
	BB Mode = iota
	K2
	ASIC
	EmulReduced
	EmulFull
	FPGA
	ChipSim
	SF
	MFSD
	MFSI
	Ports1
	Ports2
	Ports4
	CMT // 100G
	SkipPRAM
	EmulMAC
	NumModes
)

var modeNames = [...]string{
	"BB", "K2", "ASIC", "EMUL_REDUCED", "EMUL_FULL", "FPGA", "CHIPSIM", "SF", "MF_SD", "MF_SI",
	"PORTS_PER_ENG_1", "PORTS_PER_ENG_2", "PORTS_PER_ENG_4", "100G", "SKIP_PRAM_INIT", "EMUL_MAC",
}

// Modes is a set of modes.
type Modes uint32

// With is the set with one mode more.
func (s Modes) With(m Mode) Modes { return s | 1<<m }

// Has tells whether m is in the set.
func (s Modes) Has(m Mode) bool { return s>>m&1 != 0 }

// String lists the modes.
func (s Modes) String() string { return enum.Bits(modeNames[:], s) }

// Operations of a program: bits 3-0 of an operation's first word.
const (
	opRead = iota
	opWrite
	opIfMode
	opIfPhase
	opDelay
	opCallback
	numOps
)

// Sources of a write: bits 6-4.
const (
	srcInline = iota
	srcZeros
	srcArray
	srcRuntime
	numSources
)

// Polls of a read: bits 7-4.
const (
	pollNone = iota
	pollEQ
	pollOR
	pollAND
	numPolls
)

// Kinds of arrays: bits 3-0 of an array's first word, whose bits 31-4 are its
// length in words.
const (
	arrayStandard = iota
	arrayZipped
	arrayPattern // length in bits 7-4, repetitions in 31-8
)

// Nodes of a mode tree, which is in prefix order: an operator, or a mode plus
// their number.
const (
	treeNot = iota
	treeOr
	treeAnd
	numOperators
)

// DMAEReady is the callback that allows block copies; before it, in the
// ENGINE phase, they are refused.
const DMAEReady = 0

// addrShift is where the address of reads and writes begins.
const addrShift = 9

// Op is an operation: two words, as the firmware file has them, little endian
// there.
type Op [2]uint32

// Program is what the init tool runs: the operations, the arrays that they
// copy, and the trees of modes that they depend on.
type Program struct {
	Ops   []Op
	Array []uint32
	Trees []byte
}

// ParseProgram reads a program from the sections of a firmware file, INVAL if
// one is not whole or an operation leads out of its section.
func ParseProgram(ops, array, trees []byte) (*Program, error) {
	if len(ops)%8 != 0 || len(array)%4 != 0 || len(ops) == 0 {
		return nil, status.Inval.Errorf("init program of %d and %d octets: want whole operations of 8 and words of 4",
			len(ops), len(array))
	}
	p := &Program{Trees: append([]byte(nil), trees...)}
	for words := wordsOf(ops); len(words) > 0; words = words[2:] {
		p.Ops = append(p.Ops, Op{words[0], words[1]})
	}
	p.Array = wordsOf(array)
	for i, op := range p.Ops {
		if err := p.check(i, op); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// check refuses what Run could not follow.
func (p *Program) check(i int, op Op) error {
	bad := func(what string) error { return status.Inval.Errorf("init operation %d: %s", i, what) }
	switch op[0] & 15 {
	case opRead:
		if op[0]>>4&15 >= numPolls {
			return bad("no such poll")
		}
	case opWrite:
		return p.checkWrite(op, bad)
	case opIfMode, opIfPhase:
		if i+1+int(op[0]>>16) > len(p.Ops) {
			return bad("it skips beyond the end")
		}
		if op[0]&15 == opIfMode {
			if _, n := p.tree(int(op[1]), 0, 0); n < 0 {
				return bad("no mode tree there")
			}
		}
	case opDelay, opCallback:
	default:
		return bad("no such operation")
	}
	return nil
}

func (p *Program) checkWrite(op Op, bad func(string) error) error {
	switch op[0] >> 4 & 7 {
	case srcInline:
	case srcZeros:
		if op[1] > Slots {
			return bad("too many zeros")
		}
	case srcRuntime:
		if op[1]&0xffff+op[1]>>16 > Slots {
			return bad("beyond the runtime array")
		}
	case srcArray:
		_, _, err := p.array(int(op[1]))
		return err
	default:
		return bad("no such source")
	}
	return nil
}

// array is the array at an offset: its words, and how often they are
// repeated; 0: they are zipped.
func (p *Program) array(off int) (words []uint32, times int, err error) {
	if off < 0 || off >= len(p.Array) {
		return nil, 0, status.Inval.Errorf("init array at %d of %d words", off, len(p.Array))
	}
	h, n := p.Array[off], 0
	switch h & 15 {
	case arrayStandard:
		n, times = int(h>>4), 1
	case arrayZipped:
		n = int(h >> 4)
	case arrayPattern:
		n, times = int(h>>4&15), int(h>>8)
	default:
		return nil, 0, status.Inval.Errorf("init array at %d: no such kind", off)
	}
	if n == 0 || off+1+n > len(p.Array) || times*n > Slots {
		return nil, 0, status.Inval.Errorf("init array at %d: %d words, %d times, of %d", off, n, times, len(p.Array))
	}
	return p.Array[off+1 : off+1+n], times, nil
}

// treeDepth bounds the nesting of a mode tree.
const treeDepth = 16

// tree evaluates the mode tree at an offset and returns where it ends; -1: it
// is not whole.
func (p *Program) tree(off int, modes Modes, depth int) (holds bool, end int) {
	if off < 0 || off >= len(p.Trees) || depth > treeDepth {
		return false, -1
	}
	node := p.Trees[off]
	switch node {
	case treeNot:
		holds, end = p.tree(off+1, modes, depth+1)
		return !holds, end
	case treeOr, treeAnd:
		a, mid := p.tree(off+1, modes, depth+1)
		if mid < 0 {
			return false, -1
		}
		b, end := p.tree(mid, modes, depth+1)
		if node == treeOr {
			return a || b, end
		}
		return a && b, end
	}
	if m := Mode(node - numOperators); m < NumModes {
		return modes.Has(m), off + 1
	}
	return false, -1
}
