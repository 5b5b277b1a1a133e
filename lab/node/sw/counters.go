package sw

import (
	"fmt"

	"tapir/lab/conf/swconf"
	"tapir/wire/frame"
)

// Counter is one counter of a switch.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Counters lists all that is counted: of each port, then of the clock.
func (s *Switch) Counters() []Counter {
	return s.CountersWith(func(port int) (rx, tx frame.Drops) {
		c := s.Counts(port)
		return c.RxDrops, c.TxDrops
	})
}

// CountersWith is Counters with the frames that ports lost, at their TAPs, too.
func (s *Switch) CountersWith(drops func(port int) (rx, tx frame.Drops)) (list []Counter) {
	add := func(name string, v uint64) { list = append(list, Counter{name, v}) }
	for i := range s.cfg.Ports {
		name := s.cfg.Ports[i].Name + "_"
		c := s.Counts(i)
		add(name+"rx_frames", c.RxFrames)
		add(name+"tx_frames", c.TxFrames)
		if s.cfg.FECNThreshold > 0 || s.agent.setting.Threshold > 0 || c.Marked > 0 {
			add(name+"tx_fecn", c.Marked)
		}
		if s.ports[i].red.Kmax > 0 {
			add(name+"tx_ecn_marked", c.CE)
		}
		if f := &s.ports[i].flow; f.Rx || f.Tx {
			add(name+"rx_pause_frames", f.Received)
			add(name+"tx_pause_frames", f.Sent)
		}
		list = s.ports[i].lldpCounters(list, name)
		if s.cfg.Mapped {
			list = s.priorityCounters(list, name, i)
		}
		rx, tx := drops(i)
		for r := range frame.DropReasons() {
			reason := r.Counter()
			if rx[r] > 0 {
				add(name+"rx_drop_"+reason, rx[r])
			}
			if tx[r] > 0 {
				add(name+"tx_drop_"+reason, tx[r])
			}
		}
	}
	if octets, most, ok := s.SharedBuffer(); ok {
		add("shared_buffer_bytes", uint64(octets))
		add("shared_buffer_most_bytes", uint64(most))
	}
	add("mac_moves", s.macs.moves)
	add("mac_table_full", s.macs.full)
	list = append(list, s.forwarder.counters()...)
	return append(list, s.clockCounters()...)
}

// priorityCounters appends those of the priorities of a port, with the names that the driver
// mlx5 has. Durations are in microseconds.
func (s *Switch) priorityCounters(list []Counter, prefix string, port int) []Counter {
	for _, c := range s.PriorityCounts(port) {
		add := func(direction, what string, v uint64) {
			list = append(list, Counter{fmt.Sprintf("%s%s_prio%d_%s", prefix, direction, c.Priority, what), v})
		}
		add("rx", "packets", c.RxFrames)
		add("rx", "bytes", c.RxOctets)
		add("tx", "packets", c.TxFrames)
		add("tx", "bytes", c.TxOctets)
		if c.Lossless {
			add("rx", "pause", c.RxPause)
			add("rx", "pause_duration", uint64(c.RxPaused.Microseconds()))
			add("rx", "pause_transition", c.RxTransitions)
			add("tx", "pause", c.TxPause)
			add("tx", "pause_duration", uint64(c.TxPaused.Microseconds()))
			add("rx", "discards", c.Discards)
			add("rx", "buffer_most_bytes", uint64(c.Most))
		}
	}
	for _, c := range s.ClassCounts(port) {
		list = append(list, Counter{fmt.Sprintf("%stx_tc%d_queue_most_bytes", prefix, c.Class), c.QueueMostOctets},
			Counter{fmt.Sprintf("%stx_tc%d_drops", prefix, c.Class), c.QueueDrops},
			Counter{fmt.Sprintf("%stx_tc%d_watchdog", prefix, c.Class), c.Storms})
	}
	return list
}

// clockCounters are those of what the switch does with PTP messages.
func (s *Switch) clockCounters() []Counter {
	c := s.ClockCounts()
	switch s.cfg.Mode {
	case swconf.E2ETransparent, swconf.P2PTransparent:
		return []Counter{
			{"clock_corrected", c.Corrected}, {"clock_follow_ups_made", c.Made}, {"clock_held", c.HeldFrames},
			{"clock_unstamped", c.Unstamped},
			{"clock_stamps_lost", c.LostStamps}, {"clock_unmatched", c.Unmatched}, {"clock_hold_full", c.HoldFull},
			{"clock_no_link_delay", c.NoDelay},
			{"clock_duplicates", c.Duplicates}, {"clock_evicted", c.Evicted}, {"clock_malformed", c.Malformed},
			{"clock_pdelay_requests", c.Pdelay.Requests}, {"clock_pdelay_responses", c.Pdelay.Responses},
			{"clock_pdelay_measured", c.Pdelay.Measured},
			{"clock_pdelay_lost", c.Pdelay.Lost}, {"clock_pdelay_strange", c.Pdelay.Strange},
			{"clock_pdelay_overrun", c.Pdelay.Overrun},
		}
	case swconf.Boundary:
		return []Counter{{"clock_bad_checksum", c.Boundary.Checksum}, {"clock_no_hop", c.Boundary.NoHop}}
	}
	return nil
}
