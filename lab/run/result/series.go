package result

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Point is a clock at one time. Offsets are in ns, positive when the clock is
// ahead.
type Point struct {
	At       time.Duration
	True     float64 // from the reference: known in simulations only
	Believed float64 // estimated, from the master as last measured; NaN before
	Delay    float64 // path delay as last measured, ns; NaN before
	Freq     float64 // correction in force, ppb
	State    string  // of the port that follows a master, or of the clock
}

// Series is what happened to one clock.
type Series struct {
	Name   string
	Tau    time.Duration // between points
	Points []Point
}

// Settled are the points from time t on.
func (s *Series) Settled(t time.Duration) []Point {
	i, _ := slices.BinarySearchFunc(s.Points, t, func(p Point, t time.Duration) int { return cmp.Compare(p.At, t) })
	return s.Points[i:]
}

// Truth is the true offset of each point.
func Truth(points []Point) []float64 {
	x := make([]float64, len(points))
	for i := range points {
		x[i] = points[i].True
	}
	return x
}

// Belief is the believed offset of each point that has one.
func Belief(points []Point) []float64 {
	x := make([]float64, 0, len(points))
	for i := range points {
		if !math.IsNaN(points[i].Believed) {
			x = append(x, points[i].Believed)
		}
	}
	return x
}

// Converged tells from when on the true offset stays within ns, up to the
// point end; false if it does not.
func (s *Series) Converged(ns float64) (time.Duration, bool) {
	i := len(s.Points)
	for i > 0 && math.Abs(s.Points[i-1].True) < ns {
		i--
	}
	if i == len(s.Points) {
		return 0, false
	}
	return s.Points[i].At, true
}

// number writes v with the given decimals, nothing for NaN, and no negative
// zero.
func number(v float64, decimals int) string {
	if math.IsNaN(v) {
		return ""
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if zero := strconv.FormatFloat(math.Copysign(0, -1), 'f', decimals, 64); s == zero {
		return s[1:]
	}
	return s
}

// WriteCSV writes all points, a line each, under a header line.
func WriteCSV(w io.Writer, all []Series) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "node,time_s,true_ns,believed_ns,path_delay_ns,freq_ppb,state")
	for i := range all {
		for _, p := range all[i].Points {
			fmt.Fprintf(b, "%s,%s,%s,%s,%s,%s,%s\n", all[i].Name, number(p.At.Seconds(), 6), number(p.True, 3),
				number(p.Believed, 3), number(p.Delay, 3), number(p.Freq, 3), p.State)
		}
	}
	return b.Flush()
}

// WriteSummary writes a line for each clock: its true offset next to its estimated
// one, from time skip on.
func WriteSummary(w io.Writer, all []Series, skip time.Duration, within float64) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "node\tstate\ttrue rms\tmean\tp50\tp99\tmax\tbelieved rms\tmax\tfreq ppb\t|err| < %v after\t\n",
		time.Duration(within))
	for i := range all {
		s := &all[i]
		points := s.Settled(skip)
		truth, belief := Summarize(Truth(points)), Summarize(Belief(points))
		state, freq := "-", math.NaN()
		if n := len(s.Points); n > 0 {
			state, freq = s.Points[n-1].State, s.Points[n-1].Freq
		}
		after := "never"
		if at, ok := s.Converged(within); ok {
			after = number(at.Seconds(), 1) + " s"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", s.Name, state, number(truth.RMS, 2), number(truth.Mean, 2),
			number(truth.P50, 2), number(truth.P99, 2), number(truth.Max, 2))
		if belief.N == 0 {
			belief.RMS, belief.Max = math.NaN(), math.NaN()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", cmp.Or(number(belief.RMS, 2), "-"), cmp.Or(number(belief.Max, 2), "-"),
			cmp.Or(number(freq, 1), "-"), after)
	}
	return t.Flush()
}

// WriteStability writes the stability table of each clock, from time skip on.
func WriteStability(w io.Writer, all []Series, skip time.Duration) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "node\ttau\tMTIE ns\tTDEV ns\tADEV ppb\t\n")
	for i := range all {
		s := &all[i]
		for _, r := range Stability(Truth(s.Settled(skip)), s.Tau.Seconds()) {
			fmt.Fprintf(t, "%s\t%s s\t%s\t%s\t%s\t\n", s.Name, strconv.FormatFloat(r.Tau, 'g', 6, 64),
				cmp.Or(number(r.MTIE, 2), "-"), cmp.Or(number(r.TDEV, 3), "-"), cmp.Or(number(r.ADEV, 4), "-"))
		}
	}
	return t.Flush()
}
