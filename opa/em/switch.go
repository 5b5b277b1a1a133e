package em

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/opa/mad"
	"tapir/wire/frame"
)

// SwitchCongestion is when switches set FECN: all, or the one called Name; on all ports
// that have no entry of their own, or on Port, which counts from 1. Later entries win.
type SwitchCongestion struct {
	Name        string
	Port        uint8
	Threshold   uint8 // fill of a queue from which packets are marked: 0 for never, 15 for early
	PacketSize  int   // octets of the shortest packets that are marked, in steps of 64
	MarkingRate uint8 // packets that are left alone after each marked one
}

// MaxMarkedSize is the most that PacketSize can be.
const MaxMarkedSize = 255 * mad.SwitchPacketUnit

// switchState is what a switch has, as far as it was read.
type switchState struct {
	ports    int
	setting  mad.SwitchCongestionSetting
	own      []mad.SwitchPortCongestion // of ports, as far as they were read
	read     bool                       // the setting
	none     bool                       // it knows nothing of it
	longPoll frame.Time                 // when to read all again
}

// foundSwitch takes a switch's answer to a sweep.
func (m *Manager) foundSwitch(info mad.NodeInfo) {
	i, known := slices.BinarySearchFunc(m.switches, info.NodeGUID,
		func(p *port, g uint64) int { return cmp.Compare(p.guid, g) })
	if !known {
		if len(m.switches) == maxPorts {
			m.count.Unexpected++
			return
		}
		p := &port{guid: info.NodeGUID, up: true, sw: &switchState{ports: int(info.Ports)}}
		m.switches = slices.Insert(m.switches, i, p)
		m.note("switch %v is up", p)
	}
	m.switches[i].seen = m.now
	m.wake = 0
}

// expireSwitches forgets those that are gone.
func (m *Manager) expireSwitches() {
	m.switches = slices.DeleteFunc(m.switches, func(p *port) bool {
		if limit := p.seen.Add(m.t.Down); m.now < limit {
			m.by(limit)
			return false
		}
		m.cancel(p)
		m.note("switch %v is down", p)
		return true
	})
}

// wantSwitch is the setting that a switch is to have, and wantPort that of one of its
// ports, from 1.
func (m *Manager) wantSwitch(p *port) (s mad.SwitchCongestionSetting) {
	s.ControlMap = mad.SwitchThresholdValid | mad.SwitchMarkingValid
	for _, c := range m.cfg.Congestion.Switches {
		if c.Port == 0 && (c.Name == "" || c.Name == p.name) {
			s.Threshold, s.PacketSize, s.MarkingRate = c.Threshold<<4, c.units(), uint16(c.MarkingRate)
		}
	}
	return s
}

func (m *Manager) wantPort(p *port, n int) (s mad.SwitchPortCongestion) {
	for _, c := range m.cfg.Congestion.Switches {
		if int(c.Port) == n && (c.Name == "" || c.Name == p.name) {
			s = mad.SwitchPortCongestion{Threshold: mad.SwitchPortValid | c.Threshold, PacketSize: c.units(),
				MarkingRate: uint16(c.MarkingRate)}
		}
	}
	return s
}

func (c *SwitchCongestion) units() uint8 {
	return uint8((c.PacketSize + mad.SwitchPacketUnit - 1) / mad.SwitchPacketUnit)
}

