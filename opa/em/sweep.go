package em

import (
	"cmp"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// port is an HFI port as far as it is known.
type port struct {
	guid uint64
	up   bool
	seen frame.Time // last sign of life

	// Read from the port; a zero count or false: not yet.
	name      string
	named     bool // name is up to date
	info      mad.PortInfo
	infoRead  bool
	infoPoll  frame.Time // when to read it again
	longPoll  frame.Time // when to read name and P_Keys again
	pkeys     []uint16
	pkeysRead int // entries
	capacity  int // entries of the P_Key table

	lid       opa.LID // the one that it has or is to have; 0: not yet assigned
	duplicate bool    // two ports claim the GUID

	congestion congestion
	sw         *switchState // nil: it is an HFI's

	// The agent of its virtual NICs.
	class     mad.ClassPortInfo
	classRead bool
	classPoll frame.Time
	vports    [256]*vport
	list      []*vport // those read, by number
	scanned   int      // numbers asked for
	members   []*member

	waits      *request
	pause      frame.Time // no request before
	unanswered bool       // the last request was given up
	answered   uint64     // transaction of the sweep that it last answered
	from       opa.LID    // with which LID
}

func (p *port) String() string {
	if p.name != "" {
		return p.name
	}
	return GUID(p.guid).String()
}

// maxPorts bounds the ports that are kept.
const maxPorts = 4096

func (m *Manager) port(guid uint64) *port {
	i, found := m.place(guid)
	if !found {
		return nil
	}
	return m.ports[i]
}

func (m *Manager) place(guid uint64) (int, bool) {
	return slices.BinarySearchFunc(m.ports, guid, func(p *port, g uint64) int { return cmp.Compare(p.guid, g) })
}

func (m *Manager) byLID(lid opa.LID) *port {
	for _, p := range m.ports {
		if p.lid == lid && p.up {
			return p
		}
	}
	return nil
}

// sweep asks all ports who they are when it is time.
func (m *Manager) sweep(send mad.Send) {
	if m.now >= m.sweepA {
		m.sweepA = m.now.Add(m.t.Sweep)
		m.sweeps[0], m.sweeps[1] = m.tid(), m.sweeps[0]
		m.broadcast(mad.AttrNodeInfo, m.sweeps[0], send)
	}
	m.by(m.sweepA)
}

// found takes a port's answer to a sweep.
func (m *Manager) found(tid uint64, info mad.NodeInfo, from mad.Address) {
	if !m.master() || tid != m.sweeps[0] && tid != m.sweeps[1] || info.PortGUID == 0 {
		m.count.Unexpected++
		return
	}
	if info.Type == mad.NodeSwitch {
		m.foundSwitch(info)
		return
	}
	i, known := m.place(info.PortGUID)
	if !known {
		if len(m.ports) == maxPorts {
			m.count.Unexpected++
			return
		}
		m.ports = slices.Insert(m.ports, i, &port{guid: info.PortGUID})
	}
	p := m.ports[i]
	if p.answered == tid && p.from != from.LID && !p.duplicate {
		p.duplicate = true
		m.note("GUID %v is claimed by the ports with LIDs %v and %v: neither is managed", GUID(p.guid), p.from,
			from.LID)
		m.readopt(p)
	}
	p.answered, p.from = tid, from.LID
	p.seen = m.now
	if n := int(info.PartitionCap); n != p.capacity {
		p.capacity, p.pkeysRead, p.pkeys = n, 0, nil
	}
	switch {
	case !p.up:
		p.up = true
		m.stale, m.relid = true, true
		m.note("port %v is up", p)
		m.readopt(p)
	case p.infoRead && from.LID != p.info.LID && (from.LID != opa.Permissive || p.info.LID != 0):
		p.info.LID = from.LID % opa.Permissive // 0: none
		m.stale, m.relid = true, true
		m.readopt(p)
	}
	m.wake = 0
}

// expire finds the ports that are gone.
func (m *Manager) expire() {
	for _, p := range m.ports {
		if !p.up {
			continue
		}
		if limit := p.seen.Add(m.t.Down); m.now < limit {
			m.by(limit)
			continue
		}
		m.cancel(p)
		p.up, p.infoRead, p.duplicate = false, false, false
		m.stale = true
		m.count.PortsDown++
		m.note("port %v is down", p)
	}
}

// readopt reads everything about a port again. What was known counts until it
// is known better.
func (m *Manager) readopt(p *port) {
	m.cancel(p)
	p.named, p.infoPoll, p.pkeysRead, p.pkeys = false, 0, 0, nil
	p.congestion.forget()
	p.classRead, p.scanned, p.unanswered, p.pause = false, 0, false, 0
}

// active reports whether MADs can reach the agents of p by its LID.
func (p *port) active() bool {
	return p.up && p.infoRead && p.info.State == mad.PortActive && p.lid != 0 && p.info.LID == p.lid
}

// ethernet reports whether virtual NICs can be set up through p.
func (p *port) ethernet() bool { return p.infoRead && p.info.CapMask3&mad.CapEthOnFabric != 0 }

// adopted reports whether all that there is at p has been read, or cannot be.
func (m *Manager) adopted(p *port) bool {
	switch {
	case !p.up || p.unanswered || p.duplicate:
		return true
	case !p.infoRead || !p.named:
		return false
	case !p.ethernet(), m.opt.Observe && (!p.active() || !m.ready()):
		return true
	}
	return p.scanned == len(p.vports) && !slices.ContainsFunc(p.members, func(v *member) bool {
		return v.vport != nil && v.vport.info.VESW != 0 && !v.vport.listed()
	})
}
