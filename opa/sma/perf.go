package sma

import (
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// Perf is the agent of performance management of an HFI port: it tells PortStatus,
// for which opainfo asks.
type Perf struct {
	status func() mad.PortStatus
	buf    [mad.HeaderLen + mad.PortStatusLen]byte
}

// NewPerf returns the agent of the only port, whose counters are asked for.
func NewPerf(status func() mad.PortStatus) *Perf { return &Perf{status: status} }

// Poll has nothing to do.
func (a *Perf) Poll(frame.Time, mad.Send) frame.Time { return frame.Never }

// Receive answers requests of the class. Those for counters of virtual lanes, which
// are not kept, and for another port get StatusBadValue.
func (a *Perf) Receive(b []byte, from mad.Address, _ frame.Time, send mad.Send) {
	h, err := mad.Parse(b)
	request := h.Method == mad.MethodGet || h.Method == mad.MethodSet
	if err != nil || h.Class != mad.ClassPerf || !request || from.QP != opa.QPGeneral {
		return
	}
	asked, n := mad.ParsePortStatus(b[mad.HeaderLen:]), mad.PortStatusLen
	answer := a.status()
	answer.Port = asked.Port
	answer.Put(a.buf[mad.HeaderLen:])
	switch {
	case h.Method != mad.MethodGet || h.Attr != mad.AttrPortStatus:
		h.Status = mad.StatusBadAttribute
	case h.Modifier != mad.PortStatusModifier || asked.Port != 1 || asked.VLs != 0:
		h.Status = mad.StatusBadValue
	}
	if h.Status != mad.StatusOK {
		n = copy(a.buf[mad.HeaderLen:], b[mad.HeaderLen:])
	}
	h.Method = mad.MethodGetResp
	h.Put(a.buf[:])
	send(from, a.buf[:mad.HeaderLen+n])
}
