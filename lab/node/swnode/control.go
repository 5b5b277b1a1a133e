package swnode

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"

	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/node/nodectl"
	"tapir/lab/node/sw"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/lab/tool/schema"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("show", 1, []switchRow{})
	_ = schema.Results("show nic", 1, (*Node).row)
	_ = schema.Results("show port", 1, (*Node).portRows)
	_ = schema.Results("show queue", 1, (*Node).queueRows)
	_ = schema.Results("show lldp", 1, (*Node).lldpRows)
	_ = schema.Results("show dcb", 1, (*Node).dcbRows)
	_ = schema.Results("show fcf", 1, (*Node).fcfRows)
	_ = schema.Results("show mac", 1, (*sw.Switch).MACs)
	_ = schema.Results("show counters", 1, (*Node).counters)
)

// switchRow is what Show tells of the switch itself.
type switchRow struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Mode       string   `json:"mode"`
	Clock      string   `json:"clock_identity"`
	OneStep    bool     `json:"one_step"`
	Syntonized string   `json:"syntonized"` // rate of the followed clock
	Delay      string   `json:"delay"`
	Queue      int      `json:"queue"`
	Ports      []string `json:"ports"`
	MACs       int      `json:"mac_entries"`
	Drops      uint64   `json:"drops"`
	PID        int      `json:"pid"`
	Version    string   `json:"version"`
}

// portRow is one port.
type portRow struct {
	Port            string `json:"port"`
	TAP             string `json:"tap"`
	State           string `json:"state"`      // of a boundary clock's port
	LinkDelay       string `json:"link_delay"` // measured by a peer-to-peer clock
	RxFrames        uint64 `json:"rx_frames"`
	TxFrames        uint64 `json:"tx_frames"`
	RxOctets        uint64 `json:"rx_octets"`
	TxOctets        uint64 `json:"tx_octets"`
	Flooded         uint64 `json:"flooded"`
	Queued          int    `json:"queued"`
	QueueMost       uint64 `json:"queue_most"`
	QueuedOctets    int    `json:"queued_bytes"`
	QueueMostOctets uint64 `json:"queue_most_bytes"`
	CE              uint64 `json:"ecn_marked"`
	RxDrops         uint64 `json:"rx_drops"`
	TxDrops         uint64 `json:"tx_drops"`
}

// queueRow is the egress queue of one traffic class of a port.
type queueRow struct {
	Port            string `json:"port"`
	Class           int    `json:"class"`
	TSA             string `json:"tsa"`
	Weight          uint8  `json:"weight"`   // percent, of an ETS class
	MaxRate         int    `json:"max_rate"` // Mb/s; 0: no limit
	Frames          uint64 `json:"tx_frames"`
	Octets          uint64 `json:"tx_octets"`
	Queued          int    `json:"queued"`
	QueuedOctets    int    `json:"queued_bytes"`
	QueueMostOctets uint64 `json:"queue_most_bytes"`
	Drops           uint64 `json:"drops"`
	Watchdog        uint64 `json:"watchdog"` // how often it began to drop
	// Depths are the bins of the histogram that are not empty, such as 2048:17 for 17 frames
	// that found more than 1024 octets in the queue, and at most 2048.
	Depths []string `json:"depths"`

	histogram *ctl.Histogram
}

// Bounds of the bins in the metrics of a queue, besides 0 octets.
const (
	leastBound = 64
	mostBound  = 16 << 20
)

// depths are a histogram for people and for Prometheus.
func depths(d *sw.Depths) (bins []string, h *ctl.Histogram) {
	h = &ctl.Histogram{Sum: float64(d.Sum), Buckets: map[float64]uint64{}}
	for bin, n := range d.Bins {
		bound := d.Bound(bin)
		if n > 0 {
			bins = append(bins, fmt.Sprintf("%d:%d", bound, n))
		}
		h.Count += n
		if bound == 0 || bound >= leastBound && bound <= mostBound {
			h.Buckets[float64(bound)] = h.Count
		}
	}
	return bins, h
}

