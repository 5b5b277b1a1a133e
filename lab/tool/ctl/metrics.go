package ctl

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tapir/wire/frame"
)

// Metric is one sample of a NIC's metrics.
type Metric struct {
	Name   string // in Prometheus' form, such as tapir_nic_rx_packets_total
	Help   string
	Gauge  bool // it may fall; else it is a counter
	Value  float64
	Labels []Label // of one Name always the same names
	// Histogram takes the place of Value; nil: there is none.
	Histogram *Histogram
}

// Histogram has the number and the sum of samples, and how many are at most each bound.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// Label tells the samples of one metric apart.
type Label struct{ Name, Value string }

// Metered is a NIC that has metrics.
type Metered interface {
	Metrics() ([]Metric, error)
}

// expose writes samples in the text format of Prometheus, version 0.0.4: families
// by name, labels by name. Characters that names must not have become underscores.
func expose(w *bytes.Buffer, all []Metric) {
	for i := range all {
		all[i].Name = strings.Map(nameRune, all[i].Name)
	}
	slices.SortStableFunc(all, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	for i := range all {
		m := &all[i]
		if i == 0 || all[i-1].Name != m.Name {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.Name, helpEscapes.Replace(m.Help), m.Name, m.kind())
		}
		slices.SortFunc(m.Labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		h := m.Histogram
		if h == nil {
			sample(w, m.Name, m.Labels, m.Value)
			continue
		}
		bucket := func(le string, n uint64) {
			sample(w, m.Name+"_bucket", append(slices.Clip(m.Labels), Label{"le", le}), float64(n))
		}
		for _, bound := range slices.Sorted(maps.Keys(h.Buckets)) {
			bucket(strconv.FormatFloat(bound, 'g', -1, 64), h.Buckets[bound])
		}
		bucket("+Inf", h.Count)
		sample(w, m.Name+"_sum", m.Labels, h.Sum)
		sample(w, m.Name+"_count", m.Labels, float64(h.Count))
	}
}

func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ':' {
		return r
	}
	return '_'
}

func (m *Metric) kind() string {
	switch {
	case m.Histogram != nil:
		return "histogram"
	case m.Gauge:
		return "gauge"
	}
	return "counter"
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// sample writes one line.
func sample(w *bytes.Buffer, name string, labels []Label, value float64) {
	w.WriteString(name)
	for i, l := range labels {
		w.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(w, `%s="%s"`, l.Name, labelEscapes.Replace(l.Value))
	}
	if len(labels) > 0 {
		w.WriteByte('}')
	}
	w.WriteByte(' ')
	w.Write(strconv.AppendFloat(w.AvailableBuffer(), value, 'g', -1, 64))
	w.WriteByte('\n')
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

// metricsOf serves the metrics of nics, which their labels tell apart. If one
// has none at the moment, the answer is an error.
func metricsOf(nics ...Metered) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var all []Metric
		for _, n := range nics {
			list, err := n.Metrics()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			all = append(all, list...)
		}
		var text bytes.Buffer
		expose(&text, all)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text.Bytes()) // whoever asked may be gone
	})
}

// Metrics are the NIC's counters, then the state of the device, its interrupts
// and queues.
func (d *served) Metrics() ([]Metric, error) {
	s := samples{nic: d.Device.Config().Name}
	err := d.on(func(frame.Time) error {
		for _, c := range d.counters() {
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
