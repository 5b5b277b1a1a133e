package al

import (
	"errors"
	"fmt"

	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// sma is the subnet management agent of a device: what an InfiniBand port
// answers, for tools that look at one. It knows no vendor: the port's state
// and tables are the device's, set through ModifyPort.
type sma struct {
	mkey          uint64
	mkeyErrors    uint16
	subnetTimeout uint8
}

// MADFlags modify LocalMAD.
type MADFlags uint8

// IgnoreMKey lets a Set pass whose management key is not the port's.
const IgnoreMKey MADFlags = 1

// ErrMKey says that a Set with a wrong management key was discarded without
// an answer (InfiniBand Architecture 1.3, section 14.2.4).
var ErrMKey = errors.New("management key does not match")

// ErrNotHere says that no agent of the port has the address of a datagram.
var ErrNotHere = errors.New("no agent of the port has that address")

// LocalMAD hands a management datagram of 256 octets to the agent of port n
// and returns its answer. Answers with an error carry it as MAD status; an
// error is returned only if there is no answer.
func (c *Context) LocalMAD(n uint8, in []byte, flags MADFlags) ([]byte, error) {
	if _, err := c.QueryPort(n); err != nil {
		return nil, err
	}
	return c.ca.localMAD(in, flags)
}

// MADTo is LocalMAD for a datagram to queue pair qp of a LID: those of the port
// are local, from its LID on 2 to the power of its LMC, and so is a directed
// route without hops. There is no subnet behind an RNIC's port: any other
// address is ErrNotHere. Subnet management has queue pair 0, all else 1.
func (ca *CA) MADTo(qp uint32, lid uint16, in []byte) ([]byte, error) {
	h, _, err := ib.Parse(in)
	if err != nil {
		return nil, fmt.Errorf("local MAD: %w", err)
	}
	p := ca.ci.Verbs.PortAttr()
	here := lid>>p.LMC == p.LID>>p.LMC
	if h.Class == ib.ClassSubnDirected {
		here = ib.Hops(in) == 0
	}
	subnet := h.Class == ib.ClassSubnLID || h.Class == ib.ClassSubnDirected
	if !here || qp > 1 || subnet != (qp == 0) {
		return nil, fmt.Errorf("local MAD to LID %#x, queue pair %d: %w", lid, qp, ErrNotHere)
	}
	return ca.localMAD(in, 0)
}

func (ca *CA) localMAD(in []byte, flags MADFlags) ([]byte, error) {
	h, data, err := ib.Parse(in)
	if err != nil {
		return nil, fmt.Errorf("local MAD: %w", err)
	}
	switch {
	case h.BaseVersion == 1 && h.Class == ib.ClassPerf && h.ClassVersion == 1 && ca.ci.Counters != nil:
		return ca.perf(&h, in), nil
	case h.BaseVersion != 1 || h.Class != ib.ClassSubnLID && h.Class != ib.ClassSubnDirected || h.ClassVersion != 1:
		return ib.Response(nil, in, ib.StatusBadVersion, nil), nil
	case h.Method != ib.MethodGet && h.Method != ib.MethodSet:
		return ib.Response(nil, in, ib.StatusBadMethod, nil), nil
	}
	status := ib.StatusOK
	if h.Method == ib.MethodSet {
		if ca.sma.mkey != 0 && h.MKey != ca.sma.mkey && flags&IgnoreMKey == 0 {
			ca.sma.mkeyErrors++
			return nil, fmt.Errorf("local MAD: %w", ErrMKey)
		}
		status = ca.setAttr(&h, data)
	}
	if status == ib.StatusBadAttr {
		return ib.Response(nil, in, status, nil), nil
	}
	answer, got := ca.getAttr(&h)
	if status == ib.StatusOK {
		status = got
	}
	return ib.Response(nil, in, status, answer), nil
}

// getAttr returns the attribute that h names as it is now.
func (ca *CA) getAttr(h *ib.Header) (data []byte, status uint16) {
	block := h.Modifier & 0xffff
	switch h.Attr {
	case ib.AttrNodeDescription:
		return append([]byte("tapir "), ca.name...), ib.StatusOK
	case ib.AttrNodeInfo:
		n := ca.nodeInfo()
		return n.Append(nil), ib.StatusOK
	case ib.AttrPortInfo:
		if h.Modifier > 1 {
			return nil, ib.StatusBadField
		}
		p := ca.portInfo()
		return p.Append(nil), ib.StatusOK
	case ib.AttrGUIDInfo:
		if block != 0 {
			return nil, ib.StatusBadField
		}
		var guids [ib.GUIDsPerBlock][8]byte
		for i, g := range ca.ci.Verbs.GUIDs() {
			guids[i] = g
		}
		return ib.AppendGUIDs(nil, guids), ib.StatusOK
	case ib.AttrPKeyTable:
		if block != 0 {
			return nil, ib.StatusBadField
		}
		return ib.AppendPKeys(nil, [ib.PKeysPerBlock]uint16(ca.ci.Verbs.PKeys())), ib.StatusOK
	}
	return nil, ib.StatusBadAttr
}

func (ca *CA) nodeInfo() ib.NodeInfo {
	a := ca.ci.Verbs.Attr()
	return ib.NodeInfo{
		Type: ib.NodeCA, Ports: uint8(a.Ports), SystemGUID: a.SystemImageGUID, NodeGUID: a.GUID, PortGUID: a.GUID,
		PartitionCap: uint16(a.MaxPKeys), DeviceID: uint16(a.VendorPartID), Revision: a.HWVersion,
		LocalPort: 1, VendorID: a.VendorID,
	}
}

func (ca *CA) portInfo() ib.PortInfo {
	p := ca.ci.Verbs.PortAttr()
	mtu := ib.MTUCode(p.MTU)
	return ib.PortInfo{
		MKey: ca.sma.mkey, GIDPrefix: p.SubnetPrefix, LID: p.LID, MasterSMLID: p.SMLID,
		CapMask: ib.CapReregister, LocalPort: 1, State: uint8(p.State), PhysState: uint8(p.Phys), LMC: p.LMC,
		NeighborMTU: mtu, MTUCap: mtu, MKeyErrors: ca.sma.mkeyErrors, GUIDCap: verbs.MaxGUIDs,
		SubnetTimeout: ca.sma.subnetTimeout,
	}
}

// setAttr changes what a Set names. A field that the port cannot take leaves
// everything as it was.
func (ca *CA) setAttr(h *ib.Header, data []byte) (status uint16) {
	var mod verbs.PortMod
	switch {
	case h.Attr == ib.AttrPortInfo && h.Modifier <= 1:
		return ca.setPortInfo(ib.ParsePortInfo(data))
	case h.Attr == ib.AttrGUIDInfo && h.Modifier == 0:
		for _, g := range ib.ParseGUIDs(data) {
			mod.Aliases = append(mod.Aliases, g)
		}
	case h.Attr == ib.AttrPKeyTable && h.Modifier&0xffff == 0:
		keys := ib.ParsePKeys(data)
		mod.PKeys = keys[:]
	case h.Attr == ib.AttrPortInfo, h.Attr == ib.AttrGUIDInfo, h.Attr == ib.AttrPKeyTable:
		return ib.StatusBadField
	default:
		return ib.StatusBadAttr
	}
	if ca.ci.Verbs.ModifyPort(mod) != nil {
		return ib.StatusBadField
	}
	return ib.StatusOK
}

// maxLID is the last unicast LID.
const maxLID = 0xbfff

func (ca *CA) setPortInfo(p ib.PortInfo) (status uint16) {
	now := ca.ci.Verbs.PortAttr()
	mod := verbs.PortMod{LID: &p.LID, SMLID: &p.MasterSMLID, LMC: &p.LMC, SubnetPrefix: &p.GIDPrefix,
		Reregister: p.Reregister}
	if state := verbs.PortState(p.State); p.State != 0 {
		mod.State = &state
	}
	disabled := verbs.PhysState(p.PhysState) == verbs.PhysDisabled
	switch verbs.PhysState(p.PhysState) {
	case 0:
	case verbs.PhysDisabled, verbs.PhysPolling:
		mod.Disabled = &disabled
	default:
		return ib.StatusBadField
	}
	switch {
	case p.LID != now.LID && (p.LID == 0 || p.LID > maxLID),
		p.MasterSMLID != now.SMLID && (p.MasterSMLID == 0 || p.MasterSMLID > maxLID):
		return ib.StatusBadField
	case ca.ci.Verbs.ModifyPort(mod) != nil:
		return ib.StatusBadField
	}
	ca.sma.mkey, ca.sma.subnetTimeout = p.MKey, p.SubnetTimeout
	return ib.StatusOK
}
