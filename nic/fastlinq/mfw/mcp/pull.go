package mcp

import (
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// TLVRequested tells whether the firmware waits for ProcessTLVReq.
func (m *MCP) TLVRequested() bool { return m.tlvWant }

// ProcessTLVReq answers the firmware's request for TLVs: each group that was
// asked for, and that fits the function's personality, is filled by the hook.
// The firmware is told that it is done whatever happens, even if the request
// cannot be read (INVAL).
func (m *MCP) ProcessTLVReq(now frame.Time, done func(error)) {
	m.tlvWant = false
	f := &m.shm.Func[m.fn]
	list, err := parse(f)
	if err == nil {
		groups := tlv.Asked(list) & m.groups()
		for _, g := range tlv.Groups {
			if groups&g != 0 && m.hooks.FillTLV != nil {
				var v tlv.Values
				m.hooks.FillTLV(g, &v)
				tlv.Fill(list, g, &v)
			}
		}
	}
	m.simple(mfw.CmdGetTLVDone, 0, nil, mfw.OK, now, func(also error) {
		if err == nil {
			err = also
		}
		tell(done, err)
	})
}

func parse(f *mfw.Func) ([]tlv.TLV, error) {
	if int64(f.TLVLength) > int64(len(f.TLV)) {
		return nil, status.Inval.Errorf("a request of %d octets for TLVs, there are %d", f.TLVLength, len(f.TLV))
	}
	return tlv.Parse(f.TLV[:f.TLVLength])
}

// groups are those of the function's personality.
func (m *MCP) groups() tlv.Group {
	switch m.Info().Protocol {
	case mfw.ProtocolISCSI:
		return tlv.Generic | tlv.ISCSI
	case mfw.ProtocolFCoE:
		return tlv.Generic | tlv.FCoE
	}
	return tlv.Generic | tlv.Eth
}
