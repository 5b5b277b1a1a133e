package ptp

import (
	"math"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/timescale"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Manager serves management messages; ptp/mgmt has one. It reads and writes
// by Get and Set and answers by SendManagement.
type Manager interface {
	// Management takes a message, borrowed, that came in by a port.
	Management(port int, m *msg.Message, meta Meta)
	// Poll is called by each Poll of the instance, before it sends.
	Poll(now frame.Time)
}

// Manage sets who serves management messages.
func (i *Instance) Manage(m Manager) { i.manager = m }

// maxOutbox is how many management messages may wait for Poll.
const maxOutbox = 256

// mail is a management message that waits for Poll.
type mail struct {
	port int
	body []byte
	dst  transport.Addr
}

// SendManagement lets Poll send m, a complete management message whose header
// is its sender's business, out of a port; false if too many wait.
func (i *Instance) SendManagement(port int, m *msg.Message, dst transport.Addr) bool {
	if len(i.outbox) == maxOutbox {
		i.ports[port].drop(DropQueue)
		return false
	}
	i.outbox = append(i.outbox, mail{port, m.Append(nil), dst})
	return true
}

// flushMail sends the management messages that wait.
func (i *Instance) flushMail() {
	for k := range i.outbox {
		m := &i.outbox[k]
		i.ports[m.port].stats.Tx[msg.Management]++
		i.lower.Send(m.port, Outgoing{Body: m.body, Dst: m.dst, Now: i.now})
		m.body = nil
	}
	i.outbox = i.outbox[:0]
}

// Get returns the data of a management id as the struct that msg.ParseData
// makes of it, and 0; or nil and the error. port counts from 0 and matters for
// ids of ports. What only the host of the instance knows (descriptions,
// addresses, interface and clock numbers, events) is ErrorNotSupported.
func (i *Instance) Get(id msg.ManagementID, port int) (any, msg.ManagementError) {
	if id.OfPort() {
		if port < 0 || port >= len(i.ports) {
			return nil, msg.ErrorWrongValue
		}
		return i.ports[port].get(id)
	}
	switch id {
	case msg.IDUserDescription:
		return &msg.UserDescription{Text: i.cfg.Description}, 0
	case msg.IDDefaultDataSet:
		return i.defaultDS(), 0
	case msg.IDCurrentDataSet:
		return &msg.CurrentDataSet{StepsRemoved: i.current.StepsRemoved, OffsetFromMaster: i.current.OffsetFromMaster,
			MeanPathDelay: i.current.MeanDelay}, 0
	case msg.IDParentDataSet:
		g := &i.parent.Grandmaster
		return &msg.ParentDataSet{
			Parent: i.parent.Port, ObservedVariance: 0xffff, ObservedPhaseChangeRate: math.MaxInt32,
			GrandmasterPriority1: g.Priority1, GrandmasterQuality: g.Quality, GrandmasterPriority2: g.Priority2,
			GrandmasterIdentity: g.Identity,
		}, 0
	case msg.IDTimeProperties:
		t := &i.properties
		return &msg.TimeProperties{UTCOffset: t.UTCOffset, Flags: uint8(t.Flags()), Source: t.TimeSource}, 0
	case msg.IDTimeStatus:
		return i.timeStatus(), 0
	case msg.IDGrandmasterSettings:
		return &msg.GrandmasterSettings{Quality: i.quality, UTCOffset: i.own.UTCOffset, TimeFlags: uint8(i.own.Flags()),
			Source: i.own.TimeSource}, 0
	}
	if v, ok := i.octet(id); ok {
		return &msg.Octet{Value: v}, 0
	}
	return nil, msg.ErrorNotSupported
}

// octet is the value of the clock's ids of one octet.
func (i *Instance) octet(id msg.ManagementID) (v uint8, ok bool) {
	flags := uint8(i.properties.Flags())
	v, ok = map[msg.ManagementID]uint8{
		msg.IDPriority1:                i.cfg.Priority1,
		msg.IDPriority2:                i.cfg.Priority2,
		msg.IDDomain:                   i.cfg.Domain,
		msg.IDSlaveOnly:                bitIf(i.cfg.SlaveOnly, 1),
		msg.IDClockAccuracy:            i.quality.Accuracy,
		msg.IDTraceability:             flags & uint8(msg.FlagTimeTraceable|msg.FlagFrequencyTraceable),
		msg.IDTimescale:                flags & uint8(msg.FlagPTPTimescale),
		msg.IDSynchronizationUncertain: 0,
	}[id]
	return v, ok
}

func bitIf(on bool, v uint8) uint8 {
	if on {
		return v
	}
	return 0
}

func (i *Instance) defaultDS() *msg.DefaultDataSet {
	d := i.defaultDataset()
	return &msg.DefaultDataSet{
		Flags:       bitIf(i.cfg.TwoStep, msg.DefaultTwoStep) | bitIf(i.cfg.SlaveOnly, msg.DefaultSlaveOnly),
		NumberPorts: uint16(len(i.ports)), Priority1: d.Priority1, Quality: d.Quality, Priority2: d.Priority2,
		Identity: i.cfg.ClockIdentity, Domain: i.cfg.Domain,
	}
}

func (i *Instance) timeStatus() *msg.TimeStatus {
	f := &i.gm.info
	s := &msg.TimeStatus{GrandmasterIdentity: i.parent.Grandmaster.Identity}
	if i.slavePort != nil {
		s.MasterOffset, s.IngressTime = i.lastOffset, int64(i.discipline.LastIngress())
		s.CumulativeRateOffset, s.LastFreqChange = f.CumulativeRateOffset, f.LastFreqChange
		s.TimeBaseIndicator, s.LastPhaseChange, s.GrandmasterPresent = f.TimeBaseIndicator, f.LastPhaseChange, 1
	}
	return s
}

// get is Get for the ids of ports.
func (p *port) get(id msg.ManagementID) (any, msg.ManagementError) {
	switch id {
	case msg.IDNullManagement:
		return &msg.Empty{}, 0
	case msg.IDPortDataSet:
		return &msg.PortDataSet{
			Identity: p.id, State: p.state, LogMinDelayReqInterval: p.logDelay, PeerMeanPathDelay: p.linkMean,
			LogAnnounceInterval: p.rates.announce, AnnounceReceiptTimeout: p.cfg.AnnounceReceiptTimeout,
			LogSyncInterval: p.rates.sync,
			DelayMechanism:  p.cfg.DelayMechanism, LogMinPdelayReqInterval: p.rates.pdelay, Version: version,
		}, 0
	case msg.IDPortDataSetNP:
		return &msg.PortDataSetNP{NeighborPropDelayThresh: uint32(p.cfg.NeighborPropDelayThresh),
			AsCapable: int32(bitIf(p.isCapable(), 1))}, 0
	case msg.IDPortStats:
		return &msg.PortStats{Identity: p.id, Rx: p.stats.Rx, Tx: p.stats.Tx}, 0
	case msg.IDPortServiceStats:
		return p.serviceStats(), 0
	case msg.IDUnicastMasterTable:
		return p.unicastTable(), 0
	}
	v, ok := map[msg.ManagementID]uint8{
		msg.IDLogAnnounceInterval:     uint8(p.rates.announce),
		msg.IDAnnounceReceiptTimeout:  p.cfg.AnnounceReceiptTimeout,
		msg.IDLogSyncInterval:         uint8(p.rates.sync),
		msg.IDVersionNumber:           version,
		msg.IDDelayMechanism:          uint8(p.cfg.DelayMechanism),
		msg.IDLogMinPdelayReqInterval: uint8(p.rates.pdelay),
	}[id]
	if !ok {
		return nil, msg.ErrorNotSupported
	}
	return &msg.Octet{Value: v}, 0
}

// version is versionNumber, without the minor one, as linuxptp gives it.
const version = 2

func (p *port) serviceStats() *msg.PortServiceStats {
	return &msg.PortServiceStats{Identity: p.id, Counters: [msg.NumServiceStats]uint64{
		msg.StatAnnounceTimeout: p.stats.AnnounceTimeout, msg.StatSyncTimeout: p.stats.SyncTimeout,
		msg.StatDelayTimeout:          p.stats.DelayTimeout,
		msg.StatUnicastServiceTimeout: p.stats.UnicastServiceTimeout,
		msg.StatUnicastRequestTimeout: p.stats.UnicastRequestTimeout,
		msg.StatMasterAnnounceTimeout: p.stats.MasterAnnounceTimeout,
		msg.StatMasterSyncTimeout:     p.stats.MasterSyncTimeout,
		msg.StatQualificationTimeout:  p.stats.QualificationTimeout, msg.StatSyncMismatch: p.stats.SyncMismatch,
		msg.StatFollowUpMismatch: p.stats.FollowUpMismatch,
	}}
}

// Set writes the data of a management id, as the struct that msg.ParseData
// made of it; 0 if that is done. ENABLE_PORT and DISABLE_PORT, which are
// commands, have no data.
func (i *Instance) Set(id msg.ManagementID, port int, data any, now frame.Time) msg.ManagementError {
	i.now = now
	if id.OfPort() {
		if port < 0 || port >= len(i.ports) {
			return msg.ErrorWrongValue
		}
		return i.ports[port].set(id, data, now)
	}
	cfg, old := i.cfg, i.own
	switch d := data.(type) {
	case *msg.GrandmasterSettings:
		i.cfg.Quality, i.cfg.Time = d.Quality, timescale.Of(msg.Flags(d.TimeFlags), d.UTCOffset, d.Source)
	case *msg.UserDescription:
		i.cfg.Description = d.Text
	case *msg.TimeProperties:
		i.cfg.Time = timescale.Of(msg.Flags(d.Flags), d.UTCOffset, d.Source)
	case *msg.Octet:
		if e := i.setOctet(id, d.Value); e != 0 {
			return e
		}
	default:
		return i.readable(id, port)
	}
	if i.validate() != nil {
		i.cfg, i.own = cfg, old
		return msg.ErrorWrongValue
	}
	i.reconfigured()
	return 0
}

func (i *Instance) setOctet(id msg.ManagementID, v uint8) msg.ManagementError {
	plain := map[msg.ManagementID]*uint8{msg.IDPriority1: &i.cfg.Priority1, msg.IDPriority2: &i.cfg.Priority2,
		msg.IDDomain: &i.cfg.Domain, msg.IDClockAccuracy: &i.cfg.Quality.Accuracy}
	flags := msg.Flags(v)
	switch {
	case plain[id] != nil:
		*plain[id] = v
	case id == msg.IDSlaveOnly && v > 1:
		return msg.ErrorWrongValue
	case id == msg.IDSlaveOnly:
		i.cfg.SlaveOnly = v == 1
	case id == msg.IDTraceability:
		i.cfg.Time.TimeTraceable = flags.Has(msg.FlagTimeTraceable)
		i.cfg.Time.FrequencyTraceable = flags.Has(msg.FlagFrequencyTraceable)
	case id == msg.IDTimescale:
		i.cfg.Time.PTPTimescale = flags.Has(msg.FlagPTPTimescale)
	default:
		return i.readable(id, 0)
	}
	return 0
}

// readable is the error of a SET that is none: of an id that is only read, or
// of one that is not known.
func (i *Instance) readable(id msg.ManagementID, port int) msg.ManagementError {
	if data, _ := i.Get(id, port); data != nil {
		return msg.ErrorNotSetable
	}
	return msg.ErrorNotSupported
}

// validate checks the configuration with that of the ports.
func (i *Instance) validate() error {
	cfg := i.cfg
	for _, p := range i.ports {
		cfg.Ports = append(cfg.Ports, p.cfg)
	}
	return cfg.Validate()
}

// reconfigured applies what was changed in the configuration.
func (i *Instance) reconfigured() {
	if i.holdoverUntil == 0 {
		i.quality, i.own = i.cfg.Quality, i.cfg.Time
	}
	i.leapDay = 0
	if i.slavePort == nil {
		i.becomeGrandmaster()
	}
	i.decide = true
}

// set is Set for the ids of ports.
func (p *port) set(id msg.ManagementID, data any, now frame.Time) msg.ManagementError {
	switch id {
	case msg.IDEnablePort:
		if p.state == msg.StateDisabled {
			p.cfg.Disabled = false
			p.initialize(now)
		}
		return 0
	case msg.IDDisablePort:
		p.cfg.Disabled = true
		p.setState(msg.StateDisabled, "disabled", now)
		return 0
	}
	if np, ok := data.(*msg.PortDataSetNP); ok { // asCapable follows from the rest
		p.cfg.NeighborPropDelayThresh = time.Duration(np.NeighborPropDelayThresh)
		p.assess(now)
		return 0
	}
	o, ok := data.(*msg.Octet)
	if !ok {
		return p.readable(id, p.index)
	}
	old := p.cfg
	interval := map[msg.ManagementID]*int8{msg.IDLogAnnounceInterval: &p.cfg.LogAnnounceInterval,
		msg.IDLogSyncInterval:         &p.cfg.LogSyncInterval,
		msg.IDLogMinPdelayReqInterval: &p.cfg.LogMinPdelayReqInterval}[id]
	switch {
	case interval != nil:
		*interval = int8(o.Value)
	case id == msg.IDAnnounceReceiptTimeout:
		p.cfg.AnnounceReceiptTimeout = o.Value
	case id == msg.IDDelayMechanism:
		p.cfg.DelayMechanism, p.cfg.AutoDelay = msg.DelayMechanism(o.Value), false
	default:
		return p.readable(id, p.index)
	}
	if p.validate() != nil {
		p.cfg = old
		return msg.ErrorWrongValue
	}
	if p.cfg.DelayMechanism != old.DelayMechanism {
		p.restart(now)
	} else {
		p.rates = p.cfg.intervals()
	}
	return 0
}

// restart begins anew with another configuration.
func (p *port) restart(now frame.Time) {
	if p.state != msg.StateDisabled {
		p.initialize(now)
	}
}
