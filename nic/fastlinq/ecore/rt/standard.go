package rt

import "hash/crc32"

// Block is a part of the chip that the driver sets up through the runtime
// array: slots Slot to Slot+Words-1 go to register Addr in a phase.
type Block struct {
	Name  string
	Slot  int
	Words int
	Addr  uint32
	Phase Phase
}

// The blocks of the standard program.
var (
	PGlue    = Block{"PGLUE_B", 0, 64, 0x2a8000, Engine}
	QMCommon = Block{"QM", 64, 4096, 0x2f0000, Engine}
	NIGPort  = Block{"NIG", 4160, 256, 0x500000, Port}
	PRSPort  = Block{"PRS_PORT", 4416, 64, 0x1f8000, Port}
	IGU      = Block{"IGU", 4480, 1024, 0x180000, PF}
	CAU      = Block{"CAU", 5504, 1472, 0x1c0000, PF}
	DORQ     = Block{"DORQ", 6976, 64, 0x100000, PF}
	PRS      = Block{"PRS", 7040, 64, 0x1f0000, PF}
	SRC      = Block{"SRC", 7104, 32, 0x238000, PF}
	TM       = Block{"TM", 7136, 32, 0x2c0000, PF}
	PSWRQ2   = Block{"PSWRQ2", 7168, 64, 0x240000, PF}
	ILT      = Block{"PSWRQ2_ILT", 7232, 22000, 0x260000, PF}
	QM       = Block{"QM_PF", 29232, 2048, 0x2f8000, QMPF}
	VFZone   = Block{"VF_ZONE", 31280, 256, 0x1a0000, VF}
)

// Blocks are those of the standard program in the order that it writes them.
var Blocks = []Block{PGlue, QMCommon, NIGPort, PRSPort, IGU, CAU, DORQ, PRS, SRC, TM, PSWRQ2, ILT, QM, VFZone}

// Registers that the standard program writes itself.
const (
	RegChip  = 0x8000 // MISC: 1 BB, 2 K2
	RegPorts = 0x8004 // of the engine
	RegMF    = 0x8008 // 0 single function, 1 SD, 2 SI
	RegDone  = 0x800c // the latest phase plus one
	RegReady = 0x8010 // 1 as soon as the chip is out of reset
	RegClear = 0x400000
	RegFill  = 0x410000
)

// Version is that of the standard program: 8.40.33.0, an octet each.
const Version = 8<<24 | 40<<16 | 33<<8

// Storm is one of the six processors of an engine, which run the firmware.
type Storm uint8

// The storms, in the order of their memories.
const (
	TStorm Storm = iota
	MStorm
	UStorm
	XStorm
	YStorm
	PStorm
	NumStorms
)

// RAM is where a storm's memory begins, which the ENGINE phase loads with an
// array of the firmware.
func (s Storm) RAM() uint32 { return 0x1c80000 + uint32(s)<<19 }

// What lies at the start of each of these memories, in octets from there.
const (
	RAMVersion = 0  // of the firmware
	RAMStorm   = 4  // whose it is: the number of the storm plus one
	RAMTable   = 64 // of TStorm: the table of CRC-32C by which groups get their bins
	ramHeader  = RAMTable / 4
)

// stormRAM is the content of a storm's memory.
func stormRAM(s Storm, version uint32) []uint32 {
	words := make([]uint32, ramHeader, ramHeader+256)
	words[RAMVersion/4], words[RAMStorm/4] = version, uint32(s)+1
	if s == TStorm {
		words = append(words, crc32.MakeTable(crc32.Castagnoli)[:]...)
	}
	return words
}

// assembler writes a program.
type assembler struct{ p Program }

func (a *assembler) op(first, second uint32) { a.p.Ops = append(a.p.Ops, Op{first, second}) }

func (a *assembler) write(addr, v uint32) { a.op(addr>>2<<addrShift|srcInline<<4|opWrite, v) }

func (a *assembler) runtime(b Block) {
	a.op(b.Addr>>2<<addrShift|srcRuntime<<4|opWrite, uint32(b.Words)|uint32(b.Slot)<<16)
}

// array writes an array of the given header and words.
func (a *assembler) array(addr, header uint32, words ...uint32) {
	a.op(addr>>2<<addrShift|srcArray<<4|opWrite, uint32(len(a.p.Array)))
	a.p.Array = append(append(a.p.Array, header), words...)
}

// phase has body run in a phase only.
func (a *assembler) phase(ph Phase, body func()) {
	at := len(a.p.Ops)
	a.op(opIfPhase, uint32(ph)|AnyID<<16)
	body()
	a.p.Ops[at][0] |= uint32(len(a.p.Ops)-at-1) << 16
}

// mode has body run if the tree of modes holds.
func (a *assembler) mode(body func(), tree ...byte) {
	at := len(a.p.Ops)
	a.op(opIfMode, uint32(len(a.p.Trees)))
	a.p.Trees = append(a.p.Trees, tree...)
	body()
	a.p.Ops[at][0] |= uint32(len(a.p.Ops)-at-1) << 16
}

// is is the leaf of a mode tree.
func is(m Mode) byte { return numOperators + byte(m) }

// Standard is the program of the model's own firmware.
func Standard() *Program {
	var a assembler
	for ph := range numPhases {
		a.phase(ph, func() {
			if ph == Engine {
				a.engine()
			}
			for _, b := range Blocks {
				if b.Phase == ph {
					a.runtime(b)
				}
			}
			a.write(RegDone, uint32(ph)+1)
		})
	}
	return &a.p
}

// engine begins the ENGINE phase: wait for the chip, say what it is, clear its
// memories, go on by DMA, and load the storms.
func (a *assembler) engine() {
	a.op(RegReady>>2<<addrShift|pollEQ<<4|opRead, 1)
	a.mode(func() { a.write(RegChip, 1) }, is(BB))
	a.mode(func() { a.write(RegChip, 2) }, is(K2))
	a.mode(func() { a.write(RegPorts, 1) }, is(Ports1))
	a.mode(func() { a.write(RegPorts, 2) }, is(Ports2))
	a.mode(func() { a.write(RegPorts, 4) }, is(Ports4))
	a.mode(func() { a.write(RegMF, 0) }, treeNot, treeOr, is(MFSD), is(MFSI))
	a.mode(func() { a.write(RegMF, 1) }, is(MFSD))
	a.mode(func() { a.write(RegMF, 2) }, treeAnd, is(MFSI), treeNot, is(MFSD))
	a.op(opCallback, DMAEReady)
	a.op(RegClear>>2<<addrShift|srcZeros<<4|opWrite, 32)
	for s := range NumStorms {
		words := stormRAM(s, Version)
		a.array(s.RAM(), uint32(len(words))<<4|arrayStandard, words...)
	}
	a.array(RegFill, 8<<8|4<<4|arrayPattern, 0x11111111, 0x22222222, 0x33333333, 0x44444444)
}
