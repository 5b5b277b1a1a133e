package settings

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/linkmode"
	"tapir/nic/param"
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
	// OVLAN is the id of the function's outer VLAN, where functions have one; 0: none.
	OVLAN uint16
	UFP   UFP
}

// UFP is what the switch decides on the priority in a function's outer tag, with UFP.
type UFP struct {
	TC uint8 // traffic class
	OS bool  // the operating system decides, by its own tags
}

// OfPort is what belongs to the port, and not to one of its functions.
func (l Link) OfPort() Link {
	l.Down, l.BandwidthMin, l.BandwidthMax, l.OVLAN, l.UFP = false, 0, 0, 0, UFP{}
	return l
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
	Temperature int  // of the chip, in degrees Celsius; 0: 52
	Unplugged   bool
	FanFailed   bool
	Stuck       bool // the firmware does not answer
	Quiet       bool // the driver is loaded, and its fastpath stopped
	Crashed     bool // with Unloaded: the driver is gone without a word
	CrashKernel bool // the driver loads with the role of a crash kernel (KDUMP)
	Chip        ChipFaults
}

// ChipFaults are what is wrong with the chip or its firmware.
type ChipFaults uint8

// The faults.
const (
	FaultDoorbells ChipFaults = 1 << iota // each doorbell is lost, until it is rung again
	FaultWindows                          // somebody holds all windows
	FaultDMA                              // the DMA engine does not finish
	FaultStorm                            // the storms read no ramrod
	FaultLoad                             // the management firmware refuses loads
	FaultCritical                         // the management firmware has found an error that it cannot survive
)

// ChipTemperature is that of a chip that nobody has warmed.
const ChipTemperature = 52

// Medium is what the port is made of.
func (l *Link) Medium() mfw.Media { return cmp.Or(l.Media, mfw.MediaModule) }

// soldered tells the media that cannot be unplugged.
func (l *Link) soldered() bool { return l.Medium() == mfw.MediaBaseT || l.Medium() == mfw.MediaKR }

func (c *Config) validateLink() error {
	l, speeds := &c.Link, PortSpeeds(c.Link.Medium())
	switch {
	case l.Speed&^speeds != 0:
		return fmt.Errorf("link_speed %v: a port of %s has %v", l.Speed, mediaName(l.Medium()), speeds)
	case l.Advertise != 0 && l.Advertise&speeds == 0:
		return fmt.Errorf("link_advertise %v: a port of %s has %v", l.Advertise, mediaName(l.Medium()), speeds)
	case l.EEE.Mode == EEEOn && l.Medium() != mfw.MediaBaseT:
		return fmt.Errorf("eee: only twisted pairs have it: start the NIC with --media base-t, not %s",
			mediaName(l.Medium()))
	case c.Board.Unplugged && l.soldered():
		return fmt.Errorf("module: %s is soldered in and cannot be unplugged", mediaName(l.Medium()))
	case l.EEE.Timer > mfw.EEETimerMax:
		return fmt.Errorf("eee_tx_timer %d: %d us are the most", l.EEE.Timer, mfw.EEETimerMax)
	case l.BandwidthMax != 0 && l.BandwidthMin > l.BandwidthMax:
		return fmt.Errorf("bw_min %d is more than bw_max %d", l.BandwidthMin, l.BandwidthMax)
	case l.Partner.Forced && (l.Partner.Speeds == 0 || l.Partner.Speeds != linkmode.SpeedOf(l.Partner.Speeds.Mbps())):
		return fmt.Errorf("partner_forced: a partner that does not negotiate has one speed: set partner_speeds to it")
	}
	return nil
}

// LinkParams is the configuration in the words of the driver core.
func (c *Config) LinkParams(p *mcp.LinkParams, caps mcp.LinkCaps) {
	l := &c.Link
	p.Autoneg, p.ForcedSpeed = l.Speed == 0, l.Speed.Mbps()
	p.AdvertisedSpeeds = cmp.Or(l.Advertise, caps.SpeedCaps)
	p.PauseAutoneg = l.Pause < PauseNone
	p.ForcedRx = l.Pause == PauseAuto || l.Pause == PauseAutoRx || l.Pause == PauseRx || l.Pause == PauseBoth
	p.ForcedTx = l.Pause == PauseAuto || l.Pause == PauseAutoTx || l.Pause == PauseTx || l.Pause == PauseBoth
	p.Loopback = l.Loopback
	p.EEE = mcp.EEEParams{}
	if caps.EEESpeedCaps != 0 && l.EEE.Mode != EEEOff {
		p.EEE = mcp.EEEParams{Enable: true, TxLPIEnable: !l.EEE.NoTxLPI,
			TxLPITimer: cmp.Or(l.EEE.Timer, mfw.EEETimerBalanced), AdvCaps: cmp.Or(l.EEE.Caps, linkmode.AllEEE)}
	}
}

