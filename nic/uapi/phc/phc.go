// Package phc serves the kernel's interface to PTP hardware clocks and
// hardware time stamps to programs under a supervisor (nic/uapi/trap), so that
// stock ptp4l, phc2sys, ts2phc, phc_ctl, hwstamp_ctl and chronyd use the clock
// of a NIC that the kernel does not know:
//
//	/dev/ptpN            open, stat, PTP_* ioctls, read and poll of external time stamps   ioctl.go, extts.go
//	clock ids of it      clock_gettime, clock_settime, clock_getres, clock_adjtime         clockid.go
//	netdevs              SIOCETHTOOL GET_TS_INFO, SIOCGHWTSTAMP, SIOCSHWTSTAMP             netdev.go
//	their statistics     SIOCETHTOOL GSSET_INFO, GSTRINGS, GSTATS                          statistics.go
//	sockets on them      SO_TIMESTAMPING, poll, recvmsg and recvmmsg with hardware stamps   socket.go, receive.go
//
// The driver's face is that of FastLinQ adapters: no alarms, periodic outputs,
// pulses per second or pins. On sockets, the kernel makes its own software
// stamps; each is replaced by the NIC's when the program receives it.
package phc

import (
	"fmt"

	"golang.org/x/sys/unix"

	"tapir/nic/ptp"
	"tapir/nic/uapi/errno"
	"tapir/nic/uapi/trap"
)

// Clock is a hardware clock. Times are in nanoseconds, those of the system
// CLOCK_REALTIME. Errors may wrap an errno.
type Clock interface {
	MaxAdj() (ppb int64, err error)
	Time() (ns int64, err error)
	SetTime(ns int64) error
	AdjTime(ns int64) error
	AdjFine(scaledPPM int64) error // units of 2^-16 ppm
	// Frequency is the correction last asked for.
	Frequency() (scaledPPM int64, err error)
	// Samples reads the clock n times, each between two readings of the
	// system's.
	Samples(n int) ([]Sample, error)
	// At is what the clock showed when the system's showed realtime, for what
	// has just happened.
	At(realtime int64) (ns int64, err error)
}

// Sample is a reading of the clock between two of the system's.
type Sample struct{ Before, PHC, After int64 }

// Netdev is the time stamping of a NIC behind a netdev.
type Netdev interface {
	Config() (ptp.HWConfig, error)
	Configure(ptp.HWConfig) (ptp.HWConfig, error)
	// Rx takes the stamp of a received event message, which the kernel
	// stamped at realtime, or not at all: 0.
	Rx(p ptp.Packet, realtime int64) (ns int64, ok bool)
	// Tx takes the stamp of a sent one. It is asked again while there is none;
	// first tells that it was not asked before.
	Tx(p ptp.Packet, realtime int64, first bool) (ns int64, ok bool)
}

// Device is what one NIC shows.
type Device struct {
	Index   int // N of /dev/ptpN
	Clock   Clock
	Netdevs map[string]Netdev // by the name that programs use
	// PPS gives the clock an external time stamp input, channel 0, on which
	// an edge comes with each second of the system's clock.
	PPS bool
}

// Path is the name of the device file.
func (d *Device) Path() string { return fmt.Sprintf("/dev/ptp%d", d.Index) }

// extTS is the number of external time stamp inputs.
func (d *Device) extTS() uint32 {
	if d.PPS {
		return 1
	}
	return 0
}

// Handler serves the clocks and stamps of NICs.
type Handler struct {
	files   *trap.Files
	netdevs map[string]*netdev
	sockets trap.ByFile[socket] // those whose hardware stamps are ours
}

// netdev is a netdev with the clock that it belongs to.
type netdev struct {
	Netdev
	phc int
}

// New returns a handler for these devices.
func New(devices ...Device) *Handler {
	const anyType, ptpType = 0xff00, unix.PTP_CLK_MAGIC << 8
	h := &Handler{files: trap.NewFiles(trap.Cond{Arg: 1, Mask: anyType, Value: ptpType}), netdevs: map[string]*netdev{}}
	for i := range devices {
		d := &devices[i]
		h.files.Add(d.Path(), node{d})
		for name, n := range d.Netdevs {
			h.netdevs[name] = &netdev{n, d.Index}
		}
	}
	return h
}

// Rules implements trap.Handler.
func (h *Handler) Rules() []trap.Rule {
	rules := h.files.Rules()
	for nr := range clockCalls {
		rules = append(rules, trap.Rule{Nr: nr, When: []trap.Cond{{Arg: 0, Mask: clockFDMask, Value: clockFD}}})
	}
	for req := range netdevCalls {
		rules = append(rules, trap.Rule{Nr: unix.SYS_IOCTL, When: []trap.Cond{{Arg: 1, Mask: ^uint32(0), Value: req}}})
	}
	rules = append(rules, systemRules()...)
	return append(rules, socketRules()...)
}

// Serve implements trap.Handler.
func (h *Handler) Serve(c *trap.Call) trap.Answer {
	if c.Nr() == unix.SYS_ADJTIMEX {
		return serveSystem(c, c.Arg(0))
	}
	if c.Nr() == unix.SYS_CLOCK_ADJTIME && c.Int(0) == unix.CLOCK_REALTIME {
		return serveSystem(c, c.Arg(1))
	}
	if serve, ok := clockCalls[c.Nr()]; ok {
		return h.serveClock(c, serve)
	}
	if serve, ok := socketCalls[c.Nr()]; ok {
		return serve(h, c)
	}
	if c.Nr() == unix.SYS_IOCTL {
		if serve, ok := netdevCalls[uint32(c.Arg(1))]; ok {
			return h.serveNetdev(c, serve)
		}
	}
	return h.files.Serve(c)
}

// errnos are the driver's answers to errors of the unit.
var errnos = errno.Table{{ptp.ErrBusy, unix.EBUSY}, {ptp.ErrRange, unix.ERANGE}, {ptp.ErrInvalid, unix.EINVAL},
	{ptp.ErrDisabled, unix.ENODEV}}

// fail answers with the errno of an error.
func fail(err error) trap.Answer { return trap.Fail(errnos.Of(err)) }

// done answers 0, or with the errno of an error.
func done(err error) trap.Answer { return trap.Result(0, errnos.Of(err)) }

// with serves a call whose argument points to a T: serve gets it.
func with[T any](c *trap.Call, at uint64, serve func(v *T) error) trap.Answer {
	v, err := trap.Get[T](c, at)
	if err == nil {
		err = serve(&v)
	}
	return done(err)
}

// update is with for a T that is stored again.
func update[T any](c *trap.Call, at uint64, serve func(v *T) error) trap.Answer {
	return with(c, at, func(v *T) error {
		if err := serve(v); err != nil {
			return err
		}
		return trap.Put(c, at, v)
	})
}
