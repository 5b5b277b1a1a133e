// Package vema is the Ethernet management agent of an HFI port's virtual NICs
// (VEMA): it answers the Ethernet Manager's MADs by creating, configuring and
// removing vports, and tells it by traps what changes at them.
//
// It follows the agent of the Linux driver but where that one is known to be
// wrong: an impossible value in a Set is refused with status 0x001C and
// changes nothing; a request for too many MAC addresses is cut to what fits;
// the vport's number in its vESW is told, not that of the HFI port; a vport
// that the agent made disappears with its vESW, any other one keeps its MAC
// address then; and traps beyond the rate limit are late, not lost.
package vema

import (
	"cmp"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Agent is the agent of one HFI port.
type Agent struct {
	port   *vnic.Port
	policy func(num uint8) vnic.Policy
	class  mad.ClassPortInfo
	vports [256]vport
	traps  traps
	count  Counters

	response [mad.MaxLen]byte
	request  [mad.VEMADataLen]byte // the attribute of the request, zeros behind it
	entries  [mad.MaxMACEntriesIn]vnic.Entry
}

// vport is what the agent keeps of a vport.
type vport struct {
	rsvd  [len(mad.VESWPortInfo{}.Rsvd)]byte // reserved octets are echoed
	made  bool                               // by the agent
	limit limit                              // of traps
}

// Counters are the agent's.
type Counters struct {
	Gets, Sets uint64
	Refused    uint64 // answered with a status other than 0
	Traps      uint64 // sent
	Delayed    uint64 // times that a trap had to wait for the rate limit
	Repressed  uint64 // traps that the Ethernet Manager has taken note of
	Malformed  uint64 // MADs of the agent's class that cannot be read
}

// New returns the agent of the vports of port (kept). policy is asked for the
// policy of each vport that the Ethernet Manager creates.
func New(port *vnic.Port, policy func(num uint8) vnic.Policy) *Agent {
	a := &Agent{port: port, policy: policy}
	a.describe()
	port.Observe(a)
	return a
}

// capMask says how many vports there can be, and that there are traps.
const capMask = vnic.MaxNetdevs<<8 | 1

// respTime stands for 4.096 us * 2^18, 1.07 s.
const respTime = 18

// describe sets what the Ethernet Manager cannot change.
func (a *Agent) describe() {
	c := &a.class
	c.BaseVersion, c.ClassVersion, c.CapMask, c.CapMask2, c.RespTime = mad.BaseVersion, mad.BaseVersion, capMask, 0,
		respTime
}

// Counters returns the counters so far.
func (a *Agent) Counters() Counters { return a.count }

// TrapLID is where traps go, 0 while no Ethernet Manager has asked for them.
func (a *Agent) TrapLID() opa.LID { return a.class.TrapLID }

// Receive answers the MADs of the agent's class. As in the Linux driver a
// method other than Get and Set is answered with status 0x000C; responses,
// traps and their repression are not answered at all.
func (a *Agent) Receive(b []byte, from mad.Address, _ frame.Time, send mad.Send) {
	h, data, err := mad.ParseVEMA(b)
	if err != nil {
		if h.Class == mad.ClassVEMA {
			a.count.Malformed++
		}
		return
	}
	if h.Method == mad.MethodTrapRepress {
		a.count.Repressed++
		return
	}
	if h.Method&responseBit != 0 || h.Method == mad.MethodTrap {
		return
	}
	clear(a.request[copy(a.request[:], data):])
	h.Status = a.answer(&h, b)
	if h.Status != mad.StatusOK {
		a.count.Refused++
	}
	h.Method = mad.MethodGetResp
	h.Put(a.response[:])
	send(mad.Address{LID: from.LID, QP: from.QP, SL: from.SL}, a.response[:])
}

const responseBit mad.Method = 0x80

// answer carries out a request and writes the attribute of the response.
func (a *Agent) answer(h *mad.Header, b []byte) mad.Status {
	copy(a.response[:mad.VEMAHeaderLen], b)
	clear(a.response[mad.VEMAHeaderLen:])
	num := uint8(h.Modifier)
	switch h.Method {
	case mad.MethodGet:
		a.count.Gets++
		return a.get(h.Attr, num)
	case mad.MethodSet:
		a.count.Sets++
		return a.set(h.Attr, num)
	}
	return mad.StatusBadAttribute
}

// data is the attribute of the response.
func (a *Agent) data() []byte { return a.response[mad.VEMAHeaderLen:] }

func (a *Agent) get(attr uint16, num uint8) mad.Status {
	n := a.port.Netdev(num)
	if n == nil && slices.Contains(ofVPorts, attr) {
		return mad.StatusBadValue
	}
	switch attr {
	case mad.AttrClassPortInfo:
		a.class.Put(a.data())
	case mad.AttrVESWPortInfo:
		new(a.info(num)).Put(a.data())
	case mad.AttrMACEntries:
		return a.getMACEntries(n)
	case mad.AttrUnicastMACs:
		a.putMACs(n.UnicastMACs())
	case mad.AttrMulticastMACs:
		a.putMACs(n.MulticastMACs())
	case mad.AttrSummaryCounters:
		new(summary(n)).Put(a.data())
	case mad.AttrErrorCounters:
		new(errorCounters(n)).Put(a.data())
	default:
		return mad.StatusBadAttribute
	}
	return mad.StatusOK
}

// ofVPorts are the attributes of a vport that must exist.
var ofVPorts = []uint16{mad.AttrMACEntries, mad.AttrUnicastMACs, mad.AttrMulticastMACs, mad.AttrSummaryCounters,
	mad.AttrErrorCounters}

func (a *Agent) set(attr uint16, num uint8) mad.Status {
	n := a.port.Netdev(num)
	switch attr {
	case mad.AttrClassPortInfo:
		return a.setClassPortInfo(mad.ParseClassPortInfo(a.request[:]))
	case mad.AttrVESWPortInfo:
		if !a.configure(num, mad.ParseVESWPortInfo(a.request[:])) {
			return mad.StatusBadValue
		}
	case mad.AttrMACEntries, mad.AttrDeleteVESW:
		if n == nil {
			return mad.StatusBadValue
		}
		if attr == mad.AttrMACEntries {
			status := a.setMACEntries(n)
			return cmp.Or(a.getMACEntries(n), status)
		}
		a.remove(n)
	default:
		return mad.StatusBadAttribute
	}
	return a.get(mad.AttrVESWPortInfo, num)
}

func (a *Agent) setClassPortInfo(c mad.ClassPortInfo) mad.Status {
	if c.TrapLID != 0 && !c.TrapLID.IsUnicast() {
		return mad.StatusBadValue
	}
	a.class = c
	a.describe()
	return a.get(mad.AttrClassPortInfo, 0)
}

// info is the state of a vport, power-on values if there is none.
func (a *Agent) info(num uint8) mad.VESWPortInfo {
	info := mad.PowerOn()
	n := a.port.Netdev(num)
	if n == nil {
		return info
	}
	c := n.Config()
	info.Fabric, info.VESW, info.DefPortMask, info.PKey = c.FabricID, c.VESWID, c.DefPortMask, c.PKey
	info.McastDLID, info.UcastDLID, info.RC, info.EthMTU = c.McastDLID, c.UcastDLID, c.RC, c.EthMTU
	info.PortNum, info.BaseMAC, info.ConfigState = c.PortNum, c.BaseMAC, mad.State(c.ConfigState)
	info.EncapSLID, info.QoS = c.EncapSLID, c.QoS
	info.OperState, info.LinkStatus = mad.State(n.OperState()), linkStatus(n)
	info.Digest = n.MACTable().Digest()
	_, info.UcastGen = n.UnicastMACs()
	_, info.McastGen = n.MulticastMACs()
	info.Rsvd = a.vports[num].rsvd
	return info
}

func linkStatus(n *vnic.Netdev) uint8 {
	if n.OperState() == vnic.Forwarding {
		return mad.EthLinkUp
	}
	return mad.EthLinkDown
}

// configure makes vport num if it does not exist and sets it up; it reports
// false, and has changed nothing, if that is impossible.
func (a *Agent) configure(num uint8, info mad.VESWPortInfo) bool {
	cfg := vnic.Config{
		FabricID: info.Fabric, VESWID: info.VESW, PKey: info.PKey, DefPortMask: info.DefPortMask,
		UcastDLID: info.UcastDLID, McastDLID: info.McastDLID, RC: info.RC, EthMTU: info.EthMTU,
		PortNum: info.PortNum, BaseMAC: info.BaseMAC, ConfigState: vnic.State(info.ConfigState),
		EncapSLID: info.EncapSLID, QoS: info.QoS,
	}
	n := a.port.Netdev(num)
	if n == nil {
		// Nothing is made, not even for a moment, that could not stay.
		if cfg.Check(a.port.Lower().MTU()) != nil || a.port.VESW(cfg.VESWID) != nil {
			return false
		}
		var err error
		if n, err = a.port.Create(num, a.policy(num)); err != nil {
			return false
		}
		a.vports[num].made = true
	}
	if n.Configure(cfg) != nil {
		return false
	}
	a.vports[num].rsvd = info.Rsvd
	return true
}

// remove takes a vport out of its vESW. One that the agent made disappears.
func (a *Agent) remove(n *vnic.Netdev) {
	if a.vports[n.Num()].made {
		a.port.Remove(n.Num())
		return
	}
	n.Reset()
	a.vports[n.Num()].rsvd = [len(mad.VESWPortInfo{}.Rsvd)]byte{}
}

// section checks the place in the MAC table that a request names.
func section(m mad.MACEntries) (offset, num int, digest uint32, ok bool) {
	at, count, digest := m.Head()
	offset, num = int(at), int(count)
	return offset, num, digest, num <= mad.MaxMACEntriesIn && offset+num <= vnic.MaxEntries
}

func (a *Agent) getMACEntries(n *vnic.Netdev) mad.Status {
	offset, num, _, ok := section(a.request[:])
	if !ok {
		return mad.StatusBadValue
	}
	table, out := n.MACTable(), mad.MACEntries(a.data())
	out.PutHead(uint16(offset), uint16(num), table.Digest())
	for i := range num {
		e := table.At(offset + i)
		out.SetEntry(i, mad.MACEntry(e))
	}
	return mad.StatusOK
}

// setMACEntries replaces a section of the table: all of it or nothing.
func (a *Agent) setMACEntries(n *vnic.Netdev) mad.Status {
	in := mad.MACEntries(a.request[:])
	offset, num, digest, ok := section(in)
	if !ok {
		return mad.StatusBadAttribute
	}
	list := a.entries[:num]
	for i := range list {
		e := in.Entry(i)
		if k := e.DLID.Kind(); e.DLID != 0 && k != opa.KindUnicast && k != opa.KindMulticast {
			return mad.StatusBadValue
		}
		list[i] = vnic.Entry(e)
	}
	table, err := n.MACTable().Set(offset, list, digest)
	if err != nil {
		return mad.StatusBadAttribute
	}
	n.SetMACTable(table)
	return mad.StatusOK
}

// putMACs writes the part of a list that the request asks for.
func (a *Agent) putMACs(list []ether.Addr, gen uint16) {
	h := mad.IfaceMACs(a.request[:]).Head()
	num := int(h.Num)
	if num == 0 || num > mad.MaxMACsIn {
		num = mad.MaxMACsIn
	}
	start := min(int(h.Start), len(list))
	part := list[start:min(start+num, len(list))]
	out := mad.IfaceMACs(a.data())
	out.PutHead(mad.IfaceHead{Start: h.Start, Num: uint16(len(part)), Total: uint16(len(list)), Gen: gen})
	for i, mac := range part {
		out.SetMAC(i, mac)
	}
}
