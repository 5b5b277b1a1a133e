package ptpsim

import (
	"fmt"
	"io"

	"tapir/ptp"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// log writes what happens, a line each: time in seconds, who, what.
type log struct {
	w   io.Writer
	err error
	buf []byte
}

func (l *log) line(now frame.Time, who, format string, args ...any) {
	if l.w == nil || l.err != nil {
		return
	}
	l.buf = fmt.Appendf(l.buf[:0], "%d.%09d %s ", now/1e9, now%1e9, who)
	l.buf = append(fmt.Appendf(l.buf, format, args...), '\n')
	_, l.err = l.w.Write(l.buf)
}

// port tells of a port's new state.
func (l *log) port(now frame.Time, who, change, why string) {
	if why != "" {
		change += " (" + why + ")"
	}
	l.line(now, who, "%s", change)
}

// servo tells of a servo's new state.
func (l *log) servo(now frame.Time, who string, from servo.State, m ptp.Sample) {
	// m.Freq+0 is no negative zero.
	l.line(now, who, "servo %v -> %v, offset %d ns, delay %.3f ns, freq %+.0f ppb", from, m.Servo, int64(m.Offset),
		float64(m.Delay)/65536, m.Freq+0)
}
