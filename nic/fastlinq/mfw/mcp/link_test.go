package mcp_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/nic/linkmode"
	"tapir/wire/frame"
)

// MF-08 MF-09 MF-11 The link is down until it is asked for, whatever the wire
// is; each SetLink and each change of the wire is one event.
func TestLinkIsAskedFor(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.drv[0]
	if _, err := r.load(0, mcp.LoadParams{}); err != nil {
		t.Fatal(err)
	}
	r.must(d.LoadDone)
	r.fw.SetSignal(0, false)
	r.fw.SetSignal(0, true)
	r.settle()
	if !r.fw.Laser(0) || d.LinkState() != (mcp.LinkState{}) {
		t.Errorf("before it was asked for: %+v", d.LinkState())
	}
	if c := d.Caps(); c.SpeedCaps != linkmode.ModuleSpeeds || !c.DefaultSpeedAutoneg || c.DefaultSpeed != 0 || !c.DefaultEEE ||
		c.EEELPITimer != mfw.EEETimerBalanced || c.EEESpeedCaps != linkmode.AllEEE {
		t.Errorf("capabilities %+v", c)
	}
	before := r.seen[0].links
	r.link(0, true)
	s := d.LinkState()
	if !s.LinkUp || s.LineSpeed != 100000 || s.Speed != 100000 || s.MinPFRate != 1000 || !s.FullDuplex || !s.AN || !s.ANComplete ||
		!s.TxFlowControl || !s.RxFlowControl || s.PartnerAdvPause != 1 || s.PartnerAdvSpeed != 0xfe || s.ParallelDetection {
		t.Errorf("%+v", s)
	}
	if n := r.seen[0].links - before; n != 1 {
		t.Errorf("%d events for one SetLink", n)
	}
	for i, on := range []bool{false, true, true} { // the third changes nothing
		before = r.seen[0].links
		r.fw.SetSignal(0, on)
		r.settle()
		if d.LinkState().LinkUp != on || r.seen[0].links-before != min(1, 2-i) {
			t.Errorf("carrier %v: %d events, %+v", on, r.seen[0].links-before, d.LinkState())
		}
	}
	r.link(0, false)
	if d.LinkState() != (mcp.LinkState{}) || r.fw.Laser(0) {
		t.Errorf("after LINK_RESET: %+v", d.LinkState())
	}
}

// MF-10 MF-14 What two ends agree upon: the fastest speed of both; a forced
// end against one that negotiates, and against a forced one.
func TestSpeedOfLink(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		speed := func(label string) mfw.Speeds {
			return mfw.Speeds(rapid.Uint32Range(1, uint32(linkmode.AllSpeeds)).Draw(rt, label))
		}
		cfg := board(1, 1, 1)
		cfg.Ports[0].Media, cfg.Ports[0].Speeds = mfw.MediaModule, speed("board")
		r := newRig(t, cfg)
		p := mfw.Partner{Speeds: speed("partner"), Forced: rapid.Bool().Draw(rt, "partner forced")}
		if p.Forced {
			p.Speeds = linkmode.SpeedOf(p.Speeds.Mbps())
		}
		r.fw.SetPartner(0, p)
		d := r.up(0)
		adv := speed("advertised")
		*d.LinkParams() = mcp.LinkParams{Autoneg: rapid.Bool().Draw(rt, "autoneg"), AdvertisedSpeeds: adv, ForcedSpeed: adv.Mbps()}
		before := d.LinkState()
		mine := adv
		if !d.LinkParams().Autoneg {
			mine = linkmode.SpeedOf(adv.Mbps())
		}
		err := r.do(func(now frame.Time, done func(error)) { d.SetLink(true, now, done) })
		if mine&cfg.Ports[0].Speeds == 0 {
			if status.Of(err) != status.Inval || d.LinkState() != before {
				rt.Fatalf("%v of %v: %v, %+v", mine, cfg.Ports[0].Speeds, err, d.LinkState())
			}
			return
		}
		expect := (mine & cfg.Ports[0].Speeds & p.Speeds).Mbps()
		s := d.LinkState()
		if err != nil || s.LineSpeed != expect || s.LinkUp != (expect != 0) || s.ANComplete != (s.LinkUp && d.LinkParams().Autoneg && !p.Forced) ||
			s.ParallelDetection != (s.LinkUp && d.LinkParams().Autoneg == p.Forced) {
			rt.Fatalf("%v against %+v: %v, %+v, want %d", mine, p, err, s, expect)
		}
	})
}