// MediaWords are the media by name.
var MediaWords = []param.Word[mfw.Media]{param.Named("module", mfw.MediaUnspecified), param.Named("dac", mfw.MediaDAC),
	param.Named("sfp-10g", mfw.MediaSFPP10G), param.Named("sfp-1g", mfw.MediaSFP1G),
	param.Named("base-t", mfw.MediaBaseT), param.Named("kr", mfw.MediaKR)}

func mediaName(m mfw.Media) string {
	for _, w := range MediaWords {
		if w.Value == m {
			return w.Name
		}
	}
	return MediaWords[0].Name
}

var speedWords = func() (words []param.Word[mfw.Speeds]) {
	for s := linkmode.Speeds(1); s <= linkmode.AllSpeeds; s <<= 1 {
		words = append(words, param.Named(s.String(), s))
	}
	slices.SortFunc(words, func(a, b param.Word[mfw.Speeds]) int { return int(a.Value.Mbps()) - int(b.Value.Mbps()) })
	return words
}()

var eeeWords = []param.Word[mfw.EEECaps]{param.Named("1G", linkmode.EEE1G), param.Named("10G", linkmode.EEE10G)}

func loopbackWords() (words []param.Word[mfw.Loopback]) {
	for l := mfw.LoopbackNone; l <= mfw.LoopbackInternalPHYFEA; l++ {
		words = append(words, param.Named(l.String(), l))
	}
	return words
}

// switched makes a setting of a bool with two words, that of false first.
func switched(r param.Row, field *bool, off, on string) *param.Row {
	r.Origin = param.FastLinQ
	return param.Choice(r, field, param.Named(off, false), param.Named(on, true))
}

// linkRows are those of the port, as the driver core and ethtool have them.
func (c *Config) linkRows() []*param.Row {
	driver := func(name, help string) param.Row {
		return param.Row{Name: name, Origin: param.FastLinQ, Runtime: true, Help: help}
	}
	media := driver("media", "what the port is made of; base-t is twisted pairs, the only media with EEE")
	media.Runtime = false
	return []*param.Row{
		param.Choice(media, &c.Link.Media, MediaWords...),
		switched(driver("link", "whether the driver asks for link"), &c.Link.Down, "up", "down"),
		param.Choice(driver("link_speed", "speed of the link, to which the NIC paces what it sends: negotiated or "+
			"forced; 10M and 100M are base-t's"), &c.Link.Speed,
			append([]param.Word[mfw.Speeds]{param.Named[mfw.Speeds]("auto", 0)}, speedWords...)...),
		param.Bits(driver("link_advertise", "speeds that are advertised"), &c.Link.Advertise, linkmode.AllSpeeds, false,
			speedWords...),
		param.Choice(driver("pause", "PAUSE frames that are obeyed (rx) and sent (tx) as receive queues fill: "+
			"negotiated (auto: both ways advertised), or forced"), &c.Link.Pause,
			param.Named("auto", PauseAuto), param.Named("auto-rx", PauseAutoRx), param.Named("auto-tx", PauseAutoTx),
			param.Named("auto-none", PauseAutoNone), param.Named("none", PauseNone), param.Named("rx", PauseRx),
			param.Named("tx", PauseTx), param.Named("both", PauseBoth)),
		param.Choice(driver("phy_loopback", "where the port turns its frames back; then nothing reaches the wire"),
			&c.Link.Loopback, loopbackWords()...),
		param.Choice(driver("eee", "energy-efficient Ethernet; auto: on if the media has it"), &c.Link.EEE.Mode,
			param.Named("auto", EEEAuto), param.Named("on", EEEOn), param.Named("off", EEEOff)),
		param.Bool(driver("eee_tx_lpi", "let the transmitter sleep when it has nothing to send"), &c.Link.EEE.NoTxLPI,
			true), param.Number(driver("eee_tx_timer", "idle time before it sleeps, in us"), &c.Link.EEE.Timer,
			mfw.EEETimerBalanced, 1, mfw.EEETimerMax),
		param.Bits(driver("eee_advertise", "speeds at which EEE is advertised"), &c.Link.EEE.Caps,
			linkmode.AllEEE, false,
			eeeWords...), param.Number(driver("bw_min", "least share of the port, in percent, of what the function "+
			"sends and receives"), &c.Link.BandwidthMin, 1,
			1, 100),
		param.Number(driver("bw_max", "largest share of the port, in percent: the speed that the function "+
			"sees, and sends and receives at"),
			&c.Link.BandwidthMax, 100, 1, 100),
		param.Number(driver("ovlan", "id of the outer VLAN of all frames of the function, as the management firmware "+
			"gives it, with mf_mode ovlan or ufp; 0: none"), &c.Link.OVLAN, 0, 0, 4094),
		param.Number(driver("ufp_tc", "traffic class of the function, with mf_mode ufp: the priority in its outer tag"),
			&c.Link.UFP.TC, 0, 0, 7),
		switched(driver("ufp_pri", "who decides on that priority: vnic, the switch by ufp_tc; os, the operating "+
			"system by the priority in its VLAN tag"), &c.Link.UFP.OS, "vnic", "os"),
	}
}

