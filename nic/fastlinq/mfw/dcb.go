package mfw

import (
	"tapir/nic/fastlinq/mfw/mib"
	"tapir/wire/ether"
	"tapir/wire/frame"
	wire "tapir/wire/lldp"
)

// dcbMessages are the messages for what LLDP and DCBX have to tell.
var dcbMessages = [...]Message{mib.LLDPData: MsgLLDPDataUpdated, mib.RemoteMIB: MsgDCBXRemoteMIB,
	mib.OperMIB: MsgDCBXOperationalMIB, mib.ReceivedTLVs: MsgLLDPReceivedTLVs}

// Agent is LLDP and DCBX of a port, which are off at first. It begins when somebody asks.
func (f *Firmware) Agent(n int) *mib.Agent {
	p := &f.ports[n]
	if p.agent != nil {
		return p.agent
	}
	p.agent = mib.New(mib.Of(&f.shm.Port[n].DCB), f.portMAC(n), mib.Env{
		Send: func(b []byte, now frame.Time) bool { return f.cfg.Send != nil && f.cfg.Send(n, b, now) },
		Post: func(e mib.Event) {
			if f.postPort(n, dcbMessages[e]); e == mib.LLDPData {
				f.refresh(n) // neighbors tell who the partner is
			}
		},
		MACPHY: func() *wire.MACPHY { return mib.MACPHY(f.Ability(n), p.media == MediaBaseT, p.status.Speed) },
		System: f.cfg.System,
	})
	return p.agent
}

// portMAC is the address of a port's first function.
func (f *Firmware) portMAC(n int) (mac ether.Addr) {
	for fn := len(f.cfg.Funcs) - 1; fn >= 0; fn-- {
		if f.cfg.Funcs[fn].Port == n {
			mac = f.cfg.Funcs[fn].MAC
		}
	}
	return mac
}

// ReceiveLLDP takes a frame with EtherType 0x88CC, borrowed; see lldp.Port.Receive.
// Poll follows.
func (f *Firmware) ReceiveLLDP(n int, b []byte, now frame.Time) (taken bool, err error) {
	if f.fault.Hang || f.ports[n].agent == nil {
		return false, nil
	}
	return f.ports[n].agent.Receive(b, now)
}

// pollAgents lets the agents send, and follow their links.
func (f *Firmware) pollAgents() (next frame.Time) {
	next = frame.Never
	for n := range f.ports {
		if p := &f.ports[n]; p.agent != nil {
			p.agent.SetLink(p.status.Up && p.phy.Loopback == LoopbackNone, f.now)
			next = min(next, p.agent.Poll(f.now))
		}
	}
	return next
}

// dcb is the handler of a command for the agent.
func dcb(do func(a *mib.Agent, param uint32, now frame.Time) mib.Outcome) func(*Firmware, *request) Response {
	return func(f *Firmware, r *request) Response {
		switch do(f.Agent(f.cfg.Funcs[r.fn].Port), r.param, f.now) {
		case mib.Refused:
			return Error
		case mib.NoAgent:
			return LLDPUnsupportedAgent
		}
		return Response(r.cmd)
	}
}
