package em

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// Congestion is how the ports of a fabric react to congestion, on the service levels
// SLs. Each notification raises the level's index into the congestion control table by
// Increase, up to Limit; each Timer lowers it by one, down to Min. The delay behind a
// packet grows linearly with the index, up to MaxDelay behind one of 10240 octets.
type Congestion struct {
	Increase  uint8
	Timer     time.Duration // in steps of 1.024 us
	Threshold uint8         // index from which notifications are logged; 0: none
	Min       uint8
	Limit     uint16
	MaxDelay  time.Duration
	SLs       []uint8 // empty: all
	// Switches say when switches mark; none: as they are set up themselves.
	Switches []SwitchCongestion
}

// DefaultCongestion is what a Congestion without settings means.
func DefaultCongestion() Congestion {
	return Congestion{Increase: 1, Timer: time.Millisecond, Limit: 127, MaxDelay: time.Millisecond}
}

// Bounds of a Congestion.
const (
	// MaxCCTI is the highest index that a table can have.
	MaxCCTI = mad.MaxCCTBlocks*mad.CCTPerBlock - 1
	// MaxTimer is the longest timer.
	MaxTimer = 0xffff * mad.CongestionTick * time.Nanosecond
	// fullPacket is the time that a packet of 10240 octets takes at 100 Gb/s, in
	// picoseconds.
	fullPacket = hfi.MaxMTU * 8 * 10
	// MostDelay is the longest delay behind it.
	MostDelay = mad.MaxMultiplier * fullPacket / 1000 * time.Nanosecond
)

