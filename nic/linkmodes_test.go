package nic

import (
	"slices"
	"testing"

	"tapir/nic/fastlinq/mfw"
)

// Every speed that a port has over a medium has a link mode there, once, and
// no mode has another's bit.
func TestLinkModes(t *testing.T) {
	for _, w := range mediaWords {
		media := (&Link{Media: w.value}).media()
		list := linkModes(media, mfw.AllSpeeds)
		var speeds mfw.Speeds
		bits := map[int]bool{}
		for _, m := range list {
			one := mfw.SpeedOf(uint32(m.Mbps))
			if speeds&one != 0 || bits[m.Bit] || one.String() != m.Speed {
				t.Errorf("%s: %+v", w.name, m)
			}
			speeds, bits[m.Bit] = speeds|one, true
		}
		if have := portSpeeds(media); have&^speeds != 0 {
			t.Errorf("%s has %v, and modes of %v", w.name, have, speeds)
		}
		if !slices.IsSortedFunc(list, func(a, b EthtoolMode) int { return a.Bit - b.Bit }) {
			t.Errorf("%s: %v", w.name, list)
		}
	}
}

// MF-08 MF-09 MF-14 What ethtool shows of the link is what the firmware says.
func TestEthtoolLink(t *testing.T) {
	w, a, _ := twoNICs(t, Config{Link: Link{Media: mfw.MediaBaseT}})
	l := a.dev.ShowEthtool().Link
	if !l.Up || l.Speed != 10_000 || !l.Autoneg || l.Port != "Twisted Pair" || len(l.Supported.Modes) != 2 || len(l.Partner.Modes) != 2 ||
		!l.Advertised.Pause || l.Advertised.AsymPause || !l.Partner.Pause {
		t.Errorf("%+v", l)
	}
	a.set("link_speed=1G", "pause=rx", "partner_forced=1", "partner_speeds=1G")
	if l = a.dev.ShowEthtool().Link; l.Speed != 1000 || l.Autoneg || l.Advertised.Pause || len(l.Partner.Modes) != 0 {
		t.Errorf("forced: %+v", l)
	}
	a.set("link_speed=auto", "partner_forced=0", "partner_speeds=10G", "pause=auto-tx", "partner_eee=10G")
	if l = a.dev.ShowEthtool().Link; l.Speed != 10_000 || l.Advertised.Pause || !l.Advertised.AsymPause ||
		!l.EEE.Active || len(l.EEE.Partner) != 1 || l.EEE.Partner[0].Name != "10000baseT/Full" {
		t.Errorf("transmit only: %+v", l)
	}
	a.dev.LinkDown(w.now)
	if l = a.dev.ShowEthtool().Link; l.Up || l.Speed != 0 || len(l.Partner.Modes) != 0 {
		t.Errorf("down: %+v", l)
	}
}

// A port over a medium refuses the speeds that it has not, and stays as it was.
func TestSpeedsOfMedia(t *testing.T) {
	_, a, _ := twoNICs(t, Config{Link: Link{Media: mfw.MediaSFP1G}})
	for _, s := range []Setting{{"link_speed", "10G"}, {"link_advertise", "10G,25G"}} {
		if err := a.dev.Set(s); err == nil {
			t.Errorf("%v was taken", s)
		}
	}
	if a.set("link_advertise=1G,10G"); a.link("speed") != "1000" {
		t.Errorf("%v", a.dev.ShowLink())
	}
}
