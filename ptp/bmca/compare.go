// Package bmca is the best master clock algorithm of IEEE 1588-2019 section
// 9.3 as pure functions, with the alternate one of ITU-T G.8275.x: data set
// comparison, the decision of a port's state, and the table of foreign masters.
package bmca

import (
	"cmp"

	"tapir/ptp/msg"
)

// Dataset is what two clocks are compared by (IEEE 1588 table 29).
type Dataset struct {
	Priority1     uint8
	Identity      msg.ClockIdentity // of the grandmaster
	Quality       msg.ClockQuality  // of the grandmaster
	Priority2     uint8
	LocalPriority uint8 // of the clock, or of the port that heard of it; telecom only
	StepsRemoved  uint16
	Sender        msg.PortIdentity // who announced it
	Receiver      msg.PortIdentity // which of our ports heard it
}

// Order is the outcome of a comparison of A with B.
type Order int8

const (
	BBetter           Order = -2
	BBetterByTopology Order = -1
	Same              Order = 0 // the standard's error-1 and error-2: one and the same message, or our own
	ABetterByTopology Order = 1
	ABetter           Order = 2
)

// Algorithm names a data set comparison.
type Algorithm uint8

const (
	Default Algorithm = iota // IEEE 1588-2019 figures 34 and 35
	Telecom                  // ITU-T G.8275.1 and G.8275.2 section 6.3.7: no priority1, but localPriority
)

// Compare tells which of two data sets is better. A nil data set is worse
// than any other.
func (alg Algorithm) Compare(a, b *Dataset) Order {
	switch {
	case a == b:
		return Same
	case b == nil:
		return ABetter
	case a == nil:
		return BBetter
	case alg == Telecom:
		return telecom(a, b)
	}
	if a.Identity == b.Identity {
		return topology(a, b)
	}
	return better(cmp.Or(
		cmp.Compare(a.Priority1, b.Priority1),
		quality(a.Quality, b.Quality),
		cmp.Compare(a.Priority2, b.Priority2),
		a.Identity.Compare(b.Identity),
	))
}

func telecom(a, b *Dataset) Order {
	c := cmp.Or(
		quality(a.Quality, b.Quality),
		cmp.Compare(a.Priority2, b.Priority2),
		cmp.Compare(a.LocalPriority, b.LocalPriority),
	)
	if c == 0 && a.Quality.Class > maxPrimaryClass {
		c = a.Identity.Compare(b.Identity)
	}
	if c == 0 {
		return topology(a, b)
	}
	return better(c)
}

// quality compares class, accuracy and variance: the lower the better.
func quality(a, b msg.ClockQuality) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Accuracy, b.Accuracy),
		cmp.Compare(a.Variance, b.Variance))
}

// better is the order in which the lower value wins.
func better(c int) Order {
	switch {
	case c < 0:
		return ABetter
	case c > 0:
		return BBetter
	}
	return Same
}

// topology compares two ways to the same grandmaster (figure 35).
func topology(a, b *Dataset) Order {
	switch d := int(a.StepsRemoved) - int(b.StepsRemoved); {
	case d < -1:
		return ABetter
	case d > 1:
		return BBetter
	case d == -1:
		return nearer(b)
	case d == 1:
		return -nearer(a)
	}
	c := cmp.Or(a.Sender.Compare(b.Sender), cmp.Compare(a.Receiver.Port, b.Receiver.Port))
	switch {
	case c < 0:
		return ABetterByTopology
	case c > 0:
		return BBetterByTopology
	}
	return Same
}

// nearer is the order of a data set that is one step nearer than far.
func nearer(far *Dataset) Order {
	switch c := far.Receiver.Compare(far.Sender); {
	case c < 0:
		return ABetter
	case c > 0:
		return ABetterByTopology
	}
	return Same
}
