// Package refclock offers a NIC's hardware clock to the time daemons of the
// host as a reference clock: to chronyd by its SOCK driver, to chronyd, ntpd
// and others through the shared memory of ntpd's driver 28.
package refclock

import (
	"context"
	"fmt"
	"time"
)

// Sample is one reading of both clocks at the same instant, each in ns since
// the Unix epoch. A daemon takes Clock for true UTC: a clock that keeps TAI
// must be brought to UTC before.
type Sample struct {
	System, Clock int64
	Leap          Leap
}

// Leap says whether the day ends with a leap second.
type Leap int32

// The values that both interfaces share with NTP (RFC 5905 figure 9).
const (
	NoLeap Leap = iota
	InsertSecond
	DeleteSecond
)

// Sink takes samples to a daemon.
type Sink interface {
	Write(Sample) error
	Close() error
}

// Stats is what a Feed did.
type Stats struct {
	Written, Lost uint64 // samples that reached the daemon, and that did not
}

// Feed reads a sample every interval and writes it, until ctx ends. The first
// sample must arrive; later ones may be lost, as when the daemon is started
// again. The error of a clock that cannot be read ends it.
func Feed(ctx context.Context, interval time.Duration, read func(context.Context) (Sample, error),
	to Sink) (s Stats, err error) {
	if interval <= 0 {
		return s, fmt.Errorf("a sample every %v: more than 0 is needed", interval)
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		sample, err := read(ctx)
		if ctx.Err() != nil {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		switch err := to.Write(sample); {
		case err == nil:
			s.Written++
		case s.Written == 0:
			return s, err
		default:
			s.Lost++
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return s, nil
		}
	}
}
