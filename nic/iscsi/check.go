package iscsi

import (
	"encoding/binary"

	"tapir/wire/iscsi"
)

// check tells what is wrong with a PDU of the target in the full feature phase (RFC 7143
// sections 4.2 and 11), and follows the numbers that it has.
func (i *Initiator) check(h *iscsi.BHS, data []byte) Error {
	op, itt := h.Opcode(), h.U32(iscsi.ITT)
	r := i.requests[itt]
	status := op == iscsi.DataIn && h[1]&iscsi.Status != 0
	switch {
	case h[4] != 0 && len(i.rd.AHS) == (3+int(binary.BigEndian.Uint16(i.rd.AHS))+3)&^3:
		return ErrAHSType // targets send none
	case h[4] != 0:
		return ErrAHSLen
	case !known(op):
		return ErrOpcode
	case status && h[1]&iscsi.Final == 0:
		return ErrFBitSBit
	case op != iscsi.DataIn && op != iscsi.TextRsp && op != iscsi.LoginRsp && h[1]&iscsi.Final == 0:
		return ErrFBit
	case op == iscsi.NopIn && itt == iscsi.Unassigned && len(data) > 0:
		return ErrNopInLength
	case (op == iscsi.LogoutRsp || op == iscsi.TaskResponse) && len(data) > 0:
		return ErrLengthNotZero
	}
	var bad Error
	switch op {
	case iscsi.R2T:
		bad = i.checkR2T(h, r)
	case iscsi.DataIn:
		bad = i.checkDataIn(h, r, len(data))
	case iscsi.Response:
		if bad = i.checkTask(h, r); bad == NoError && len(data) > 0 &&
			(len(data) < 2 || 2+int(data[0])<<8+int(data[1]) > len(data)) {
			bad = ErrSenseLength
		}
	}
	if bad != NoError {
		return bad
	}
	if status || op != iscsi.R2T && op != iscsi.DataIn && (op != iscsi.NopIn || itt != iscsi.Unassigned) {
		if h.U32(iscsi.StatSN) != i.statSN {
			return ErrExpStatSN
		}
		i.statSN++
	}
	return NoError
}

// known tells whether targets send such a PDU.
func known(op iscsi.Opcode) bool {
	return op >= iscsi.NopIn && op <= iscsi.LogoutRsp || op == iscsi.R2T || op == iscsi.Async || op == iscsi.Reject
}

// checkTask looks for the command that a PDU is about.
func (i *Initiator) checkTask(h *iscsi.BHS, r *Request) Error {
	switch itt := h.U32(iscsi.ITT); {
	case r != nil:
		return NoError
	case itt == iscsi.Unassigned:
		return ErrInvalidITT
	case iscsi.Less(i.itt, itt):
		return ErrITTRange
	}
	return ErrTaskNotValid
}

// checkDataIn is about a Data-In with n octets. Data comes in order (DataPDUInOrder,
// DataSequenceInOrder).
func (i *Initiator) checkDataIn(h *iscsi.BHS, r *Request, n int) Error {
	if bad := i.checkTask(h, r); bad != NoError {
		return bad
	}
	off := int(h.U32(iscsi.Offset))
	switch {
	case h.U32(iscsi.TTT) != iscsi.Unassigned:
		return ErrDataInTTT
	case len(r.In) == 0 && n > 0:
		return ErrPlacement
	case n == 0 && h[1]&iscsi.Status == 0:
		return ErrLength
	case h.U32(iscsi.DataSN) != r.dataSN:
		return ErrDataSN
	case n > 0 && off != r.got:
		return ErrBufferOffset
	case r.got+n > len(r.In):
		return ErrDataOverrun
	}
	r.dataSN++
	return NoError
}

// checkR2T is about a request for data, which is answered before the next one.
func (i *Initiator) checkR2T(h *iscsi.BHS, r *Request) Error {
	if bad := i.checkTask(h, r); bad != NoError {
		return bad
	}
	off, n := int(h.U32(iscsi.Offset)), int(h.U32(iscsi.Desired))
	switch {
	case h.DataLen() > 0:
		return ErrR2TLength
	case len(r.Out) == 0:
		return ErrTaskNotValid
	case h.LUN() != r.LUN:
		return ErrLUN
	case h.U32(iscsi.TTT) == iscsi.Unassigned:
		return ErrR2TTTT
	case h.U32(iscsi.R2TSN) != r.dataSN:
		return ErrR2TSN
	case i.rdma == nil && i.out.una < r.until: // MaxOutstandingR2T is 1
		return ErrR2TCount
	case off != r.asked:
		return ErrR2TOffset
	case n == 0:
		return ErrDesired0
	case n > i.par.Burst:
		return ErrDesired1
	case off+n > len(r.Out):
		return ErrDesired2
	}
	r.asked += n
	r.dataSN++
	return NoError
}
