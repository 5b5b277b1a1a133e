package mib

import (
	"testing"

	"tapir/nic/linkmode"
	wire "tapir/wire/lldp"
)

// What a port tells of itself is what its neighbor takes it for, as far as the bits and MAU
// types of IEEE 802.3 can say.
func TestMACPHY(t *testing.T) {
	const pair, have = linkmode.Speed10M | linkmode.Speed100M | linkmode.Speed1G | linkmode.Speed10G, linkmode.AllSpeeds
	for what, c := range map[string]struct {
		a           linkmode.Ability
		twistedPair bool
		mbps        uint32
		tlv         wire.MACPHY
		taken       linkmode.Ability
	}{
		"10GBASE-T": {linkmode.Ability{Speeds: pair}, true, 10_000, wire.MACPHY{Supported: true, Enabled: true, Advertised: 0xa421, MAU: 54},
			linkmode.Ability{Speeds: pair}},
		"1000BASE-T that sends PAUSE": {linkmode.Ability{Speeds: linkmode.Speed1G, NoSymmetric: true, Asymmetric: true}, true, 1000,
			wire.MACPHY{Supported: true, Enabled: true, Advertised: 0x0041, MAU: 30},
			linkmode.Ability{Speeds: linkmode.Speed1G, NoSymmetric: true, Asymmetric: true}},
		"40 Gb/s by a cable": {linkmode.Ability{Speeds: linkmode.ModuleSpeeds, Asymmetric: true}, false, 40_000,
			wire.MACPHY{Supported: true, Enabled: true, Advertised: 0x8014, MAU: 71},
			linkmode.Ability{Speeds: linkmode.Speed1G | linkmode.Speed40G, Asymmetric: true}},
		"25 Gb/s, which has no MAU type": {linkmode.Ability{Speeds: linkmode.Speed25G, NoSymmetric: true}, false, 25_000,
			wire.MACPHY{Supported: true, Enabled: true, Advertised: 0x8000},
			linkmode.Ability{Speeds: have &^ slow, NoSymmetric: true}},
		"forced": {linkmode.Ability{Speeds: linkmode.Speed1G, Forced: true}, false, 1000, wire.MACPHY{Supported: true, MAU: 28},
			linkmode.Ability{Speeds: linkmode.Speed1G, Forced: true}},
		"no link": {linkmode.Ability{Forced: true, Speeds: linkmode.Speed25G}, false, 0, wire.MACPHY{Supported: true}, linkmode.Ability{}},
	} {
		m := MACPHY(c.a, c.twistedPair, c.mbps)
		if *m != c.tlv {
			t.Errorf("%s: %+v, want %+v", what, *m, c.tlv)
		}
		if got := ability(m, have); got != c.taken {
			t.Errorf("%s: taken for %+v, want %+v", what, got, c.taken)
		}
	}
	// lldpd of Linux on a port of 1000BASE-T.
	if got := ability(&wire.MACPHY{Supported: true, Enabled: true, Advertised: 0x6c81, MAU: 30}, have); got != (linkmode.Ability{
		Speeds: linkmode.Speed10M | linkmode.Speed100M | linkmode.Speed1G}) {
		t.Errorf("lldpd: %+v", got)
	}
}
