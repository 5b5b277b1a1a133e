package iov

import "tapir/nic/fastlinq/iov/tlv"

// board is the bulletin of a VF: the PF's copy, and where the VF's driver has its own.
type board struct {
	tlv.Bulletin
	addr uint64 // 0: there is none
	size int    // octets, as agreed
}

// The speeds that a VF sees of a link that is forced up, in Mb/s.
const (
	speedForced    = 40_000
	speedForcedCMT = 100_000
)

// link is the link as the VF is told: the policy decides whether it is up, and its rate
// is its speed. While the channel is closed it is down.
func (v *vf) link() Link {
	l := v.pf.cfg.Function.Link()
	switch v.policy.LinkState {
	case LinkEnable:
		l.Up, l.Speed = true, speedForced
		if v.pf.cfg.Device.CMT {
			l.Speed = speedForcedCMT
		}
	case LinkDisable:
		l.Up = false
	}
	l.Up = l.Up && v.board.Valid&tlv.ChannelInvalid == 0
	if l.Up && v.policy.MaxRate > 0 && (l.Speed == 0 || l.Speed > v.policy.MaxRate) {
		l.Speed = v.policy.MaxRate
	}
	return l
}

// Post writes the bulletins of all VFs: the port's link has changed, or the tunnels that the
// device knows.
func (p *PF) Post() {
	for _, v := range p.vfs[:p.num] {
		_ = v.post()
	}
}

// post writes the bulletin of a VF whose driver has acquired it: always all of it, with
// the next version and its CRC.
func (v *vf) post() error {
	b := &v.board
	if b.addr == 0 || b.size < minBulletin {
		return nil
	}
	b.Valid &= tlv.UntaggedDefault | tlv.UntaggedDefaultForced | tlv.ChannelInvalid
	b.MAC, b.PVID = v.wish.address, v.policy.VLAN
	if b.PVID != 0 {
		b.Valid |= tlv.VLANForced
	}
	if mac := v.forcedMAC(); !mac.IsZero() {
		b.Valid |= tlv.MACForced
		b.MAC = mac
	} else if v.trusted && !v.suggested.IsZero() {
		b.Valid |= tlv.MACValid
		b.MAC = v.suggested
	}
	t := v.pf.cfg.Function.Tunnels()
	b.VXLANPort, b.GenevePort = t.VXLANPort, t.GenevePort
	l := v.link()
	b.LinkParams, b.LinkState = l.Params, l.State
	b.LinkState.Up = tlv.Bit(l.Up)
	b.Speed, b.PartnerSpeeds, b.Capability = uint32(l.Speed), l.PartnerSpeeds, l.Capability
	b.Version++
	v.counts.Bulletins++
	v.write(b.addr, tlv.AppendBulletin(nil, &b.Bulletin, b.size))
	return nil
}

// minBulletin is the shortest bulletin that says anything: CRC, version and flags.
const minBulletin = 16
