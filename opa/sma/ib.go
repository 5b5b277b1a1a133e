package sma

import (
	"encoding/binary"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// Description prefixes the name of a port in its InfiniBand node description.
const Description = "tapir "

// IB answers the datagrams of InfiniBand's base version 1, which tools such as
// smpquery and perfquery send: the agents of subnet management and of performance
// management. It only tells; what a fabric manager sets goes to Agent.
type IB struct {
	port     Port
	counters func() ib.PortCounters
	answers  Counters
}

// NewIB returns the agent of port (kept), whose counters are asked for.
func NewIB(port Port, counters func() ib.PortCounters) *IB {
	return &IB{port: port, counters: counters}
}

// Counters returns the counters so far; it sets nothing.
func (a *IB) Counters() Counters { return a.answers }

// Poll has nothing to do.
func (a *IB) Poll(frame.Time, mad.Send) frame.Time { return frame.Never }

// Receive answers requests of its classes, of a directed route only those that
// end here.
func (a *IB) Receive(b []byte, from mad.Address, _ frame.Time, send mad.Send) {
	h, _, err := ib.Parse(b)
	if err != nil || h.BaseVersion != 1 || ib.IsResponse(b) {
		return
	}
	var answer []byte
	switch {
	case h.Attr == ib.AttrSMInfo && h.Class != ib.ClassPerf:
		return // a fabric manager answers
	case h.Class == ib.ClassSubnLID && from.QP == opa.QPSubnet,
		h.Class == ib.ClassSubnDirected && from.QP == opa.QPSubnet && ib.Hops(b) == 0:
		data, status := a.subnet(&h)
		answer = ib.Response(nil, b, status, data)
	case h.Class == ib.ClassPerf && from.QP == opa.QPGeneral:
		data, status := a.perf(&h, b)
		answer = ib.Response(nil, b, status, data)
	default:
		return
	}
	a.answers.Gets++
	if answer[4]&0x7f|answer[5] != 0 {
		a.answers.Refused++
	}
	from.SL = min(from.SL, 15)
	send(from, answer)
}

// subnet answers a subnet management packet.
func (a *IB) subnet(h *ib.Header) (data []byte, status uint16) {
	if h.Method != ib.MethodGet {
		return nil, ib.StatusBadMethod
	}
	info := a.port.Info()
	switch h.Attr {
	case ib.AttrNodeDescription:
		return append([]byte(Description), info.Name...), ib.StatusOK
	case ib.AttrNodeInfo:
		n := NodeInfo(info.GUID, len(a.port.PKeys()))
		return n.Append(nil), ib.StatusOK
	case ib.AttrPortInfo:
		if h.Modifier > 1 {
			return nil, ib.StatusBadField
		}
		return PortInfo(&info), ib.StatusOK
	case ib.AttrGUIDInfo:
		if h.Modifier != 0 {
			return nil, ib.StatusBadField
		}
		return binary.BigEndian.AppendUint64(nil, info.GUID), ib.StatusOK
	case ib.AttrPKeyTable:
		return a.pkeys(int(h.Modifier & 0xffff))
	}
	return nil, ib.StatusBadAttr
}

func (a *IB) pkeys(block int) (data []byte, status uint16) {
	table := a.port.PKeys()
	if block*ib.PKeysPerBlock >= len(table) {
		return nil, ib.StatusBadField
	}
	var keys [ib.PKeysPerBlock]uint16
	copy(keys[:], table[block*ib.PKeysPerBlock:])
	return ib.AppendPKeys(nil, keys), ib.StatusOK
}

// perf answers a datagram of performance management.
func (a *IB) perf(h *ib.Header, b []byte) (data []byte, status uint16) {
	port := ib.PortSelect(b)
	switch {
	case h.Method != ib.MethodGet:
		return nil, ib.StatusBadMethod
	case h.Attr == ib.AttrClassPortInfo:
		return ib.AppendClassPortInfo(nil, ib.PerfAllPorts|ib.PerfExtended), ib.StatusOK
	case h.Attr != ib.AttrPortCounters && h.Attr != ib.AttrPortCountersExtended:
		return nil, ib.StatusBadAttr
	case port != 1 && port != ib.AllPorts:
		return nil, ib.StatusBadField
	}
	c := a.counters()
	if h.Attr == ib.AttrPortCounters {
		return c.Append(nil, port), ib.StatusOK
	}
	return c.AppendExtended(nil, port), ib.StatusOK
}

// NodeInfo is InfiniBand's description of the HFI with a GUID and a P_Key table of
// so many entries. As with the Linux driver it names the versions of Omni-Path, by
// which tools know an HFI.
func NodeInfo(guid uint64, pkeys int) ib.NodeInfo {
	var g [8]byte
	binary.BigEndian.PutUint64(g[:], guid)
	return ib.NodeInfo{Version: ib.BaseVersionOPA, Type: ib.NodeCA, Ports: 1, SystemGUID: g, NodeGUID: g, PortGUID: g,
		PartitionCap: uint16(pkeys), LocalPort: 1, VendorID: uint32(guid >> 40)}
}

const (
	gidPrefix      = 0xfe80 << 48 // link local
	offSpeedExt    = 62           // in PortInfo: speeds beyond those of 2006
	speedEDR       = 2            // 25 Gbit/s a lane
	capExtSpeeds   = 1 << 14
	physPolling    = 2
	physLinkUp     = 5
	subnetTimeout  = 18 // 4.096 us times 2 to this power
	guidsOfHFIPort = 1
)

// PortInfo is InfiniBand's attribute PortInfo of the port, ib.DataLen octets: a
// LID beyond 16 bits shows as 0xffff.
func PortInfo(info *Info) []byte {
	p := ib.PortInfo{GIDPrefix: gidPrefix, LID: LID(info.LID), MasterSMLID: LID(info.SMLID), CapMask: capExtSpeeds,
		LocalPort: 1, State: uint8(info.State), PhysState: physPolling, NeighborMTU: ib.MTUCode(info.MTU),
		MTUCap: ib.MTUCode(info.MTU), GUIDCap: guidsOfHFIPort, SubnetTimeout: subnetTimeout}
	if info.State > mad.PortDown {
		p.PhysState = physLinkUp
	}
	b := make([]byte, ib.DataLen)
	p.Append(b[:0])
	b[offSpeedExt], b[offSpeedExt+1] = speedEDR<<4|speedEDR, speedEDR
	return b
}

// LID is the form of a LID that InfiniBand's fields have room for.
func LID(l opa.LID) uint16 {
	if l > 0xffff {
		return 0xffff
	}
	return uint16(l)
}
