package fcoe

import (
	"maps"
	"slices"

	"tapir/wire/enum"
	"tapir/wire/fc"
)

// Counter is a counter of a node.
type Counter int

// Counters.
const (
	FIPIn Counter = iota
	FIPOut
	FramesIn
	FramesOut
	DataOctetsIn
	DataOctetsOut
	Dropped
	CRCErrors
	TxQueueFull
	KeepAlives
	ForeignMaps
	FCFsLost
	LinksCleared
	Collisions
	NeighborsLost
	TooManyPorts
	LoginFailures
	RejectsSent
	RejectsReceived
	NotAllowed
	NoPlace
	LogoutsSent
	LogoutsReceived
	ServicesReceived
	StateChanges
	Queries
	SessionsBegun
	SessionsEnded
	CommandsSent
	CommandsDone
	CommandsReceived
	CommandsDropped
	Busy
	TasksWaited
	TaskManagement
	DataErrors
	DataLost
	Timeouts
	Retries
	AbortsSent
	AbortsReceived
	OctetsRead
	OctetsWritten
	numCounters
)

var counterNames = [numCounters]string{
	"fip_in", "fip_out", "frames_in", "frames_out", "data_octets_in", "data_octets_out", "dropped", "crc_errors",
	"tx_queue_full", "keep_alives", "foreign_maps",
	"fcfs_lost", "links_cleared", "collisions", "neighbors_lost", "too_many_ports",
	"login_failures", "rejects_sent", "rejects_received", "not_allowed", "no_place", "logouts_sent",
	"logouts_received",
	"services_received", "state_changes", "queries", "sessions_begun", "sessions_ended", "commands_sent",
	"commands_done", "commands_received", "commands_dropped", "busy", "tasks_waited", "task_management", "data_errors",
	"data_lost", "timeouts", "retries", "aborts_sent", "aborts_received", "octets_read", "octets_written",
}

// String is the counter's name.
func (c Counter) String() string { return enum.Name(counterNames[:], c, "counter %d") }

// Stats are all counters.
type Stats [numCounters]uint64

// Stats are the node's counters.
func (n *Node) Stats() Stats { return n.stats }

// count counts a frame of Fibre Channel.
func (n *Node) count(h *fc.Header, octets int, sent bool) {
	frames, data := FramesIn, DataOctetsIn
	if sent {
		frames, data = FramesOut, DataOctetsOut
	}
	n.stats[frames]++
	if h.Type == fc.TypeFCP && h.RCtl == fc.SolicitedData {
		n.stats[data] += uint64(octets)
	}
}

// PortInfo describes a port for display.
type PortInfo struct {
	Port    fc.WWN       `json:"port"`
	Node    fc.WWN       `json:"node"`
	ID      string       `json:"id"` // empty: none yet
	MAC     string       `json:"mac"`
	State   string       `json:"state"`
	Refused *Refusal     `json:"refused,omitempty"`
	Remotes []RemoteInfo `json:"remotes"`
}

// RemoteInfo describes a remote port.
type RemoteInfo struct {
	Port     fc.WWN `json:"port"`
	Node     fc.WWN `json:"node"`
	ID       string `json:"id"`
	MAC      string `json:"mac"`
	State    string `json:"state"`
	Target   bool   `json:"target"`
	Payload  int    `json:"payload"` // octets of a frame
	Commands int    `json:"commands"`
}

// ExchangeInfo describes an exchange that is open.
type ExchangeInfo struct {
	Port       fc.WWN `json:"port"`
	Remote     string `json:"remote"` // its identifier
	OXID, RXID uint16
	What       string `json:"what"`   // service: a login or query; initiator, target: a command
	Octets     int    `json:"octets"` // that have moved
}

// Info describes a node.
type Info struct {
	VN2VN     bool           `json:"vn2vn"`
	FCFs      []FCFInfo      `json:"fcfs"`
	VLANs     []uint16       `json:"vlans,omitempty"` // that FCFs offer
	VLAN      uint16         `json:"vlan,omitempty"`  // the one of them that is used
	Ports     []PortInfo     `json:"ports"`
	Exchanges []ExchangeInfo `json:"exchanges"`
}

// FCFInfo describes a forwarder.
type FCFInfo struct {
	MAC       string `json:"mac"`
	Name      fc.WWN `json:"name"`
	Fabric    fc.WWN `json:"fabric"`
	Priority  uint8  `json:"priority"`
	PeriodMS  int64  `json:"fka_adv_period_ms"`
	Available bool   `json:"available"`
	Selected  bool   `json:"selected"`
}

// Info describes the node.
func (n *Node) Info() Info {
	i := Info{VN2VN: n.cfg.VN2VN, VLANs: n.fabric.vlans, VLAN: n.fabric.vlan, FCFs: []FCFInfo{}, Ports: []PortInfo{},
		Exchanges: []ExchangeInfo{}}
	for _, f := range n.fabric.fcfs {
		i.FCFs = append(i.FCFs, FCFInfo{f.MAC.String(), f.Name, f.Fabric, f.Priority, f.Period.Milliseconds(),
			f.Available, f == n.fabric.fcf})
	}
	for _, p := range n.ports {
		i.Ports = append(i.Ports, p.info())
		for _, r := range p.remotes {
			for _, t := range r.order() {
				i.Exchanges = append(i.Exchanges, ExchangeInfo{p.cfg.Port, r.ID.String(), t.oxid, t.rxid, "target",
					t.next + t.off})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.exchanges)) {
		x := n.exchanges[id]
		e := ExchangeInfo{x.port.cfg.Port, x.to.String(), id, fc.NoID, "service", 0}
		if q := x.request; q != nil {
			e.RXID, e.What, e.Octets = q.rxid, "initiator", q.got+q.off
		}
		i.Exchanges = append(i.Exchanges, e)
	}
	return i
}

func (p *Port) info() PortInfo {
	d := PortInfo{Port: p.cfg.Port, Node: p.cfg.Node, State: portStates[p.state], Remotes: []RemoteInfo{}}
	if p.state > portLogin {
		d.ID, d.MAC = p.id.String(), p.mac.String()
	}
	if p.refused != (Refusal{}) {
		d.Refused = &p.refused
	}
	for _, r := range p.remotes {
		d.Remotes = append(d.Remotes, RemoteInfo{r.Name, r.Node, r.ID.String(), r.mac.String(), r.state.String(),
			r.target, r.payload, len(r.tasks) + len(r.requests)})
	}
	return d
}