// Every speed from 1G to 100G can be forced, and nothing else.
func TestForcedSpeeds(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	for _, mbps := range []uint32{1000, 10000, 20000, 25000, 40000, 50000, 100000} {
		d.LinkParams().Autoneg, d.LinkParams().ForcedSpeed = false, mbps
		r.link(0, true)
		if s := d.LinkState(); !s.LinkUp || s.Speed != mbps || s.AN || s.PartnerAdvSpeed != 0 {
			t.Errorf("%d Mb/s: %+v", mbps, s)
		}
	}
	for _, mbps := range []uint32{0, 1, 100, 2500, 200000} {
		d.LinkParams().ForcedSpeed = mbps
		want(t, "a speed that there is not", r.do(func(now frame.Time, done func(error)) { d.SetLink(true, now, done) }), status.Inval)
		if s := d.LinkState(); s.Speed != 100000 {
			t.Errorf("%d Mb/s changed the link: %+v", mbps, s)
		}
	}
}

// MF-10 Pause, negotiated as IEEE 802.3 table 28B-3 has it, or forced.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		auto, rx, tx   bool
		noSym, asym    bool
		rxGets, txGets bool
	}{
		{true, true, true, false, false, true, true},
		{true, true, true, false, true, true, true},
		{true, true, true, true, true, false, false},
		{true, true, true, true, false, false, false},
		{true, false, true, false, true, false, true},
		{true, false, true, false, false, false, false},
		{true, false, true, true, true, false, false},
		{true, true, false, true, true, true, false},
		{true, true, false, false, false, true, true},
		{true, false, false, false, true, false, false},
		{false, true, false, true, false, true, false},
		{false, false, true, true, false, false, true},
		{false, true, true, true, false, true, true},
		{false, false, false, false, true, false, false},
	} {
		r := newRig(t, board(1, 1, 1))
		d := r.up(0)
		r.fw.SetPartner(0, mfw.Partner{NoSymmetric: c.noSym, Asymmetric: c.asym})
		p := d.LinkParams()
		p.PauseAutoneg, p.ForcedRx, p.ForcedTx = c.auto, c.rx, c.tx
		r.link(0, true)
		if s := d.LinkState(); s.RxFlowControl != c.rxGets || s.TxFlowControl != c.txGets {
			t.Errorf("%+v: rx %v tx %v, partner %d", c, s.RxFlowControl, s.TxFlowControl, s.PartnerAdvPause)
		}
	}
}

