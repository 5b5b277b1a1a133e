package mfw

import "tapir/nic/linkmode"

// Ability is what a port offers to the other end of its cable, as the other end
// sees its partner.
func (f *Firmware) Ability(n int) Partner {
	p := &f.ports[n]
	a := Partner{Dark: !p.laser, Speeds: p.phy.Advertise & f.cfg.Ports[n].Speeds, NoSymmetric: true}
	if p.phy.Speed != 0 {
		a.Forced, a.Speeds = true, linkmode.SpeedOf(p.phy.Speed)
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
