package cm

import "fmt"

// Reason says why a connection could not be made or ended; the numbers are the
// return codes of the FastLinQ iWARP firmware.
type Reason uint8

const (
	// NoReason: nothing went wrong, so far.
	NoReason              Reason = 0
	ConnectInvalidPacket  Reason = iota + 5 // an answer to the SYN that is none
	TCPReset                                // the SYN was answered with RST
	TCPTimeout                              // or not at all
	MPAReject                               // the application said no
	MPANotSupportedVer                      // an MPA revision that this side does not speak
	MPAReset                                // RST during MPA start-up
	MPAFin                                  // FIN during MPA start-up
	MPARTRMismatch                          // no ready-to-receive indication in common
	MPAInsufficientIRD                      // one side wants more Reads than the other serves
	MPAInvalidPacket                        // a start-up frame that is none
	LocalError                              // a failure of this side
	MPATimeout                              // the start-up frame did not come
	MPATerminate                            // a Terminate during start-up
	GoodClose                               // an orderly end
	BadClose                                // an end that this side did not wait for
	LLPClosed                               // FIN inside a message
	LLPReset                                // RST in full operation
	IRQFull                                 // more inbound Reads than agreed
	RQEmpty                                 // a Send found no receive
	LLPTimeout                              // TCP gave up
	RemoteProtectionError                   // the peer tried what it has no right to
	CQOverflow                              // a completion queue was full
	LocalCatastrophic                       // an error of this side that ends the stream
	LocalAccessError                        // a work request named memory it may not use
	RemoteOperationError                    // the peer violated the protocol
	TerminateReceived                       // the peer found an error
	numReasons
)

var reasonNames = [numReasons]string{
	0: "", 6: "CONNECT_INVALID_PACKET", "TCP_RST", "TCP_TIMEOUT", "MPA_REJECT", "MPA_NOT_SUPPORTED_VER",
	"MPA_RST", "MPA_FIN", "MPA_RTR_MISMATCH", "MPA_INSUF_IRD", "MPA_INVALID_PACKET", "LOCAL_ERROR",
	"MPA_TIMEOUT", "MPA_TERMINATE", "GOOD_CLOSE", "BAD_CLOSE", "LLP_CLOSED", "LLP_RESET", "IRQ_FULL",
	"RQ_EMPTY", "LLP_TIMEOUT", "REMOTE_PROTECTION_ERROR", "CQ_OVERFLOW", "LOCAL_CATASTROPHIC",
	"LOCAL_ACCESS_ERROR", "REMOTE_OPERATION_ERROR", "TERMINATE_RECEIVED",
}

func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Status is what the driver's user is told of r: "0" or the name of an error
// number. An established connection ends with 0 or ECONNRESET.
func (r Reason) Status() string {
	switch r {
	case NoReason, GoodClose:
		return "0"
	case TCPTimeout, MPATimeout:
		return "EBUSY"
	case TCPReset, MPAReset:
		return "ECONNRESET"
	}
	if r > GoodClose {
		return "ECONNRESET"
	}
	return "ECONNREFUSED"
}
