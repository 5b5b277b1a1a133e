package mcp

import (
	"encoding/binary"

	"tapir/nic/fastlinq/mfw"
	"tapir/wire/frame"
)

// The calls of this file tell the firmware what the driver does. Make them
// always: whether it matters is not for the caller to say. done may be nil.

// OVUpdateCurrentConfig says that a client has changed MTU, MAC or WoL.
func (m *MCP) OVUpdateCurrentConfig(c mfw.Client, now frame.Time, done func(error)) {
	m.update(mfw.CmdUpdateCurrentConfig, uint32(c), now, done)
}

// OVUpdateMTU says the MTU, in octets.
func (m *MCP) OVUpdateMTU(mtu uint16, now frame.Time, done func(error)) {
	m.update(mfw.CmdUpdateMTU, uint32(mtu), now, done)
}

// OVUpdateMAC says the primary MAC address; a magic packet is for that one.
func (m *MCP) OVUpdateMAC(mac [6]byte, now frame.Time, done func(error)) {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], uint32(binary.BigEndian.Uint16(mac[:])))
	binary.LittleEndian.PutUint32(b[4:], binary.BigEndian.Uint32(mac[2:]))
	m.simple(mfw.CmdSetVMAC, mfw.VMACMAC<<4, b[:], mfw.OK, now, done)
}

// OVUpdateWoL says whether a magic packet shall wake the function when it is
// unloaded; UnloadReq says it again.
func (m *MCP) OVUpdateWoL(w mfw.WoL, now frame.Time, done func(error)) {
	m.wol = w
	m.update(mfw.CmdUpdateWoL, uint32(w), now, done)
}

// OVUpdateDriverState says the driver's state.
func (m *MCP) OVUpdateDriverState(s mfw.DriverState, now frame.Time, done func(error)) {
	m.update(mfw.CmdUpdateDriverState, uint32(s), now, done)
}

// OVUpdateESwitch says the mode of the embedded switch.
func (m *MCP) OVUpdateESwitch(e mfw.ESwitch, now frame.Time, done func(error)) {
	m.update(mfw.CmdUpdateESwitch, uint32(e), now, done)
}

// OVUpdateStormFW says the version of the storm firmware, an octet for each of
// major, minor, build and drop.
func (m *MCP) OVUpdateStormFW(version uint32, now frame.Time, done func(error)) {
	m.update(mfw.CmdUpdateStormFW, version, now, done)
}

// SendDrvVersion says the driver's version: a number and a name of at most 28
// octets.
func (m *MCP) SendDrvVersion(number uint32, name string, now frame.Time, done func(error)) {
	var b [32]byte
	binary.LittleEndian.PutUint32(b[:], number)
	copy(b[4:], name)
	m.simple(mfw.CmdSetVersion, 0, b[:], mfw.OK, now, done)
}

func (m *MCP) update(c mfw.Command, param uint32, now frame.Time, done func(error)) {
	m.simple(c, param, nil, mfw.Response(c), now, done)
}