func (n *Node) queueRows() (list []queueRow) {
	for i := range n.cfg.Ports {
		for _, c := range n.sw.ClassCounts(i) {
			bins, histogram := depths(c.Depths)
			list = append(list, queueRow{Port: n.cfg.Ports[i].Name, Class: c.Class, TSA: c.TSA.String(),
				Weight: c.Weight, MaxRate: n.cfg.MaxRate[c.Class], Frames: c.Frames, Octets: c.Octets,
				Queued: c.Queued, QueuedOctets: c.QueuedOctets, QueueMostOctets: c.QueueMostOctets, Drops: c.QueueDrops,
				Watchdog: c.Storms, Depths: bins, histogram: histogram})
		}
	}
	return list
}

// lldpRow is an LLDP agent of a port with one of its neighbors.
type lldpRow struct {
	Local string `json:"local_port"`
	view.LLDPInfo
}

func (n *Node) lldpRows(now frame.Time) []lldpRow {
	list := []lldpRow{}
	for i := range n.cfg.Ports {
		agents, _ := n.sw.Discovery(i)
		if agents == nil {
			continue
		}
		for _, r := range view.LLDP(agents, now) {
			if r.State != "off" {
				list = append(list, lldpRow{n.cfg.Ports[i].Name, r})
			}
		}
	}
	return list
}

// dcbRow is an attribute of DCBX of a port.
type dcbRow struct {
	Local string `json:"local_port"`
	view.AttributeRow
}

// dcbRows are what each port administers, what its neighbor has told, and what the port
// acts on.
func (n *Node) dcbRows() (list []dcbRow) {
	for i := range n.cfg.Ports {
		_, m := n.sw.Discovery(i)
		if m == nil {
			continue
		}
		local := n.cfg.Administered()
		rows := append([]view.AttributeRow{{Name: "oper_dcbx", Value: m.Version().String()},
			{Name: "too_many_neighbors", Value: strconv.FormatBool(m.TooMany())}}, view.DCBValues("local", &local)...)
		if r := m.Remote(); r != nil {
			rows = append(rows, view.DCBValues("remote", r)...)
		}
		for _, r := range append(rows, view.DCBValues("oper", m.Operational())...) {
			list = append(list, dcbRow{n.cfg.Ports[i].Name, r})
		}
	}
	return list
}

func (n *Node) row(now frame.Time) switchRow {
	r := switchRow{Name: n.cfg.Name, Kind: "switch", Mode: n.cfg.Mode.String(), Clock: "-", OneStep: n.cfg.OneStep,
		Syntonized: "-",
		Delay:      n.cfg.Delay.String(), Queue: n.cfg.Queue, MACs: len(n.sw.MACs(now)), PID: os.Getpid(),
		Version: n.Env().Version}
	if n.cfg.Mode != swconf.Plain {
		r.Clock = n.cfg.Identity().String()
	}
	if t := n.sw.Transparent(); t != nil {
		if ppb, ok := t.RateOffset(); ok {
			r.Syntonized = fmt.Sprintf("%+d ppb", ppb)
		}
	}
	for i := range n.cfg.Ports {
		r.Ports = append(r.Ports, n.cfg.Ports[i].Name)
		rx, tx := n.drops(i)
		r.Drops += rx.Total() + tx.Total()
	}
	return r
}

// drops are the frames that a port lost, in the switch or at its TAP.
func (n *Node) drops(port int) (rx, tx frame.Drops) {
	c := n.sw.Counts(port)
	rx, tx = c.RxDrops, c.TxDrops
	for r, v := range n.ports[port].Drops() {
		if reason := frame.DropReason(r); reason == drop.Link || reason == drop.TxQueue {
			tx[r] += v
		} else {
			rx[r] += v
		}
	}
	return rx, tx
}