// boardRows are those of the partner at the other end, of the board, and
// its faults.
func (c *Config) boardRows() []*param.Row {
	driver := func(name, help string) param.Row {
		return param.Row{Name: name, Origin: param.FastLinQ, Runtime: true, Help: help}
	}
	tapir := func(name, help string) param.Row {
		return param.Row{Name: name, Origin: param.Tapir, Runtime: true, Help: help}
	}
	return []*param.Row{
		param.Bits(tapir("partner_speeds", "speeds that the other end of the cable has"), &c.Link.Partner.Speeds,
			linkmode.AllSpeeds, false, speedWords...),
		param.Bool(tapir("partner_forced", "the other end does not negotiate"), &c.Link.Partner.Forced, false),
		param.Text(param.Row{Name: "partner_pause", Type: "choice", Origin: param.Tapir, Runtime: true,
			Expect: "symmetric, asymmetric, both or none",
			Help:   "pause that the other end advertises: with it the ends agree on PAUSE frames or not"},
			c.Link.partnerPause, c.Link.setPartnerPause),
		param.Bits(tapir("partner_eee", "speeds at which the other end advertises EEE"), &c.Link.Partner.EEE, 0, true,
			eeeWords...),
		param.Choice(driver("wol", "g: a magic packet wakes the function when its driver is unloaded; d: nothing does"),
			&c.Board.WoL,
			param.Named("d", false), param.Named("g", true)),
		param.Text(param.Row{Name: "driver", Type: "choice", Origin: param.FastLinQ, Runtime: true,
			Expect: "loaded, quiet, unloaded or crashed",
			Help: "whether the function's driver is loaded; without it nothing passes, nor if it is quiet: then " +
				"its fastpath is stopped. One that has crashed says nothing to the management firmware, which " +
				"lets only a crash kernel's load after it"},
			c.Board.driver, c.Board.setDriver),
		switched(driver("driver_role", "role with which the driver loads: that of an operating system or of a "+
			"crash kernel"), &c.Board.CrashKernel, "os", "kdump"),
		param.Bits(tapir("chip_fault", "what is wrong with the chip: doorbells get lost until they are rung again, "+
			"no window is free, its DMA hangs, its storms read no ramrod, its management firmware refuses loads or "+
			"has a critical error"),
			&c.Board.Chip, 0, true, param.Named("doorbells", FaultDoorbells), param.Named("windows", FaultWindows),
			param.Named("dma", FaultDMA), param.Named("storm", FaultStorm), param.Named("load", FaultLoad),
			param.Named("critical", FaultCritical)),
		param.Number(tapir("temperature", "of the chip in degrees Celsius; from 105 on it is a hardware error"),
			&c.Board.Temperature, ChipTemperature, 1, 125), faulty(tapir("module", "the port's module"),
			&c.Board.Unplugged, "present", "unplugged"),
		faulty(tapir("fan", "one that fails is a hardware error: the link goes down"), &c.Board.FanFailed, "ok",
			"failed"), faulty(tapir("mfw", "the management firmware; one that is stuck answers nothing, until it "+
			"runs again and the driver loads again"), &c.Board.Stuck, "running", "stuck"),
	}
}

// faulty is a switched setting of Tapir's.
func faulty(r param.Row, field *bool, off, on string) *param.Row {
	made := switched(r, field, off, on)
	made.Origin = param.Tapir
	return made
}

func (b *Board) driver() string {
	switch {
	case b.Crashed:
		return "crashed"
	case b.Unloaded:
		return "unloaded"
	case b.Quiet:
		return "quiet"
	}
	return "loaded"
}

func (b *Board) setDriver(v string) error {
	if v != "loaded" && v != "quiet" && v != "unloaded" && v != "crashed" {
		return param.ErrValue
	}
	b.Quiet, b.Crashed, b.Unloaded = v == "quiet", v == "crashed", v == "crashed" || v == "unloaded"
	return nil
}

func (l *Link) partnerPause() string {
	return partnerPauses[[2]bool{l.Partner.NoSymmetric, l.Partner.Asymmetric}]
}

func (l *Link) setPartnerPause(v string) error {
	for bits, name := range partnerPauses {
		if name == v {
			l.Partner.NoSymmetric, l.Partner.Asymmetric = bits[0], bits[1]
			return nil
		}
	}
	return param.ErrValue
}

// partnerPauses are the advertisements by Partner.NoSymmetric and Partner.Asymmetric.
var partnerPauses = map[[2]bool]string{{false, false}: "symmetric", {true, true}: "asymmetric", {true, false}: "none",
	{false, true}: "both"}

// PortSpeeds are the speeds that a port over a medium has.
func PortSpeeds(m mfw.Media) mfw.Speeds {
	switch m {
	case mfw.MediaBaseT:
		return linkmode.Speed10M | linkmode.Speed100M | linkmode.Speed1G | linkmode.Speed10G
	case mfw.MediaSFPP10G:
		return linkmode.Speed1G | linkmode.Speed10G
	case mfw.MediaSFP1G:
		return linkmode.Speed1G
	}
	return linkmode.ModuleSpeeds
}
