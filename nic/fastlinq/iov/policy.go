package iov

import (
	"syscall"

	"tapir/wire/enum"
	"tapir/wire/ether"
)

// LinkState is what a VF is told of the link (IFLA_VF_LINK_STATE).
type LinkState uint8

// The states. Values are Linux's.
const (
	LinkAuto LinkState = iota // as it is
	LinkEnable
	LinkDisable
)

var linkStateNames = []string{"auto", "enable", "disable"}

// String is the word for a state in ip link.
func (s LinkState) String() string { return enum.Name(linkStateNames, s, "LinkState(%d)") }

// ParseLinkState reads such a word.
func ParseLinkState(s string) (LinkState, error) {
	return enum.Parse[LinkState](linkStateNames, s, "link state %q: use auto, enable or disable")
}

// VLANProto is the EtherType of 802.1Q, the only one that a VF's VLAN can have.
const VLANProto = 0x8100

// Policy is what the administrator has set of a VF. It outlives resets of the VF.
type Policy struct {
	MAC              ether.Addr // zero: the VF chooses
	VLAN             uint16     // 0: the VF chooses
	QoS              uint8      // priority of frames in VLAN
	MinRate, MaxRate int        // Mb/s; 0: none
	SpoofChk, Trust  bool
	LinkState        LinkState
	QueryRSS         bool
}

// VFInfo is what there is to know of a VF.
type VFInfo struct {
	Policy
	ID, AbsoluteID, FID int
	State               State
	Malicious           bool
	Why                 string // it was found to be malicious, the last time
	// Address is the MAC address that the VF has told of, or that it has a filter for.
	Address           ether.Addr
	Vport             int // relative to the PF; -1: it is not started
	MTU               int
	Link              Link // that the VF is told
	RxQueues          int  // started
	TxQueues          int
	Queues            int // granted, each way
	Blocks            []uint16
	MACs              []ether.Addr
	VLANs             []uint16
	Promisc, AllMulti bool // in force
	BulletinVersion   uint32
	Counts            Counts
}

// SetVFMAC forces the address of a VF; zero lets the VF choose. A trusted VF may change
// it. EINVAL: a multicast address, no such VF.
func (p *PF) SetVFMAC(vf int, mac ether.Addr) error {
	v, err := p.vf(vf)
	switch {
	case err != nil:
		return err
	case mac.IsMulticast():
		return errno(syscall.EINVAL, "VF %d: %v is no station's address", vf, mac)
	}
	v.policy.MAC = mac
	return v.changed(v.applyMAC())
}

// SetVFVLAN forces the VLAN of a VF, with a priority of its frames; 0 lets the VF
// choose. proto is an EtherType. EINVAL: a VLAN above 4095, a priority above 7, no such
// VF; EPROTONOSUPPORT: another proto than 802.1Q.
func (p *PF) SetVFVLAN(vf, vlan, qos int, proto uint16) error {
	v, err := p.vf(vf)
	switch {
	case err != nil:
		return err
	case vlan < 0 || vlan > 4095:
		return errno(syscall.EINVAL, "VF %d: VLAN %d: want 0 to 4095", vf, vlan)
	case qos < 0 || qos > 7:
		return errno(syscall.EINVAL, "VF %d: qos %d: want 0 to 7", vf, qos)
	case proto != VLANProto:
		return errno(syscall.EPROTONOSUPPORT, "VF %d: VLAN protocol %#04x: only 802.1Q", vf, proto)
	}
	v.policy.VLAN, v.policy.QoS = uint16(vlan), uint8(qos)
	return v.changed(v.applyVLAN())
}

// SetVFRate limits what a VF sends, and says what it gets for certain, in Mb/s; 0: no
// limit, nothing for certain. EINVAL: minRate above maxRate, rates above the link's
// speed, no such VF.
func (p *PF) SetVFRate(vf, minRate, maxRate int) error {
	v, err := p.vf(vf)
	speed := p.cfg.Function.Link().Speed
	switch {
	case err != nil:
		return err
	case minRate < 0 || maxRate < 0:
		return errno(syscall.EINVAL, "VF %d: rates %d and %d Mb/s", vf, minRate, maxRate)
	case maxRate > 0 && minRate > maxRate:
		return errno(syscall.EINVAL, "VF %d: min_tx_rate %d above max_tx_rate %d", vf, minRate, maxRate)
	case speed > 0 && max(minRate, maxRate) > speed:
		return errno(syscall.EINVAL, "VF %d: rate %d Mb/s above the link's %d", vf, max(minRate, maxRate), speed)
	}
	if p.cfg.Device.CMT && minRate > 0 {
		return errno(syscall.EINVAL, "VF %d: min_tx_rate %d: a device with two engines promises no rate", vf, minRate)
	}
	was := v.policy
	v.policy.MinRate, v.policy.MaxRate = minRate, maxRate
	if err := v.applyRates(); err != nil {
		v.policy = was
		return errno(syscall.EINVAL, "VF %d: %v", vf, err)
	}
	return v.changed(nil)
}

// SetVFSpoofchk has the device drop what a VF sends from another address than its own.
func (p *PF) SetVFSpoofchk(vf int, on bool) error {
	v, err := p.vf(vf)
	if err != nil {
		return err
	}
	v.policy.SpoofChk = on
	return v.changed(v.applySpoofchk())
}

// SetVFTrust lets a VF be promiscuous, receive all multicasts, change the MAC address
// that was set for it, and send frames of link protocols.
func (p *PF) SetVFTrust(vf int, on bool) error {
	v, err := p.vf(vf)
	if err != nil {
		return err
	}
	v.policy.Trust = on
	return v.changed(v.applyTrust())
}

// SetVFLinkState has a VF see the link as it is, up or down.
func (p *PF) SetVFLinkState(vf int, s LinkState) error {
	v, err := p.vf(vf)
	switch {
	case err != nil:
		return err
	case s > LinkDisable:
		return errno(syscall.EINVAL, "VF %d: link state %d", vf, s)
	}
	v.policy.LinkState = s
	return v.changed(v.post())
}

// SetVFQueryRSS lets a VF's driver read its RSS table and key back by RSSConfig.
func (p *PF) SetVFQueryRSS(vf int, on bool) error {
	v, err := p.vf(vf)
	if err != nil {
		return err
	}
	v.policy.QueryRSS = on
	return v.changed(nil)
}

// VFInfo is what there is to know of a VF. EINVAL: no such VF.
func (p *PF) VFInfo(vf int) (VFInfo, error) {
	v, err := p.vf(vf)
	if err != nil {
		return VFInfo{}, err
	}
	return v.info(), nil
}