// MF-12 The link flaps only for what it must: not for the same parameters
// again, not when one of two functions leaves, and not under a sleeper.
func TestLinkFlapAvoidance(t *testing.T) {
	r := newRig(t, board(1, 1, 2))
	a, b := r.up(0), r.up(1)
	count := a.LinkChangeCount()
	r.link(0, true)
	if a.LFA() != 0 || a.LinkChangeCount() != count || len(r.light) != 0 {
		t.Errorf("the same again: reason %#x, %d changes, light %v", a.LFA(), a.LinkChangeCount()-count, r.light)
	}
	for _, c := range []struct {
		change func(p *mcp.LinkParams)
		lfa    uint32
	}{
		{func(p *mcp.LinkParams) { p.AdvertisedSpeeds = linkmode.Speed10G | linkmode.Speed1G }, mfw.LFAAdvertisedSpeed},
		{func(p *mcp.LinkParams) { p.ForcedTx = false }, mfw.LFAFlowControl},
		{func(p *mcp.LinkParams) { p.EEE.TxLPITimer++ }, mfw.LFAEEE},
		{func(p *mcp.LinkParams) { p.Autoneg, p.ForcedSpeed = false, 10000 }, mfw.LFASpeed},
		{func(p *mcp.LinkParams) { p.Loopback = mfw.LoopbackMAC }, mfw.LFALoopback},
		{func(p *mcp.LinkParams) { p.Loopback = mfw.LoopbackNone }, mfw.LFALoopback},
	} {
		c.change(a.LinkParams())
		count, r.light = a.LinkChangeCount(), nil
		r.link(0, true)
		if a.LFA() != c.lfa || a.LinkChangeCount() != count+2 || !a.LinkState().LinkUp {
			t.Errorf("reason %#x, want %#x; %d changes", a.LFA(), c.lfa, a.LinkChangeCount()-count)
		}
	}
	r.light, count = nil, b.LinkChangeCount()
	events := r.seen[1].links
	r.link(0, false)
	if _, err := r.unload(0); err != nil {
		t.Fatal(err)
	}
	r.must(a.UnloadDone)
	if len(r.light) != 0 || b.LinkChangeCount() != count || r.seen[1].links != events || !b.LinkState().LinkUp {
		t.Errorf("one of two leaves: light %v, %d changes", r.light, b.LinkChangeCount()-count)
	}
	r.must(func(now frame.Time, done func(error)) { b.OVUpdateWoL(mfw.WoLEnabled, now, done) })
	r.link(1, false)
	if _, err := r.unload(1); err != nil {
		t.Fatal(err)
	}
	r.must(b.UnloadDone)
	if len(r.light) != 0 || !r.fw.Laser(0) {
		t.Errorf("under a sleeper: light %v", r.light)
	}
	r.up(1)
	r.light = nil // the other one had forced a speed
	r.must(func(now frame.Time, done func(error)) { b.OVUpdateWoL(mfw.WoLDisabled, now, done) })
	r.link(1, false)
	if r.fw.Laser(0) || !slices.Equal(r.light, []bool{false}) {
		t.Errorf("the last one leaves: light %v", r.light)
	}
}

// MF-13 A looped port has link without a partner, and shows none outside; the
// plug outside needs light.
func TestLoopbackModes(t *testing.T) {
	for mode := mfw.LoopbackInternalPHY; mode <= mfw.LoopbackInternalPHYFEA; mode++ {
		r := newRig(t, board(1, 1, 1))
		r.fw.SetSignal(0, false)
		d := r.up(0)
		if d.LinkState().LinkUp {
			t.Fatal("up without a partner")
		}
		d.LinkParams().Loopback = mode
		r.link(0, true)
		if s := d.LinkState(); !s.LinkUp || s.Speed != 100000 || r.fw.Laser(0) {
			t.Errorf("%v: %+v, light %v", mode, s, r.fw.Laser(0))
		}
		d.LinkParams().Loopback = mfw.LoopbackNone
		r.link(0, true)
		if d.LinkState().LinkUp || !r.fw.Laser(0) {
			t.Errorf("%v is over: %+v", mode, d.LinkState())
		}
	}
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	d.LinkParams().Loopback = 10
	want(t, "mode 10", r.do(func(now frame.Time, done func(error)) { d.SetLink(true, now, done) }), status.Inval)
	if !d.LinkState().LinkUp || d.LinkState().Speed != 100000 {
		t.Errorf("%+v", d.LinkState())
	}
}

