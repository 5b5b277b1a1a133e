package nic

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"tapir/nic/irq"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// Interrupts holds the choices of the NIC's interrupts.
type Interrupts struct {
	Mode    string // msix, msi, inta or poll; empty: msix
	Vectors int    // MSI-X vectors that the machine grants; 0: as many as are wanted
	// RxUsecs and TxUsecs are how long frames received, completions, and frames
	// sent wait for others before they interrupt, in microseconds; 0: not at
	// all.
	RxUsecs, TxUsecs int
}

// rxRing bounds the frames that wait for an interrupt, qede's default.
const rxRing = 1023

// interrupts join the data path with its status blocks: block 0 is that of the
// Ethernet queue, the others those of the completion notification queues. TCP
// segments of the offload engine are no frames of that queue.
type interrupts struct {
	dev  *irq.Device
	l2   *irq.SB
	cnqs []*irq.SB // of each CNQ; they share blocks when there are too few

	holds    bool           // frames wait for their interrupt
	rx       []*frame.Frame // that do
	received int            // frames that are not yet reported
	sent     int
}

// composeInterrupts makes the interrupts and lets the CNQs use them.
func (d *Device) composeInterrupts() error {
	c, cnqs := &d.cfg.Interrupts, d.Verbs.Limits().MaxCNQ
	want := irq.Config{SBs: min(1+cnqs, irq.MaxSBs-1), Mode: irq.MSIX, Platform: irq.Platform{Vectors: c.Vectors}}
	if c.Mode != "" {
		var err error
		if want.Mode, err = irq.ParseMode(c.Mode); err != nil {
			return err
		}
	}
	if c.Vectors == 0 {
		want.Platform.Vectors = irq.MaxVectors
	}
	dev, err := irq.New(want)
	if err != nil {
		return err
	}
	h := dev.Hwfns[0]
	var blocks []*irq.SB
	for id := range h.Num().Cnt {
		sb, err := h.SBInit(id)
		if err != nil {
			return err
		}
		h.Setup(sb)
		blocks = append(blocks, sb)
	}
	i := &d.interrupts
	i.dev, i.l2 = dev, blocks[0]
	if len(blocks) > 1 {
		blocks = blocks[1:]
	}
	for n := range cnqs {
		i.cnqs = append(i.cnqs, blocks[n%len(blocks)])
	}
	for _, sb := range append(blocks, i.l2) {
		sb.Handle(d.serveBlock)
	}
	d.Verbs.SetInterrupt(func(n int) { i.cnqs[n].Event(irq.CNQPI, d.now) })
	h.IntEnable(0)
	return d.setCoalescing()
}

// serveBlock is the interrupt handler of a status block.
func (d *Device) serveBlock(sb *irq.SB, _ frame.Time) {
	i := &d.interrupts
	for n, at := range i.cnqs {
		if at == sb {
			d.Verbs.ServeCNQ(n)
		}
	}
	if sb == i.l2 {
		d.serveRx()
	}
}

// setCoalescing programmes the status blocks as the configuration says.
func (d *Device) setCoalescing() error {
	i, c := &d.interrupts, &d.cfg.Interrupts
	i.holds = c.RxUsecs > 0 || i.dev.Mode() == irq.Poll
	if err := i.l2.SetTimer(irq.Rx, c.RxUsecs, d.now); err != nil {
		return err
	}
	for _, sb := range i.cnqs {
		if err := sb.SetTimer(irq.Rx, c.RxUsecs, d.now); err != nil {
			return err
		}
	}
	return i.l2.SetTimer(irq.Tx, c.TxUsecs, d.now)
}

// awaits holds a frame of the Ethernet queue until its interrupt; false if it
// is the offload engine's. A ring that is full does not wait.
func (d *Device) awaits(f *frame.Frame) bool {
	i := &d.interrupts
	if !i.holds || d.forEngine(f.Bytes()) {
		return false
	}
	if len(i.rx) == rxRing {
		d.serveRx()
	}
	if f.Seen == 0 {
		f.Seen = d.now // when it came, whenever it is looked at
	}
	i.rx = append(i.rx, f)
	i.received++
	return true
}

