package cca

import (
	"testing"
	"time"

	"tapir/opa/mad"
	"tapir/wire/frame"
)

const us = frame.Time(time.Microsecond)

// control reacts on service levels 0 and 3: the multiplier is the index times 10.
func control(limit uint16, e mad.CongestionSetting) *Control {
	c := &Control{}
	for block := range int(limit)/mad.CCTPerBlock + 1 {
		t := mad.CCT{Limit: limit}
		for i := range t.Entries {
			t.Entries[i] = mad.CCTEntry(10 * (block*mad.CCTPerBlock + i))
		}
		c.SetTable(block, t)
	}
	s := mad.CongestionSettings{ControlMap: 1 | 1<<3, PortControl: mad.PortControlSL}
	s.SLs[0], s.SLs[3] = e, e
	c.SetSettings(s)
	return c
}

func (c *Control) ccti(sl int) uint16 { return c.levels[sl].ccti }

// A BECN raises the index of its level up to the limit; the timer lowers it by one at a
// time down to the least.
func TestIndexRisesAndFalls(t *testing.T) {
	c := control(100, mad.CongestionSetting{Increase: 40, Timer: 1000, Min: 2})
	if !c.Active() || c.ccti(0) != 2 || c.Poll(0) != frame.Never {
		t.Errorf("at first: %d", c.ccti(0))
	}
	for i, want := range []uint16{42, 82, 100, 100} {
		if c.Notified(3, 9, frame.Time(i)); c.ccti(3) != want {
			t.Errorf("after %d: %d", i+1, c.ccti(3))
		}
	}
	c.Notified(1, 9, 0) // does not react
	c.Notified(200, 9, 0)
	if c.ccti(0) != 2 || c.ccti(1) != 0 || c.Counts().BECN != 4 {
		t.Errorf("%+v", c.Counts())
	}
	if next := c.Poll(0); next != 1024*us {
		t.Errorf("falls at %v", next)
	}
	if c.Poll(1024*us - 1); c.ccti(3) != 100 {
		t.Error("fell early")
	}
	if next := c.Poll(1024 * us); c.ccti(3) != 99 || next != 2048*us {
		t.Errorf("%d, then at %v", c.ccti(3), next)
	}
	if next := c.Poll(1024 * 1024 * us); c.ccti(3) != 2 || next != frame.Never || c.Counts().Decreases != 98 {
		t.Errorf("%d, then at %v", c.ccti(3), next)
	}
}

// The delay behind a packet is the time that it takes at 100 Gb/s, shifted and
// multiplied; each level has its own.
func TestDelay(t *testing.T) {
	c := control(100, mad.CongestionSetting{Increase: 5, Timer: 10})
	c.Notified(0, 9, 0)
	if _, ready := c.Ready(0, 0); !ready {
		t.Error("the first packet waits")
	}
	c.Sent(0, 1250, 0) // 100 ns, times 50
	if at, ready := c.Ready(0, 4999); ready || at != 5000 {
		t.Errorf("%v %v", at, ready)
	}
	if _, ready := c.Ready(3, 0); !ready {
		t.Error("another level waits")
	}
	if _, ready := c.Ready(0, 5000); !ready {
		t.Error("it still waits")
	}
	c.Sent(0, 1250, 5100) // came late after waiting
	if at, _ := c.Ready(0, 5100); at != 10000 {
		t.Errorf("the next at %v", at)
	}
	c.SetTable(0, mad.CCT{Limit: 63, Entries: [mad.CCTPerBlock]mad.CCTEntry{5: 3<<14 | 100}})
	c.Sent(0, 1250, 10000)
	if at, _ := c.Ready(0, 10000); at != 10000+1250 { // 100 ns * 100 / 8
		t.Errorf("with a shift: %v", at)
	}
	if l := c.Levels(1250); len(l) != 2 || l[0].CCTI != 5 || l[0].Delay != 1250 || l[0].Entry.Shift() != 3 || l[0].Entry.Multiplier() != 100 {
		t.Errorf("%+v", l)
	}
	c.SetSettings(mad.CongestionSettings{})
	if _, ready := c.Ready(0, 0); !ready || c.Active() || len(c.Levels(1)) != 0 {
		t.Error("switched off, it waits")
	}
}

// From the threshold on BECNs are logged; reading begins anew. There is no block, nor an
// index, beyond the longest table.
func TestLogAndBounds(t *testing.T) {
	c := control(100, mad.CongestionSetting{Increase: 4, Timer: 10, Threshold: 8})
	for i := range 3 {
		c.Notified(0, 0x123456, frame.Time(i)*2048)
	}
	l := c.Log(8192)
	if l.Count != 2 || l.SLs != 1 || l.Now != 8 || l.Events[0].RemoteLID != 0x123456 || l.Events[0].Stamp != 2 || l.Events[1].Stamp != 4 {
		t.Errorf("%+v", l)
	}
	if l := c.Log(0); l.Count != 0 || l.SLs != 0 {
		t.Errorf("%+v", l)
	}
	_, below := c.Table(-1)
	_, beyond := c.Table(mad.MaxCCTBlocks)
	if below || beyond || c.SetTable(mad.MaxCCTBlocks, mad.CCT{}) || c.SetTable(0, mad.CCT{Limit: maxCCT}) {
		t.Error("beyond the table")
	}
	if last, ok := c.Table(mad.MaxCCTBlocks - 1); !ok || last.Limit != 100 || last.Entries[0] != 0 {
		t.Errorf("%+v", last)
	}
	if i := c.Info(); i.CCTBlocks != mad.MaxCCTBlocks || i.LogLength != mad.CongestionLogEvents {
		t.Errorf("%+v", i)
	}
}
