package mib

import (
	"tapir/nic/linkmode"
	"tapir/nic/lldp"
	wire "tapir/wire/lldp"
)

// Bits of ifMauAutoNegCapAdvertisedBits (RFC 4836 section 5), which count from the highest.
const (
	advOther = 1 << 15
	advPause = 1 << 7
	advAsym  = 1 << 6
	advSym   = 1 << 5
	advBoth  = 1 << 4 // symmetric and asymmetric
)

// advertised are the bits of speeds: that of a full duplex link first. Faster speeds have
// advOther alone.
var advertised = []struct {
	speed             linkmode.Speeds
	pair, module, any uint16
}{
	{linkmode.Speed10M, 1 << 13, 0, 1<<14 | 1<<13},
	{linkmode.Speed100M, 1 << 10, 0, 1<<12 | 1<<11 | 1<<10 | 1<<9 | 1<<8},
	{linkmode.Speed1G, 1 << 0, 1 << 2, 1<<3 | 1<<2 | 1<<1 | 1<<0},
}

const slow = linkmode.Speed10M | linkmode.Speed100M | linkmode.Speed1G

// Operational MAU types (dot3MauType of the IANA-MAU-MIB) by speed in Mb/s: of twisted
// pairs, and of all else. Other speeds are told as 0.
var mauTypes = map[bool]map[uint32]uint16{true: {10: 11, 100: 16, 1000: 30, 10000: 54},
	false: {1000: 28, 10000: 33, 40000: 71}}

// mauSpeed is the speed of a MAU type; 0: it is not known.
func mauSpeed(mau uint16) linkmode.Speeds {
	switch {
	case mau == 10 || mau == 11:
		return linkmode.Speed10M
	case mau >= 15 && mau <= 18:
		return linkmode.Speed100M
	case mau >= 21 && mau <= 30 || mau == 56:
		return linkmode.Speed1G
	case mau >= 31 && mau <= 41 || mau == 54 || mau == 55 || mau == 57 || mau == 58:
		return linkmode.Speed10G
	case mau >= 70 && mau <= 74:
		return linkmode.Speed40G
	case mau >= 75 && mau <= 78:
		return linkmode.Speed100G
	}
	return 0
}

// MACPHY is the TLV of a port with an ability, and a link of so many Mb/s.
func MACPHY(a linkmode.Ability, twistedPair bool, mbps uint32) *wire.MACPHY {
	m := &wire.MACPHY{Supported: true, Enabled: !a.Forced, MAU: mauTypes[twistedPair][mbps]}
	if a.Forced {
		return m
	}
	for _, e := range advertised {
		switch {
		case a.Speeds&e.speed == 0:
		case twistedPair:
			m.Advertised |= e.pair
		default:
			m.Advertised |= e.module
		}
	}
	if a.Speeds&^slow != 0 {
		m.Advertised |= advOther
	}
	switch {
	case a.NoSymmetric && a.Asymmetric:
		m.Advertised |= advAsym
	case a.Asymmetric:
		m.Advertised |= advBoth
	case !a.NoSymmetric:
		m.Advertised |= advSym
	}
	return m
}

// Partner is what the other end of the link is, as an LLDP neighbor tells it, the nearest one
// first: behind a bridge it may be further away. have are the speeds of the port: of what is faster
// than 1 Gb/s the neighbor tells no more than the speed that it uses. Zero: no neighbor tells.
func (a *Agent) Partner(have linkmode.Speeds) linkmode.Ability {
	for s := range lldp.Scopes {
		for _, n := range a.agents.Neighbors(s) {
			if m := n.PDU.MACPHY; m != nil {
				return ability(m, have)
			}
		}
	}
	return linkmode.Ability{}
}

func ability(m *wire.MACPHY, have linkmode.Speeds) (a linkmode.Ability) {
	a.Speeds = mauSpeed(m.MAU)
	if !m.Enabled {
		a.Forced = a.Speeds != 0
		return a
	}
	for _, e := range advertised {
		if m.Advertised&e.any != 0 {
			a.Speeds |= e.speed
		}
	}
	if m.Advertised&advOther != 0 && a.Speeds&^slow == 0 {
		a.Speeds |= have &^ slow
	}
	if a.Speeds == 0 {
		return linkmode.Ability{}
	}
	a.NoSymmetric = m.Advertised&(advPause|advSym|advBoth) == 0
	a.Asymmetric = m.Advertised&(advAsym|advBoth) != 0
	return a
}
