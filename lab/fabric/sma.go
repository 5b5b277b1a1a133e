package fabric

import (
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/opa/sma"
)

// The HFI port as its subnet management agent sees it. What the agent is told
// happens at the time of the packet in hand.

// Info describes the port.
func (e *engine) Info() sma.Info {
	return sma.Info{GUID: e.port.GUID(), Name: e.node.cfg.Name, LID: e.port.LID(), SMLID: e.smLID, SMSL: e.smSL,
		State: mad.PortState(e.port.State()), MTU: e.port.Config().MTU, EthOnFabric: true}
}

// PKeys is the whole P_Key table.
func (e *engine) PKeys() []uint16 { return e.port.PKeys() }

// SetPKeys replaces it.
func (e *engine) SetPKeys(table []uint16) { _ = e.port.SetPKeys(table) } // as long as it was

// SetLID gives the port its LID.
func (e *engine) SetLID(lid, sm opa.LID, sl uint8) {
	e.smLID, e.smSL = sm, sl
	_ = e.port.SetLID(lid, 0, e.now) // the agent has checked it
}

// SetState moves the port.
func (e *engine) SetState(s mad.PortState) { _ = e.port.SetState(hfi.State(s), e.now) } // likewise
