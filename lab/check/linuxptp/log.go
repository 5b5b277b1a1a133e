package linuxptp

import (
	"regexp"
	"strconv"
)

// Log is what a ptp4l has printed, a line each.
type Log []string

// Transition is a change of a port's state.
type Transition struct {
	Port          int
	From, To, Why string // "LISTENING", "UNCALIBRATED", "RS_SLAVE"
}

// Sample is one measurement by a slave. ptp4l calls the offset of its clock
// from the master's "master offset".
type Sample struct {
	Offset int64 // ns
	Servo  string
	Freq   int64 // ppb
	Delay  int64 // ns
}

var (
	transition = regexp.MustCompile(`: port (\d+)(?: \([^)]*\))?: (\w+) to (\w+) on (\w+)$`)
	sample     = regexp.MustCompile(`: [\w /]*offset +(-?\d+) (s\d) freq +([-+]?\d+)(?: (?:path )?delay +(-?\d+))?`)
)

// Transitions returns the changes of state of all ports, in order.
func (l Log) Transitions() (list []Transition) {
	for _, line := range l {
		if m := transition.FindStringSubmatch(line); m != nil {
			port, _ := strconv.Atoi(m[1])
			list = append(list, Transition{port, m[2], m[3], m[4]})
		}
	}
	return list
}

// State returns the state of a port, or "" before its first change.
func (l Log) State(port int) (state string) {
	for _, t := range l.Transitions() {
		if t.Port == port {
			state = t.To
		}
	}
	return state
}

// Samples returns the measurements of ptp4l, phc2sys or ts2phc.
func (l Log) Samples() (list []Sample) {
	for _, line := range l {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := Sample{Servo: m[2]}
		s.Offset, _ = strconv.ParseInt(m[1], 10, 64)
		s.Freq, _ = strconv.ParseInt(m[3], 10, 64)
		s.Delay, _ = strconv.ParseInt(m[4], 10, 64)
		list = append(list, s)
	}
	return list
}

// Contains tells whether a line has the pattern.
func (l Log) Contains(pattern *regexp.Regexp) bool {
	for _, line := range l {
		if pattern.MatchString(line) {
			return true
		}
	}
	return false
}
