package result

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// size is the width and height of a drawing, in pixels.
type size struct{ width, height float64 }

var (
	clockSize    = size{830, 450} // offsets of clocks
	workloadSize = size{600, 260}
)

// colors of curves, in turn: the eight of M. Okabe and K. Ito without black
// and yellow, which everybody can tell apart.
var colors = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"}

// WriteSVG draws the true offset of each clock as a line and the estimated one
// as a pale line below it. The scale is that of the points from time skip on.
func WriteSVG(w io.Writer, title string, all []Series, skip time.Duration) error {
	p := plot{title: title, x: axis{label: "time (s)"}, y: axis{label: "offset (ns)"}}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range all {
		s := &all[i]
		for _, pt := range s.Settled(skip) {
			low, high = min(low, pt.True), max(high, pt.True)
		}
		ink := colors[i%len(colors)]
		estimated := s.curve(func(p Point) float64 { return p.Believed })
		p.add(shape{points: estimated, name: s.Name + ", believed", ink: ink, pale: true})
		p.add(shape{points: s.curve(func(p Point) float64 { return p.True }), name: s.Name + ", true", ink: ink})
	}
	if low > high {
		return fmt.Errorf("plot: no points after %v", skip)
	}
	margin := max((high-low)/4, 1)
	p.y.low, p.y.high = low-margin, high+2*margin // room for the legend
	return p.write(w, clockSize)
}

// curve is a value of all points that have one.
func (s *Series) curve(value func(Point) float64) (all []point) {
	for _, p := range s.Points {
		if v := value(p); !math.IsNaN(v) {
			all = append(all, point{p.At.Seconds(), v})
		}
	}
	return all
}

// Curve is a line through points.
type Curve struct {
	Name string
	X, Y []float64
}

// WriteCurves draws curves in one chart.
func WriteCurves(w io.Writer, title, x, y string, all []Curve) error {
	p := plot{title: title, x: axis{label: x}, y: axis{label: y}, legendLeft: true}
	for i, c := range all {
		points := make([]point, len(c.X))
		for k := range points {
			points[k] = point{c.X[k], c.Y[k]}
		}
		p.add(shape{points: points, name: c.Name, ink: colors[i%len(colors)]})
	}
	return p.write(w, workloadSize)
}

// interval is a value that held from one time, in seconds, to another.
type interval struct{ from, to, value float64 }

// writeSteps draws a value over time.
func writeSteps(w io.Writer, title, value string, all []interval) error {
	if len(all) == 0 {
		return errors.New("chart: no values")
	}
	p := plot{title: title, x: axis{label: "time (s)"}, y: axis{label: value}}
	points := []point{{all[0].from, 0}}
	for _, v := range all {
		points = append(points, point{v.from, v.value}, point{v.to, v.value})
		p.y.high = max(p.y.high, 1.15*v.value)
	}
	points = append(points, point{all[len(all)-1].to, 0})
	p.add(shape{points: points, ink: colors[0], filled: true})
	return p.write(w, workloadSize)
}

// bar is the share, in percent, that the values from low to high have.
type bar struct{ low, high, share float64 }

// marker is a value with a name, such as a median.
type marker struct {
	name string
	at   float64
}

// writeHistogram draws a distribution of positive values on a logarithmic
// scale.
func writeHistogram(w io.Writer, title, value string, bars []bar, markers []marker) error {
	if len(bars) == 0 || bars[0].low <= 0 {
		return errors.New("chart: no distribution of positive values")
	}
	p := plot{title: title, x: axis{label: value, log: true}, y: axis{label: "share (%)"}}
	most := 0.0
	for _, b := range bars {
		p.add(shape{points: []point{{b.low, 0}, {b.low, b.share}, {b.high, b.share}, {b.high, 0}}, ink: colors[0],
			filled: true})
		most = max(most, b.share)
	}
	for i, m := range markers {
		p.add(shape{points: []point{{m.at, 0}, {m.at, most}}, name: m.name, ink: colors[(i+1)%len(colors)]})
	}
	p.y.high = 1.15 * most // room for the legend
	return p.write(w, workloadSize)
}
