package ib

import (
	"encoding/binary"
	"math"
)

// ClassPerf is the class of performance management (section 16.1), whose
// datagrams go to queue pair 1.
const ClassPerf uint8 = 0x04

// Attributes of performance management.
const (
	AttrClassPortInfo        uint16 = 0x0001
	AttrPortCounters         uint16 = 0x0012
	AttrPortCountersExtended uint16 = 0x001d
)

// AllPorts stands for the sum of all ports.
const AllPorts = 0xff

// PortCounters are what a port has counted, of both attributes.
type PortCounters struct {
	XmitData, RcvData               uint64 // words of 4 octets
	XmitPkts, RcvPkts               uint64
	UnicastXmit, UnicastRcv         uint64 // packets
	MulticastXmit, MulticastRcv     uint64
	RcvErrors, XmitDiscards, Downed uint64
}

// PortSelect is the port that a request for counters is about.
func PortSelect(mad []byte) uint8 { return mad[offData+1] }

// AppendClassPortInfo appends the attribute of a class whose agent has these
// capabilities, without redirection.
func AppendClassPortInfo(dst []byte, capabilities uint16) []byte {
	dst = append(dst, 1, 1)
	dst = binary.BigEndian.AppendUint16(dst, capabilities)
	const quarterSecond = 16 // 4.096 us times 2 to this power
	return binary.BigEndian.AppendUint32(dst, quarterSecond)
}

// Capabilities of the agent of performance management.
const (
	PerfAllPorts uint16 = 0x0100
	PerfExtended uint16 = 0x0200
)

// Append appends the attribute PortCounters of a port (section 16.1.3.5), whose
// narrow counters stay at their largest value.
func (c *PortCounters) Append(dst []byte, port uint8) []byte {
	narrow := func(v, most uint64) uint64 { return min(v, most) }
	b := make([]byte, 44)
	be := binary.BigEndian
	b[1] = port
	b[7] = uint8(narrow(c.Downed, math.MaxUint8))
	be.PutUint16(b[8:], uint16(narrow(c.RcvErrors, math.MaxUint16)))
	be.PutUint16(b[14:], uint16(narrow(c.XmitDiscards, math.MaxUint16)))
	for i, v := range []uint64{c.XmitData, c.RcvData, c.XmitPkts, c.RcvPkts} {
		be.PutUint32(b[24+4*i:], uint32(narrow(v, math.MaxUint32)))
	}
	return append(dst, b...)
}

// AppendExtended appends the attribute PortCountersExtended (section 16.1.4.11).
func (c *PortCounters) AppendExtended(dst []byte, port uint8) []byte {
	dst = append(dst, 0, port, 0, 0, 0, 0, 0, 0)
	for _, v := range c.wide() {
		dst = binary.BigEndian.AppendUint64(dst, *v)
	}
	return dst
}

// wide are the counters of the extended attribute in its order.
func (c *PortCounters) wide() [8]*uint64 {
	return [...]*uint64{&c.XmitData, &c.RcvData, &c.XmitPkts, &c.RcvPkts, &c.UnicastXmit, &c.UnicastRcv,
		&c.MulticastXmit, &c.MulticastRcv}
}

// ParsePortCounters reads what the attribute PortCounters of an answer, MADLen
// long, has beside the extended one: errors.
func ParsePortCounters(mad []byte) (c PortCounters) {
	b, be := mad[offData:], binary.BigEndian
	c.Downed = uint64(b[7])
	c.RcvErrors, c.XmitDiscards = uint64(be.Uint16(b[8:])), uint64(be.Uint16(b[14:]))
	return c
}

// ParseExtended reads the extended attribute of an answer, MADLen long.
func (c *PortCounters) ParseExtended(mad []byte) {
	for i, v := range c.wide() {
		*v = binary.BigEndian.Uint64(mad[offData+8+8*i:])
	}
}
