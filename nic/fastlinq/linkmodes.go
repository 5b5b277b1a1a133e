package fastlinq

import (
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/linkmode"
	"tapir/nic/view"
)

// linkMode is a link mode of a speed.
type linkMode struct {
	speed mfw.Speeds
	name  string
	bit   int
}

// modeTable has the link modes of each kind of medium, as the FastLinQ driver
// names them.
var modeTable = map[mfw.Media][]linkMode{
	mfw.MediaBaseT: {{linkmode.Speed10M, "10baseT/Full", 1}, {linkmode.Speed100M, "100baseT/Full", 3},
		{linkmode.Speed1G, "1000baseT/Full", 5}, {linkmode.Speed10G, "10000baseT/Full", 12}},
	mfw.MediaDAC: {{linkmode.Speed1G, "1000baseKX/Full", 17}, {linkmode.Speed20G, "20000baseKR2/Full", 22},
		{linkmode.Speed40G, "40000baseCR4/Full", 24},
		{linkmode.Speed25G, "25000baseCR/Full", 31}, {linkmode.Speed50G, "50000baseCR2/Full", 34},
		{linkmode.Speed100G, "100000baseCR4/Full", 38},
		{linkmode.Speed10G, "10000baseCR/Full", 42}},
	mfw.MediaKR: {{linkmode.Speed1G, "1000baseKX/Full", 17}, {linkmode.Speed10G, "10000baseKR/Full", 19},
		{linkmode.Speed20G, "20000baseKR2/Full", 22},
		{linkmode.Speed40G, "40000baseKR4/Full", 23}, {linkmode.Speed25G, "25000baseKR/Full", 32},
		{linkmode.Speed50G, "50000baseKR2/Full", 35},
		{linkmode.Speed100G, "100000baseKR4/Full", 36}},
	mfw.MediaModule: {{linkmode.Speed20G, "20000baseKR2/Full", 22}, {linkmode.Speed40G, "40000baseSR4/Full", 25},
		{linkmode.Speed25G, "25000baseSR/Full", 33},
		{linkmode.Speed100G, "100000baseSR4/Full", 37}, {linkmode.Speed50G, "50000baseSR2/Full", 40},
		{linkmode.Speed1G, "1000baseX/Full", 41},
		{linkmode.Speed10G, "10000baseSR/Full", 43}},
}

// linkModes are those of some speeds over a medium.
func linkModes(m mfw.Media, s mfw.Speeds) []view.EthtoolMode {
	if m == mfw.MediaSFPP10G || m == mfw.MediaSFP1G || m == mfw.MediaXFP {
		m = mfw.MediaModule
	}
	list := []view.EthtoolMode{}
	for _, e := range modeTable[m] {
		if s&e.speed != 0 {
			list = append(list, view.EthtoolMode{Name: e.name, Bit: e.bit, Speed: e.speed.String(),
				Mbps: int(e.speed.Mbps())})
		}
	}
	return list
}

// portNames are the port, and what ethtool lists among the supported ones.
func portNames(m mfw.Media) (port string, supported []string) {
	switch m {
	case mfw.MediaBaseT:
		return "Twisted Pair", []string{"TP"}
	case mfw.MediaDAC:
		return "Direct Attach Copper", []string{"FIBRE"}
	case mfw.MediaKR:
		return "None", []string{"Backplane"}
	case mfw.MediaNotPresent:
		return "None", []string{}
	}
	return "FIBRE", []string{"FIBRE"}
}

// ethtoolLink describes the link as the driver sees it.
func (d display) ethtoolLink() view.EthtoolLink {
	m := d.management.mcp
	s, caps, p, media := m.LinkState(), m.Caps(), m.LinkParams(), m.Media()
	l := view.EthtoolLink{Up: d.nic.Active(), Autoneg: p.Autoneg, WoL: d.cfg.Board.WoL}
	if l.Up {
		l.Speed = int(s.Speed)
	}
	l.Port, l.Ports = portNames(media)
	l.Supported = view.EthtoolModes{Modes: linkModes(media, caps.SpeedCaps), Autoneg: true, Pause: true,
		AsymPause: true}
	l.Advertised = view.EthtoolModes{Modes: linkModes(media, p.AdvertisedSpeeds&caps.SpeedCaps), Autoneg: p.Autoneg}
	if p.PauseAutoneg {
		l.Advertised.Pause, l.Advertised.AsymPause = p.ForcedRx, p.ForcedRx != p.ForcedTx
	}
	l.Partner = view.EthtoolModes{Modes: linkModes(media, s.PartnerAdvSpeed.Speeds()), Autoneg: s.ANComplete,
		Pause: s.PartnerAdvPause&1 != 0, AsymPause: s.PartnerAdvPause&2 != 0}
	l.EEE = view.EthtoolEEE{Enabled: p.EEE.Enable, Active: s.EEEActive, TxLPI: p.EEE.TxLPIEnable,
		TxTimer:   p.EEE.TxLPITimer,
		Supported: eeeModes(caps.EEESpeedCaps), Advertised: eeeModes(s.EEEAdvCaps), Partner: eeeModes(s.EEELPAdvCaps)}
	if !p.EEE.Enable {
		l.EEE.Advertised = []view.EthtoolMode{}
	}
	return l
}

// eeeModes are the link modes of speeds with EEE, which twisted pairs alone have.
func eeeModes(c mfw.EEECaps) []view.EthtoolMode { return linkModes(mfw.MediaBaseT, c.Speeds()) }
