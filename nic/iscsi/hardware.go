package iscsi

import (
	"tapir/nic/iscsi/keys"
	"tapir/wire/enum"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// Hardware is the connection of an offload function that has taken a session over in its
// full feature phase. The session's PDUs go by its queues.
type Hardware interface {
	Link
	// Post puts a PDU that ends at that octet of the stream into the send queue; false: it
	// is full.
	Post(end uint64) bool
	// Sendable is how far the stream may be sent now.
	Sendable() uint64
	// TakeTask takes one of the tasks that there are; false: all are in use, and wake is
	// called when one has been given back by GiveTask.
	TakeTask(wake func()) bool
	GiveTask()
	// Received counts a PDU.
	Received()
	// Complete has take called with a PDU (borrowed until Complete returns), now or when the
	// driver looks at its completion queue. Drain has it look now.
	Complete(h *iscsi.BHS, data []byte, take func(h *iscsi.BHS, data []byte, now frame.Time)) Error
	Drain(now frame.Time)
	// Violation reports why the session ends.
	Violation(Error)
}

// offloaded is the part of a session that hardware has, if it does.
type offloaded struct{ hw Hardware }

// complete has a PDU taken by way of the completion queue.
func (o *offloaded) complete(h *iscsi.BHS, data []byte, now frame.Time,
	take func(h *iscsi.BHS, data []byte, now frame.Time)) Error {
	if o.hw == nil {
		take(h, data, now)
		return NoError
	}
	o.hw.Received()
	return o.hw.Complete(h, data, take)
}

// drain has the driver take what is in the completion queue.
func (o *offloaded) drain(now frame.Time) {
	if o.hw != nil {
		o.hw.Drain(now)
	}
}

// violation reports why the session ends.
func (o *offloaded) violation(e Error) {
	if o.hw != nil {
		o.hw.Violation(e)
	}
}

// Error is what is wrong with a PDU, or with what takes it (iscsi_error_types).
type Error uint8

// The errors.
const (
	NoError Error = iota
	ErrUnsolicited
	ErrTaskCID
	ErrTaskNotValid
	ErrRQFull
	ErrCmdQFull
	ErrHQECaching
	ErrHeaderDigest
	ErrLocalCompletion
	ErrDataOverrun
	ErrOutOfSGEs
	ErrIPOptions
	ErrParser
	ErrTCPOption
	ErrFragment
	ErrAHSLen
	ErrAHSType
	ErrITTRange
	ErrTTTRange
	ErrSegmentLength
	ErrOpcode
	ErrBeforeUpdate
	ErrNopInLength
	ErrR2TLength
	ErrDataSN
	ErrDataInTTT
	ErrDataOutITT
	ErrR2TTTT
	ErrR2TOffset
	ErrBufferOffset
	ErrR2TSN
	ErrDesired0
	ErrDesired1
	ErrDesired2
	ErrLUN
	ErrFBit
	ErrFBitSBit
	ErrExpStatSN
	ErrLengthNotZero
	ErrLength
	ErrLengthTooBig
	ErrR2TCount
	ErrDIF
	ErrSenseLength
	ErrPlacement
	ErrInvalidITT
	ErrUnknown
	NumErrors
)

var errorNames = [NumErrors]string{"NONE", "UNSOLICITED_RCV_ON_INVALID_CONN", "TASK_CID_MISMATCH", "TASK_NOT_VALID",
	"RQ_RING_IS_FULL", "CMDQ_RING_IS_FULL", "HQE_CACHING_FAILED", "HEADER_DIGEST_ERROR", "LOCAL_COMPLETION_ERROR",
	"DATA_OVERRUN", "OUT_OF_SGES_ERROR", "IP_OPTIONS_ERROR", "PRS_ERRORS", "CONNECT_INVALID_TCP_OPTION",
	"TCP_IP_FRAGMENT_ERROR", "AHS_LEN", "AHS_TYPE", "ITT_OUT_OF_RANGE", "TTT_OUT_OF_RANGE",
	"DATA_SEG_LEN_EXCEEDS_PDU_SIZE", "INVALID_OPCODE", "INVALID_OPCODE_BEFORE_UPDATE", "UNVALID_NOPIN_DSL",
	"R2T_CARRIES_NO_DATA", "DATA_SN", "DATA_IN_TTT", "DATA_OUT_ITT", "R2T_TTT", "R2T_BUFFER_OFFSET",
	"BUFFER_OFFSET_OOO", "R2T_SN", "DESIRED_DATA_TRNS_LEN_0", "DESIRED_DATA_TRNS_LEN_1", "DESIRED_DATA_TRNS_LEN_2",
	"LUN", "F_BIT_ZERO", "F_BIT_ZERO_S_BIT_ONE", "EXP_STAT_SN", "DSL_NOT_ZERO", "INVALID_DSL", "DATA_SEG_LEN_TOO_BIG",
	"OUTSTANDING_R2T_COUNT", "DIF_TX", "SENSE_DATA_LENGTH", "DATA_PLACEMENT_ERROR", "INVALID_ITT", "ERROR_UNKNOWN"}

// String is the error's name.
func (e Error) String() string { return enum.Name(errorNames[:], e, "Error(%d)") }

// Error implements error.
func (e Error) Error() string { return "iscsi: " + e.String() }

// Agreed is what a login has agreed on, as the firmware wants it. Lengths are in octets.
type Agreed struct {
	HeaderDigest, DataDigest, InitialR2T, ImmediateData bool
	MaxBurst, FirstBurst, MaxRecv, MaxSend              int
	ExpStatSN                                           uint32
}

func agreed(p *keys.Params, recv int, sn uint32) Agreed {
	return Agreed{HeaderDigest: p.Digests.Header, DataDigest: p.Digests.Data, InitialR2T: p.InitialR2T,
		ImmediateData: p.ImmediateData, MaxBurst: p.Burst, FirstBurst: p.First, MaxRecv: recv, MaxSend: p.Send,
		ExpStatSN: sn}
}

// Agreed is what the login has agreed on; false: it goes on, or the session is one of
// discovery or has ended.
func (c *Conn) Agreed() (Agreed, bool) {
	return agreed(&c.par, c.rd.Max, c.statSN), c.phase == fullFeature && c.node != nil && !c.closing
}

// Offload has hardware take the session over; its login has ended.
func (c *Conn) Offload(hw Hardware) {
	c.hw, c.link = hw, hw
	c.out.offload(hw)
	hw.Kick()
}

// Agreed is what the login has agreed on; false: it goes on, or the session is one of
// discovery or has ended.
func (i *Initiator) Agreed() (Agreed, bool) {
	return agreed(&i.par, i.rd.Max, i.statSN), i.stage == full && i.cfg.Target != "" && !i.over
}

// Offload has hardware take the session over; its login has ended. Commands that are
// outstanding are tasks of the hardware.
func (i *Initiator) Offload(hw Hardware) {
	i.hw, i.link = hw, hw
	for range i.requests {
		if !hw.TakeTask(func() {}) {
			i.borrowed++
		}
	}
	i.out.offload(hw)
	hw.Kick()
}