// MF-15 MF-16 MF-17 MF-18 MF-19 EEE is active if both ends advertise it at the
// speed that the link has, and only over twisted pairs.
func TestEEE(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := board(1, 1, 1)
		caps := func(label string) mfw.EEECaps {
			return rapid.SampledFrom([]mfw.EEECaps{0, linkmode.EEE1G, linkmode.EEE10G, linkmode.AllEEE}).Draw(rt, label)
		}
		cfg.Ports[0].Media = rapid.SampledFrom([]mfw.Media{mfw.MediaBaseT, mfw.MediaBaseT, mfw.MediaBaseT, mfw.MediaModule, mfw.MediaKR}).Draw(rt, "media")
		cfg.Ports[0].NoEEE = rapid.IntRange(0, 4).Draw(rt, "board lacks it") == 0
		r := newRig(t, cfg)
		partner := mfw.Partner{Speeds: rapid.SampledFrom([]mfw.Speeds{linkmode.Speed1G, linkmode.Speed10G, linkmode.Speed25G}).Draw(rt, "speed"), EEE: caps("partner")}
		r.fw.SetPartner(0, partner)
		d := r.up(0)
		able := cfg.Ports[0].Media == mfw.MediaBaseT && !cfg.Ports[0].NoEEE
		if !able && (d.LinkState().EEEActive || d.LinkParams().EEE != mcp.EEEParams{} || d.Caps().EEESpeedCaps != 0) {
			rt.Fatalf("%v: %+v", cfg.Ports[0].Media, d.LinkParams().EEE)
		}
		e := mcp.EEEParams{Enable: rapid.Bool().Draw(rt, "on"), TxLPIEnable: rapid.Bool().Draw(rt, "lpi"),
			TxLPITimer: rapid.Uint32Range(0, mfw.EEETimerMax+9).Draw(rt, "timer"), AdvCaps: caps("mine")}
		d.LinkParams().EEE = e
		err := r.do(func(now frame.Time, done func(error)) { d.SetLink(true, now, done) })
		code := status.Success
		switch {
		case e.Enable && !able:
			code = status.NotImpl
		case e.Enable && e.AdvCaps == 0, e.TxLPITimer > mfw.EEETimerMax:
			code = status.Inval
		}
		if status.Of(err) != code {
			rt.Fatalf("%+v on %v: %v, want %v", e, cfg.Ports[0].Media, err, code)
		}
		if err != nil {
			return
		}
		at := map[mfw.Speeds]mfw.EEECaps{linkmode.Speed1G: linkmode.EEE1G, linkmode.Speed10G: linkmode.EEE10G}[partner.Speeds]
		active := able && e.Enable && e.AdvCaps&partner.EEE&at != 0
		s := d.LinkState()
		us, sleeps := r.fw.LPI(0)
		if s.EEEActive != active || sleeps != (active && e.TxLPIEnable) || e.Enable && (us != e.TxLPITimer || s.EEEAdvCaps != e.AdvCaps) {
			rt.Fatalf("%+v against %+v: %+v, LPI after %d us %v", e, partner, s, us, sleeps)
		}
		if able && s.EEELPAdvCaps != partner.EEE {
			rt.Fatalf("partner %v, not %v", s.EEELPAdvCaps, partner.EEE)
		}
	})
}

// XX-06 MF-14 A module that is pulled out takes the link along, and is missed
// by name; a laser that fails is told.
func TestModuleIsPulled(t *testing.T) {
	cfg := board(1, 1, 1)
	cfg.Ports[0].Media = mfw.MediaModule
	r := newRig(t, cfg)
	d := r.up(0)
	if st, kind := d.Transceiver(); st != mfw.TransceiverPresent || kind != mfw.Transceiver100GSR4 || d.Media() != mfw.MediaModule {
		t.Errorf("%v %#x %v", st, kind, d.Media())
	}
	r.fw.SetModule(0, false)
	r.settle()
	if d.LinkState().LinkUp || d.Media() != mfw.MediaNotPresent || r.fw.Laser(0) {
		t.Errorf("pulled: %+v, %v", d.LinkState(), d.Media())
	}
	r.fw.SetModule(0, true)
	r.settle()
	if !d.LinkState().LinkUp || !slices.Equal(r.seen[0].module, []mfw.TransceiverState{mfw.TransceiverUnplugged, mfw.TransceiverPresent}) {
		t.Errorf("plugged: %+v, %v", d.LinkState(), r.seen[0].module)
	}
	r.fw.SetTxFault(0, true)
	r.settle()
	if s := d.LinkState(); s.LinkUp || !s.SFPTxFault {
		t.Errorf("laser: %+v", s)
	}
	soldered := newRig(t, board(1, 1, 1))
	e := soldered.up(0)
	soldered.fw.SetModule(0, false)
	soldered.settle()
	if !e.LinkState().LinkUp || len(soldered.seen[0].module) != 0 {
		t.Error("BASE-T was pulled out")
	}
}