// stepSwitch is the next request that reads what a switch has, then that makes it what it
// is to be. Without entries for switches they keep what they have.
func (m *Manager) stepSwitch(p *port) *request {
	g := p.sw
	if m.now >= g.longPoll {
		g.longPoll = m.now.Add(longPolls * m.t.Poll)
		p.named, g.read, g.own = false, false, nil
	}
	m.by(g.longPoll)
	switch {
	case !p.named:
		return m.askSubnet(p, request{what: "node description", attr: mad.AttrNodeDescription,
			took:    func(data []byte) { p.named, p.name = true, mad.ParseNodeDescription(data) },
			refused: func() { p.named = true }})
	case g.none || m.cfg.Congestion == nil || len(m.cfg.Congestion.Switches) == 0:
		return nil
	case !g.read:
		return m.askSwitch(p, request{attr: mad.AttrSwitchCongestionSetting, took: func(data []byte) {
			g.setting, g.read = mad.ParseSwitchCongestion(data), true
		}})
	case len(g.own) < g.ports:
		n := len(g.own)
		return m.askSwitch(p, request{attr: mad.AttrSwitchPortCongestion, modifier: mad.SwitchPort(uint8(n + 1)),
			took: func(data []byte) { g.own = append(g.own[:n], mad.ParseSwitchPortCongestion(data)) }})
	case m.opt.Observe:
		return nil
	}
	if want := m.wantSwitch(p); g.setting != want {
		return m.askSwitch(p, request{set: true, attr: mad.AttrSwitchCongestionSetting, n: mad.SwitchCongestionLen,
			put: want.Put, took: func(data []byte) {
				g.setting = mad.ParseSwitchCongestion(data)
				m.note("switch %v: threshold %d, packet size %d, marking rate %d", p, g.setting.Threshold>>4,
					int(g.setting.PacketSize)*mad.SwitchPacketUnit, g.setting.MarkingRate)
			}})
	}
	for i, has := range g.own {
		if want := m.wantPort(p, i+1); has != want {
			return m.askSwitch(p, request{set: true, attr: mad.AttrSwitchPortCongestion,
				modifier: mad.SwitchPort(uint8(i + 1)), n: mad.SwitchPortCongestionLen, put: want.Put,
				took: func(data []byte) { g.own[i] = mad.ParseSwitchPortCongestion(data) }})
		}
	}
	return nil
}

// askSwitch is askSubnet to a switch that may know nothing of congestion control.
func (m *Manager) askSwitch(p *port, r request) *request {
	r.what, r.refused = "switch congestion setting", func() { p.sw.none = true }
	return m.askSubnet(p, r)
}

// marks tells whether a switch has what the configuration wants, or cannot.
func (m *Manager) marks(p *port) bool {
	g := p.sw
	if g.none || m.cfg.Congestion == nil || len(m.cfg.Congestion.Switches) == 0 {
		return true
	}
	if !g.read || len(g.own) < g.ports || g.setting != m.wantSwitch(p) {
		return false
	}
	for i, has := range g.own {
		if has != m.wantPort(p, i+1) {
			return false
		}
	}
	return true
}

// SwitchRecord is when a switch, or one of its ports, sets FECN, as it was read from there.
type SwitchRecord struct {
	GUID        GUID   `json:"guid"`
	Name        string `json:"name"`
	Port        string `json:"port"` // all, or one that has its own
	Threshold   uint8  `json:"threshold"`
	PacketSize  int    `json:"packet_size"`
	MarkingRate uint16 `json:"marking_rate"`
	InSync      bool   `json:"in_sync"`
}

// Switches returns those that the manager has found, by GUID.
func (m *Manager) Switches() (list []SwitchRecord) {
	for _, p := range m.switches {
		g := p.sw
		r := SwitchRecord{GUID: GUID(p.guid), Name: p.name, Port: "all", Threshold: g.setting.Threshold >> 4,
			PacketSize: int(g.setting.PacketSize) * mad.SwitchPacketUnit, MarkingRate: g.setting.MarkingRate,
			InSync: m.marks(p)}
		list = append(list, r)
		for i, own := range g.own {
			if own.Threshold&mad.SwitchPortValid == 0 {
				continue
			}
			r.Port, r.Threshold, r.MarkingRate = fmt.Sprint(i+1), own.Threshold&15, own.MarkingRate
			r.PacketSize = int(own.PacketSize) * mad.SwitchPacketUnit
			list = append(list, r)
		}
	}
	return list
}
