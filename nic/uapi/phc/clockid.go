package phc

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// A clock id that stands for a descriptor is ^fd<<3 | CLOCKFD, which is
// negative (clock_getres(2), "Dynamic clocks"). Mask and value for its low 32
// bits.
const (
	clockFDMask = 1<<31 | 7
	clockFD     = 1<<31 | 3
)

// descriptorOf is the descriptor that a clock id stands for.
func descriptorOf(id int) int { return ^(id >> 3) }

var clockCalls = map[uint32]func(c *trap.Call, clk Clock) trap.Answer{
	unix.SYS_CLOCK_GETTIME: func(c *trap.Call, clk Clock) trap.Answer {
		ns, err := clk.Time()
		if err != nil {
			return fail(err)
		}
		ts := unix.NsecToTimespec(ns)
		return done(trap.Put(c, c.Arg(1), &ts))
	},
	unix.SYS_CLOCK_GETRES: func(c *trap.Call, _ Clock) trap.Answer {
		if c.Arg(1) == 0 {
			return trap.Return(0)
		}
		return done(trap.Put(c, c.Arg(1), &unix.Timespec{Nsec: 1}))
	},
	unix.SYS_CLOCK_SETTIME: func(c *trap.Call, clk Clock) trap.Answer {
		return with(c, c.Arg(1), func(ts *unix.Timespec) error {
			if ts.Nsec < 0 || ts.Nsec >= int64(time.Second) || ts.Sec < 0 || ts.Sec > maxSeconds {
				return unix.EINVAL
			}
			return clk.SetTime(ts.Nano())
		})
	},
	unix.SYS_CLOCK_ADJTIME: func(c *trap.Call, clk Clock) trap.Answer {
		return update(c, c.Arg(1), func(tx *unix.Timex) error { return adjust(clk, tx) })
	},
}

// maxSeconds is the last second that a time in nanoseconds can hold.
const maxSeconds = math.MaxInt64/int64(time.Second) - 1

// adjust does what clock_adjtime(2) of a hardware clock does.
func adjust(clk Clock, tx *unix.Timex) error {
	switch {
	case tx.Modes&unix.ADJ_SETOFFSET != 0:
		nsec := tx.Time.Usec
		if tx.Modes&unix.ADJ_NANO == 0 {
			nsec *= int64(time.Microsecond)
		}
		if nsec < 0 || nsec >= int64(time.Second) || tx.Time.Sec < -maxSeconds || tx.Time.Sec > maxSeconds {
			return unix.EINVAL
		}
		return clk.AdjTime(tx.Time.Sec*int64(time.Second) + nsec)
	case tx.Modes&unix.ADJ_FREQUENCY != 0:
		return clk.AdjFine(tx.Freq)
	case tx.Modes == 0:
		freq, err := clk.Frequency()
		tx.Freq = freq
		return err
	}
	return unix.EOPNOTSUPP
}

func (h *Handler) serveClock(c *trap.Call, serve func(*trap.Call, Clock) trap.Answer) trap.Answer {
	f, ok := h.files.Lookup(c, descriptorOf(c.Int(0)))
	if !ok {
		return trap.Pass()
	}
	return serve(c, f.(*file).dev.Clock)
}
