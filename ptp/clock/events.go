package clock

import (
	"fmt"
	"time"

	"tapir/wire/frame"
)

// NextEdge returns the first engine time after now at which a periodic output
// of the clock rises: when the clock reaches phase plus a multiple of period,
// which may be up to an hour. The answer holds until the clock is changed.
func (p *PHC) NextEdge(now frame.Time, phase frame.Stamp, period time.Duration) (frame.Time, error) {
	if period <= 0 || period > time.Hour {
		return 0, fmt.Errorf("clock: a periodic output of %v", period)
	}
	s := *p.newest(now) // what lies ahead is walked on copies
	w, until := p.osc, p.until
	now = max(now, s.start)
	shown := s.at(now).NS + s.offset
	behind := (shown - int64(phase)) % int64(period)
	if behind < 0 {
		behind += int64(period)
	}
	target := shown - behind + int64(period) - s.offset
	for !w.static && s.at(until-1).NS < target {
		w.next()
		s.count, s.start = s.at(until), until
		s.rate = ppbRate(w.rate).times(p.adj)
		until = p.gridEnd(&w)
	}
	from := max(now, s.start)
	low, high := int64(0), 16*(target-s.at(from).NS) // no clock runs at a sixteenth of its speed
	for high-low > 1 {
		if mid := low + (high-low)/2; s.at(from+frame.Time(mid)).NS < target {
			low = mid
		} else {
			high = mid
		}
	}
	return from + frame.Time(high), nil
}

// NextPPS returns the first engine time after now at which the clock's second
// changes.
func (p *PHC) NextPPS(now frame.Time) frame.Time {
	t, _ := p.NextEdge(now, 0, time.Second)
	return t
}

// ExtTS is an edge on an external input with the clock's stamp.
type ExtTS struct {
	Channel int
	Stamp   frame.Stamp
}

// extQueue is the number of events kept for the reader, as in Linux.
const extQueue = 128

type extEvents struct {
	enabled     uint32 // a bit for each channel
	first, n    int
	overwritten uint64
	queue       [extQueue]ExtTS
}

// ExtChannels is the number of inputs for external time stamps.
const ExtChannels = 32

// EnableExtTS switches the time-stamping of an input on or off.
func (p *PHC) EnableExtTS(channel int, on bool) error {
	if channel < 0 || channel >= ExtChannels {
		return fmt.Errorf("clock: input %d: there are %d", channel, ExtChannels)
	}
	if p.ext == nil {
		p.ext = &extEvents{}
	}
	p.ext.enabled &^= 1 << channel
	if on {
		p.ext.enabled |= 1 << channel
	}
	return nil
}

// Edge stamps an edge on an input at engine time now. It is lost unless the
// input was switched on; when nobody reads, the oldest event gives way.
func (p *PHC) Edge(channel int, now frame.Time) {
	x := p.ext
	if x == nil || channel < 0 || channel >= ExtChannels || x.enabled&(1<<channel) == 0 {
		return
	}
	if x.n == extQueue {
		x.first, x.n = (x.first+1)%extQueue, x.n-1
		x.overwritten++
	}
	x.queue[(x.first+x.n)%extQueue] = ExtTS{channel, p.At(now)}
	x.n++
}

// NextExtTS returns the oldest event that was not read yet.
func (p *PHC) NextExtTS() (ExtTS, bool) {
	x := p.ext
	if x == nil || x.n == 0 {
		return ExtTS{}, false
	}
	e := x.queue[x.first]
	x.first, x.n = (x.first+1)%extQueue, x.n-1
	return e, true
}

// ExtOverwritten counts events that gave way before they were read.
func (p *PHC) ExtOverwritten() uint64 {
	if p.ext == nil {
		return 0
	}
	return p.ext.overwritten
}
