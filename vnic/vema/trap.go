package vema

import (
	"math/bits"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/frame"
)

// The rate limit of each vport's traps: the first one opens a window in which
// the Linux driver lets pass four more.
const (
	Window time.Duration = 4096 << 18 // 1.0737 s
	Burst                = 4
)

// limit is what a vport has to tell, and when it may. Each of the three
// opcodes is one bit: a change that is still to be told covers all those
// behind it, since the Ethernet Manager then asks for what is current.
type limit struct {
	pending uint8
	waiting bool // counted as delayed
	inBurst int
	until   frame.Time // end of the window
}

// traps are the vports with something to tell, a bit each.
type traps struct {
	due [4]uint64
	tid uint64
	mad [mad.TrapLen]byte
}

// VPortEvent takes note of what is to be told.
func (a *Agent) VPortEvent(n *vnic.Netdev, e vnic.Event) {
	switch e {
	case vnic.AddressChanged, vnic.UnicastChanged:
		a.tell(n, mad.TrapUnicastMACs)
	case vnic.MulticastChanged:
		a.tell(n, mad.TrapMulticastMACs)
	case vnic.LinkChanged:
		a.tell(n, mad.TrapLinkStatus)
	case vnic.Removed:
		a.vports[n.Num()] = vport{}
		a.traps.due[n.Num()/64] &^= 1 << (n.Num() % 64)
	}
}

func (a *Agent) tell(n *vnic.Netdev, op mad.TrapOpcode) {
	num := n.Num()
	a.vports[num].limit.pending |= 1 << op
	a.traps.due[num/64] |= 1 << (num % 64)
}

// Poll sends the traps that the limit allows. Nothing is sent, nor forgotten,
// while no Ethernet Manager has asked for traps or the port cannot send.
func (a *Agent) Poll(now frame.Time, send mad.Send) frame.Time {
	deadline := frame.Never
	if a.class.TrapLID == 0 {
		return deadline
	}
	for w := range a.traps.due {
		for left := a.traps.due[w]; left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			num := uint8(64*w + bit)
			next := a.sendTraps(num, now, send)
			if next == frame.Never {
				a.traps.due[w] &^= 1 << bit
			}
			deadline = min(deadline, next)
		}
	}
	return deadline
}

// sendTraps sends what vport num may tell and returns when it may tell more,
// frame.Never if there is nothing more.
func (a *Agent) sendTraps(num uint8, now frame.Time, send mad.Send) frame.Time {
	l := &a.vports[num].limit
	for l.pending != 0 {
		opening := now >= l.until
		if !opening && l.inBurst == Burst {
			if !l.waiting {
				l.waiting = true
				a.count.Delayed++
			}
			return l.until
		}
		op := mad.TrapOpcode(bits.TrailingZeros8(l.pending))
		if !a.sendTrap(num, op, send) {
			return now.Add(Window)
		}
		l.pending &^= 1 << op
		l.waiting = false
		if opening {
			l.until, l.inBurst = now.Add(Window), 0
		} else {
			l.inBurst++
		}
	}
	return frame.Never
}

func (a *Agent) sendTrap(num uint8, op mad.TrapOpcode, send mad.Send) bool {
	c := a.port.Netdev(num).Config()
	t := &a.traps
	mad.PutVEMA(t.mad[:], mad.MethodTrap, t.tid+1, mad.AttrNotice, 0)
	clear(t.mad[mad.VEMAHeaderLen:])
	notice := mad.Notice{
		IssuerLID: c.EncapSLID, Fabric: c.FabricID, VESW: c.VESWID, PortNum: c.PortNum,
		OPAPort: uint16(a.port.Lower().PortNum()), VPort: num, Opcode: op,
	}
	notice.Put(t.mad[mad.VEMAHeaderLen:])
	if !send(mad.Address{LID: a.class.TrapLID, QP: opa.QPGeneral, SL: a.class.TrapSL}, t.mad[:]) {
		return false
	}
	t.tid++
	a.count.Traps++
	return true
}
