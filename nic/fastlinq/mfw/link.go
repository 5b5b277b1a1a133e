package mfw

import (
	"cmp"

	"tapir/nic/fastlinq/mfw/mib"
	"tapir/nic/linkmode"
)

// port is a port's PHY.
type port struct {
	media    Media
	module   Module
	unplug   bool // the module is pulled out
	phy      PHYConfig
	wanted   bool // a driver has asked for link
	laser    bool // the transmitter is on
	signal   bool // of the partner
	partner  Partner
	status   LinkStatus
	eee      EEEStatus
	txFault  bool
	boardEEE bool
	agent    *mib.Agent
}

// factory is the configuration of a port that nobody has configured.
var factory = PHYConfig{Pause: PauseAutoneg | PauseRx | PauseTx,
	EEE: (EEEEnabled | EEETxLPI | EEEAdv1G | EEEAdv10G).WithTimer(EEETimerBalanced)}

func (f *Firmware) bootPort(i int) {
	c, p := &f.cfg.Ports[i], &f.ports[i]
	f.ports[i] = port{media: c.Media, module: moduleOf(c.Media), laser: true, signal: !c.NoSignal,
		partner: c.Partner, boardEEE: !c.NoEEE}
	p.phy = cmp.Or(c.Default, factory)
	c.Speeds = cmp.Or(c.Speeds, linkmode.ModuleSpeeds)
	p.phy.Advertise = cmp.Or(p.phy.Advertise, c.Speeds)
	if !f.canEEE(i) {
		p.phy.EEE = 0
	}
	s := &f.shm.Port[i]
	*s = Port{MediaType: uint32(c.Media), LinkSpeedCaps: uint32(c.Speeds), DefaultLink: p.phy}
	s.TransceiverData = p.transceiver()
	f.resolve(i)
}

// canEEE: only twisted pairs know EEE, and only on a board that has it.
func (f *Firmware) canEEE(i int) bool { return f.ports[i].media == MediaBaseT && f.ports[i].boardEEE }

func (f *Firmware) features(fn int) Features {
	return FeatureLoadTimeout | FeatureEEE*Features(b2u(f.canEEE(f.cfg.Funcs[fn].Port)))
}

// initPHY configures the port and asks for link. Link flap avoidance: the link
// goes down only if what it has is not what is wanted.
func (f *Firmware) initPHY(r *request) Response {
	n := f.cfg.Funcs[r.fn].Port
	p, want := &f.ports[n], DecodePHYConfig(r.data)
	if want.Loopback >= endLoopback || want.Speed != 0 && linkmode.SpeedOf(want.Speed) == 0 ||
		want.Advertise&^linkmode.AllSpeeds != 0 ||
		want.EEE.adv() != 0 && !f.canEEE(n) {
		return InitPHYInvalidArgs
	}
	f.funcs[r.fn].wants = true
	s := &f.shm.Port[n]
	s.LFAStatus = p.mismatch(want) | r.param&initPHYForce*LFAForceInit
	p.phy, p.wanted = want, true
	if s.LFAStatus == 0 {
		return InitPHYDone
	}
	f.linkDown(n)
	f.refresh(n)
	return InitPHYDone
}

// mismatch tells why the link cannot stay as it is.
func (p *port) mismatch(want PHYConfig) uint32 {
	have := p.phy
	return b2u(!p.status.Up)*LFALinkDown |
		b2u(want.Loopback != have.Loopback)*LFALoopback |
		b2u(want.Speed != have.Speed)*LFASpeed |
		b2u(want.Pause != have.Pause)*LFAFlowControl |
		b2u(want.Speed == 0 && want.Advertise != have.Advertise)*LFAAdvertisedSpeed |
		b2u(want.EEE != have.EEE)*LFAEEE
}

// linkReset notes that a driver no longer wants link. Whether the port loses it is
// up to the firmware.
func (f *Firmware) linkReset(r *request) Response {
	f.funcs[r.fn].wants = false
	f.refresh(f.cfg.Funcs[r.fn].Port)
	return LinkResetDone
}

// linkHeld tells whether somebody needs the port's link: a driver, or an unloaded
// function that a magic packet wakes. It also holds until a driver first asks.
func (f *Firmware) linkHeld(n int) bool {
	if !f.ports[n].wanted {
		return true
	}
	for fn := range f.funcs {
		me := &f.funcs[fn]
		waits := me.armed || me.phase != idle && me.wol == WoLEnabled
		if f.cfg.Funcs[fn].Port == n && (me.wants || waits) {
			return true
		}
	}
	return false
}

// linkDown takes the link down, if it is up.
func (f *Firmware) linkDown(n int) {
	p := &f.ports[n]
	if p.status.Up {
		p.status, p.eee = LinkStatus{}, EEEStatus{}
		f.publish(n)
		f.setLaser(n, false)
	}
}

func (f *Firmware) setLaser(n int, on bool) {
	p := &f.ports[n]
	if p.laser != on {
		p.laser = on
		if f.cfg.Laser != nil {
			f.cfg.Laser(n, on)
		}
	}
}

// refresh brings the port's link to what it should be, and tells drivers.
func (f *Firmware) refresh(n int) {
	p := &f.ports[n]
	before, eee := p.status, p.eee
	f.setLaser(n, f.linkHeld(n) && !p.gone() && p.phy.Loopback == LoopbackNone)
	f.resolve(n)
	if p.status != before {
		f.publish(n)
	}
	if p.eee != eee && p.eee.Active {
		f.postPort(n, MsgEEEComplete)
	}
}

