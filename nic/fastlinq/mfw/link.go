package mfw

// port is a port's PHY.
type port struct {
	media    Media
	module   Module
	unplug   bool // the module lies on the table
	phy      PHYConfig
	wanted   bool // a driver has asked for link
	light    bool // our transmitter
	signal   bool // light of the partner
	partner  Partner
	status   LinkStatus
	eee      EEEStatus
	txFault  bool
	boardEEE bool
}

// factory is the configuration of a port that nobody has configured.
var factory = PHYConfig{Pause: PauseAutoneg | PauseRx | PauseTx,
	EEE: (EEEEnabled | EEETxLPI | EEEAdv1G | EEEAdv10G).WithTimer(EEETimerBalanced)}

func (f *Firmware) bootPort(i int) {
	c, p := &f.cfg.Ports[i], &f.ports[i]
	f.ports[i] = port{media: c.Media, module: moduleOf(c.Media), phy: c.Default, light: true, signal: !c.Dark,
		partner: c.Partner, boardEEE: !c.NoEEE}
	if p.phy == (PHYConfig{}) {
		p.phy = factory
	}
	if c.Speeds == 0 {
		c.Speeds = AllSpeeds
	}
	if p.phy.Advertise == 0 {
		p.phy.Advertise = c.Speeds
	}
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
	have := FeatureLoadTimeout
	if f.canEEE(f.cfg.Funcs[fn].Port) {
		have |= FeatureEEE
	}
	return have
}

// initPHY configures the port and asks for link. Link flap avoidance: the link
// goes down only if what it has is not what is wanted.
func (f *Firmware) initPHY(fn int, param uint32, data []byte) Response {
	n := f.cfg.Funcs[fn].Port
	p, want := &f.ports[n], DecodePHYConfig(data)
	if want.Loopback >= endLoopback || want.Speed != 0 && SpeedOf(want.Speed) == 0 || want.Advertise&^AllSpeeds != 0 ||
		want.EEE.adv() != 0 && !f.canEEE(n) {
		return InitPHYInvalidArgs
	}
	f.funcs[fn].wants = true
	s := &f.shm.Port[n]
	s.LFAStatus = p.mismatch(want)
	if param&initPHYForce != 0 {
		s.LFAStatus |= LFAForceInit
	}
	p.phy, p.wanted = want, true
	if s.LFAStatus == 0 {
		return InitPHYDone
	}
	f.goDark(n)
	f.refresh(n)
	return InitPHYDone
}

// mismatch tells why the link cannot stay as it is.
func (p *port) mismatch(want PHYConfig) (lfa uint32) {
	have := p.phy
	for _, r := range [...]struct {
		is  bool
		why uint32
	}{
		{!p.status.Up, LFALinkDown},
		{want.Loopback != have.Loopback, LFALoopback},
		{want.Speed != have.Speed, LFASpeed},
		{want.Pause != have.Pause, LFAFlowControl},
		{want.Speed == 0 && want.Advertise != have.Advertise, LFAAdvertisedSpeed},
		{want.EEE != have.EEE, LFAEEE},
	} {
		if r.is {
			lfa |= r.why
		}
	}
	return lfa
}

// linkReset is that a driver no longer wants link. Whether the port loses it
// is for the firmware to say.
func (f *Firmware) linkReset(fn int) {
	f.funcs[fn].wants = false
	f.refresh(f.cfg.Funcs[fn].Port)
}

// kept tells whether somebody needs the port's link: a driver, a sleeper that
// a magic packet wakes, or nobody has ever had a say.
func (f *Firmware) kept(n int) bool {
	if !f.ports[n].wanted {
		return true
	}
	for fn := range f.funcs {
		me := &f.funcs[fn]
		sleeper := me.armed || me.phase != idle && me.wol == WoLEnabled
		if f.cfg.Funcs[fn].Port == n && (me.wants || sleeper) {
			return true
		}
	}
	return false
}

// goDark takes the link down, if it is up.
func (f *Firmware) goDark(n int) {
	p := &f.ports[n]
	if p.status.Up {
		p.status, p.eee = LinkStatus{}, EEEStatus{}
		f.publish(n)
		f.setLight(n, false)
	}
}

