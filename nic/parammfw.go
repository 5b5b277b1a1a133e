package nic

import (
	"fmt"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
)

// Link is what the NIC's port is, and what the driver wants of it.
type Link struct {
	Media     mfw.Media // 0: MediaModule
	Down      bool
	Speed     mfw.Speeds // forced; 0: negotiated
	Advertise mfw.Speeds // 0: all
	Pause     LinkPause
	Loopback  mfw.Loopback
	EEE       LinkEEE
	// Partner is what is at the other end, at the wire TAP.
	Partner mfw.Partner
	// BandwidthMin and BandwidthMax are the function's share of the port, in
	// percent; 0: 1 and 100.
	BandwidthMin, BandwidthMax uint8
}

// LinkPause says which pause frames are wanted.
type LinkPause uint8

// The choices.
const (
	PauseAuto LinkPause = iota // negotiate, both advertised
	PauseAutoRx
	PauseAutoTx
	PauseAutoNone // negotiate, neither advertised
	PauseNone     // forced, from here on
	PauseRx
	PauseTx
	PauseBoth
)

// LinkEEE is energy-efficient Ethernet.
type LinkEEE struct {
	Mode    EEEMode
	NoTxLPI bool        // the NIC's own transmitter never sleeps
	Timer   uint32      // of LPI, in us; 0: mfw.EEETimerBalanced
	Caps    mfw.EEECaps // speeds at which it is advertised; 0: all
}

// EEEMode turns EEE on or off.
type EEEMode uint8

// The modes.
const (
	EEEAuto EEEMode = iota // on if the media has it
	EEEOn
	EEEOff
)

// Board is what the management firmware looks after, and its faults.
type Board struct {
	WoL         bool // a magic packet wakes the function when it is unloaded
	Unloaded    bool // the driver is
	LED         mfw.LED
	Temperature int // of the chip, in degrees Celsius; 0: 52
	Unplugged   bool
	FanFailed   bool
	Stuck       bool // the firmware does not answer
}

// chipTemperature is that of a chip that nobody has warmed.
const chipTemperature = 52

func (l *Link) media() mfw.Media {
	if l.Media == mfw.MediaUnspecified {
		return mfw.MediaModule
	}
	return l.Media
}

// soldered tells the media that cannot be unplugged.
func (l *Link) soldered() bool { return l.media() == mfw.MediaBaseT || l.media() == mfw.MediaKR }

func (c *Config) validateLink() error {
	l, speeds := &c.Link, portSpeeds(c.Link.media())
	switch {
	case l.Speed&^speeds != 0:
		return fmt.Errorf("link_speed %v: a port of %s has %v", l.Speed, mediaName(l.media()), speeds)
	case l.Advertise != 0 && l.Advertise&speeds == 0:
		return fmt.Errorf("link_advertise %v: a port of %s has %v", l.Advertise, mediaName(l.media()), speeds)
	case l.EEE.Mode == EEEOn && l.media() != mfw.MediaBaseT:
		return fmt.Errorf("eee: only twisted pairs have it: start the NIC with --media base-t, not %s", mediaName(l.media()))
	case c.Board.Unplugged && l.soldered():
		return fmt.Errorf("module: %s is soldered in and cannot be unplugged", mediaName(l.media()))
	case l.EEE.Timer > mfw.EEETimerMax:
		return fmt.Errorf("eee_tx_timer %d: %d us are the most", l.EEE.Timer, mfw.EEETimerMax)
	case l.BandwidthMax != 0 && l.BandwidthMin > l.BandwidthMax:
		return fmt.Errorf("bw_min %d is more than bw_max %d", l.BandwidthMin, l.BandwidthMax)
	case l.Partner.Forced && (l.Partner.Speeds == 0 || l.Partner.Speeds != mfw.SpeedOf(l.Partner.Speeds.Mbps())):
		return fmt.Errorf("partner_forced: a partner that does not negotiate has one speed: set partner_speeds to it")
	}
	return nil
}

