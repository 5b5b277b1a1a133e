package mcp

import (
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/nic/linkmode"
	"tapir/wire/frame"
)

// LinkParams is what the client wants of the link: edit what LinkParams
// returns, then SetLink.
type LinkParams struct {
	Autoneg          bool
	AdvertisedSpeeds mfw.Speeds
	ForcedSpeed      uint32 // Mb/s, without Autoneg
	PauseAutoneg     bool
	ForcedRx         bool // with PauseAutoneg: advertised
	ForcedTx         bool
	Loopback         mfw.Loopback
	EEE              EEEParams
}

// EEEParams is energy-efficient Ethernet (IEEE 802.3az).
type EEEParams struct {
	Enable      bool
	TxLPIEnable bool
	TxLPITimer  uint32 // us
	AdvCaps     mfw.EEECaps
	LPAdvCaps   mfw.EEECaps // the partner's, as of the last link change
}

// LinkCaps is what the board can do.
type LinkCaps struct {
	SpeedCaps           mfw.Speeds
	DefaultSpeed        uint32 // Mb/s
	DefaultSpeedAutoneg bool
	DefaultEEE          bool
	EEELPITimer         uint32 // us
	EEESpeedCaps        mfw.EEECaps
}

// LinkState is what the link is.
type LinkState struct {
	LinkUp                   bool
	MinPFRate                uint32 // Mb/s
	LineSpeed                uint32 // Mb/s
	Speed                    uint32 // Mb/s: the function's share of it
	FullDuplex               bool
	AN, ANComplete           bool
	ParallelDetection        bool
	PFCEnabled               bool
	PartnerAdvSpeed          mfw.PartnerSpeeds
	TxFlowControl            bool
	RxFlowControl            bool
	PartnerAdvPause          uint8 // 0 none, 1 symmetric, 2 asymmetric, 3 both
	SFPTxFault               bool
	EEEActive                bool
	EEEAdvCaps, EEELPAdvCaps mfw.EEECaps
}

// linkControl is the link as the driver has it.
type linkControl struct {
	params    LinkParams
	state     LinkState
	requested bool // b_drv_link_init
	changes   uint64
}

// initLink sets the parameters to the board's defaults.
func (m *MCP) initLink() {
	d := &m.shm.Port[m.port].DefaultLink
	m.link = linkControl{params: LinkParams{
		Autoneg: d.Speed == 0, AdvertisedSpeeds: d.Advertise, ForcedSpeed: d.Speed,
		PauseAutoneg: d.Pause&mfw.PauseAutoneg != 0, ForcedRx: d.Pause&mfw.PauseRx != 0,
		ForcedTx: d.Pause&mfw.PauseTx != 0,
		Loopback: d.Loopback,
		EEE: EEEParams{Enable: d.EEE&mfw.EEEEnabled != 0, TxLPIEnable: d.EEE&mfw.EEETxLPI != 0,
			TxLPITimer: d.EEE.Timer(),
			AdvCaps:    d.EEE.Caps()},
	}}
	if m.Caps().EEESpeedCaps == 0 {
		m.link.params.EEE = EEEParams{}
	}
}

// LinkParams are the parameters, to be edited.
func (m *MCP) LinkParams() *LinkParams { return &m.link.params }

// Caps is what the board can do.
func (m *MCP) Caps() LinkCaps {
	p := &m.shm.Port[m.port]
	d := &p.DefaultLink
	c := LinkCaps{SpeedCaps: mfw.Speeds(p.LinkSpeedCaps), DefaultSpeed: d.Speed, DefaultSpeedAutoneg: d.Speed == 0}
	if mfw.Media(p.MediaType) == mfw.MediaBaseT {
		if caps := mfw.DecodeEEEStatus(p.EEEStatus).Caps; caps != 0 {
			c.EEESpeedCaps, c.DefaultEEE, c.EEELPITimer = caps, d.EEE&mfw.EEEEnabled != 0, d.EEE.Timer()
		}
	}
	return c
}

// LinkState is the link's state. It is down until SetLink(true) was asked
// for, whatever the wire is.
func (m *MCP) LinkState() LinkState { return m.link.state }

// LinkChanges is how often the client was told of a change.
func (m *MCP) LinkChanges() uint64 { return m.link.changes }

// Media is what the port is made of.
func (m *MCP) Media() mfw.Media { return mfw.Media(m.shm.Port[m.port].MediaType) }

// LinkChangeCount and LFA are the firmware's: how often the port's link has
// changed, and why it last had to (mfw.LFA*; 0: it need not).
func (m *MCP) LinkChangeCount() uint32 { return m.shm.Port[m.port].LinkChangeCount }

// LFA tells why the last SetLink made the link flap.
func (m *MCP) LFA() uint32 { return m.shm.Port[m.port].LFAStatus }