func (f *Firmware) setLight(n int, on bool) {
	p := &f.ports[n]
	if p.light != on {
		p.light = on
		if f.cfg.Light != nil {
			f.cfg.Light(n, on)
		}
	}
}

// refresh brings the port's link to what it should be, and tells drivers.
func (f *Firmware) refresh(n int) {
	p := &f.ports[n]
	before, eee := p.status, p.eee
	f.setLight(n, f.kept(n) && !p.gone() && p.phy.Loopback == LoopbackNone)
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
	case !f.kept(n):
	case p.phy.Loopback != LoopbackNone && p.phy.Loopback != LoopbackExternal:
		p.status.Up, p.status.Speed = true, p.speedAlone(have)
	case p.gone() || p.txFault:
	case p.phy.Loopback == LoopbackExternal: // its own plug is the partner
		p.status.Signal, p.status.Up, p.status.Speed = true, true, p.speedAlone(have)
	case !p.signal:
		p.status.LocalFault = true
	default:
		p.status.Signal = true
		f.train(n, have)
	}
	if f.canEEE(n) {
		p.eee.Adv, p.eee.Caps = p.phy.EEE.adv(), AllEEE
		if p.status.Up && p.phy.Loopback == LoopbackNone {
			p.eee.Partner = p.partner.EEE
			p.eee.Active = (p.eee.Adv & p.partner.EEE).has(p.status.Speed)
		}
	}
	f.shm.Port[n].LinkStatus, f.shm.Port[n].EEEStatus = p.status.encode(), p.eee.encode()
}

// speedAlone is the speed of a port that talks to itself.
func (p *port) speedAlone(have Speeds) uint32 {
	if p.phy.Speed != 0 {
		return p.phy.Speed
	}
	return (p.phy.Advertise & have).Mbps()
}

// train finds the speed and the pause that both ends have.
func (f *Firmware) train(n int, have Speeds) {
	p := &f.ports[n]
	s, theirs := &p.status, p.partner.Speeds
	if theirs == 0 {
		theirs = AllSpeeds
	}
	mine := p.phy.Advertise & have
	if p.phy.Speed != 0 {
		mine = SpeedOf(p.phy.Speed) & have
		s.UnsupportedSpeed = mine == 0
	}
	s.Autoneg = p.phy.Speed == 0
	s.Speed = (mine & theirs).Mbps()
	s.Up = s.Speed != 0
	s.AutonegDone = s.Autoneg && s.Up && !p.partner.Forced
	s.ParallelDetection = s.Up && s.Autoneg == p.partner.Forced
	if s.Autoneg && !p.partner.Forced {
		for _, e := range speeds {
			if theirs&e.bit != 0 {
				s.Partner |= e.partner
			}
		}
		s.PartnerPause = p.partner.pause()
	}
	if s.Up {
		s.RxPause, s.TxPause = p.flowControl(s.AutonegDone)
	}
}

// pause is the partner's advertisement as the link status has it.
func (p *Partner) pause() (field uint8) {
	if !p.NoSymmetric {
		field |= 1
	}
	if p.Asymmetric {
		field |= 2
	}
	return field
}

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
	symmetric, asymmetric := rx, rx != tx
	theirs, theirAsymmetric := !p.partner.NoSymmetric, p.partner.Asymmetric
	switch {
	case symmetric && theirs:
		return true, true
	case !symmetric && asymmetric && theirs && theirAsymmetric:
		return false, true
	case symmetric && asymmetric && !theirs && theirAsymmetric:
		return true, false
	}
	return false, false
}

// SetSignal says whether light of the partner comes in: the carrier of the
// cable.
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

// Light tells whether a port's transmitter is on.
func (f *Firmware) Light(n int) bool { return f.ports[n].light }

// LPI tells when a port that has nothing to send goes to sleep: the LPI timer
// in us, and whether EEE is active and sleeping is on.
func (f *Firmware) LPI(n int) (us uint32, on bool) {
	p := &f.ports[n]
	return p.phy.EEE.Timer(), p.eee.Active && p.phy.EEE&EEETxLPI != 0
}
