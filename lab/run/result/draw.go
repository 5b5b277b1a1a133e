package result

import (
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
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
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