// SetLink asks for link with the parameters as they are, or lets it go. The
// client is told of a change once in any case, before done. INVAL: the board
// cannot do what the parameters say; then nothing changes.
func (m *MCP) SetLink(up bool, now frame.Time, done func(error)) {
	if !up {
		m.simple(mfw.CmdLinkReset, 0, nil, mfw.LinkResetDone, now, func(err error) {
			m.link.requested = m.link.requested && err != nil
			m.linkChange(now)
			tell(done, err)
		})
		return
	}
	if err := m.checkLink(); err != nil {
		tell(done, err)
		return
	}
	cfg := m.phyConfig()
	b := make([]byte, mfw.PHYConfigLen)
	cfg.Encode(b)
	m.simple(mfw.CmdInitPHY, 0, b, mfw.InitPHYDone, now, func(err error) {
		m.link.requested = m.link.requested || err == nil
		m.linkChange(now)
		tell(done, err)
	})
}

// checkLink compares the parameters with what the board can do.
func (m *MCP) checkLink() error {
	p, c := &m.link.params, m.Caps()
	forced := linkmode.SpeedOf(p.ForcedSpeed)
	switch {
	case !p.Autoneg && forced == 0:
		return status.Inval.Errorf("a link speed of %d Mb/s: use one of %v", p.ForcedSpeed, c.SpeedCaps)
	case !p.Autoneg && forced&c.SpeedCaps == 0:
		return status.Inval.Errorf("a link speed of %v, the port has %v", forced, c.SpeedCaps)
	case p.Autoneg && p.AdvertisedSpeeds&c.SpeedCaps == 0:
		return status.Inval.Errorf("advertising %v, the port has %v", p.AdvertisedSpeeds, c.SpeedCaps)
	case p.EEE.Enable && c.EEESpeedCaps == 0:
		return status.NotImpl.Errorf("EEE is for twisted pairs, and the port is %v", m.Media())
	case p.EEE.Enable && (p.EEE.AdvCaps == 0 || p.EEE.AdvCaps&^c.EEESpeedCaps != 0):
		return status.Inval.Errorf("EEE advertised at %#x: use 1G, 10G or both", uint8(p.EEE.AdvCaps))
	case p.EEE.TxLPITimer > mfw.EEETimerMax:
		return status.Inval.Errorf("an LPI timer of %d us, %d are the most", p.EEE.TxLPITimer, mfw.EEETimerMax)
	}
	return nil
}

func (m *MCP) phyConfig() mfw.PHYConfig {
	p := &m.link.params
	c := mfw.PHYConfig{Advertise: p.AdvertisedSpeeds, Loopback: p.Loopback, Pause: flag(p.PauseAutoneg,
		mfw.PauseAutoneg) | flag(p.ForcedRx, mfw.PauseRx) | flag(p.ForcedTx, mfw.PauseTx)}
	if !p.Autoneg {
		c.Speed = p.ForcedSpeed
	}
	if e := &p.EEE; e.Enable {
		c.EEE = mfw.EEEEnabled | flag(e.TxLPIEnable, mfw.EEETxLPI) | flag(e.AdvCaps&linkmode.EEE1G != 0, mfw.EEEAdv1G) |
			flag(e.AdvCaps&linkmode.EEE10G != 0, mfw.EEEAdv10G)
		c.EEE = c.EEE.WithTimer(e.TxLPITimer)
	}
	return c
}

// flag is a bit that is set or not.
func flag[T ~uint32](on bool, bit T) T {
	if on {
		return bit
	}
	return 0
}

// linkChange reads the link's state and tells the client.
func (m *MCP) linkChange(now frame.Time) {
	m.readLink()
	m.link.changes++
	if m.hooks.Link != nil {
		m.hooks.Link(now)
	}
}

// readLink makes the state from the shared memory.
func (m *MCP) readLink() {
	if !m.link.requested {
		m.link.state = LinkState{}
		return
	}
	port := &m.shm.Port[m.port]
	w, info := mfw.DecodeLinkStatus(port.LinkStatus), m.Info()
	s := LinkState{
		LinkUp: w.Up, LineSpeed: w.Speed, FullDuplex: w.Up && !w.HalfDuplex, AN: w.Autoneg, ANComplete: w.AutonegDone,
		ParallelDetection: w.ParallelDetection, PFCEnabled: w.PFC, PartnerAdvSpeed: w.Partner,
		TxFlowControl: w.TxPause, RxFlowControl: w.RxPause, PartnerAdvPause: w.PartnerPause, SFPTxFault: w.SFPFault,
	}
	s.Speed = s.LineSpeed * uint32(info.BandwidthMax) / 100
	s.MinPFRate = s.LineSpeed * uint32(info.BandwidthMin) / 100
	if m.Media() == mfw.MediaBaseT {
		e := mfw.DecodeEEEStatus(port.EEEStatus)
		s.EEEActive, s.EEEAdvCaps, s.EEELPAdvCaps = e.Active, e.Adv, e.Partner
		m.link.params.EEE.LPAdvCaps = e.Partner
	}
	m.link.state = s
}
