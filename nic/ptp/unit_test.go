package ptp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// counter is a clock whose wall time is its counter and a constant.
type counter struct {
	zero frame.Time // when the counter was zero
	wall frame.Stamp
}

func (c *counter) At(now frame.Time) frame.Stamp  { return c.Now(now) }
func (c *counter) Now(now frame.Time) frame.Stamp { return c.wall + frame.Stamp(now) }
func (c *counter) Counter(now frame.Time) int64   { return int64(now - c.zero) }
func (c *counter) ResetCounter(now frame.Time)    { c.zero = now }

const day = frame.Stamp(24 * time.Hour)

// enabled is a unit that stamps everything of version 2.
func enabled(t *testing.T) (*Unit, *counter) {
	t.Helper()
	c := &counter{wall: day}
	u := New(&Port{}, "eth0", c)
	if err := u.Enable(1000); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Configure(HWConfig{TxType: TxOn, Filter: FilterV2Event}); err != nil {
		t.Fatal(err)
	}
	return u, c
}

func event(seq uint16) Packet {
	return Packet{ID: ID{Type: msg.Sync, Sequence: seq, Source: msg.PortIdentity{Port: 1}}, Version: 2, Event: true}
}

func TestOneFunctionOwnsThePort(t *testing.T) {
	p, c := &Port{}, &counter{}
	a, b := New(p, "eth0", c), New(p, "eth1", c)
	for range 2 {
		if err := a.Enable(5); err != nil || p.Owner() != "eth0" {
			t.Fatalf("%v, owner %q", err, p.Owner())
		}
	}
	if err := b.Enable(6); !errors.Is(err, ErrBusy) || err.Error() !=
		"ptp: another function of the port owns PTP: eth0" {
		t.Errorf("%v", err)
	}
	b.Disable() // not its own
	if _, err := b.Configure(HWConfig{}); !errors.Is(err, ErrDisabled) {
		t.Errorf("%v", err)
	}
	a.Disable()
	if err := b.Enable(9); err != nil || p.Owner() != "eth1" || c.Counter(10) != 1 {
		t.Errorf("%v, owner %q, counter %d one ns after", err, p.Owner(), c.Counter(10))
	}
}

func TestConfigure(t *testing.T) {
	none := Registers{RxParamMask: 0x7ff, RxRuleMask: 0x3fff, TxParamMask: 0x7ff, TxRuleMask: 0x3fff}
	for _, c := range []struct {
		ask, answer   RxFilter
		enable, rules uint32
	}{
		{FilterNone, FilterNone, 0, 0x3fff}, {FilterAll, FilterNone, 7, 0x3caa}, {FilterSome, FilterNone, 7, 0x3caa},
		{FilterNTPAll, FilterNone, 7, 0x3caa},
		{FilterV1L4Event, FilterV1L4Event, 3, 0x3ffa}, {FilterV1L4Sync, FilterV1L4Event, 3, 0x3ffe},
		{FilterV1L4DelayReq, FilterV1L4Event, 3, 0x3ffe},
		{FilterV2L4Event, FilterV2L4Event, 5, 0x3faa}, {FilterV2L4Sync, FilterV2L4Event, 5, 0x3fee},
		{FilterV2L4DelayReq, FilterV2L4Event, 5, 0x3fee},
		{FilterV2L2Event, FilterV2L2Event, 5, 0x3cff}, {FilterV2L2Sync, FilterV2L2Event, 5, 0x3eff},
		{FilterV2L2DelayReq, FilterV2L2Event, 5, 0x3eff},
		{FilterV2Event, FilterV2Event, 5, 0x3caa}, {FilterV2Sync, FilterV2Event, 5, 0x3eee},
		{FilterV2DelayReq, FilterV2Event, 5, 0x3eee},
	} {
		u, _ := enabled(t)
		got, err := u.Configure(HWConfig{TxType: TxOn, Filter: c.ask})
		if err != nil || got != (HWConfig{TxType: TxOn, Filter: c.answer}) || u.Config() != got {
			t.Errorf("%v: %+v, %v", c.ask, got, err)
		}
		params := uint32(0x70f)
		if c.enable == 0 {
			params = 0x7ff
		}
		if r, want := u.Registers(), (Registers{c.enable, params, c.rules, c.enable, params, c.rules, 0, 0}); r !=
			want {
			t.Errorf("%v: registers %+x, want %+x", c.ask, r, want)
		}
		if _, err = u.Configure(HWConfig{Filter: c.ask}); err != nil || u.Registers().TxRuleMask != 0x3fff ||
			u.Registers().TxEnable != 0 {
			t.Errorf("%v, Tx off: %+x, %v", c.ask, u.Registers(), err)
		}
		u.Disable()
		if r := u.Registers(); r != none {
			t.Errorf("%v, disabled: %+x", c.ask, r)
		}
	}
	u, _ := enabled(t)
	before := u.Registers()
	for _, c := range []struct {
		ask HWConfig
		why error
	}{
		{HWConfig{Flags: 1}, ErrInvalid}, {HWConfig{TxType: TxOneStepSync}, ErrRange},
		{HWConfig{TxType: TxOneStepP2P}, ErrRange},
		{HWConfig{TxType: -1}, ErrRange}, {HWConfig{Filter: 16}, ErrRange}, {HWConfig{Filter: -1}, ErrRange},
	} {
		if _, err := u.Configure(c.ask); !errors.Is(err, c.why) || u.Registers() != before {
			t.Errorf("%+v: %v", c.ask, err)
		}
	}
	if f := Filters(); len(f) != 13 || f[0] != FilterNone || slices.Contains(f, FilterAll) ||
		slices.Contains(f, FilterNTPAll) {
		t.Errorf("offered %v", f)
	}
}

