// Package cca is the congestion control agent of an HFI port, after the Linux driver
// hfi1. Each BECN raises the index of a service level (CCTI) into the congestion
// control table, whose entry says how long the next packet of the level waits; a
// timer lowers it again. It is a state machine without a clock.
//
// The driver delays the whole port by the highest index of all service levels. Here
// each level has its own delay.
package cca

import (
	"math/bits"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

const (
	// linkMbps is the speed of the link by which delays are counted: four lanes of
	// 25 Gb/s.
	linkMbps = 100_000
	// lateness is how much time a packet makes up for at most, whose turn came late
	// because its thread woke late.
	lateness = 4 * time.Millisecond
	maxCCT   = mad.MaxCCTBlocks * mad.CCTPerBlock
)

// Counts is what a port has counted.
type Counts struct {
	BECN      uint64 // that raised an index
	Decreases uint64 // of an index, by its timer
	Delayed   uint64 // packets after which the next one of their level had to wait
	Delay     time.Duration
}

// Control is the state of one port. The zero value reacts to nothing.
type Control struct {
	settings mad.CongestionSettings
	limit    uint16
	table    []mad.CCTEntry // as far as it was set
	levels   [mad.MaxSLs]level
	active   uint32 // levels with a CCTI above 0
	log      mad.CongestionLog
	counts   Counts
}

// level is a service level.
type level struct {
	ccti   uint16
	fall   frame.Time // when the CCTI falls by one; 0: it is the least
	free   frame.Time // when the next packet may leave
	waited bool       // a packet was refused
}

// Info says what the port can do.
func (c *Control) Info() mad.CongestionInfo {
	return mad.CongestionInfo{CCTBlocks: mad.MaxCCTBlocks, LogLength: mad.CongestionLogEvents}
}

// Settings returns the settings in force.
func (c *Control) Settings() mad.CongestionSettings { return c.settings }

// SetSettings puts settings in force. An index below the least one rises to it.
func (c *Control) SetSettings(s mad.CongestionSettings) {
	c.settings = s
	for sl := range c.levels {
		l, ccti := &c.levels[sl], uint16(0)
		if s.ControlMap>>sl&1 != 0 {
			ccti = max(l.ccti, c.least(sl))
		}
		c.set(sl, ccti)
		if l.ccti <= c.least(sl) {
			l.fall = 0
		}
	}
}

// least is the lowest index of a level.
func (c *Control) least(sl int) uint16 { return min(uint16(c.settings.SLs[sl].Min), c.limit) }

func (c *Control) set(sl int, ccti uint16) {
	l := &c.levels[sl]
	if l.ccti = ccti; ccti == 0 {
		l.fall, l.free, l.waited = 0, 0, false
		c.active &^= 1 << sl
		return
	}
	c.active |= 1 << sl
}

// Table returns a block of the table; false: there is no such block.
func (c *Control) Table(block int) (t mad.CCT, ok bool) {
	if block < 0 || block >= mad.MaxCCTBlocks {
		return t, false
	}
	t.Limit = c.limit
	if at := block * mad.CCTPerBlock; at < len(c.table) {
		copy(t.Entries[:], c.table[at:])
	}
	return t, true
}

// SetTable sets a block of the table and the highest index. It reports false, and
// changes nothing, if there is no such block or index.
func (c *Control) SetTable(block int, t mad.CCT) bool {
	if block < 0 || block >= mad.MaxCCTBlocks || t.Limit >= maxCCT {
		return false
	}
	end := (block + 1) * mad.CCTPerBlock
	if len(c.table) < end {
		c.table = append(c.table, make([]mad.CCTEntry, end-len(c.table))...)
	}
	copy(c.table[end-mad.CCTPerBlock:], t.Entries[:])
	c.limit = t.Limit
	for sl := range c.levels {
		c.set(sl, min(c.levels[sl].ccti, c.limit))
	}
	c.SetSettings(c.settings)
	return true
}

// Notified takes in a BECN of the port with that LID for what was sent on a service
// level.
func (c *Control) Notified(sl uint8, from opa.LID, now frame.Time) {
	if int(sl) >= len(c.levels) || c.settings.ControlMap>>sl&1 == 0 {
		return
	}
	s, l := &c.settings.SLs[sl], &c.levels[sl]
	c.counts.BECN++
	c.set(int(sl), min(l.ccti+uint16(s.Increase), c.limit))
	if l.fall == 0 && l.ccti > c.least(int(sl)) {
		l.fall = now.Add(period(s))
	}
	if s.Threshold != 0 && l.ccti >= uint16(s.Threshold) {
		c.note(sl, from, now)
	}
}

// period is the time after which an index falls by one.
func period(s *mad.CongestionSetting) time.Duration {
	return time.Duration(max(1, s.Timer)) * mad.CongestionTick
}

// note adds an event to the log.
func (c *Control) note(sl uint8, from opa.LID, now frame.Time) {
	g := &c.log
	g.Events[int(g.Count)%len(g.Events)] = mad.CongestionEvent{LocalQP: opa.QPNone, RemoteQP: opa.QPNone, SL: sl,
		Service: mad.ServiceUD, RemoteLID: from, Stamp: uint32(now / mad.CongestionTick)}
	g.SLs |= 1 << sl
	if g.Count < 0xffff {
		g.Count++
	}
}

// Log returns the log, which begins anew.
func (c *Control) Log(now frame.Time) mad.CongestionLog {
	g := c.log
	g.Now = uint32(now / mad.CongestionTick)
	c.log = mad.CongestionLog{}
	return g
}

// Active tells whether some service level has to be asked about, by Ready.
func (c *Control) Active() bool { return c.active != 0 }

// Ready tells whether a packet of a service level may leave now, and if not, when.
func (c *Control) Ready(sl uint8, now frame.Time) (at frame.Time, ready bool) {
	l := &c.levels[sl%mad.MaxSLs]
	if l.free <= now {
		return 0, true
	}
	l.waited = true
	return l.free, false
}

// Sent takes note of a packet of so many octets that leaves on a service level.
func (c *Control) Sent(sl uint8, octets int, now frame.Time) {
	l := &c.levels[sl%mad.MaxSLs]
	d := c.delay(l.ccti, octets)
	if d == 0 {
		return
	}
	start := now
	if l.waited {
		start = max(l.free, now.Add(-lateness))
	}
	l.free, l.waited = start.Add(d), false
	c.counts.Delayed++
	c.counts.Delay += d
}

// delay is the time between a packet of so many octets and the next.
func (c *Control) delay(ccti uint16, octets int) time.Duration {
	if ccti == 0 || int(ccti) >= len(c.table) {
		return 0
	}
	e := c.table[ccti]
	return time.Duration(int64(octets)*8*1000*int64(e.Multiplier())/linkMbps) >> e.Shift()
}

// Poll lowers the indices that are due, and returns when the next is.
func (c *Control) Poll(now frame.Time) frame.Time {
	next := frame.Never
	for left := c.active; left != 0; left &= left - 1 {
		sl := bits.TrailingZeros32(left)
		l := &c.levels[sl]
		for least := c.least(sl); l.fall != 0 && l.fall <= now; {
			c.counts.Decreases++
			at := l.fall.Add(period(&c.settings.SLs[sl]))
			if c.set(sl, l.ccti-1); l.ccti <= least {
				at = 0
			}
			l.fall = at
		}
		if l.fall != 0 {
			next = min(next, l.fall)
		}
	}
	return next
}

// Level is the state of a service level.
type Level struct {
	SL    uint8
	CCTI  uint16
	Entry mad.CCTEntry
	Delay time.Duration // behind a packet of MTU octets
}

// Levels lists the service levels that react.
func (c *Control) Levels(mtu int) (list []Level) {
	for sl, l := range c.levels {
		if c.settings.ControlMap>>sl&1 == 0 {
			continue
		}
		v := Level{SL: uint8(sl), CCTI: l.ccti, Delay: c.delay(l.ccti, mtu)}
		if int(l.ccti) < len(c.table) {
			v.Entry = c.table[l.ccti]
		}
		list = append(list, v)
	}
	return list
}

// Limit is the highest index.
func (c *Control) Limit() uint16 { return c.limit }

// Counts returns what was counted.
func (c *Control) Counts() Counts { return c.counts }
