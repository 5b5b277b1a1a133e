package em

import (
	"cmp"
	"slices"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// Managers find each other by asking everybody for SMInfo, at each heartbeat.
// A manager begins as discovering. If it then hears of a master it becomes
// standby; if it hears of no better manager it becomes master. A standby that
// has not heard of a master for the time Takeover begins anew. Of two masters,
// which a fabric has when two parts of it are joined, the better one stays. A
// better manager that comes later does not push a master aside.

// peer is another manager.
type peer struct {
	info mad.SMInfo
	seen frame.Time
}

// better reports whether a manager with priority and GUID a is preferred.
func better(prioA uint8, guidA uint64, prioB uint8, guidB uint64) bool {
	return prioA > prioB || prioA == prioB && guidA < guidB
}

func (m *Manager) betterThanMe(p *peer) bool {
	return better(p.info.Priority, p.info.PortGUID, m.opt.Priority, m.opt.GUID)
}

// hear takes the answer of another manager.
func (m *Manager) hear(info mad.SMInfo) {
	if info.PortGUID == m.opt.GUID {
		return
	}
	i, found := slices.BinarySearchFunc(m.peers, info.PortGUID, func(p peer, g uint64) int {
		return cmp.Compare(p.info.PortGUID, g)
	})
	if !found {
		m.peers = slices.Insert(m.peers, i, peer{})
		m.note("manager %v found: %v, priority %d", GUID(info.PortGUID), info.State, info.Priority)
	}
	m.peers[i] = peer{info, m.now}
	m.wake = 0
}

// elect asks the other managers when it is time, and draws conclusions.
func (m *Manager) elect(send mad.Send) {
	if m.opt.Observe {
		if m.role != mad.SMMaster {
			m.restart(mad.SMMaster)
		}
		return
	}
	if m.role == 0 {
		m.restart(mad.SMDiscovering)
	}
	if m.now >= m.beat {
		m.beat = m.now.Add(m.t.Heartbeat)
		m.broadcast(mad.AttrSMInfo, m.tid(), send)
	}
	m.by(m.beat)
	m.peers = slices.DeleteFunc(m.peers, func(p peer) bool { return m.now >= p.seen.Add(m.t.Takeover) })
	var master *peer
	for i := range m.peers {
		p := &m.peers[i]
		if p.info.State == mad.SMMaster && (master == nil ||
			better(p.info.Priority, p.info.PortGUID, master.info.Priority, master.info.PortGUID)) {
			master = p
		}
	}
	switch m.role {
	case mad.SMDiscovering:
		switch {
		case master != nil:
			m.become(mad.SMStandby)
		case m.now < m.since.Add(3*m.t.Heartbeat):
			m.by(m.since.Add(3 * m.t.Heartbeat))
		case !slices.ContainsFunc(m.peers, func(p peer) bool { return m.betterThanMe(&p) }):
			m.count.Takeovers++
			m.become(mad.SMMaster)
		}
	case mad.SMStandby:
		if master == nil {
			m.become(mad.SMDiscovering)
			m.by(m.now.Add(3 * m.t.Heartbeat))
		}
	case mad.SMMaster:
		if master != nil && m.betterThanMe(master) {
			m.become(mad.SMStandby)
		}
	}
}

func (m *Manager) become(role mad.SMState) {
	m.note("%v, was %v", role, m.role)
	m.restart(role)
}

// SMInfo describes the manager to others.
func (m *Manager) SMInfo() mad.SMInfo {
	return mad.SMInfo{
		PortGUID: m.opt.GUID, ActCount: uint32(m.count.Sent), Elapsed: uint32(m.now.Sub(m.since).Seconds()),
		Priority: m.opt.Priority, State: m.role,
	}
}

// tellSMInfo answers another manager.
func (m *Manager) tellSMInfo(s *mad.SMP, from mad.Address, send mad.Send) {
	own := uint32(s.TID>>32) == m.tidSpace()
	if m.opt.Observe || own || s.GUID != 0 && s.GUID != m.opt.GUID {
		return
	}
	m.count.Received++
	info := m.SMInfo()
	var b [mad.DirectedHeaderLen + mad.SMInfoLen]byte
	r := mad.SMP{Header: s.Header, GUID: m.opt.GUID}
	r.Method, r.Status = mad.MethodGetResp, 0
	r.Put(b[:])
	info.Put(b[r.Len():])
	m.transmit(mad.Address{LID: from.LID, QP: opa.QPSubnet, SL: from.SL}, b[:r.Len()+mad.SMInfoLen], send)
}