func (p *port) gone() bool { return p.unplug || p.media == MediaNotPresent }

// publish counts a change of the link and tells the drivers.
func (f *Firmware) publish(n int) {
	p := &f.ports[n]
	f.shm.Port[n].LinkStatus, f.shm.Port[n].EEEStatus = p.status.encode(), p.eee.encode()
	f.shm.Port[n].LinkChangeCount++
	f.postPort(n, MsgLinkChange)
}

// resolve computes the link's state.
func (f *Firmware) resolve(n int) {
	p := &f.ports[n]
	p.status, p.eee = LinkStatus{SFPFault: p.txFault}, EEEStatus{}
	have := f.cfg.Ports[n].Speeds
	switch {
	case !f.linkHeld(n):
	case p.phy.Loopback != LoopbackNone && p.phy.Loopback != LoopbackExternal:
		p.status.Up, p.status.Speed = true, p.speedAlone(have)
	case p.gone() || p.txFault:
	case p.phy.Loopback == LoopbackExternal: // its own plug is the partner
		p.status.Signal, p.status.Up, p.status.Speed = true, true, p.speedAlone(have)
	case !p.signal || p.partner.Dark:
		p.status.LocalFault = true
	default:
		p.status.Signal = true
		f.train(n, have)
	}
	if f.canEEE(n) {
		p.eee.Adv, p.eee.Caps = p.phy.EEE.adv(), linkmode.AllEEE
		if p.status.Up && p.phy.Loopback == LoopbackNone {
			p.eee.Partner = p.partner.EEE
			p.eee.Active = (p.eee.Adv&p.partner.EEE).Speeds()&linkmode.SpeedOf(p.status.Speed) != 0
		}
	}
	f.shm.Port[n].LinkStatus, f.shm.Port[n].EEEStatus = p.status.encode(), p.eee.encode()
}

// speedAlone is the speed of a port that talks to itself.
func (p *port) speedAlone(have Speeds) uint32 {
	return cmp.Or(p.phy.Speed, (p.phy.Advertise & have).Mbps())
}

// train finds the speed and the pause that both ends have.
func (f *Firmware) train(n int, have Speeds) {
	p := &f.ports[n]
	s, theirs := &p.status, cmp.Or(p.partner.Speeds, linkmode.ModuleSpeeds|have)
	mine := p.phy.Advertise & have
	if p.phy.Speed != 0 {
		mine = linkmode.SpeedOf(p.phy.Speed) & have
		s.UnsupportedSpeed = mine == 0
	}
	s.Autoneg = p.phy.Speed == 0
	s.Speed = (mine & theirs).Mbps()
	s.Up = s.Speed != 0
	s.AutonegDone = s.Autoneg && s.Up && !p.partner.Forced
	s.ParallelDetection = s.Up && s.Autoneg == p.partner.Forced
	shown := p.partner
	if p.agent != nil && shown == (Partner{}) {
		shown = p.agent.Partner(have)
	}
	if s.Autoneg && !shown.Forced {
		for _, e := range speeds {
			if cmp.Or(shown.Speeds, theirs)&e.bit != 0 {
				s.Partner |= e.partner
			}
		}
		s.PartnerPause = pauseOf(&shown)
	}
	if s.Up {
		s.RxPause, s.TxPause = p.flowControl(s.AutonegDone)
	}
}

// pauseOf is the partner's advertisement as the link status has it.
func pauseOf(p *Partner) uint8 { return uint8(b2u(!p.NoSymmetric) | b2u(p.Asymmetric)<<1) }

// flowControl is the outcome of pause negotiation (IEEE 802.3 table 28B-3), or
// what the driver forces.
func (p *port) flowControl(negotiated bool) (rx, tx bool) {
	rx, tx = p.phy.Pause&PauseRx != 0, p.phy.Pause&PauseTx != 0
	if p.phy.Pause&PauseAutoneg == 0 {
		return rx, tx
	}
	if !negotiated {
		return false, false
	}
	theirs, theirAsymmetric := !p.partner.NoSymmetric, p.partner.Asymmetric
	if rx && theirs {
		return true, true
	}
	mixed := rx != tx && theirAsymmetric // one direction at most
	return mixed && rx && !theirs, mixed && !rx && theirs
}

// SetSignal says whether the partner's signal comes in: the carrier of the cable.
func (f *Firmware) SetSignal(n int, on bool) {
	if f.ports[n].signal != on {
		f.ports[n].signal = on
		f.refresh(n)
	}
}

// SetPartner puts another partner at the other end.
func (f *Firmware) SetPartner(n int, to Partner) {
	if f.ports[n].partner != to {
		f.ports[n].partner = to
		f.refresh(n)
	}
}

// Laser tells whether a port's transmitter is on.
func (f *Firmware) Laser(n int) bool { return f.ports[n].laser }

// LPI tells when a port that has nothing to send goes to sleep: the LPI timer
// in us, and whether EEE is active and sleeping is on.
func (f *Firmware) LPI(n int) (us uint32, on bool) {
	p := &f.ports[n]
	return p.phy.EEE.Timer(), p.eee.Active && p.phy.EEE&EEETxLPI != 0
}