// Which packets a filter stamps.
func TestFilterMatches(t *testing.T) {
	packets := map[string]Packet{
		"v1/UDPv4": {Kind: transport.UDPv4, Version: 1, Event: true},
		"v2/UDPv4": {Kind: transport.UDPv4, Version: 2, Event: true},
		"v2/UDPv6": {Kind: transport.UDPv6, Version: 2, Event: true},
		"v2/L2":    {Kind: transport.Ethernet, Version: 2, Event: true},
		"general":  {Kind: transport.Ethernet, Version: 2},
	}
	for f, want := range map[RxFilter][]string{
		FilterNone:      nil,
		FilterAll:       {"v1/UDPv4", "v2/L2", "v2/UDPv4", "v2/UDPv6"},
		FilterV1L4Sync:  {"v1/UDPv4"},
		FilterV2L4Event: {"v2/UDPv4", "v2/UDPv6"},
		FilterV2L2Event: {"v2/L2"},
		FilterV2Sync:    {"v2/L2", "v2/UDPv4", "v2/UDPv6"},
	} {
		u, _ := enabled(t)
		if _, err := u.Configure(HWConfig{TxType: TxOn, Filter: f}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for name, p := range packets {
			if _, ok := u.Received(p, 2000); ok {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v stamps %v, want %v", f, got, want)
		}
	}
}

func TestRxStamps(t *testing.T) {
	u, c := enabled(t)
	if s, ok := u.Received(event(7), 5000); !ok || s != day+5000 {
		t.Errorf("%d, %v", s, ok)
	}
	if _, ok := u.Received(event(8), frame.Never); ok {
		t.Error("a stamp that the observer missed")
	}
	c.wall += 500 // someone set the clock: the stamp is from before
	if s, ok := u.RxStamp(event(7).ID); !ok || s != day+5000 {
		t.Errorf("%d, %v", s, ok)
	}
	if _, ok := u.RxStamp(event(7).ID); ok {
		t.Error("one stamp, taken twice")
	}
	if st := u.Stats(); st.RxStamps != 1 || st.RxMissed != 1 {
		t.Errorf("%+v", st)
	}
}

// Until the latch is armed again, a newer packet is not stamped.
func TestLatchIsOneDeep(t *testing.T) {
	var l latch
	if !l.hold(0xfffe, 11) || l.hold(0xffff, 22) || l.status != 0x1fffe {
		t.Errorf("status %#x", l.status)
	}
	for range 2 {
		if seq, n, ok := l.read(); seq != 0xfffe || n != 11 || !ok {
			t.Errorf("%#x %d %v", seq, n, ok)
		}
	}
	l.rearm()
	if _, _, ok := l.read(); ok || !l.hold(1, 33) {
		t.Error("not armed")
	}
}

func TestTxStamps(t *testing.T) {
	u, _ := enabled(t)
	for seq := range uint16(3) {
		at := frame.Time(5000 + int(seq))
		if !u.Request(event(seq), at-10) {
			t.Fatal("refused")
		}
		if _, ok, waiting := u.TxStamp(event(seq).ID); ok || !waiting {
			t.Error("a stamp before the packet was sent")
		}
		u.Sent(event(seq), at)
		if s, ok, waiting := u.TxStamp(event(seq).ID); !ok || waiting || s != day+frame.Stamp(at) {
			t.Errorf("%d %v %v", s, ok, waiting)
		}
	}
	if st := u.Stats(); st != (Stats{TxStamps: 3}) || u.Poll(9000) != frame.Never {
		t.Errorf("%+v", st)
	}
}

// The second request while one is outstanding goes without a stamp and is
// counted once; after 2 s the driver gives up, and counts that too.
func TestOneOutstandingTxStamp(t *testing.T) {
	u, _ := enabled(t)
	u.Faults.LoseEvery = 2
	now := frame.Time(time.Second)
	send := func(seq uint16) bool {
		ok := u.Request(event(seq), now)
		u.Sent(event(seq), now)
		return ok
	}
	send(1)
	if !send(2) { // its stamp is lost
		t.Fatal("refused")
	}
	if send(3) || u.Stats().TxSkipped != 1 {
		t.Errorf("%+v", u.Stats())
	}
	// The stamp of 3 stood in the latch, and was not taken for that of 2.
	if _, ok, waiting := u.TxStamp(event(2).ID); ok || !waiting || u.Stats().TxStale != 1 {
		t.Errorf("stamp %v, waiting %v, %+v", ok, waiting, u.Stats())
	}
	if next := u.Poll(now); next != now.Add(GiveUp) {
		t.Errorf("next %d", next)
	}
	u.Poll(now.Add(GiveUp) - 1)
	if _, _, waiting := u.TxStamp(event(2).ID); !waiting {
		t.Error("gave up too early")
	}
	if next := u.Poll(now.Add(GiveUp)); next != frame.Never || u.Stats().TxSkipped != 2 {
		t.Errorf("next %d, %+v", next, u.Stats())
	}
	now = now.Add(GiveUp)
	if !send(5) {
		t.Error("refused after the give-up")
	}
	for seq, want := range map[uint16]bool{2: false, 3: false} {
		if _, ok, _ := u.TxStamp(event(seq).ID); ok != want {
			t.Errorf("stamp of %d: %v", seq, ok)
		}
	}
}

func TestLateAndRepeatedTxStamps(t *testing.T) {
	u, _ := enabled(t)
	u.Faults.DelayEvery, u.Faults.Delay = 1, 30*time.Millisecond
	u.Request(event(1), 5000)
	u.Sent(event(1), 6000)
	due := frame.Time(6000).Add(30 * time.Millisecond)
	if _, ok, waiting := u.TxStamp(event(1).ID); ok || !waiting || u.Poll(7000) != due {
		t.Errorf("stamp %v, waiting %v, next %d", ok, waiting, u.Poll(7000))
	}
	u.Poll(due)
	if s, ok, _ := u.TxStamp(event(1).ID); !ok || s != day+6000 {
		t.Errorf("%d, %v", s, ok)
	}
	u.Faults = Faults{DuplicateEvery: 1}
	for seq := uint16(2); seq < 5; seq++ {
		at := due + frame.Time(seq)
		if !u.Request(event(seq), at) {
			t.Fatal("refused")
		}
		u.Sent(event(seq), at)
		if s, ok, _ := u.TxStamp(event(seq).ID); !ok || s != day+frame.Stamp(at) {
			t.Errorf("%d: %d, %v", seq, s, ok)
		}
	}
	if st := u.Stats(); st.TxStamps != 4 || st.TxStale != 2 || st.Faults != 4 {
		t.Errorf("%+v", st)
	}
}

func TestDisableGivesUp(t *testing.T) {
	u, _ := enabled(t)
	u.Request(event(1), 5000)
	u.Disable()
	if st := u.Stats(); st.TxSkipped != 1 || u.Poll(5000) != frame.Never || u.Request(event(2), 6000) {
		t.Errorf("%+v", st)
	}
	u.Sent(event(1), 6000)
	if _, ok := u.Received(event(3), 6000); ok {
		t.Error("stamped while disabled")
	}
}

func TestStampsAreBounded(t *testing.T) {
	u, _ := enabled(t)
	for seq := range uint16(100) {
		u.Received(event(seq), 5000+frame.Time(seq))
	}
	for seq, want := range map[uint16]bool{35: false, 36: true, 99: true} {
		if s, ok := u.RxStamp(event(seq).ID); ok != want || ok && s != day+5000+frame.Stamp(seq) {
			t.Errorf("%d: %d, %v", seq, s, ok)
		}
	}
}
