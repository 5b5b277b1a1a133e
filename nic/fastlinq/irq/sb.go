package irq

import (
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// SB is a status block: what the device writes into the memory of the host,
// and what the driver remembers of it.
type SB struct {
	hwfn *Hwfn
	line int
	id   int

	pi   [PIs]uint16
	prod uint32 // 24 bits
	ack  uint32 // the producer that the driver has read

	events  uint64
	updates uint64
	handler func(sb *SB, now frame.Time)
}

// NumSBs counts status blocks: those of the PF and those of its VFs.
type NumSBs struct {
	Orig, Cnt, Free       int // fastpath: at first, now, not in use
	VFOrig, VFCnt, VFFree int
}

// SBInit takes the fastpath status block id, whose MSI-X vector is id+1, and
// clears it (ecore_int_sb_init). INVAL: there is no such block; EXISTS: it is
// in use.
func (h *Hwfn) SBInit(id int) (*SB, error) {
	n := id + 1
	if id < 0 || n >= len(h.byVector) || h.byVector[n] < 0 {
		return nil, status.Inval.Errorf("status block %d: the function has %d", id, h.Num().Cnt)
	}
	at := h.byVector[n]
	if h.sbs[at] != nil {
		return nil, status.Exists.Errorf("status block %d", id)
	}
	sb := &SB{hwfn: h, line: at, id: id}
	h.sbs[at] = sb
	return sb, nil
}

// Setup programs the CAU for a block: PI 0 and the CNQ's belong to the Rx state
// machine, the others to Tx, nothing is coalesced; and enables its line
// (ecore_int_sb_setup).
func (h *Hwfn) Setup(sb *SB) {
	for pi := range PIs {
		fsm := Tx
		if sb.id == SPSB || pi == RxPI || pi == CNQPI {
			fsm = Rx
		}
		h.cauPI[sb.line*PIs+pi] = uint32(fsm) << piFSM
	}
	h.cauSB[sb.line] = cauEntry{data: uint32(Disabled)<<sbState | uint32(Disabled)<<(sbState+4)}
	l := &h.lines[sb.line]
	l.prod, l.cons, l.enabled = 0, 0, true
	l.held, l.timers = [2]bool{}, [2]frame.Time{frame.Never, frame.Never}
}

// SBRelease gives a block back, zeroed (ecore_int_sb_release). INVAL: it is the
// slowpath's, vector 0, or not in use.
func (h *Hwfn) SBRelease(sb *SB) error {
	switch {
	case sb == nil || h.sbs[sb.line] != sb:
		return status.Inval.Errorf("release of a status block that is not in use")
	case sb == h.sp:
		return status.Inval.Errorf("release of vector 0, the slowpath's")
	}
	h.Setup(sb)
	h.lines[sb.line].enabled = false
	h.sisr &^= h.bit(sb.line)
	h.unacked &^= h.bit(sb.line)
	h.sbs[sb.line] = nil
	sb.pi, sb.prod, sb.ack, sb.handler = [PIs]uint16{}, 0, 0, nil
	return nil
}

// Num counts the status blocks (ecore_int_get_num_sbs).
func (h *Hwfn) Num() (n NumSBs) {
	n.Orig, n.VFOrig = h.orig, h.vfOrig
	for i := 1; i < len(h.lines); i++ {
		l, free := &h.lines[i], 0
		if h.sbs[i] == nil && l.mapping&mapVFTaken == 0 {
			free = 1
		}
		if l.mapping&mapPF != 0 {
			n.Cnt++
			n.Free += free
		} else {
			n.VFCnt++
			n.VFFree += free
		}
	}
	return n
}

// ID is what SBInit was given.
func (sb *SB) ID() int { return sb.id }

// PI is a protocol index as the host's memory has it.
func (sb *SB) PI(pi int) uint16 { return sb.pi[pi] }

// UpdateIdx reads the producer and tells whether it has changed since the last
// call (ecore_sb_update_sb_idx). Read the indices after it.
func (sb *SB) UpdateIdx() bool {
	if sb.ack == sb.prod {
		return false
	}
	sb.ack = sb.prod
	return true
}

// AckOp is what an acknowledgement does to the line.
type AckOp uint8

// The operations.
const (
	Enable  AckOp = iota // interrupt again, at once if the index is an old one
	Disable              // do not interrupt
	Nop
)

// Ack writes an operation and, with update, the producer that UpdateIdx has
// read into the IGU (ecore_sb_ack). No wake-up is lost: a block that was written
// between UpdateIdx and Ack with Enable interrupts at once.
func (sb *SB) Ack(op AckOp, update bool, now frame.Time) {
	h := sb.hwfn
	if h.sbs[sb.line] != sb {
		return // released
	}
	h.dev.now = now
	l := &h.lines[sb.line]
	if update {
		l.cons = sb.ack
	}
	h.acked(l, op, h.bit(sb.line))
}

// RegisterCB gives the first free protocol index of the slowpath's block to fn,
// which the slowpath calls when the index has moved
// (ecore_int_register_cb). NOMEM: none is free.
func (h *Hwfn) RegisterCB(fn func(now frame.Time)) (pi int, err error) {
	for pi := range PIs {
		if h.cbs[pi] == nil {
			h.cbs[pi], h.seen[pi] = fn, h.sp.pi[pi]
			return pi, nil
		}
	}
	return 0, status.NoMem.Errorf("all %d protocol indices of the slowpath are taken", PIs)
}

// UnregisterCB takes it back; NOMEM if it is free.
func (h *Hwfn) UnregisterCB(pi int) error {
	if pi < 0 || pi >= PIs || h.cbs[pi] == nil {
		return status.NoMem.Errorf("protocol index %d of the slowpath is free", pi)
	}
	h.cbs[pi] = nil
	return nil
}

// SP is the slowpath's status block.
func (h *Hwfn) SP() *SB { return h.sp }