// linkParams is the configuration in the words of the driver core.
func (c *Config) linkParams(p *mcp.LinkParams, caps mcp.LinkCaps) {
	l := &c.Link
	p.Autoneg, p.ForcedSpeed = l.Speed == 0, l.Speed.Mbps()
	p.AdvertisedSpeeds = l.Advertise
	if l.Advertise == 0 {
		p.AdvertisedSpeeds = caps.SpeedCaps
	}
	p.PauseAutoneg = l.Pause < PauseNone
	p.ForcedRx = l.Pause == PauseAuto || l.Pause == PauseAutoRx || l.Pause == PauseRx || l.Pause == PauseBoth
	p.ForcedTx = l.Pause == PauseAuto || l.Pause == PauseAutoTx || l.Pause == PauseTx || l.Pause == PauseBoth
	p.Loopback = l.Loopback
	p.EEE = mcp.EEEParams{}
	if caps.EEESpeedCaps != 0 && l.EEE.Mode != EEEOff {
		p.EEE = mcp.EEEParams{Enable: true, TxLPIEnable: !l.EEE.NoTxLPI, TxLPITimer: l.EEE.Timer, AdvCaps: l.EEE.Caps}
		if l.EEE.Timer == 0 {
			p.EEE.TxLPITimer = mfw.EEETimerBalanced
		}
		if l.EEE.Caps == 0 {
			p.EEE.AdvCaps = mfw.AllEEE
		}
	}
}

var mediaWords = []named[mfw.Media]{{"module", mfw.MediaUnspecified}, {"dac", mfw.MediaDAC}, {"sfp-10g", mfw.MediaSFPP10G},
	{"sfp-1g", mfw.MediaSFP1G}, {"base-t", mfw.MediaBaseT}, {"kr", mfw.MediaKR}}

func mediaName(m mfw.Media) string {
	for _, w := range mediaWords {
		if w.value == m {
			return w.name
		}
	}
	return mediaWords[0].name
}

var speedWords = []named[mfw.Speeds]{{"1G", mfw.Speed1G}, {"10G", mfw.Speed10G}, {"20G", mfw.Speed20G}, {"25G", mfw.Speed25G},
	{"40G", mfw.Speed40G}, {"50G", mfw.Speed50G}, {"100G", mfw.Speed100G}}

var eeeWords = []named[mfw.EEECaps]{{"1G", mfw.EEE1G}, {"10G", mfw.EEE10G}}

func loopbackWords() (words []named[mfw.Loopback]) {
	for l := mfw.LoopbackNone; l <= mfw.LoopbackInternalPHYFEA; l++ {
		words = append(words, named[mfw.Loopback]{l.String(), l})
	}
	return words
}

// switched makes a setting of a bool with two words, that of false first.
func switched(p Param, field func(*Config) *bool, off, on string) *Param {
	p.Origin = originDriver
	return choice(p, field, named[bool]{off, false}, named[bool]{on, true})
}

// linkSettings are those of the port, as the driver core and ethtool have them.
func linkSettings() []*Param {
	driver := func(name, help string) Param {
		return Param{Name: name, Origin: originDriver, Runtime: true, Help: help}
	}
	media := driver("media", "what the port is made of; base-t is twisted pairs, the only media with EEE")
	media.Runtime = false
	return []*Param{
		choice(media, func(c *Config) *mfw.Media { return &c.Link.Media }, mediaWords...),
		switched(driver("link", "whether the driver asks for link"), func(c *Config) *bool { return &c.Link.Down }, "up", "down"),
		choice(driver("link_speed", "speed of the link: negotiated or forced"), func(c *Config) *mfw.Speeds { return &c.Link.Speed },
			append([]named[mfw.Speeds]{{"auto", 0}}, speedWords...)...),
		bits(driver("link_advertise", "speeds that are advertised"), func(c *Config) *mfw.Speeds { return &c.Link.Advertise }, mfw.AllSpeeds, false, speedWords...),
		choice(driver("pause", "pause frames: negotiated (auto: both ways advertised), or forced"), func(c *Config) *LinkPause { return &c.Link.Pause },
			named[LinkPause]{"auto", PauseAuto}, named[LinkPause]{"auto-rx", PauseAutoRx}, named[LinkPause]{"auto-tx", PauseAutoTx},
			named[LinkPause]{"auto-none", PauseAutoNone}, named[LinkPause]{"none", PauseNone}, named[LinkPause]{"rx", PauseRx}, named[LinkPause]{"tx", PauseTx}, named[LinkPause]{"both", PauseBoth}),
		choice(driver("phy_loopback", "where the port turns its frames back; then nothing reaches the wire"),
			func(c *Config) *mfw.Loopback { return &c.Link.Loopback }, loopbackWords()...),
		choice(driver("eee", "energy-efficient Ethernet; auto: on if the media has it"), func(c *Config) *EEEMode { return &c.Link.EEE.Mode },
			named[EEEMode]{"auto", EEEAuto}, named[EEEMode]{"on", EEEOn}, named[EEEMode]{"off", EEEOff}),
		boolean(driver("eee_tx_lpi", "let the transmitter sleep when it has nothing to send"), func(c *Config) *bool { return &c.Link.EEE.NoTxLPI }, true),
		number(driver("eee_tx_timer", "idle time before it sleeps, in us"), func(c *Config) *uint32 { return &c.Link.EEE.Timer }, mfw.EEETimerBalanced, 1, mfw.EEETimerMax),
		bits(driver("eee_advertise", "speeds at which EEE is advertised"), func(c *Config) *mfw.EEECaps { return &c.Link.EEE.Caps }, mfw.AllEEE, false, eeeWords...),
		number(driver("bw_min", "least share of the port, in percent"), func(c *Config) *uint8 { return &c.Link.BandwidthMin }, 1, 1, 100),
		number(driver("bw_max", "largest share of the port, in percent: the speed that the function sees"), func(c *Config) *uint8 { return &c.Link.BandwidthMax }, 100, 1, 100),
	}
}

