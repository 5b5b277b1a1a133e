package hfinode

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime"
	"slices"

	"tapir/lab/node/nodectl"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/wire/frame"
)

// Served is the HFI as a control server wants it; stop begins its orderly end
// and must not wait for it.
func (n *Node) Served(stop func()) ctl.NIC {
	c := nodectl.New(&n.Base, "an Omni-Path HFI", "HFI", stop, n.tables()...)
	return &Control{c, n}
}

// Control is what the control server gets of an HFI, or of what runs on one.
type Control struct {
	nodectl.Control
	hfi *Node
}

// ControlOf returns the control of what runs on an HFI: its own tables, with
// captures and metrics of the HFI.
func (n *Node) ControlOf(c nodectl.Control) Control { return Control{c, n} }

// CaptureInfo describes the HFI for the head of a capture file.
func (s *Control) CaptureInfo() capture.Info {
	cfg := &s.hfi.cfg
	return capture.Info{Application: "tapir " + s.hfi.Env().Version, Hardware: runtime.GOARCH, Name: cfg.Name,
		MAC: cfg.LID.Outer(), MTU: cfg.MTU, Wire: s.hfi.TAP()}
}

// clock is the hardware clock of the fabric port.
func (s *Control) clock() *ctl.Clock {
	n := s.hfi
	return &ctl.Clock{Node: ptprun.Node{Name: n.Name(), PTP: n.engine.PTP, Schedule: n.engine.Schedule}, Thread: n.Loop}
}

// Command answers what a hardware clock does.
func (s *Control) Command(ctx context.Context, name string, args json.RawMessage) (any, error) {
	if answer, known, err := s.clock().Command(name, args); known {
		return answer, err
	}
	if answer, known, err := s.madCommand(name, args); known {
		return answer, err
	}
	return s.Control.Command(ctx, name, args)
}

// Perf runs a PTP instance, or tells of MADs for programs; there are no other jobs.
func (s *Control) Perf(job json.RawMessage, progress func(any), done func(any, error)) (func(), error) {
	var kind struct{ Op string }
	known := json.Unmarshal(job, &kind) == nil
	if known && kind.Op == ptprun.Op {
		return s.clock().Perf(job, progress, done)
	}
	if known && kind.Op == ctl.MADOp {
		return s.followMADs(progress)
	}
	return s.Control.Perf(job, progress, done)
}

// Set changes settings of the hardware clock and its PTP unit, all or none.
func (s *Control) Set(list []ctl.Setting) error {
	if err := s.Lacks(list); err != nil {
		return err
	}
	var refused error
	err := s.hfi.DoWait(func(frame.Time) { refused = s.hfi.engine.set(list) })
	return cmp.Or(ctl.BadRequest(refused), err)
}

// Attach adds a session to the port's tracers; there are no connections whose
// beginnings it could miss.
func (s *Control) Attach(session *capture.Session, _ bool) (detach func(), err error) {
	err = s.hfi.DoWait(func(frame.Time) {
		session.Live()
		s.hfi.tee.Add(session)
		s.hfi.engine.SetTracer(&s.hfi.tee)
	})
	if err != nil {
		return nil, err
	}
	return func() {
		_ = s.hfi.DoWait(func(frame.Time) { // after the loop's end nothing is traced any more
			if s.hfi.tee.Remove(session) == 0 {
				s.hfi.engine.SetTracer(nil)
			}
		})
	}, nil
}

// Metrics are the counters of the port and of each vport.
func (s *Control) Metrics() ([]ctl.Metric, error) {
	n := s.hfi
	m := nodectl.Metrics{Of: ctl.Label{Name: "hfi", Value: n.Name()}}
	err := s.hfi.DoWait(func(frame.Time) {
		for _, c := range n.counters() {
			m.Counter("tapir_hfi_"+c.Name, c.Name+" of the HFI port", c.Value)
		}
		for _, e := range n.vnicInfo() {
			for _, c := range slices.Concat(e.Stats, e.Own) {
				m.Counter("tapir_vnic_"+c.Name, c.Name+" of the VNIC, as ethtool -S", c.Value,
					ctl.Label{Name: "netdev", Value: e.Netdev})
			}
		}
		for _, r := range n.vportRows() {
			netdev, up := ctl.Label{Name: "netdev", Value: r.TAP}, 0
			if r.Blocked == "" {
				up = 1
			}
			m.Gauge("tapir_vnic_up", "1 while frames pass", up, netdev)
			m.Gauge("tapir_vnic_stations", "stations seen", r.Stations, netdev)
			m.Gauge("tapir_vnic_mac_entries", "places in use of the MAC table", r.MACs, netdev)
		}
	})
	return m.All, err
}