func (n *Node) portRows() []portRow {
	list := make([]portRow, len(n.cfg.Ports))
	for i := range list {
		c := n.sw.Counts(i)
		rx, tx := n.drops(i)
		list[i] = portRow{Port: n.cfg.Ports[i].Name, TAP: cmp.Or(n.cfg.Ports[i].TAP, n.cfg.Ports[i].Wire),
			State: "-", LinkDelay: "-",
			RxFrames: c.RxFrames, TxFrames: c.TxFrames, RxOctets: c.RxOctets, TxOctets: c.TxOctets, Flooded: c.Flooded,
			Queued: c.Queued, QueueMost: c.QueueMost, QueuedOctets: c.QueuedOctets, QueueMostOctets: c.QueueMostOctets,
			CE: c.CE, RxDrops: rx.Total(), TxDrops: tx.Total()}
		if b := n.sw.Instance(); b != nil {
			list[i].State = b.State(i).String()
		}
		if t := n.sw.Transparent(); t != nil {
			if d, ok := t.LinkDelay(i); ok {
				list[i].LinkDelay = d.Duration().String()
			}
		}
	}
	return list
}

// counters lists all that is counted.
func (n *Node) counters() []sw.Counter { return n.sw.CountersWith(n.drops) }

// Served is the switch as a control server wants it; stop begins its orderly
// end and must not wait for it.
func (n *Node) Served(stop func()) ctl.NIC {
	return &control{nodectl.New(&n.Base, "a switch", "switch", stop,
		nodectl.Table{Kind: "nic", Rows: func(now frame.Time) any { return n.row(now) }},
		nodectl.List("port", n.portRows),
		nodectl.List("queue", n.queueRows),
		nodectl.Table{Kind: "lldp", Rows: func(now frame.Time) any { return n.lldpRows(now) }},
		nodectl.List("dcb", n.dcbRows),
		nodectl.Table{Kind: "fcf", Rows: func(now frame.Time) any { return n.fcfRows(now) }},
		nodectl.Table{Kind: "mac", Rows: func(now frame.Time) any { return n.sw.MACs(now) }},
		nodectl.List("wire", func() []node.WireRow { return node.WireRows(n.wires...) }),
		nodectl.List("counters", n.counters)), n}
}

type control struct {
	nodectl.Control
	n *Node
}

// CaptureInfo describes the switch for the head of a capture file.
func (s *control) CaptureInfo() capture.Info {
	return capture.Info{Application: "tapir " + s.n.Env().Version, Hardware: runtime.GOARCH, Name: s.n.cfg.Name,
		MAC: s.n.cfg.MAC(0), Wire: s.n.cfg.Ports[0].TAP}
}

// CannotCapture points at the stock tools: a switch's ports are TAPs.
func (s *control) CannotCapture() error {
	return s.Unable("makes no capture of its own: use tcpdump -i " + s.n.cfg.Ports[0].TAP)
}

// Attach is for NICs.
func (s *control) Attach(*capture.Session, bool) (detach func(), err error) {
	return nil, s.CannotCapture()
}

// Command answers `tapir ptp status` of a boundary clock, and negotiates.
func (s *control) Command(ctx context.Context, name string, args json.RawMessage) (any, error) {
	switch name {
	case ctl.OfferCommand, ctl.PartnerCommand:
		return s.negotiate(args)
	case "ptp.status":
		return s.status()
	}
	return s.Control.Command(ctx, name, args)
}

// negotiate tells what a port offers, and takes what the other end of its cable does.
func (s *control) negotiate(args json.RawMessage) (any, error) {
	var e ctl.LinkEnd
	if err := json.Unmarshal(args, &e); err != nil {
		return nil, ctl.BadRequest(err)
	}
	i := slices.Index(s.n.names, e.Port)
	if i < 0 {
		return nil, &ctl.Error{What: fmt.Sprintf("%s has no port %q", s.n.cfg.Name, e.Port)}
	}
	if e.Ability == nil {
		return s.n.sw.Ability(), nil
	}
	return struct{}{}, s.n.DoWait(func(now frame.Time) { s.n.sw.Negotiate(i, *e.Ability, now) })
}

