package ctl

import (
	"strconv"

	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/view"
)

// samples collects metrics of one NIC.
type samples struct {
	nic  string
	list []Metric
}

// add adds a sample; labels are pairs of a name and a value.
func (s *samples) add(gauge bool, name, help string, value float64, labels ...string) {
	m := Metric{Name: "tapir_nic_" + name, Help: help, Gauge: gauge, Value: value, Labels: []Label{{"nic", s.nic}}}
	for i := 0; i < len(labels); i += 2 {
		m.Labels = append(m.Labels, Label{labels[i], labels[i+1]})
	}
	s.list = append(s.list, m)
}

func (s *samples) gauge(name, help string, value float64, labels ...string) {
	s.add(true, name, help, value, labels...)
}

func (s *samples) counter(name, help string, value uint64, labels ...string) {
	s.add(false, name+"_total", help, float64(value), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// device adds what there is to know of a NIC beside its counters.
func (s *samples) device(d *nic.Device) {
	l := d.ShowEthtool().Link
	s.gauge("link_up", "Whether the port has link.", truth(l.Up))
	s.gauge("link_speed_bytes", "Speed of the link in bytes per second, 0 without link.", float64(l.Speed)*1e6/8)
	s.gauge("eee_active", "Whether the ends of the link have agreed on energy-efficient Ethernet.", truth(l.EEE.Active))
	if h := fastlinq.Of(d.Hardware); h != nil {
		s.fastlinq(h)
		s.interrupts(h.ShowIRQ())
		s.queues(h.ShowQueues())
	}
}

// fastlinq adds what only FastLinQ hardware has.
func (s *samples) fastlinq(d *fastlinq.Device) {
	s.gauge("temperature_celsius", "Temperature of the chip.", float64(d.MFW().Shared().Global.InternalTemperature))
	m := d.MCP().Stats()
	s.counter("mfw_commands", "Commands to the management firmware.", m.Commands)
	s.counter("mfw_timeouts", "Commands that the management firmware did not answer.", m.Timeouts)
	s.counter("mfw_messages", "Messages of the management firmware.", m.Messages)
	h := d.Health()
	s.gauge("healthy", "Whether the health reporter of the device has no error.", truth(h.State == "healthy"))
	s.counter("recoveries", "Recoveries of the device.", h.Recoveries)
	for _, k := range h.Kinds {
		s.counter("hw_errors", "Hardware errors by their kind.", k.Count, "kind", k.Name)
	}
	for _, r := range d.DevlinkResources() {
		s.gauge("resource_size", "How many of a resource there are.", float64(r.Size), "resource", r.Name)
		if r.Occ != nil {
			s.gauge("resource_used", "How many of a resource are in use.", float64(*r.Occ), "resource", r.Name)
		}
	}
}

// interrupts adds those of the vectors, which status blocks may share, and what
// led to them.
func (s *samples) interrupts(blocks []view.IRQInfo) {
	seen := map[int]bool{}
	for _, b := range blocks {
		if b.Vector >= 0 && !seen[b.Vector] {
			seen[b.Vector] = true
			s.counter("vector_interrupts", "Interrupts of a vector.", b.Interrupts, "vector", strconv.Itoa(b.Vector))
		}
		at := []string{"sb", b.SB, "user", b.User}
		s.counter("sb_events", "Events behind the indices of a status block.", b.Events, at...)
		s.counter("sb_updates", "Writes of a status block.", b.Updates, at...)
		s.gauge("sb_rx_coalesce_seconds", "How long what is received waits for others before it interrupts.",
			float64(b.RxUsecs)/1e6, at...)
		s.gauge("sb_tx_coalesce_seconds", "How long what was sent waits for others before it interrupts.",
			float64(b.TxUsecs)/1e6, at...)
	}
}

// queues adds those of the host function.
func (s *samples) queues(list []view.QueueInfo) {
	for _, q := range list {
		at := []string{"queue", strconv.Itoa(q.Queue)}
		s.counter("queue_rx_packets", "Frames that a receive queue has handed to the host TAP.", q.RxPackets, at...)
		s.counter("queue_rx_discards", "Frames that found a receive queue full.", q.RxDiscards, at...)
		s.counter("queue_tx_packets", "Frames that a transmit queue has taken.", q.TxPackets, at...)
		s.counter("queue_tx_stopped", "Frames that found a transmit queue full.", q.TxStopped, at...)
		s.gauge("queue_rx_waiting", "Frames that wait in a receive queue.", float64(q.RxWaiting), at...)
		s.gauge("queue_tx_waiting", "Frames that wait in a transmit queue.", float64(q.TxWaiting), at...)
	}
}
