package verbs

import (
	"fmt"

	"tapir/wire/enum"
)

// Status is the outcome of a work request, numbered as ibv_wc_status.
type Status uint8

const (
	StatusSuccess           Status = 0
	StatusLocalLength       Status = 1
	StatusLocalQPOp         Status = 2
	StatusLocalEEC          Status = 3
	StatusLocalProtection   Status = 4
	StatusFlushed           Status = 5
	StatusMWBind            Status = 6 // a bind, fast registration or local invalidation
	StatusBadResponse       Status = 7
	StatusLocalAccess       Status = 8
	StatusRemoteInvalid     Status = 9
	StatusRemoteAccess      Status = 10
	StatusRemoteOperation   Status = 11
	StatusRetryExceeded     Status = 12
	StatusRNRExceeded       Status = 13
	StatusLocalRDDViolation Status = 14
	StatusRemoteInvalidRD   Status = 15
	StatusRemoteAborted     Status = 16
	StatusInvalidEECN       Status = 17
	StatusInvalidEECState   Status = 18
	StatusFatal             Status = 19
	StatusResponseTimeout   Status = 20
	StatusGeneral           Status = 21
	StatusTM                Status = 22
	numStatus                      = 23
)

var statusNames = [numStatus]string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "WR flushed", "memory management operation error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation",
	"remote invalid RD request", "remote aborted", "invalid EE context number",
	"invalid EE context state", "fatal error", "response timeout", "general error",
	"tag matching error",
}

func (s Status) String() string {
	return enum.Name(statusNames[:], s, "status %d")
}

// WCOpcode says what completed, numbered as ibv_wc_opcode up to WCLocalInv
// and from WCRecv on, as the Linux kernel's ib_wc_opcode for WCRegMR and the
// masked atomics.
type WCOpcode uint8

const (
	WCSend           WCOpcode = 0
	WCWrite          WCOpcode = 1
	WCRead           WCOpcode = 2
	WCCompSwap       WCOpcode = 3
	WCFetchAdd       WCOpcode = 4
	WCBindMW         WCOpcode = 5
	WCLocalInv       WCOpcode = 6
	WCRegMR          WCOpcode = 10
	WCMaskedCompSwap WCOpcode = 11
	WCMaskedFetchAdd WCOpcode = 12
	WCSwap           WCOpcode = 13 // InfiniBand has no such operation
	WCRecv           WCOpcode = 128
	WCRecvWrite      WCOpcode = 129 // receive used up by a Write with immediate
)

var wcNames = map[WCOpcode]string{
	WCSend: "send", WCWrite: "write", WCRead: "read", WCCompSwap: "compare-swap",
	WCFetchAdd: "fetch-add", WCBindMW: "bind MW", WCLocalInv: "local invalidate",
	WCRegMR: "fast register", WCMaskedCompSwap: "masked compare-swap",
	WCMaskedFetchAdd: "masked fetch-add", WCSwap: "swap", WCRecv: "recv",
	WCRecvWrite: "recv with immediate",
}

func (o WCOpcode) String() string {
	if n, ok := wcNames[o]; ok {
		return n
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// WC is a work completion.
type WC struct {
	ID          uint64 // of the work request
	QP          *QP
	ByteLen     uint32 // octets received, read or sent
	Invalidated uint32 // STag that the peer's Send invalidated, if WithInv
	Imm         uint64 // immediate data, if WithImm
	Status      Status
	Opcode      WCOpcode
	WithInv     bool
	WithImm     bool
	Solicited   bool // the peer asked for an event
	GRH         bool // the first 40 octets received are a global route header or the IPv4 header
	SL          uint8
	PKeyIndex   uint16
	SrcQP       uint32 // sender's number, of a datagram
}