// boardSettings are those of the partner at the other end, of the board, and
// its faults.
func boardSettings() []*Param {
	driver := func(name, help string) Param {
		return Param{Name: name, Origin: originDriver, Runtime: true, Help: help}
	}
	tapir := func(name, help string) Param {
		return Param{Name: name, Origin: originTapir, Runtime: true, Help: help}
	}
	return []*Param{
		bits(tapir("partner_speeds", "speeds that the other end of the cable has"), func(c *Config) *mfw.Speeds { return &c.Link.Partner.Speeds }, mfw.AllSpeeds, false, speedWords...),
		boolean(tapir("partner_forced", "the other end does not negotiate"), func(c *Config) *bool { return &c.Link.Partner.Forced }, false),
		{Name: "partner_pause", Type: "choice", Origin: originTapir, Runtime: true, Expect: "symmetric, asymmetric, both or none",
			Help: "pause that the other end advertises", get: partnerPause, set: setPartnerPause},
		bits(tapir("partner_eee", "speeds at which the other end advertises EEE"), func(c *Config) *mfw.EEECaps { return &c.Link.Partner.EEE }, 0, true, eeeWords...),
		choice(driver("wol", "g: a magic packet wakes the function when its driver is unloaded; d: nothing does"), func(c *Config) *bool { return &c.Board.WoL },
			named[bool]{"d", false}, named[bool]{"g", true}),
		switched(driver("driver", "whether the function's driver is loaded; without it nothing passes"), func(c *Config) *bool { return &c.Board.Unloaded }, "loaded", "unloaded"),
		choice(driver("led", "the port's LED: in operation, on or off"), func(c *Config) *mfw.LED { return &c.Board.LED },
			named[mfw.LED]{"oper", mfw.LEDOper}, named[mfw.LED]{"on", mfw.LEDOn}, named[mfw.LED]{"off", mfw.LEDOff}),
		number(tapir("temperature", "of the chip in degrees Celsius; from 105 on it is a hardware error"), func(c *Config) *int { return &c.Board.Temperature }, chipTemperature, 1, 125),
		faulty(tapir("module", "the port's module"), func(c *Config) *bool { return &c.Board.Unplugged }, "present", "unplugged"),
		faulty(tapir("fan", "one that fails is a hardware error: the link goes down"), func(c *Config) *bool { return &c.Board.FanFailed }, "ok", "failed"),
		faulty(tapir("mfw", "the management firmware; one that is stuck answers nothing, until it runs again and the driver loads anew"),
			func(c *Config) *bool { return &c.Board.Stuck }, "running", "stuck"),
	}
}

// faulty is a switched setting of Tapir's.
func faulty(p Param, field func(*Config) *bool, off, on string) *Param {
	made := switched(p, field, off, on)
	made.Origin = originTapir
	return made
}

func partnerPause(c *Config) string {
	p := &c.Link.Partner
	switch {
	case p.NoSymmetric && p.Asymmetric:
		return "asymmetric"
	case p.NoSymmetric:
		return "none"
	case p.Asymmetric:
		return "both"
	}
	return "symmetric"
}

func setPartnerPause(c *Config, v string) error {
	p := &c.Link.Partner
	switch v {
	case "symmetric", "asymmetric", "both", "none":
		p.NoSymmetric, p.Asymmetric = v == "asymmetric" || v == "none", v == "asymmetric" || v == "both"
		return nil
	}
	return errValue
}