// forEngine tells whether a frame is a TCP segment for the offload engine.
func (d *Device) forEngine(b []byte) bool {
	eth, n, err := ether.Parse(b)
	if err != nil || eth.Type != ether.TypeIPv4 && eth.Type != ether.TypeIPv6 {
		return false
	}
	h, seg, err := ip.ParseQuoted(b[n:])
	if err != nil || h.Proto != ip.ProtoTCP || h.IsFragment() || len(seg) < 4 {
		return false
	}
	if d.host.link == nil {
		return true
	}
	remote := netip.AddrPortFrom(h.Src, binary.BigEndian.Uint16(seg))
	local := netip.AddrPortFrom(h.Dst, binary.BigEndian.Uint16(seg[2:]))
	return d.toe.Owns(local, remote)
}

// serveRx takes the frames that waited.
func (d *Device) serveRx() {
	i := &d.interrupts
	for n, f := range i.rx {
		i.rx[n] = nil
		d.handleWire(f)
	}
	i.rx = i.rx[:0]
}

// reportReceived interrupts for the frames of a batch.
func (d *Device) reportReceived() {
	if i := &d.interrupts; i.received > 0 {
		n := i.received
		i.received = 0
		i.l2.Events(irq.RxPI, n, d.now)
	}
}

// pollInterrupts lets those interrupt whose time has come, and returns when it
// wants to be called again; in mode POLL it is the driver's look.
func (d *Device) pollInterrupts() frame.Time {
	dev := d.interrupts.dev
	next := dev.Poll(d.now)
	if dev.Mode() == irq.Poll && dev.Look(d.now) {
		next = dev.Poll(d.now)
	}
	return next
}

// reportSent interrupts for the frames that have left, and polls for what was
// sent and completed meanwhile.
func (d *Device) reportSent() frame.Time {
	i := &d.interrupts
	if i.sent > 0 {
		n := i.sent
		i.sent = 0
		i.l2.Events(irq.TxPI0, n, d.now)
	}
	return d.pollInterrupts()
}

// IRQInfo describes a status block and its vector for display.
type IRQInfo struct {
	SB         string `json:"sb"` // its number, or sp: the slowpath's
	User       string `json:"user"`
	Mode       string `json:"mode"`
	Vector     int    `json:"vector"`     // -1: none
	Interrupts uint64 `json:"interrupts"` // of the vector
	Events     uint64 `json:"events"`
	Updates    uint64 `json:"updates"` // writes of the block
	RxUsecs    int    `json:"rx_usecs"`
	TxUsecs    int    `json:"tx_usecs"`
}

// ShowIRQ describes the status blocks.
func (d *Device) ShowIRQ() []IRQInfo {
	i := &d.interrupts
	vectors := i.dev.ShowVectors()
	row := func(sb *irq.SB, name, user string, vector int) IRQInfo {
		info := IRQInfo{SB: name, User: user, Mode: i.dev.Mode().String(), Vector: -1, Events: sb.Reported(), Updates: sb.Updates(),
			RxUsecs: sb.Coalesce(irq.RxPI), TxUsecs: sb.Coalesce(irq.TxPI0)}
		if i.dev.Mode() != irq.MSIX {
			vector = 0
		}
		if len(vectors) > 0 {
			info.Vector, info.Interrupts = vector, vectors[vector].Interrupts
		}
		return info
	}
	list := []IRQInfo{row(i.dev.Hwfns[0].SP(), "sp", "slowpath", 0)}
	users := map[*irq.SB]string{i.l2: "ethernet"}
	order := []*irq.SB{i.l2}
	for n, sb := range i.cnqs {
		if users[sb] == "" {
			users[sb] = fmt.Sprintf("cnq %d", n)
			order = append(order, sb)
		} else {
			users[sb] += fmt.Sprintf(", cnq %d", n)
		}
	}
	for _, sb := range order {
		list = append(list, row(sb, fmt.Sprint(sb.ID()), users[sb], sb.ID()+1))
	}
	return list
}
