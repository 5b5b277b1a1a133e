package mib

import (
	"tapir/nic/lldp"
	"tapir/wire/frame"
)

// Fields of the parameters of SET_LLDP and REGISTER_LLDP_TLVS_RX.
const (
	Send       = 1 << 0 // the system TLVs have changed; of REGISTER: receive them
	AgentShift = 1
	TypeShift  = 4 // of REGISTER: the type of TLV, seven bits
)

// Outcome is what has become of a command.
type Outcome uint8

// The outcomes.
const (
	Done Outcome = iota
	Refused
	NoAgent
)

// SetLLDP is SET_LLDP: an agent takes its settings from the shared memory, or all tell
// the system TLVs that lie there. Refused: values are out of range.
func (a *Agent) SetLLDP(param uint32, now frame.Time) Outcome {
	s := lldp.Scope(param >> AgentShift & 3)
	switch {
	case s >= lldp.Scopes:
		return NoAgent
	case param&Send != 0:
		for s := range lldp.Scopes {
			a.agents.LocalChanged(s)
		}
		return Done
	}
	p := a.shm.LLDP[s].Params()
	if p.Interval == 0 || p.Hold == 0 || p.Credit == 0 || p.Credit > 10 {
		return Refused
	}
	a.agents.SetParams(s, p, now)
	return Done
}

// Register is REGISTER_LLDP_TLVS_RX: LLDPDUs with a type of TLV are kept, or no longer.
func (a *Agent) Register(param uint32, _ frame.Time) Outcome {
	if lldp.Scope(param>>AgentShift&3) >= lldp.Scopes {
		return NoAgent
	}
	a.wanted, a.want = uint8(param>>TypeShift&0x7f), param&Send != 0
	return Done
}

// SetDCBX is SET_DCBX: the administrative values are taken from the shared memory.
// Refused: no port can act on them.
func (a *Agent) SetDCBX(uint32, frame.Time) Outcome {
	v, static, values := a.shm.Admin.Get()
	if values.Validate() != nil || values.ETS.Enabled && values.TCs() > int(values.MaxTCs) {
		return Refused
	}
	a.dcbx.Set(a.mac, v, static, values)
	a.update()
	return Done
}
