package fabric

import (
	"runtime"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/wire/frame"
)

// who says what answers.
func (n *Node) who() string { return n.cfg.Name + " is an Omni-Path HFI" }

// Served is the HFI as a control server wants it; stop begins its orderly end
// and must not wait for it.
func (n *Node) Served(stop func()) ctl.NIC { return &served{n, ctl.NotRDMA{Who: n.who()}, stop} }

type served struct {
	*Node
	ctl.NotRDMA
	stop func()
}

// CaptureInfo describes the HFI for the head of a capture file.
func (s *served) CaptureInfo() capture.Info {
	return capture.Info{Application: "tapir " + s.Version, Hardware: runtime.GOARCH, Name: s.cfg.Name,
		MAC: s.cfg.LID.Outer(), MTU: s.cfg.MTU, Wire: s.TAP()}
}

// wallClock gives the frames of a port stamps of the time of day.
type wallClock struct {
	frame.Tracer
	clock frame.Clock
}

func (w wallClock) Trace(r *frame.Record) {
	r.Stamp = w.clock.At(frame.Time(r.Stamp))
	w.Tracer.Trace(r)
}

// Attach adds a session to the port's tracers; there are no connections whose
// beginnings it could miss.
func (s *served) Attach(session *capture.Session, _ bool) (detach func(), err error) {
	err = s.DoWait(func(frame.Time) {
		session.Live()
		s.tee.Add(session)
		s.engine.port.SetTracer(wallClock{&s.tee, s.loop.Clock()})
	})
	if err != nil {
		return nil, err
	}
	return func() {
		_ = s.DoWait(func(frame.Time) { // after the loop's end nothing is traced any more
			if s.tee.Remove(session) == 0 {
				s.engine.port.SetTracer(nil)
			}
		})
	}, nil
}

// Stop begins the end.
func (s *served) Stop() { s.stop() }

// Metrics are the counters of the port and of each vport.
func (s *served) Metrics() (all []ctl.Metric, err error) {
	err = s.DoWait(func(frame.Time) {
		of := ctl.Label{Name: "hfi", Value: s.cfg.Name}
		for _, c := range s.Node.counters() {
			all = append(all, ctl.Metric{Name: "tapir_hfi_" + c.Name + "_total", Help: c.Name + " of the HFI port", Value: float64(c.Value), Labels: []ctl.Label{of}})
		}
		for _, e := range s.Node.ethtool() {
			labels := []ctl.Label{of, {Name: "netdev", Value: e.Netdev}}
			for _, c := range e.Stats {
				all = append(all, ctl.Metric{Name: "tapir_vnic_" + c.Name + "_total", Help: c.Name + " of the VNIC, as ethtool -S", Value: float64(c.Value), Labels: labels})
			}
		}
		for _, r := range s.vportRows() {
			labels := []ctl.Label{of, {Name: "netdev", Value: r.TAP}}
			up := 0.0
			if r.Blocked == "" {
				up = 1
			}
			all = append(all,
				ctl.Metric{Name: "tapir_vnic_up", Help: "1 while frames pass", Gauge: true, Value: up, Labels: labels},
				ctl.Metric{Name: "tapir_vnic_stations", Help: "stations seen", Gauge: true, Value: float64(r.Stations), Labels: labels},
				ctl.Metric{Name: "tapir_vnic_mac_entries", Help: "places in use of the MAC table", Gauge: true, Value: float64(r.MACs), Labels: labels})
		}
	})
	return all, err
}
