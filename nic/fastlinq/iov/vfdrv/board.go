package vfdrv

import (
	"slices"

	"tapir/nic/fastlinq/iov/tlv"
	"tapir/wire/ether"
)

// ReadBulletin adopts the bulletin if the PF has written a new one (vf_read_bulletin),
// and tells whether it has. AGAIN: its CRC is wrong, as the PF is writing it; what was
// adopted before stays.
func (d *Driver) ReadBulletin() (changed bool, err error) {
	shadow := slices.Clone(d.posted)
	if len(shadow) < minBulletin {
		return false, nil
	}
	var head struct{ CRC, Version uint32 }
	if err := tlv.Decode(shadow, &head); err != nil {
		return false, err
	}
	if head.Version == d.board.Version {
		return false, nil
	}
	b, err := tlv.DecodeBulletin(shadow)
	if err != nil {
		return false, err
	}
	d.board = b
	return true, nil
}

// minBulletin is the shortest that says anything.
const minBulletin = 16

// Acquired tells whether the PF has granted the VF to this driver.
func (d *Driver) Acquired() bool { return d.acquired }

// Bulletin is the one that was adopted last.
func (d *Driver) Bulletin() tlv.Bulletin { return d.board }

// LinkState is the link as the PF tells of it (vf_get_link_state): its speed is in Mb/s.
func (d *Driver) LinkState() (l tlv.LinkState, speed int) {
	return d.board.LinkState, int(d.board.Speed)
}

// LinkParams are what was asked of the link (vf_get_link_params).
func (d *Driver) LinkParams() tlv.LinkParams { return d.board.LinkParams }

// LinkCaps are the speeds that the link can have (vf_get_link_caps).
func (d *Driver) LinkCaps() uint32 { return d.board.Capability }

// Resources are those of the VF: vf_get_num_rxqs, _txqs, _sbs, _mac_filters,
// _vlan_filters and _cids.
func (d *Driver) Resources() tlv.Resources { return d.got.Got.Num }

// Device is what the PF has told of the device: vf_get_port_mac, vf_get_fw_version and
// more.
func (d *Driver) Device() tlv.PFInfo { return d.got.PF }

// ForcedMAC is the address that the PF sets for the VF; forced: the VF has to use it.
func (d *Driver) ForcedMAC() (mac ether.Addr, forced bool) {
	if d.board.Valid&(tlv.MACForced|tlv.MACValid) == 0 {
		return ether.Addr{}, false
	}
	return d.board.MAC, d.board.Valid&tlv.MACForced != 0
}

// CheckMAC tells whether the VF may use an address (vf_check_mac).
func (d *Driver) CheckMAC(mac ether.Addr) bool {
	forced, must := d.ForcedMAC()
	return !must || forced == mac
}

// ForcedVLAN is the VLAN that the PF puts the VF into; 0: none.
func (d *Driver) ForcedVLAN() uint16 {
	if d.board.Valid&tlv.VLANForced == 0 {
		return 0
	}
	return d.board.PVID
}

// UDPPorts are those of tunnels (vf_bulletin_get_udp_ports).
func (d *Driver) UDPPorts() (vxlan, geneve uint16) { return d.board.VXLANPort, d.board.GenevePort }
