package sw

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// kinds are those of ctl.Kinds that a switch has.
var kinds = []string{"nic", "port", "mac", "counters"}

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
	Port      string `json:"port"`
	TAP       string `json:"tap"`
	State     string `json:"state"`      // of a boundary clock's port
	LinkDelay string `json:"link_delay"` // measured by a peer-to-peer clock
	RxFrames  uint64 `json:"rx_frames"`
	TxFrames  uint64 `json:"tx_frames"`
	RxOctets  uint64 `json:"rx_octets"`
	TxOctets  uint64 `json:"tx_octets"`
	Flooded   uint64 `json:"flooded"`
	Queued    int    `json:"queued"`
	QueueMost uint64 `json:"queue_most"`
	RxDrops   uint64 `json:"rx_drops"`
	TxDrops   uint64 `json:"tx_drops"`
}

// Show returns a table for package ctl.
func (n *Node) Show(kind string) (v any, err error) {
	if !slices.Contains(kinds, kind) {
		return nil, ctl.NoTable(n.who(), kind, kinds)
	}
	err = n.DoWait(func(s *Switch, now frame.Time) {
		switch kind {
		case "nic":
			v = n.row(now)
		case "port":
			v = n.portRows()
		case "mac":
			v = s.MACs(now)
		case "counters":
			v = n.counters()
		}
	})
	if err != nil {
		return nil, &ctl.Error{What: fmt.Sprintf("switch %s is ending: %v", n.cfg.Name, err)}
	}
	return v, nil
}

func (n *Node) row(now frame.Time) switchRow {
	r := switchRow{Name: n.cfg.Name, Kind: "switch", Mode: n.cfg.Mode.String(), Clock: "-", OneStep: n.cfg.OneStep, Syntonized: "-",
		Delay: n.cfg.Delay.String(), Queue: n.cfg.Queue, MACs: len(n.sw.MACs(now)), PID: os.Getpid(), Version: n.Version}
	if n.cfg.Mode != Plain {
		r.Clock = n.cfg.identity().String()
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
		list[i] = portRow{Port: n.cfg.Ports[i].Name, TAP: n.cfg.Ports[i].TAP, State: "-", LinkDelay: "-",
			RxFrames: c.RxFrames, TxFrames: c.TxFrames, RxOctets: c.RxOctets, TxOctets: c.TxOctets, Flooded: c.Flooded,
			Queued: len(n.sw.ports[i].queue), QueueMost: c.QueueMost, RxDrops: rx.Total(), TxDrops: tx.Total()}
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
func (n *Node) counters() []Counter { return n.sw.counters(n.drops) }

// who says what answers.
func (n *Node) who() string { return n.cfg.Name + " is a switch" }

// Served is the switch as a control server wants it; stop begins its orderly
// end and must not wait for it.
func (n *Node) Served(stop func()) ctl.NIC { return &served{n, ctl.NotRDMA{Who: n.who()}, stop} }

type served struct {
	*Node
	ctl.NotRDMA
	stop func()
}

// CaptureInfo describes the switch for the head of a capture file.
func (s *served) CaptureInfo() capture.Info {
	return capture.Info{Application: "tapir " + s.Version, Hardware: runtime.GOARCH, Name: s.cfg.Name, MAC: s.cfg.mac(0), Wire: s.cfg.Ports[0].TAP}
}

// CannotCapture points at the stock tools: a switch's ports are TAPs.
func (s *served) CannotCapture() error {
	return s.Unable("makes no capture of its own: use tcpdump -i " + s.cfg.Ports[0].TAP)
}

// Attach is for NICs.
func (s *served) Attach(*capture.Session, bool) (detach func(), err error) {
	return nil, s.CannotCapture()
}

// Command answers `tapir ptp status` of a boundary clock.
func (s *served) Command(_ context.Context, name string, _ json.RawMessage) (any, error) {
	if name != "ptp.status" {
		return nil, s.Unable("has no command " + name)
	}
	st := ptprun.Status{NIC: s.cfg.Name, Transport: s.cfg.Transport.String()}
	err := s.DoWait(func(w *Switch, now frame.Time) {
		st.Clock = ptprun.ClockOf(s.phc, s.loop, now)
		if i := w.Instance(); i != nil {
			snapshot, counts := i.Snapshot(), w.management()
			st.Instance, st.Management = &snapshot, counts.Counters()
		}
	})
	return st, err
}

// Stop begins the end.
func (s *served) Stop() { s.stop() }

// Metrics are the counters.
func (s *served) Metrics() (all []ctl.Metric, err error) {
	err = s.DoWait(func(*Switch, frame.Time) {
		of := []ctl.Label{{Name: "switch", Value: s.cfg.Name}}
		for _, r := range s.portRows() {
			labels := append(of[:1:1], ctl.Label{Name: "port", Value: r.Port})
			for _, c := range []struct {
				name string
				v    uint64
			}{{"rx_frames", r.RxFrames}, {"tx_frames", r.TxFrames}, {"rx_octets", r.RxOctets}, {"tx_octets", r.TxOctets}, {"rx_drops", r.RxDrops}, {"tx_drops", r.TxDrops}} {
				all = append(all, ctl.Metric{Name: "tapir_switch_" + c.name + "_total", Help: c.name + " of the port", Value: float64(c.v), Labels: labels})
			}
		}
		c := s.sw.ClockCounts()
		all = append(all,
			ctl.Metric{Name: "tapir_switch_clock_corrected_total", Help: "messages whose correctionField was changed", Value: float64(c.Corrected), Labels: of},
			ctl.Metric{Name: "tapir_switch_clock_unmatched_total", Help: "messages dropped for want of a residence time", Value: float64(c.Unmatched), Labels: of})
	})
	return all, err
}
