package phc

import (
	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// node is /dev/ptpN.
type node struct{ dev *Device }

// ptpMajor is the major device number where the kernel has none for PTP; it
// gives them out as they come.
const ptpMajor = 248

// Stat implements trap.Node.
func (n node) Stat() trap.Stat {
	return trap.Stat{Mode: unix.S_IFCHR | 0o600, Rdev: unix.Mkdev(ptpMajor, uint32(n.dev.Index))}
}

// Open implements trap.Node.
func (n node) Open(flags int) (trap.File, error) {
	p, err := trap.NewPipe(flags)
	if err != nil {
		return nil, err
	}
	return &file{Pipe: p, dev: n.dev}, nil
}

// file is an open /dev/ptpN. What the program holds is a pipe, in which the
// external time stamps come.
type file struct {
	*trap.Pipe
	dev   *Device
	extTS extTS
}

// Release implements trap.File.
func (f *file) Release() {
	f.extTS.disable()
	f.Pipe.Release()
}

// Ioctl implements trap.File. Its answers are those of drivers/ptp with a
// driver that has a clock, perhaps external time stamps, and nothing else.
func (f *file) Ioctl(c *trap.Call, req uint32, arg uint64) trap.Answer {
	switch req {
	case unix.PTP_CLOCK_GETCAPS, unix.PTP_CLOCK_GETCAPS2:
		limit, err := f.dev.Clock.MaxAdj()
		if err != nil {
			return fail(err)
		}
		return done(trap.Put(c, arg, &unix.PtpClockCaps{Max_adj: int32(limit), N_ext_ts: int32(f.dev.extTS())}))
	case unix.PTP_SYS_OFFSET, unix.PTP_SYS_OFFSET2:
		return f.sysOffset(c, arg)
	case unix.PTP_SYS_OFFSET_EXTENDED, unix.PTP_SYS_OFFSET_EXTENDED2:
		return f.sysOffsetExtended(c, arg)
	case unix.PTP_EXTTS_REQUEST, unix.PTP_EXTTS_REQUEST2:
		return f.requestExtTS(c, req, arg)
	case unix.PTP_PEROUT_REQUEST, unix.PTP_PEROUT_REQUEST2,
		unix.PTP_PIN_GETFUNC, unix.PTP_PIN_GETFUNC2, unix.PTP_PIN_SETFUNC, unix.PTP_PIN_SETFUNC2:
		return trap.Fail(unix.EINVAL) // every index is beyond the number, 0
	case unix.PTP_ENABLE_PPS, unix.PTP_ENABLE_PPS2, unix.PTP_SYS_OFFSET_PRECISE, unix.PTP_SYS_OFFSET_PRECISE2:
		return trap.Fail(unix.EOPNOTSUPP)
	case unix.PTP_MASK_CLEAR_ALL:
		f.extTS.mask(0)
		return trap.Return(0)
	case unix.PTP_MASK_EN_SINGLE:
		return with(c, arg, func(channel *uint32) error {
			if *channel >= clockExtChannels {
				return unix.EFAULT // sic
			}
			f.extTS.unmask(*channel)
			return nil
		})
	}
	return trap.Fail(unix.ENOTTY)
}

// sysOffset answers with alternating readings of the system's clock and the
// device's, the first and last of them the system's.
func (f *file) sysOffset(c *trap.Call, arg uint64) trap.Answer {
	return update(c, arg, func(req *unix.PtpSysOffset) error {
		samples, err := f.samples(req.Samples)
		for i, s := range samples {
			req.Ts[2*i], req.Ts[2*i+1], req.Ts[2*i+2] = clockTime(s.Before), clockTime(s.PHC), clockTime(s.After)
		}
		return err
	})
}

func (f *file) sysOffsetExtended(c *trap.Call, arg uint64) trap.Answer {
	return update(c, arg, func(req *unix.PtpSysOffsetExtended) error {
		if req.Clockid != unix.CLOCK_REALTIME {
			return unix.EINVAL
		}
		samples, err := f.samples(req.Samples)
		for i, s := range samples {
			req.Ts[i] = [3]unix.PtpClockTime{clockTime(s.Before), clockTime(s.PHC), clockTime(s.After)}
		}
		return err
	})
}

func (f *file) samples(n uint32) ([]Sample, error) {
	switch {
	case n > unix.PTP_MAX_SAMPLES:
		return nil, unix.EINVAL
	case n == 0:
		return nil, nil
	}
	return f.dev.Clock.Samples(int(n))
}

// clockTime is struct ptp_clock_time of a time in nanoseconds.
func clockTime(ns int64) unix.PtpClockTime {
	t := unix.NsecToTimespec(ns)
	return unix.PtpClockTime{Sec: t.Sec, Nsec: uint32(t.Nsec)}
}
