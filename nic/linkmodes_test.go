package nic

import (
	"testing"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
)

// MF-08 MF-09 MF-14 What ethtool shows of the link is what the firmware says.
func TestEthtoolLink(t *testing.T) {
	w, a, _ := twoNICs(t, Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}})
	l := a.dev.ShowEthtool().Link
	if !l.Up || l.Speed != 10_000 || !l.Autoneg || l.Port != "Twisted Pair" || len(l.Supported.Modes) != 4 || len(l.Partner.Modes) != 4 ||
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
	_, a, _ := twoNICs(t, Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaSFP1G}}})
	for _, s := range []Setting{{"link_speed", "10G"}, {"link_advertise", "10G,25G"}} {
		if err := a.dev.Set(s); err == nil {
			t.Errorf("%v was taken", s)
		}
	}
	if a.set("link_advertise=1G,10G"); a.link("speed") != "1000" {
		t.Errorf("%v", a.dev.ShowLink())
	}
}
