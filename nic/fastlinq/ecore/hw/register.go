// Package hw is how the driver core reaches the chip: the windows of BAR0 onto
// its registers (GTT, which are fixed, and PTT, which are lent), doorbells in
// BAR1, and block copies by DMA (DMAE).
package hw

// regPage is how many registers come into being at once.
const regPage = 64

// Registers are those of one engine, each of 32 bits at an address divisible
// by 4. All functions of the engine share them. The zero value is an engine
// whose registers are zero.
type Registers struct {
	pages  map[uint32]*[regPage]uint32
	writes uint64
	// Dead is a chip that does not answer: it reads as all ones.
	Dead bool
	// StuckDMA is a DMA engine that does not finish.
	StuckDMA bool
}

// Read returns a register.
func (r *Registers) Read(addr uint32) uint32 {
	if r.Dead {
		return 0xffffffff
	}
	p := r.pages[addr/4/regPage]
	if p == nil {
		return 0
	}
	return p[addr/4%regPage]
}

// Writes counts those that had an effect: without more of them, Read returns the same.
func (r *Registers) Writes() uint64 { return r.writes }

// Write sets a register.
func (r *Registers) Write(addr, v uint32) {
	if r.Dead {
		return
	}
	r.writes++
	p := r.pages[addr/4/regPage]
	if p == nil {
		if v == 0 {
			return
		}
		if r.pages == nil {
			r.pages = map[uint32]*[regPage]uint32{}
		}
		p = new([regPage]uint32)
		r.pages[addr/4/regPage] = p
	}
	p[addr/4%regPage] = v
}

// WindowSize is the size of a window of BAR0 in octets.
const WindowSize = 0x1000

// FixedWindow is a window whose place never changes.
type FixedWindow struct {
	Name string
	BAR  uint32 // offset in BAR0
	Addr uint32 // of the first register behind it
}

// GTT are the fixed windows that are used.
var GTT = []FixedWindow{
	{"IGU_CMD", 0x00f000, 0x1c02000},
	{"TSDM_RAM", 0x010000, 0x1c80000},
	{"MSDM_RAM", 0x011000, 0x1d00000},
	{"MSDM_RAM_1024", 0x012000, 0x1d01000},
	{"USDM_RAM", 0x013000, 0x1d80000},
	{"USDM_RAM_1024", 0x014000, 0x1d81000},
	{"USDM_RAM_2048", 0x015000, 0x1d82000},
	{"XSDM_RAM", 0x016000, 0x1e00000},
	{"YSDM_RAM", 0x017000, 0x1e80000},
	{"PSDM_RAM", 0x018000, 0x1f00000},
}

// fixed translates an offset in BAR0 that lies in a fixed window.
func fixed(off uint32) (addr uint32, ok bool) {
	for _, w := range GTT {
		if off >= w.BAR && off < w.BAR+WindowSize {
			return w.Addr + off - w.BAR, true
		}
	}
	return 0, false
}
