package ptp

import (
	"tapir/ptp/bmca"
	"tapir/ptp/msg"
	"tapir/ptp/timescale"
	"tapir/wire/frame"
)

// Parent is parentDS: whom the clock follows, itself if nobody.
type Parent struct {
	Port        msg.PortIdentity
	Grandmaster msg.Grandmaster // StepsRemoved is the parent's
}

// Current is currentDS.
type Current struct {
	StepsRemoved     uint16
	OffsetFromMaster msg.TimeInterval // valid while a port is slave
	MeanDelay        msg.TimeInterval // mean path delay, or the slave port's mean link delay
}

// dataSets are the data sets that BMCA writes.
type dataSets struct {
	current    Current
	parent     Parent
	path       []msg.ClockIdentity // path trace of the parent
	propagated []byte              // TLVs of the parent's Announces that are passed on
	properties timescale.Properties
	// announcedDay is the UTC day in which the leap flags became what they are.
	announcedDay int64
	slavePort    *port // the port in state SLAVE or UNCALIBRATED, nil if none
	own          timescale.Properties
	quality      msg.ClockQuality // defaultDS.clockQuality, as it is now

	gm            gmInfo
	holdoverUntil frame.Time // not 0 while in holdover
	leapDay       int64      // UTC day in which a leap second was announced
}

// defaultDataset is D0: the clock's own data set.
func (i *Instance) defaultDataset() bmca.Dataset {
	self := msg.PortIdentity{Clock: i.cfg.ClockIdentity}
	d := bmca.Dataset{
		Priority1: i.cfg.Priority1, Identity: i.cfg.ClockIdentity, Quality: i.quality, Priority2: i.cfg.Priority2,
		LocalPriority: i.cfg.LocalPriority, Sender: self, Receiver: self,
	}
	if i.cfg.SlaveOnly {
		d.Quality.Class = msg.ClassSlaveOnly
	}
	if !i.cfg.GrandmasterCapable {
		d.Priority1, d.Quality.Class = 255, msg.ClassSlaveOnly
	}
	return d
}

// becomeGrandmaster fills the data sets of a clock that follows nobody (IEEE
// 1588 table 30, M1 and M2).
func (i *Instance) becomeGrandmaster() {
	d := i.defaultDataset()
	i.current = Current{}
	i.parent = Parent{
		Port: msg.PortIdentity{Clock: i.cfg.ClockIdentity},
		Grandmaster: msg.Grandmaster{
			UTCOffset: i.own.UTCOffset, Priority1: d.Priority1, Quality: d.Quality, Priority2: d.Priority2,
			Identity: i.cfg.ClockIdentity, TimeSource: i.own.TimeSource,
		},
	}
	i.path, i.propagated = i.path[:0], i.propagated[:0]
	i.setProperties(i.own)
	i.slavePort = nil
}

// follow fills the data sets of a clock that follows f (table 33, S1).
func (i *Instance) follow(p *port, f *bmca.Foreign) {
	i.slavePort = p
	if p.parentAddr != f.Addr {
		p.parentAddr = f.Addr
		p.offerUnicast()
	}
	i.parent = Parent{Port: f.Sender, Grandmaster: f.Info}
	i.current.StepsRemoved = f.StepsRemoved + 1
	i.path = append(i.path[:0], f.Path...)
	i.propagated = append(i.propagated[:0], f.Propagated...)
	i.setProperties(timescale.Of(f.Header.Flags, f.Info.UTCOffset, f.Info.TimeSource))
}

// setProperties takes what the grandmaster says of its time. A leap second is
// that at the end of the day in which it was first said.
func (i *Instance) setProperties(t timescale.Properties) {
	was := &i.properties
	if was.Leap61 != t.Leap61 || was.Leap59 != t.Leap59 || was.UTCOffset != t.UTCOffset {
		i.announcedDay = t.Day(i.clock.At(i.now))
	}
	i.properties = t
}
