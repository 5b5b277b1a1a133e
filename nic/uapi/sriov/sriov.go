// Package sriov shows programs under a supervisor (nic/uapi/trap) the virtual functions of
// NICs as Linux shows those of its PFs, whose drivers the kernel does not have here:
//
//	RTM_GETLINK, RTM_NEWLINK   VFs of ip link (IFLA_VFINFO_LIST)       link.go
//	/sys/class/net/PF/device   sriov_numvfs, sriov_totalvfs, virtfnN   files.go
//	devlink                    ports of the PF and its VFs             devlink.go
//
// Each PF and each VF is a device of a PCI bus that no machine has. The netdev of the PF is
// the kernel's, which does the rest.
package sriov

import (
	"fmt"
	"net"

	"tapir/nic/uapi/netlink"
	"tapir/wire/ether"
)

// PF is a NIC that can have VFs. Its functions are called from any goroutine; their errors
// are errnos.
type PF struct {
	Netdev string // of the operating system
	Bus    uint8  // of the PF, function 0, and its VFs
	// Capability asks for the capability of the device, with its VFs.
	Capability func() (Capability, error)
	// VFs asks for what ip link shows of the VFs.
	VFs func() ([]VF, error)
	// Stats asks for the counters of the VFs.
	Stats func() ([]Stats, error)
	// Set changes a VF, by the words of `ip link set PF vf N`.
	Set func(vf int, words ...string) error
	// SetNumVFs changes their number.
	SetNumVFs func(n int) error
}

// Capability is what the PCI device of a PF says of SR-IOV.
type Capability struct {
	Total   int      `json:"totalvfs"`
	Offset  uint16   `json:"offset"` // from the PF's routing id to that of VF 0
	Stride  uint16   `json:"stride"`
	Vendor  uint16   `json:"vendor"`
	PF      uint16   `json:"pf_device"`
	VF      uint16   `json:"vf_device"`
	Netdevs []string `json:"netdevs"` // of the VFs there are; empty: in another namespace
}

// VF is a virtual function as ip link shows it.
type VF struct {
	VF        int        `json:"vf"`
	MAC       ether.Addr `json:"mac"`
	VLAN      uint32     `json:"vlan"`
	QoS       uint32     `json:"qos"`
	MaxTxRate uint32     `json:"max_tx_rate"` // Mb/s
	MinTxRate uint32     `json:"min_tx_rate"`
	SpoofChk  bool       `json:"spoofchk"`
	State     string     `json:"link_state"`
	Trust     bool       `json:"trust"`
	QueryRSS  bool       `json:"query_rss"`
}

// Stats are the counters of a VF (IFLA_VF_STATS).
type Stats struct {
	RxPackets, TxPackets, RxBytes, TxBytes, Broadcast, Multicast, RxDropped, TxDropped uint64
}

// domain is that of the bus: no machine has so many.
const domain = 0x7470

// address is a function of the bus, the PF with routing id 0.
func (p *PF) address(id int) string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain, p.Bus, id>>3&0x1f, id&7)
}

// vf is the address of a VF.
func (p *PF) vf(c *Capability, n int) string { return p.address(int(c.Offset) + n*int(c.Stride)) }

// server answers for its PFs.
type server struct{ pfs []PF }

// Register has p show these PFs.
func Register(p *netlink.Proxy, pfs ...PF) {
	s := &server{pfs}
	s.registerLinks(p)
	s.registerDevlink(p)
}

// pf is the PF with a netdev, by index, else by name; nil: none is.
func (s *server) pf(index int32, name string) *PF {
	if index > 0 {
		netdev, err := net.InterfaceByIndex(int(index))
		if err != nil {
			return nil
		}
		name = netdev.Name
	}
	for i := range s.pfs {
		if s.pfs[i].Netdev == name && name != "" {
			return &s.pfs[i]
		}
	}
	return nil
}
