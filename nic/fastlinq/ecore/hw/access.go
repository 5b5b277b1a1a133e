package hw

import (
	"slices"

	"tapir/nic/fastlinq/status"
)

// Rd reads a register through a window; all ones, and an error, if the window
// may not be used.
func (b *BAR) Rd(p *PTT, addr uint32) (uint32, error) {
	if err := b.use(p, addr); err != nil {
		return 0xffffffff, err
	}
	v := b.Regs.Read(addr)
	b.trace("rd", addr, uint64(v), p.flow)
	return v, nil
}

// Wr writes a register through a window.
func (b *BAR) Wr(p *PTT, addr, v uint32) error {
	if err := b.use(p, addr); err != nil {
		return err
	}
	b.Regs.Write(addr, v)
	b.trace("wr", addr, uint64(v), p.flow)
	return nil
}

// RegRd reads through a fixed window, at an offset in BAR0, without a PTT.
// INVAL: there is no fixed window.
func (b *BAR) RegRd(off uint32) (uint32, error) {
	addr, ok := fixed(off)
	if !ok {
		return 0xffffffff, status.Inval.Errorf("BAR0 offset %#x lies in no fixed window", off)
	}
	v := b.Regs.Read(addr)
	b.trace("gtt-rd", addr, uint64(v), "")
	return v, nil
}

// RegWr writes through a fixed window.
func (b *BAR) RegWr(off, v uint32) error {
	addr, ok := fixed(off)
	if !ok {
		return status.Inval.Errorf("BAR0 offset %#x lies in no fixed window", off)
	}
	b.Regs.Write(addr, v)
	b.trace("gtt-wr", addr, uint64(v), "")
	return nil
}

func (b *BAR) trace(kind string, addr uint32, v uint64, flow string) {
	if b.Trace != nil {
		b.Trace(Access{kind, addr, v, flow})
	}
}

// DoorbellSize is the part of BAR1 that a function has, in octets.
const DoorbellSize = 1 << 23

// DoorbellAddr is the address of a connection's doorbell in BAR1.
func DoorbellAddr(cid int) uint32 { return uint32(cid) << 5 }

// Doorbell writes 4 or 8 octets to BAR1, which needs no window. INVAL: not in
// the BAR, or not that wide.
func (b *BAR) Doorbell(addr uint32, data uint64, width int) error {
	if err := checkDoorbell(addr, width); err != nil {
		return err
	}
	b.trace("db", addr, data, "")
	if b.Bell != nil {
		b.Bell(addr, data, width)
	}
	return nil
}

func checkDoorbell(addr uint32, width int) error {
	if width != 4 && width != 8 || addr%4 != 0 || addr > DoorbellSize-uint32(width) {
		return status.Inval.Errorf("doorbell of %d octets at %#x: BAR1 has %#x", width, addr, DoorbellSize)
	}
	return nil
}

// MaxCopy is the number of words of one DMAE command.
const MaxCopy = 0x2000

// copy runs the commands for n words, do with each part. BUSY: a command is
// under way on this function; TIMEOUT: the DMA engine does not finish.
func (b *BAR) copy(p *PTT, kind string, n int, do func(at, n int)) error {
	if b.copying {
		return status.Busy.Errorf("%s: a DMAE command is under way", kind)
	}
	if err := b.use(p, 0); err != nil {
		return err
	}
	b.copying = true
	defer func() { b.copying = false }()
	for at := 0; at < n; at += MaxCopy {
		if b.Regs.StuckDMA || b.Regs.Dead {
			return status.Timeout.Errorf("%s: the DMAE does not finish", kind)
		}
		b.stats.DMA++
		do(at, min(MaxCopy, n-at))
	}
	return nil
}

// HostToGRC copies words from the host to registers.
func (b *BAR) HostToGRC(p *PTT, src []uint32, addr uint32) error {
	return b.copy(p, "host to GRC", len(src), func(at, n int) {
		for i, v := range src[at : at+n] {
			b.Regs.Write(addr+uint32(4*(at+i)), v)
		}
		b.trace("dmae", addr+uint32(4*at), uint64(n), p.flow)
	})
}

// GRCToHost copies registers to the host.
func (b *BAR) GRCToHost(p *PTT, addr uint32, dst []uint32) error {
	return b.copy(p, "GRC to host", len(dst), func(at, n int) {
		for i := range n {
			dst[at+i] = b.Regs.Read(addr + uint32(4*(at+i)))
		}
		b.trace("dmae", addr+uint32(4*at), uint64(n), p.flow)
	})
}

// HostToHost copies between memories of the host, as from one function's to
// another's. INVAL: dst is shorter.
func (b *BAR) HostToHost(p *PTT, dst, src []uint32) error {
	if len(dst) < len(src) {
		return status.Inval.Errorf("copy of %d words to %d", len(src), len(dst))
	}
	return b.copy(p, "host to host", len(src), func(at, n int) { copy(dst[at:at+n], src[at:at+n]) })
}

// doorbell is an entry of Recovery.
type doorbell struct {
	addr  uint32
	data  func() uint64
	width int
}

// Recovery rings all doorbells again after the chip has dropped some.
type Recovery struct {
	bar      *BAR
	list     []doorbell
	occurred uint64
}

// NewRecovery returns an empty list of doorbells of a function.
func NewRecovery(b *BAR) *Recovery { return &Recovery{bar: b} }

// Add has a doorbell rung with what data says then. INVAL: it is not in BAR1
// or is there already.
func (r *Recovery) Add(addr uint32, width int, data func() uint64) error {
	if err := checkDoorbell(addr, width); err != nil {
		return err
	}
	if r.find(addr) >= 0 {
		return status.Inval.Errorf("doorbell %#x is in the recovery list already", addr)
	}
	r.list = append(r.list, doorbell{addr, data, width})
	return nil
}

func (r *Recovery) find(addr uint32) int {
	return slices.IndexFunc(r.list, func(d doorbell) bool { return d.addr == addr })
}

// Delete takes a doorbell out. INVAL: it is not in BAR1; one that is not in
// the list is left at that.
func (r *Recovery) Delete(addr uint32) error {
	if err := checkDoorbell(addr, 4); err != nil {
		return err
	}
	if i := r.find(addr); i >= 0 {
		r.list = slices.Delete(r.list, i, i+1)
	}
	return nil
}

// Execute rings all of them.
func (r *Recovery) Execute() error {
	r.occurred++
	for _, d := range r.list {
		if err := r.bar.Doorbell(d.addr, d.data(), d.width); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of doorbells, Occurred how often they were all rung.
func (r *Recovery) Len() int         { return len(r.list) }
func (r *Recovery) Occurred() uint64 { return r.occurred }
