package mcp

import (
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// ReadShadow makes what the firmware has produced so far the past: resc_setup
// does it.
func (m *MCP) ReadShadow() {
	mb := &m.shm.MFWMB[m.fn]
	for i := range m.shadow {
		m.shadow[i] = mfw.Producer(&mb.Msg, mfw.Message(i))
	}
	mb.Ack = mb.Msg
}

// HandleEvents does what the MFW's attention asks for: every message whose
// producer has moved, then the acknowledgements. INVAL if none has: the
// attention was spurious. NOTIMPL if a message is of a kind that nobody knows;
// the others are done all the same. While UNLOAD_REQ is on its way messages
// wait.
func (m *MCP) HandleEvents(now frame.Time) (err error) {
	if m.bypass {
		return nil
	}
	mb := &m.shm.MFWMB[m.fn]
	found := false
	for i := range m.shadow {
		kind := mfw.Message(i)
		p := mfw.Producer(&mb.Msg, kind)
		if p == m.shadow[i] {
			continue
		}
		found, m.shadow[i] = true, p
		m.stats.Messages++
		if !m.message(kind, now) {
			m.stats.Unimplemented++
			err = status.NotImpl.Errorf("MFW message %v", kind)
		}
	}
	mb.Ack = mb.Msg
	if !found {
		m.stats.Spurious++
		return status.Inval.Errorf("an indication of the MFW without a message")
	}
	return err
}

// message handles one message, and reports whether it is known.
func (m *MCP) message(kind mfw.Message, now frame.Time) bool {
	switch kind {
	case mfw.MsgLinkChange:
		m.linkChange(now)
	case mfw.MsgEEEComplete:
		m.readLink()
	case mfw.MsgErrorRecovery:
		m.recovery(now)
	case mfw.MsgBWUpdate:
		m.bandwidth(now)
	case mfw.MsgSTagUpdate:
		m.outer(now)
		m.Cmd(mfw.CmdSTagUpdateAck, 0, nil, now, nil)
	case mfw.MsgOEMCfgUpdate:
		m.outer(now)
	case mfw.MsgGetLANStats, mfw.MsgGetFCoEStats, mfw.MsgGetISCSIStats, mfw.MsgGetRDMAStats:
		m.sendStats(int(kind-mfw.MsgGetLANStats)+mfw.StatsLAN, now)
	case mfw.MsgFailureDetected:
		m.hwError(HWErrFanFail, now)
	case mfw.MsgCriticalError:
		m.hwError(HWErrFWAssert, now)
	case mfw.MsgTransceiverChange:
		if m.hooks.Transceiver != nil {
			m.hooks.Transceiver(m.Transceiver())
		}
	case mfw.MsgGetTLVReq:
		m.tlvWant = true
		if m.hooks.TLVRequest != nil {
			m.hooks.TLVRequest()
		}
	case mfw.MsgLLDPDataUpdated, mfw.MsgDCBXRemoteMIB, mfw.MsgDCBXOperationalMIB, mfw.MsgLLDPReceivedTLVs:
		if m.hooks.DCB != nil {
			m.hooks.DCB(kind, now)
		}
	default: // those of VFs have no handler here
		return false
	}
	return true
}

func (m *MCP) hwError(kind HWError, now frame.Time) {
	if m.hooks.HWError != nil {
		m.hooks.HWError(kind, now)
	}
}

// Transceiver is the state and the type of the port's module.
func (m *MCP) Transceiver() (mfw.TransceiverState, uint8) {
	return mfw.DecodeTransceiver(m.shm.Port[m.port].TransceiverData)
}

// bandwidth follows a change of the function's share, and acknowledges it.
func (m *MCP) bandwidth(now frame.Time) {
	i := m.Info()
	m.readLink()
	if m.hooks.Bandwidth != nil {
		m.hooks.Bandwidth(i.BandwidthMin, i.BandwidthMax)
	}
	m.Cmd(mfw.CmdBWUpdateAck, 0, nil, now, nil)
}

// outer follows a change of the function's outer tag.
func (m *MCP) outer(now frame.Time) {
	if m.hooks.Outer != nil {
		m.hooks.Outer(now)
	}
}

func (m *MCP) sendStats(kind int, now frame.Time) {
	var s mfw.ProtocolStats
	if m.hooks.Stats == nil {
		return
	}
	m.hooks.Stats(kind, &s)
	var b [32]byte
	s.Encode(kind, b[:])
	m.Cmd(mfw.CmdGetStats, uint32(kind), b[:], now, nil)
}

// recovery begins the end of the driver's life with this firmware: no command
// goes to it any more, until Init.
func (m *MCP) recovery(now frame.Time) {
	m.RecoveryProlog(now)
	if m.hooks.Recovery != nil {
		m.hooks.Recovery(now)
	}
}

// RecoveryProlog stops all traffic with the firmware: what waits is aborted.
func (m *MCP) RecoveryProlog(now frame.Time) {
	waiting := m.queue
	m.recovering, m.queue = true, nil
	m.abort(recovers, now, waiting...)
}

// Recovering tells whether there is a recovery.
func (m *MCP) Recovering() bool { return m.recovering }

// ProcessKillCounter is how often the engine was recovered.
func (m *MCP) ProcessKillCounter(engine int) uint16 {
	return uint16(m.shm.Path[engine].ProcessKill)
}
