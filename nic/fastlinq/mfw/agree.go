package mfw

import "cmp"

// Ability is what a port offers to the other end of its cable, as the other end
// sees its partner.
func (f *Firmware) Ability(n int) Partner {
	p := &f.ports[n]
	a := Partner{Speeds: p.phy.Advertise & f.cfg.Ports[n].Speeds, NoSymmetric: true}
	if p.phy.Speed != 0 {
		a.Forced, a.Speeds = true, SpeedOf(p.phy.Speed)
		return a
	}
	if p.phy.Pause&PauseAutoneg != 0 {
		rx, tx := p.phy.Pause&PauseRx != 0, p.phy.Pause&PauseTx != 0
		a.NoSymmetric, a.Asymmetric = !rx, rx != tx
	}
	if f.canEEE(n) {
		a.EEE = p.phy.EEE.adv()
	}
	return a
}

// Agree is what an end that negotiates as p comes to with the other end: the speed
// in Mb/s, 0 without a common one, and whether it obeys and sends PAUSE frames (IEEE
// 802.3 table 28B-3).
func (p Partner) Agree(other Partner) (mbps uint32, rx, tx bool) {
	mbps = (cmp.Or(p.Speeds, AllSpeeds) & cmp.Or(other.Speeds, AllSpeeds)).Mbps()
	switch {
	case mbps == 0 || p.Forced || other.Forced:
	case !p.NoSymmetric && !other.NoSymmetric:
		return mbps, true, true
	case p.Asymmetric && other.Asymmetric:
		return mbps, !p.NoSymmetric, !other.NoSymmetric
	}
	return mbps, false, false
}