// status is that of a boundary clock.
func (s *control) status() (any, error) {
	st := ptprun.Status{NIC: s.n.cfg.Name, Transport: s.n.cfg.Transport.String()}
	err := s.n.DoWait(func(now frame.Time) {
		st.Clock = ptprun.ClockOf(s.n.phc, s.n.Loop, now)
		if i := s.n.sw.Instance(); i != nil {
			snapshot, counts := i.Snapshot(), s.n.sw.Management()
			st.Instance, st.Management = &snapshot, counts.Counters()
		}
	})
	return st, err
}

// Metrics are the counters.
func (s *control) Metrics() ([]ctl.Metric, error) {
	n := s.n
	m := nodectl.Metrics{Of: ctl.Label{Name: "switch", Value: n.Name()}}
	err := n.DoWait(func(frame.Time) {
		for _, r := range n.portRows() {
			for _, c := range []nodectl.Counter{{Name: "rx_frames", Value: r.RxFrames},
				{Name: "tx_frames", Value: r.TxFrames},
				{Name: "rx_octets", Value: r.RxOctets}, {Name: "tx_octets", Value: r.TxOctets},
				{Name: "rx_drops", Value: r.RxDrops}, {Name: "tx_drops", Value: r.TxDrops}} {
				m.Counter("tapir_switch_"+c.Name, c.Name+" of the port", c.Value,
					ctl.Label{Name: "port", Value: r.Port})
			}
		}
		n.queueMetrics(&m)
		n.fcfMetrics(&m)
		c := n.sw.ClockCounts()
		m.Counter("tapir_switch_clock_corrected", "messages whose correctionField was changed", c.Corrected)
		m.Counter("tapir_switch_clock_unmatched", "messages dropped for want of a residence time", c.Unmatched)
	})
	return m.All, err
}

// queueMetrics are those of traffic classes, and of priorities with PFC.
func (n *Node) queueMetrics(m *nodectl.Metrics) {
	for _, r := range n.queueRows() {
		of := []ctl.Label{{Name: "port", Value: r.Port}, {Name: "class", Value: fmt.Sprint(r.Class)}}
		m.Gauge("tapir_switch_queue_octets", "octets in the egress queue of the class", r.QueuedOctets, of...)
		m.Histogram("tapir_switch_queue_depth_octets", "octets that frames of the class found in its egress queue",
			r.histogram, of...)
		m.Counter("tapir_switch_queue_tx_octets", "octets of the class that left", r.Octets, of...)
		m.Counter("tapir_switch_queue_drops", "frames of the class dropped at its queue", r.Drops, of...)
	}
	if octets, _, ok := n.sw.SharedBuffer(); ok {
		m.Gauge("tapir_switch_shared_buffer_octets", "octets that wait in the shared buffer", octets)
	}
	for i := range n.cfg.Ports {
		for _, c := range n.sw.PriorityCounts(i) {
			if !c.Lossless {
				continue
			}
			of := []ctl.Label{{Name: "port", Value: n.cfg.Ports[i].Name},
				{Name: "priority", Value: fmt.Sprint(c.Priority)}}
			m.Gauge("tapir_switch_buffer_octets", "octets of the priority received by the port that wait", c.Buffered,
				of...)
			m.Counter("tapir_switch_rx_pause", "PFC frames received for the priority", c.RxPause, of...)
			m.Counter("tapir_switch_tx_pause", "PFC frames sent for the priority", c.TxPause, of...)
			m.Counter("tapir_switch_rx_pause_us", "microseconds that PFC kept the port from sending the priority",
				uint64(c.RxPaused.Microseconds()), of...)
		}
	}
}
