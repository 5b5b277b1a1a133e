package ptp

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/timescale"
	"tapir/wire/frame"
)

// Snapshot is the state of an instance, for status displays.
type Snapshot struct {
	Profile       string               `json:"profile"`
	ClockIdentity msg.ClockIdentity    `json:"clock_identity"`
	Domain        uint8                `json:"domain"`
	Default       msg.DefaultDataSet   `json:"default_ds"`
	Parent        Parent               `json:"parent_ds"`
	Current       Current              `json:"current_ds"`
	Time          timescale.Properties `json:"time_properties_ds"`
	PathTrace     []msg.ClockIdentity  `json:"path_trace"`
	Holdover      bool                 `json:"holdover"`
	Servo         ServoStatus          `json:"servo"`
	Ports         []PortSnapshot       `json:"ports"`
}

// ServoStatus is what the servo does.
type ServoStatus struct {
	Kind  string  `json:"kind"`
	State string  `json:"state"`    // s0 to s3
	Freq  float64 `json:"freq_ppb"` // correction in force
}

// PortSnapshot is the state of one port.
type PortSnapshot struct {
	Port      int           `json:"port"` // from 1
	State     msg.PortState `json:"state"`
	StateName string        `json:"state_name"`
	// why it was faulty last
	Fault                                                 string             `json:"fault,omitempty"`
	Mechanism                                             msg.DelayMechanism `json:"delay_mechanism"`
	AsCapable                                             bool               `json:"as_capable"`
	LinkDelay                                             msg.TimeInterval   `json:"mean_link_delay"`
	LinkOK                                                bool               `json:"mean_link_delay_valid"`
	RateRatio                                             float64            `json:"neighbor_rate_ratio"`
	Peer                                                  msg.PortIdentity   `json:"peer"`
	Foreign                                               int                `json:"foreign_masters"`
	LogAnnounce, LogSync, LogMinDelayReq, LogMinPdelayReq int8
	Corrections                                           CorrectionFields `json:"correction_fields"`
	Counters                                              []Counter        `json:"counters"`
}

// CorrectionFields are the correctionFields of the last messages that a port has taken from
// its parent or neighbor (IEEE 1588-2019 section 13.3.2.9); zero before the first.
type CorrectionFields struct {
	Sync               msg.TimeInterval `json:"sync"`
	FollowUp           msg.TimeInterval `json:"follow_up"`
	DelayResp          msg.TimeInterval `json:"delay_resp"`
	PdelayResp         msg.TimeInterval `json:"pdelay_resp"`
	PdelayRespFollowUp msg.TimeInterval `json:"pdelay_resp_follow_up"`
}

// Snapshot returns the state of the instance.
func (i *Instance) Snapshot() Snapshot {
	s := Snapshot{
		Profile: i.cfg.Profile.String(), ClockIdentity: i.cfg.ClockIdentity, Domain: i.cfg.Domain,
		Default: *i.defaultDS(),
		Parent:  i.parent, Current: i.current, Time: i.properties,
		PathTrace: append([]msg.ClockIdentity(nil), i.path...),
		Holdover:  i.holdoverUntil != 0,
		Servo: ServoStatus{Kind: i.cfg.Servo.Kind.String(), State: i.discipline.State().String(),
			Freq: i.discipline.Frequency()},
	}
	for _, p := range i.ports {
		last := p.link.Last()
		s.Ports = append(s.Ports, PortSnapshot{
			Port: p.index + 1, State: p.state, StateName: p.state.String(), Fault: p.why,
			Mechanism: p.cfg.DelayMechanism,
			AsCapable: p.isCapable(), LinkDelay: p.linkMean, LinkOK: p.linkOK, RateRatio: last.RateRatio, Peer: p.peer,
			Foreign: p.foreign.Len(), LogAnnounce: p.rates.announce, LogSync: p.rates.sync, LogMinDelayReq: p.logDelay,
			LogMinPdelayReq: p.rates.pdelay, Corrections: p.fields, Counters: p.stats.Counters(),
		})
	}
	return s
}

// State is the state of a port, counted from 0.
func (i *Instance) State(port int) msg.PortState { return i.ports[port].state }

// Stats are the counters of a port, counted from 0.
func (i *Instance) Stats(port int) Stats { return i.ports[port].stats }

// Locked tells that the clock follows a master and the servo is locked.
func (i *Instance) Locked() bool {
	return i.slavePort != nil && i.slavePort.state == msg.StateSlave && i.discipline.State() >= servo.Locked
}

// UTC is the UTC time that the clock shows at now, in ns since the Unix epoch,
// and whether it is known. A leap second that was announced is counted from
// its end on, also before the master says so.
func (i *Instance) UTC(now frame.Time) (frame.Stamp, bool) {
	t, shown := &i.properties, i.clock.At(now)
	offset := t.UTCOffset
	if t.Leap61 || t.Leap59 {
		if end, step := t.LeapEnd(i.announcedDay); shown >= end {
			offset += step
		}
	}
	return shown - frame.Stamp(time.Duration(offset)*time.Second), t.PTPTimescale && t.UTCOffsetValid
}
