// Package view holds the snapshots of a NIC that tools display. Who has the state
// fills them in.
package view

import (
	"net/netip"
	"strconv"
	"strings"

	"tapir/nic/param"
	"tapir/wire/ether"
)

// Info describes a NIC for display.
type Info struct {
	Name      string         `json:"name"`
	MAC       ether.Addr     `json:"mac"`
	Addrs     []netip.Prefix `json:"addrs"` // the link-local one included
	Gateways  []netip.Addr   `json:"gateways"`
	MTU       int            `json:"mtu"` // octets of IP
	VLAN      uint16         `json:"vlan"`
	VLANIP    []string       `json:"vlan_ip,omitempty"` // of VLAN interfaces: 100=10.0.0.1/24
	Frames    string         `json:"frames"`
	Hardware  string         `json:"hardware"` // its kind
	HostTAP   bool           `json:"host_tap"`
	RxPackets uint64         `json:"rx_packets"`
	TxPackets uint64         `json:"tx_packets"`
	RxBytes   uint64         `json:"rx_bytes"`
	TxBytes   uint64         `json:"tx_bytes"`
	Drops     uint64         `json:"drops"`
	QPs       int            `json:"qps"`
	CQs       int            `json:"cqs"`
	MRs       int            `json:"mrs"`
	CEPs      int            `json:"ceps"`
	LastStamp int64          `json:"last_tx_stamp_ns"` // nanoseconds of the hardware clock
	Conflicts uint64         `json:"address_conflicts"`
}

// CQInfo describes a completion queue for display.
type CQInfo struct {
	Num     uint32 `json:"cq"`
	Entries int    `json:"entries"`
	Waiting int    `json:"waiting"`
	Total   uint64 `json:"total"` // completions ever queued
	Failed  bool   `json:"failed"`
}

// MRInfo describes a memory region for display.
type MRInfo struct {
	Num    uint32 `json:"mr"`
	STag   uint32 `json:"stag"`
	PD     uint32 `json:"pd"`
	Addr   uint64 `json:"addr"`
	Len    uint64 `json:"len"` // octets
	Access string `json:"access"`
	Valid  bool   `json:"valid"`
}

// MWInfo describes a memory window for display.
type MWInfo struct {
	Num    uint32 `json:"mw"`
	Kind   string `json:"type"`
	STag   uint32 `json:"stag"`
	PD     uint32 `json:"pd"`
	MR     uint32 `json:"mr,omitempty"` // that it is bound to
	QP     uint32 `json:"qp,omitempty"` // the only one that it is open to, type 2
	Addr   uint64 `json:"addr"`
	Len    uint64 `json:"len"` // octets
	Access string `json:"access"`
}

// EventInfo describes an event of the connection manager for display.
type EventInfo struct {
	Seq     uint64         `json:"seq"`
	Time    string         `json:"time"`  // of the hardware clock
	Event   string         `json:"event"` // as the transport names it
	ID      uint32         `json:"id,omitempty"`
	QP      uint32         `json:"qp,omitempty"`
	State   string         `json:"qp_state,omitempty"` // as the transport names it
	Local   netip.AddrPort `json:"local,omitzero"`
	Remote  netip.AddrPort `json:"remote,omitzero"`
	Status  string         `json:"status"`           // 0 or the name of an error number
	Reason  string         `json:"reason,omitempty"` // as the transport names it
	IRD     uint16         `json:"ird"`
	ORD     uint16         `json:"ord"`
	Private int            `json:"private_data"` // octets
	Err     string         `json:"error,omitempty"`
}

// LineInfo describes a line of the log for display.
type LineInfo struct {
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // of the hardware clock
	Level string `json:"level"`
	Topic string `json:"topic"`
	Text  string `json:"text"`
}

// ResourceInfo describes an RDMA object for display, as rdma(8) has them.
type ResourceInfo struct {
	Kind    string         `json:"kind"` // ctx, pd, cq, mr, qp, srq, cm_id
	Num     uint32         `json:"num"`  // within its kind
	PID     int            `json:"pid"`  // of the process that made it; 0: the NIC's own
	Users   int            `json:"users"`
	Context uint32         `json:"ctx,omitempty"`
	PD      uint32         `json:"pd,omitempty"`
	State   string         `json:"state,omitempty"`
	Entries int            `json:"entries,omitempty"` // of a completion queue
	STag    uint32         `json:"stag,omitempty"`
	Len     uint64         `json:"len,omitempty"` // octets
	QP      uint32         `json:"qp,omitempty"`  // of a connection
	SRQ     uint32         `json:"srq,omitempty"` // of a queue pair
	Local   netip.AddrPort `json:"local,omitzero"`
	Remote  netip.AddrPort `json:"remote,omitzero"`
}

// NeighborInfo describes a station that the NIC talks to, for display.
type NeighborInfo struct {
	IP    netip.Addr `json:"ip"`
	VLAN  uint16     `json:"vlan,omitempty"` // 0: untagged
	MAC   ether.Addr `json:"mac"`
	State string     `json:"state"` // as ip-neighbour(8) has it
}

// StatInfo counts one kind of object or state for display, after the
// statistics of the Linux siw driver.
type StatInfo struct {
	Name string `json:"name"`
	Now  int    `json:"now"`
	Ever uint64 `json:"ever"` // since the NIC started; events: how often
}

// Counter is one named value, as ethtool -S prints them.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// OfVF splits the counter of a PF about a VF, such as vf0_rx_packets, into the VF's number
// and the name there. False: it is about none.
func (c Counter) OfVF() (vf int, name string, ok bool) {
	number, name, _ := strings.Cut(strings.TrimPrefix(c.Name, "vf"), "_")
	vf, err := strconv.Atoi(number)
	return vf, name, err == nil && strings.HasPrefix(c.Name, "vf")
}

// ParamInfo describes a setting and its present value for display.
type ParamInfo struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Type    string `json:"type"`
	Runtime bool   `json:"runtime"` // may be changed while the NIC runs
	Help    string `json:"help"`
}

// Params describes settings.
func Params(rows []*param.Row) (list []ParamInfo) {
	for _, r := range rows {
		list = append(list, ParamInfo{Name: r.Name, Value: r.Get(), Type: r.Type, Runtime: r.Runtime, Help: r.Help})
	}
	return list
}

// Count makes a counter.
func Count(name string, value uint64) Counter { return Counter{name, value} }
