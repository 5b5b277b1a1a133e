package iwarp

import "tapir/nic/cm"

// What the driver's user is told of a connection that failed or ended.
const (
	reset   = "ECONNRESET"
	refused = "ECONNREFUSED"
	busy    = "EBUSY"
)

func reason(code uint8, name, errno string) cm.Reason {
	return cm.Reason{Code: code, Name: name, Errno: errno}
}

// The reasons why connections fail or end, with the return codes of the FastLinQ iWARP
// firmware. An established connection ends with status 0 or ECONNRESET.
var (
	tcpReset              = reason(7, "TCP_RST", reset)                  // the SYN was answered with RST
	tcpTimeout            = reason(8, "TCP_TIMEOUT", busy)               // or not at all
	mpaReject             = reason(9, "MPA_REJECT", refused)             // the application said no
	mpaNotSupportedVer    = reason(10, "MPA_NOT_SUPPORTED_VER", refused) // an unknown MPA revision
	mpaReset              = reason(11, "MPA_RST", reset)                 // RST during MPA start-up
	mpaFin                = reason(12, "MPA_FIN", refused)               // FIN during MPA start-up
	mpaRTRMismatch        = reason(13, "MPA_RTR_MISMATCH", refused)      // no ready-to-receive indication in common
	mpaInsufficientIRD    = reason(14, "MPA_INSUF_IRD", refused)         // more Reads wanted than served
	mpaInvalidPacket      = reason(15, "MPA_INVALID_PACKET", refused)    // a start-up frame that is none
	localError            = reason(16, "LOCAL_ERROR", refused)           // a failure of this side
	mpaTimeout            = reason(17, "MPA_TIMEOUT", busy)              // the start-up frame did not come
	goodClose             = reason(19, "GOOD_CLOSE", "")                 // an orderly end
	badClose              = reason(20, "BAD_CLOSE", reset)               // an end that this side did not wait for
	llpClosed             = reason(21, "LLP_CLOSED", reset)              // FIN inside a message
	llpReset              = reason(22, "LLP_RESET", reset)               // RST in full operation
	irqFull               = reason(23, "IRQ_FULL", reset)                // more inbound Reads than agreed
	rqEmpty               = reason(24, "RQ_EMPTY", reset)                // a Send found no receive
	llpTimeout            = reason(25, "LLP_TIMEOUT", reset)             // TCP gave up
	remoteProtectionError = reason(26, "REMOTE_PROTECTION_ERROR", reset) // the peer tried what it has no right to
	cqOverflow            = reason(27, "CQ_OVERFLOW", reset)             // a completion queue was full
	localCatastrophic     = reason(28, "LOCAL_CATASTROPHIC", reset)      // an error of this side that ends the stream
	localAccessError      = reason(29, "LOCAL_ACCESS_ERROR", reset)      // a work request named memory it may not use
	remoteOperationError  = reason(30, "REMOTE_OPERATION_ERROR", reset)  // the peer violated the protocol
	terminateReceived     = reason(31, "TERMINATE_RECEIVED", reset)      // the peer found an error
)

// The events that only iWARP has, named as the FastLinQ driver's iWARP interface does.
const (
	evRequest               cm.DeviceEvent = "MPA_REQUEST"
	evReply                 cm.DeviceEvent = "ACTIVE_MPA_REPLY"
	evIRQFull               cm.DeviceEvent = "IRQ_FULL"
	evRQEmpty               cm.DeviceEvent = "RQ_EMPTY"
	evLLPTimeout            cm.DeviceEvent = "LLP_TIMEOUT"
	evRemoteProtectionError cm.DeviceEvent = "REMOTE_PROTECTION_ERROR"
	evCQOverflow            cm.DeviceEvent = "CQ_OVERFLOW"
	evQPCatastrophic        cm.DeviceEvent = "QP_CATASTROPHIC"
	evLocalAccessError      cm.DeviceEvent = "LOCAL_ACCESS_ERROR"
	evRemoteOperationError  cm.DeviceEvent = "REMOTE_OPERATION_ERROR"
	evTerminateReceived     cm.DeviceEvent = "TERMINATE_RECEIVED"
	evSRQEmpty              cm.DeviceEvent = "SRQ_EMPTY"
)

var words = cm.Words{
	Events: []cm.DeviceEvent{
		evRequest, cm.EvPassiveComplete, cm.EvListenPauseComp, evReply, cm.EvActiveComplete, cm.EvDisconnect,
		cm.EvClose, evIRQFull, evRQEmpty, evLLPTimeout, evRemoteProtectionError, evCQOverflow, evQPCatastrophic,
		evLocalAccessError, evRemoteOperationError, evTerminateReceived, cm.EvSRQLimit, evSRQEmpty,
		cm.EvDeviceRemoval,
	},
	Request: evRequest, Reply: evReply, Refusal: mpaReject,
}