func (c *Congestion) validate() error {
	const path = "congestion"
	for i, sl := range c.SLs {
		if sl >= mad.MaxSLs || slices.Contains(c.SLs[:i], sl) {
			return wrong(path+".sls", "%d: expected different service levels from 0 to 31", sl)
		}
	}
	for _, err := range []error{
		expect(c.Increase > 0, path+".increase", "0: expected 1 to 255"),
		expect(c.Timer >= mad.CongestionTick && c.Timer <= MaxTimer, path+".timer", "%v: expected 1.024us to %v",
			c.Timer, MaxTimer),
		expect(c.Limit > 0 && c.Limit <= MaxCCTI, path+".limit", "%d: expected 1 to %d", c.Limit, MaxCCTI),
		expect(uint16(c.Min) <= c.Limit, path+".min", "%d: expected at most the limit, %d", c.Min, c.Limit),
		expect(c.MaxDelay > 0 && c.MaxDelay <= MostDelay, path+".max_delay", "%v: expected up to %v", c.MaxDelay,
			MostDelay),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// settings are those of a port; none without a Congestion.
func (c *Congestion) settings() (s mad.CongestionSettings) {
	if c == nil {
		return s
	}
	s.PortControl = mad.PortControlSL
	for sl := range s.SLs {
		if len(c.SLs) == 0 || slices.Contains(c.SLs, uint8(sl)) {
			s.ControlMap |= 1 << sl
			e := &s.SLs[sl]
			e.Increase, e.Threshold, e.Min = c.Increase, c.Threshold, c.Min
			e.Timer = uint16(c.Timer / mad.CongestionTick)
		}
	}
	return s
}

// blocks is the number of blocks of the table.
func (c *Congestion) blocks() int {
	if c == nil {
		return 0
	}
	return int(c.Limit)/mad.CCTPerBlock + 1
}

// block is a block of the table.
func (c *Congestion) block(n int) mad.CCT {
	t := mad.CCT{Limit: c.Limit}
	// The multiplier at the limit counts full packets. The shift makes it finer.
	most, shift := c.MaxDelay.Nanoseconds()*1000, 0
	for shift < 3 && most<<(shift+1)/fullPacket <= mad.MaxMultiplier {
		shift++
	}
	for i := range t.Entries {
		ccti := int64(n*mad.CCTPerBlock + i)
		if ccti <= int64(c.Limit) {
			t.Entries[i] = mad.CCTEntry(shift<<14 | int(most<<shift*ccti/(int64(c.Limit)*fullPacket)))
		}
	}
	return t
}

// congestion is what a port has of congestion control.
type congestion struct {
	capacity int // blocks of the longest table; 0: not read
	settings mad.CongestionSettings
	table    []mad.CCT // blocks, as far as they were read
	read     bool      // the settings
	done     bool      // the port has what wanted says, and nothing was read since
	wanted   *Congestion
	none     bool // the port knows nothing of it
	poll     frame.Time
	events   uint64 // logged by the port, and read
	latest   mad.CongestionEvent
}

// forget has everything but the events read again.
func (g *congestion) forget() {
	g.capacity, g.read, g.none, g.table, g.done = 0, false, false, nil, false
}

// lacks tells whether a port cannot have what c wants.
func (g *congestion) lacks(c *Congestion) bool {
	return g.none || g.capacity > 0 && g.capacity < c.blocks()
}

// has tells whether a port has what c wants.
func (g *congestion) has(c *Congestion) bool {
	if g.lacks(c) {
		return true
	}
	if !g.read || g.settings != c.settings() || len(g.table) < c.blocks() {
		return false
	}
	for i := range c.blocks() {
		if g.table[i] != c.block(i) {
			return false
		}
	}
	return true
}

// readCongestion is the next request that reads what a port has of congestion control.
func (m *Manager) readCongestion(p *port) *request {
	switch g := &p.congestion; {
	case g.capacity == 0 && !g.none:
		return m.askCongestion(p, request{what: "congestion info", attr: mad.AttrCongestionInfo,
			took: func(data []byte) { m.tookCongestionInfo(p, mad.ParseCongestionInfo(data)) }})
	case g.lacks(m.cfg.Congestion):
	case !g.read:
		return m.askCongestion(p, request{what: "congestion setting", attr: mad.AttrHFICongestionSetting,
			took: func(data []byte) { m.tookCongestion(p, data) }})
	case len(g.table) < m.cfg.Congestion.blocks():
		block := len(g.table)
		return m.askCongestion(p, request{what: "congestion control table", attr: mad.AttrCongestionControlTable,
			modifier: mad.CCTBlock(block),
			took:     func(data []byte) { g.table, g.done = append(g.table[:block], mad.ParseCCT(data)), false }})
	case m.cfg.Congestion != nil && !m.opt.Observe && m.cfg.Congestion.Threshold > 0:
		if m.now >= g.poll {
			g.poll = m.now.Add(m.t.Poll)
			return m.askCongestion(p, request{what: "congestion log", attr: mad.AttrHFICongestionLog,
				took: func(data []byte) { g.logged(mad.ParseCongestionLog(data)) }})
		}
		m.by(g.poll)
	}
	return nil
}

func (m *Manager) tookCongestionInfo(p *port, info mad.CongestionInfo) {
	g := &p.congestion
	g.capacity, g.none = int(info.CCTBlocks), info.CCTBlocks == 0
	if !g.none && g.lacks(m.cfg.Congestion) {
		m.note("port %v: a congestion control table of %d blocks does not fit: it has %d", p,
			m.cfg.Congestion.blocks(), g.capacity)
	}
}

func (g *congestion) logged(l mad.CongestionLog) {
	if l.Count > 0 {
		g.events += uint64(l.Count)
		g.latest = l.Events[(int(l.Count)-1)%len(l.Events)]
	}
}

// setCongestion is the next request that makes it what it is to be: the table first.
func (m *Manager) setCongestion(p *port) *request {
	g, c := &p.congestion, m.cfg.Congestion
	if g.lacks(c) || g.done && g.wanted == c {
		return nil
	}
	for i := range c.blocks() {
		if want := c.block(i); g.table[i] != want {
			return m.askCongestion(p, request{what: "congestion control table", set: true,
				attr: mad.AttrCongestionControlTable, modifier: mad.CCTBlock(i), n: mad.CCTLen, put: want.Put,
				took: func(data []byte) { g.table[i] = mad.ParseCCT(data) }})
		}
	}
	if want := c.settings(); g.settings != want {
		return m.askCongestion(p, request{what: "congestion setting", set: true, attr: mad.AttrHFICongestionSetting,
			n: mad.CongestionSettingsLen, put: want.Put, took: func(data []byte) {
				m.tookCongestion(p, data)
				m.note("port %v: congestion control of service levels %s", p, slsString(g.settings.ControlMap))
			}})
	}
	g.done, g.wanted = true, c
	return nil
}

func (m *Manager) tookCongestion(p *port, data []byte) {
	g := &p.congestion
	g.settings, g.read, g.done = mad.ParseCongestionSettings(data), true, false
}

// askCongestion is askSubnet to a port that may know nothing of congestion control.
func (m *Manager) askCongestion(p *port, r request) *request {
	r.refused = func() { p.congestion.none = true }
	return m.askSubnet(p, r)
}

// slsString lists the bits of a map as ranges.
func slsString(bits uint32) string {
	var list []string
	for sl := 0; sl < mad.MaxSLs; sl++ {
		first := sl
		for sl < mad.MaxSLs && bits>>sl&1 != 0 {
			sl++
		}
		switch sl - first {
		case 0:
		case 1:
			list = append(list, fmt.Sprint(first))
		default:
			list = append(list, fmt.Sprintf("%d-%d", first, sl-1))
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ",")
}

// CongestionRecord is the congestion control of a port, as it was read from there.
type CongestionRecord struct {
	GUID      GUID          `json:"guid"`
	Name      string        `json:"name"`
	SLs       string        `json:"sls"`
	Increase  uint8         `json:"increase"`
	Timer     time.Duration `json:"timer_ns"`
	Threshold uint8         `json:"threshold"`
	Min       uint8         `json:"min"`
	Limit     uint16        `json:"limit"`
	Events    uint64        `json:"events"` // notifications that the port logged
	Latest    string        `json:"latest"` // of them: service level and LID of the far end
	InSync    bool          `json:"in_sync"`
}

// Congestion returns the congestion control of each port, by GUID.
func (m *Manager) Congestion() (list []CongestionRecord) {
	for _, p := range m.ports {
		g := &p.congestion
		r := CongestionRecord{GUID: GUID(p.guid), Name: p.name, SLs: slsString(g.settings.ControlMap), Events: g.events,
			Latest: "-", InSync: g.has(m.cfg.Congestion)}
		for sl, e := range g.settings.SLs {
			if g.settings.ControlMap>>sl&1 != 0 {
				r.Increase, r.Threshold, r.Min = e.Increase, e.Threshold, e.Min
				r.Timer = time.Duration(e.Timer) * mad.CongestionTick
				break
			}
		}
		if len(g.table) > 0 {
			r.Limit = g.table[0].Limit
		}
		if g.events > 0 {
			r.Latest = fmt.Sprintf("SL %d, LID %v", g.latest.SL, g.latest.RemoteLID)
		}
		list = append(list, r)
	}
	return list
}
