package ctl

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tapir/wire/frame"
)

// Metric is one sample of a NIC's metrics.
type Metric struct {
	Name   string // in Prometheus' form, such as tapir_nic_rx_packets_total
	Help   string
	Gauge  bool // it may fall; else it is a counter
	Value  float64
	Labels []Label // of one Name always the same names
}

// Label tells the samples of one metric apart.
type Label struct{ Name, Value string }

// Metered is a NIC that has metrics.
type Metered interface {
	Metrics() ([]Metric, error)
}

// collector turns what a NIC says at that moment into samples.
type collector struct{ nic Metered }

// Describe tells of nothing beforehand: what there is may change.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	samples, err := c.nic.Metrics()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("tapir", "of this NIC", nil, nil), err)
		return
	}
	for _, m := range samples {
		kind := prometheus.CounterValue
		if m.Gauge {
			kind = prometheus.GaugeValue
		}
		names, values := make([]string, len(m.Labels)), make([]string, len(m.Labels))
		for i, l := range m.Labels {
			names[i], values[i] = l.Name, l.Value
		}
		s, err := prometheus.NewConstMetric(prometheus.NewDesc(m.Name, m.Help, names, nil), kind, m.Value, values...)
		if err != nil {
			s = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		out <- s
	}
}

// metrics serves GET /metrics in the text format of Prometheus, without the
// handshake that only our own clients know.
func (s *Server) metrics() http.Handler {
	m, ok := s.nic.(Metered)
	if !ok {
		return answering(func(*http.Request) (any, error) {
			return nil, &Error{Status: http.StatusNotFound, What: s.name + " has no metrics"}
		})
	}
	return metricsOf(m)
}

// metricsOf serves the metrics of nics, which their labels tell apart.
func metricsOf(nics ...Metered) http.Handler {
	registry := prometheus.NewRegistry()
	for _, n := range nics {
		registry.MustRegister(collector{n})
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Metrics are the NIC's counters, then the state of the device, its interrupts
// and queues.
func (d *served) Metrics() ([]Metric, error) {
	s := samples{nic: d.Device.Config().Name}
	err := d.on(func(frame.Time) error {
		for _, c := range d.Device.Counters() {
			if vf, name, ok := c.OfVF(); ok {
				s.counter("vf_"+name, "Counter "+name+" of a virtual function.", c.Value, "vf", strconv.Itoa(vf))
				continue
			}
			s.counter(c.Name, "Counter "+c.Name+" of the NIC.", c.Value)
		}
		s.device(d.Device)
		return nil
	})
	return s.list, err
}
