package hfinode

import (
	"slices"

	"tapir/nic/al"
	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/wire/ib"
)

// The HFI port as its subnet management agent sees it. What the agent is told
// happens at the time of the packet in hand.

// Info describes the port.
func (h *HFI) Info() sma.Info {
	return sma.Info{GUID: h.port.GUID(), Name: h.cfg.Name, LID: h.port.LID(), SMLID: h.smLID, SMSL: h.smSL,
		State: h.port.State(), MTU: h.port.Config().MTU, EthOnFabric: true}
}

// Congestion is its congestion control.
func (h *HFI) Congestion() *cca.Control { return h.port.Congestion() }

// PKeys is the whole P_Key table.
func (h *HFI) PKeys() []uint16 { return h.port.PKeys() }

// SetPKeys replaces it.
func (h *HFI) SetPKeys(table []uint16) {
	changed := !slices.Equal(table, h.port.PKeys())
	_ = h.port.SetPKeys(table) // as long as it was
	if changed {
		h.raise(al.PKeyChange)
	}
}

// portCounters are those of performance management.
func (h *HFI) portCounters() ib.PortCounters {
	c := h.port.Counts()
	return ib.PortCounters{XmitData: c.TxBytes / 4, RcvData: c.RxBytes / 4, XmitPkts: c.TxPackets,
		RcvPkts: c.RxPackets, UnicastXmit: c.TxPackets, UnicastRcv: c.RxPackets, RcvErrors: c.RxDrops.Total(),
		XmitDiscards: c.TxDrops.Total(),
		Downed:       c.LinkDown}
}

// portStatus are those of Omni-Path's performance management.
func (h *HFI) portStatus() mad.PortStatus {
	const flit = 8 // octets
	c := h.port.Counts()
	return mad.PortStatus{TxData: c.TxBytes / flit, RxData: c.RxBytes / flit, TxPkts: c.TxPackets, RxPkts: c.RxPackets,
		RxFECN: c.FECN, RxBECN: c.BECN, TxDrops: c.TxDrops.Total(), RxDrops: c.RxDrops.Total(),
		Downed: uint32(c.LinkDown), Quality: mad.MostQuality}
}

// SetLID gives the port its LID.
func (h *HFI) SetLID(lid, sm opa.LID, sl uint8) {
	changed := sm != h.smLID || sl != h.smSL
	h.smLID, h.smSL = sm, sl
	_ = h.port.SetLID(lid, 0, h.now) // the agent has checked it
	if changed {
		h.raise(al.SMChange)
	}
}

// Reregister tells programs to register with the fabric manager again.
func (h *HFI) Reregister() { h.raise(al.ClientReregister) }

// seen is what programs know of the port.
type seen struct {
	lid    opa.LID
	active bool
}

// portEvent raises the events of a change of the port, as Linux's hfi1 driver does.
func (h *HFI) portEvent() {
	was := h.seen
	h.seen = seen{h.port.LID(), h.port.Active()}
	if h.seen.lid != was.lid {
		h.raise(al.LIDChange)
	}
	switch {
	case h.seen.active && !was.active:
		h.raise(al.PortActive)
	case !h.seen.active && was.active:
		h.raise(al.PortErr)
	}
}

// SetState moves the port.
func (h *HFI) SetState(s mad.PortState) { _ = h.port.SetState(s, h.now) } // likewise