// MF-41 The function's share of the port is its speed; a change is told,
// obeyed and acknowledged.
func TestBandwidth(t *testing.T) {
	r := newRig(t, board(1, 1, 2))
	d := r.up(0)
	r.up(1)
	for _, c := range []struct {
		low, high uint8
		min, max  uint32
	}{{10, 25, 10000, 25000}, {0, 0, 1000, 100000}, {5, 101, 5000, 100000}} {
		r.fw.SetBandwidth(0, c.low, c.high)
		r.settle()
		if s := d.LinkState(); s.Speed != c.max || s.MinPFRate != c.min || s.LineSpeed != 100000 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
	if got := r.seen[0].bandwidth; !slices.Equal(got, [][2]uint8{{10, 25}, {1, 100}, {5, 100}}) || len(r.seen[1].bandwidth) != 0 {
		t.Errorf("%v, the other %v", got, r.seen[1].bandwidth)
	}
	if n := r.fw.BandwidthAcks(0); n != 3 {
		t.Errorf("%d acknowledged", n)
	}
}

// MF-40 A magic packet wakes the function that sleeps, once, and no other.
func TestWakeOnLAN(t *testing.T) {
	magic := func(m [6]byte, lead int) []byte {
		b := make([]byte, lead, 200)
		b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		for range 16 {
			b = append(b, m[:]...)
		}
		return append(b, 1, 2, 3)
	}
	r := newRig(t, board(1, 1, 2))
	for fn, w := range []mfw.WoL{mfw.WoLEnabled, mfw.WoLDisabled} {
		d := r.up(fn)
		r.must(func(now frame.Time, done func(error)) { d.OVUpdateWoL(w, now, done) })
		if r.fw.Sniff(0, magic(mac(fn), 14)) {
			t.Error("woken while awake")
		}
		if _, err := r.unload(fn); err != nil {
			t.Fatal(err)
		}
		r.must(d.UnloadDone)
	}
	short := magic(mac(0), 14)
	for _, b := range [][]byte{nil, short[:14+101], magic(mac(1), 14), magic([6]byte{9}, 14), magic(mac(0), 14)[15:]} {
		if r.fw.Sniff(0, b) {
			t.Errorf("woken by %x", b)
		}
	}
	if !r.fw.Sniff(0, magic(mac(0), 42)) || r.fw.Sniff(0, magic(mac(0), 42)) || !slices.Equal(r.woken, []int{0}) || r.fw.Stats().Wakes != 1 {
		t.Errorf("woken: %v", r.woken)
	}
	if r.fw.Shared().Port[0].WoLInfo != 1 {
		t.Error("the port does not tell")
	}
}

// The option in the NVM counts for a driver that has no opinion.
func TestWakeByOption(t *testing.T) {
	for _, on := range []byte{0, 1} {
		r := newRig(t, board(1, 1, 1))
		d := r.up(0)
		r.must(func(now frame.Time, done func(error)) {
			d.NVMSetOption(mfw.OptionWoL, 0, []byte{on}, mfw.OptionInit|mfw.OptionCommit|mfw.OptionFree, now, done)
		})
		if _, err := r.unload(0); err != nil {
			t.Fatal(err)
		}
		r.must(d.UnloadDone)
		r.pass(time.Second)
		if got := r.fw.Sniff(0, slices.Concat(make([]byte, 14), []byte{255, 255, 255, 255, 255, 255}, slices.Repeat(func() []byte { m := mac(0); return m[:] }(), 16))); got != (on == 1) {
			t.Errorf("option %d: woken %v", on, got)
		}
	}
}
