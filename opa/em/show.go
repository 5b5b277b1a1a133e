package em

import (
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/opa/sa"
	"tapir/opa/sma"
	"tapir/wire/ether"
)

// Records that the manager can be asked for, each in a stable order.

// VESWRecord is a vESW.
type VESWRecord struct {
	Name     string   `json:"name"`
	ID       uint16   `json:"id"`
	Fabric   uint16   `json:"fabric"`
	PKey     uint16   `json:"pkey"`
	MTU      uint16   `json:"mtu"`
	MLID     opa.LID  `json:"mlid"`
	Members  int      `json:"members"` // declared
	Up       int      `json:"up"`      // whose ports are active
	InSync   int      `json:"in_sync"` // as they are to be
	MACs     int      `json:"macs"`    // entries of the MAC tables
	Digest   uint32   `json:"digest"`
	Problems []string `json:"problems,omitempty"`
}

// PortRecord is an HFI port.
type PortRecord struct {
	GUID   GUID    `json:"guid"`
	Name   string  `json:"name"`
	LID    opa.LID `json:"lid"`
	Up     bool    `json:"up"`
	State  string  `json:"state"`
	PKeys  string  `json:"pkeys"`
	VPorts int     `json:"vports"`
	InSync bool    `json:"in_sync"`
}

// VPortRecord is a port of a vESW, declared or found.
type VPortRecord struct {
	VESW       uint16     `json:"vesw"`
	Node       string     `json:"node"`
	GUID       GUID       `json:"guid"`
	LID        opa.LID    `json:"lid"`
	Num        uint8      `json:"vport"`
	BaseMAC    ether.Addr `json:"mac"`
	Membership string     `json:"membership"` // full, limited, none
	Gateway    bool       `json:"gateway"`
	Config     string     `json:"config_state"`
	Oper       string     `json:"oper_state"`
	Digest     uint32     `json:"digest"`
	Unicast    int        `json:"unicast_macs"`
	Multicast  int        `json:"multicast_macs"`
	Status     string     `json:"status"` // in sync, pending, refused, not there
}

// MACRecord says where a MAC address of a vESW is.
type MACRecord struct {
	VESW uint16     `json:"vesw"`
	MAC  ether.Addr `json:"mac"`
	DLID opa.LID    `json:"dlid"`
	Node string     `json:"node"` // of the station; empty: a group
	Kind string     `json:"kind"` // base, station, group
}

// Status says how the manager itself is.
type Status struct {
	GUID     GUID   `json:"guid"`
	Priority uint8  `json:"priority"`
	Role     string `json:"role"`
	Managers int    `json:"other_managers"`
	Known    bool   `json:"fabric_known"`
	InSync   bool   `json:"in_sync"`
}

// Status returns it.
func (m *Manager) Status() Status {
	role := m.role.String()
	if m.opt.Observe {
		role = "observing"
	}
	return Status{GUID: GUID(m.opt.GUID), Priority: m.opt.Priority, Role: role, Managers: len(m.peers),
		Known: m.settled, InSync: m.InSync()}
}

// VESWs returns the vESWs by id.
func (m *Manager) VESWs() (list []VESWRecord) {
	for _, v := range m.vesws {
		r := VESWRecord{
			Name: v.cfg.Name, ID: v.cfg.ID, Fabric: v.cfg.Fabric, PKey: v.cfg.PKey, MTU: v.cfg.MTU,
			MLID:    MLID(v.cfg.ID),
			Members: len(v.members), MACs: len(v.table), Digest: v.digest, Problems: v.problems,
		}
		for _, b := range v.members {
			if b.port != nil && b.port.active() {
				r.Up++
				if b.vport != nil && m.inSync(b.vport) {
					r.InSync++
				}
			}
		}
		list = append(list, r)
	}
	return list
}

// Ports returns the ports by GUID.
func (m *Manager) Ports() (list []PortRecord) {
	for _, p := range m.ports {
		r := PortRecord{GUID: GUID(p.guid), Name: p.name, LID: p.lid, Up: p.up, PKeys: keysString(p.pkeys),
			State: "down", InSync: p.active()}
		if p.duplicate {
			r.State = "duplicate GUID"
		} else if p.up && p.infoRead {
			r.State = p.info.State.String()
		} else if p.up {
			r.State = "unknown"
		}
		for _, v := range p.list {
			if v.known && exists(&v.info) {
				r.VPorts++
			}
			r.InSync = r.InSync && m.inSync(v)
		}
		list = append(list, r)
	}
	return list
}

// VPorts returns the ports of all vESWs, by vESW and place in the
// configuration.
func (m *Manager) VPorts() (list []VPortRecord) {
	for _, v := range m.vesws {
		for _, b := range v.members {
			list = append(list, m.vportRecord(b))
		}
	}
	return list
}

func (m *Manager) vportRecord(b *member) VPortRecord {
	r := VPortRecord{
		VESW: b.vesw.cfg.ID, Node: b.cfg.Node.String(), Membership: "full",
		Gateway: slices.Contains(b.vesw.cfg.Gateways, b.cfg.Node), Status: "not there",
	}
	if b.cfg.Limited {
		r.Membership = "limited"
	}
	p, v := b.port, b.vport
	if p == nil || v == nil {
		return r
	}
	r.GUID, r.LID, r.Num, r.BaseMAC = GUID(p.guid), p.lid, v.num, v.info.BaseMAC
	r.Config, r.Oper, r.Digest = v.info.ConfigState.String(), v.info.OperState.String(), v.digest
	r.Unicast, r.Multicast = len(v.lists[0].macs), len(v.lists[1].macs)
	switch {
	case !p.active():
	case m.inSync(v):
		r.Status = "in sync"
	case m.now < v.retry:
		r.Status = "refused"
	default:
		r.Status = "pending"
	}
	return r
}

// MACs returns the addresses of a vESW, of all vESWs if id is 0: those that
// the manager made, then those in the MAC tables.
func (m *Manager) MACs(id uint16) (list []MACRecord) {
	for _, v := range m.vesws {
		if id != 0 && v.cfg.ID != id {
			continue
		}
		for _, b := range v.reporting() {
			list = append(list, MACRecord{VESW: v.cfg.ID, MAC: m.want(b).BaseMAC, DLID: b.port.lid,
				Node: b.port.String(), Kind: "base"})
		}
		for i, e := range v.table {
			r := MACRecord{VESW: v.cfg.ID, MAC: e.MAC, DLID: e.DLID, Kind: "group"}
			if o := v.owners[i]; o != nil {
				r.Node, r.Kind = o.String(), "station"
			}
			list = append(list, r)
		}
	}
	return list
}

// Nodes returns the HFIs with their ports that are up, by GUID, for subnet
// administration; ready is false if another manager is in charge.
func (m *Manager) Nodes() (list []sa.Node, ready bool) {
	for _, p := range m.ports {
		if !p.up || !p.infoRead || p.duplicate {
			continue
		}
		list = append(list, sa.Node{PKeys: p.pkeys, Info: sma.Info{GUID: p.guid, Name: p.name, LID: p.info.LID,
			SMLID: p.info.SMLID, SMSL: p.info.SMSL, State: p.info.State, MTU: mad.MTU(p.info.MTUCap)}})
	}
	return list, m.master() && !m.opt.Observe
}

// Partitions are the vESWs, each with its P_Key, for subnet administration.
func (m *Manager) Partitions() (list []sa.Partition) {
	for _, v := range m.vesws {
		list = append(list, sa.Partition{Name: v.cfg.Name, PKey: v.cfg.PKey})
	}
	return list
}
