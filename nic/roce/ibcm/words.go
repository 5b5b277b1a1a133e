package ibcm

import (
	"strings"

	"tapir/nic/cm"
	"tapir/wire/ib"
)

// words are RoCE's: messages are called as in section 12.6.
var words = cm.Words{
	Events: []cm.DeviceEvent{
		"REQ_RECEIVED", cm.EvPassiveComplete, cm.EvListenPauseComp, "REP_RECEIVED", cm.EvActiveComplete,
		cm.EvDisconnect, cm.EvClose, cm.EvSRQLimit, cm.EvDeviceRemoval,
	},
	Request: "REQ_RECEIVED", Reply: "REP_RECEIVED", Refusal: rejection(ib.RejectConsumer),
}

// Words implements cm.Transport.
func (t *transport) Words() *cm.Words { return &words }

// rejection is the reason of a REJ with its number (section 12.6.7.2).
func rejection(why ib.RejectReason) cm.Reason {
	r := cm.Reason{Code: uint8(why), Errno: "ECONNREFUSED",
		Name: "REJ_" + strings.ToUpper(strings.ReplaceAll(why.String(), " ", "_"))}
	switch why {
	case ib.RejectTimeout:
		r.Errno = "ETIMEDOUT"
	case ib.RejectStale:
		r.Errno = "ECONNRESET"
	}
	return r
}

// Ends without a REJ.
var (
	noAnswer     = cm.Reason{Name: "NO_ANSWER", Errno: "ETIMEDOUT"}       // to a message, its retries included
	dreqReceived = cm.Reason{Name: "DREQ_RECEIVED"}                       // the peer's orderly end
	sidrRefused  = cm.Reason{Name: "SIDR_REFUSED", Errno: "ECONNREFUSED"} // a SIDR_REP with another status than 0
)
