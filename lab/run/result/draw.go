package result

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// size is the width and height of a drawing.
type size struct{ width, height vg.Length }

var (
	clockSize    = size{22 * vg.Centimeter, 12 * vg.Centimeter} // offsets of clocks
	workloadSize = size{16 * vg.Centimeter, 7 * vg.Centimeter}
)

// colors of curves, in turn: the eight of M. Okabe and K. Ito without black
// and yellow, which everybody can tell apart.
var colors = []color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255},
	{230, 159, 0, 255},
}

func pale(ink color.NRGBA) color.NRGBA {
	ink.A = 70
	return ink
}

// drawing is a plot and the first error of what was drawn in it.
type drawing struct {
	*plot.Plot
	err error
}

func newPlot(title, x, y string) *drawing {
	p := &drawing{Plot: plot.New()}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	return p
}

func (p *drawing) write(w io.Writer, s size) error {
	if p.err != nil {
		return p.err
	}
	c, err := p.WriterTo(s.width, s.height, "svg")
	if err != nil {
		return err
	}
	_, err = c.WriteTo(w)
	return err
}

// line draws a line, which may still be styled; it is empty if there is an error.
func (p *drawing) line(xy plotter.XYs) *plotter.Line {
	line, err := plotter.NewLine(xy)
	if err != nil {
		p.err, line = err, new(plotter.Line)
	}
	p.Add(line)
	return line
}

// curve draws a line with a name, if it has points.
func (p *drawing) curve(xy plotter.XYs, name string, ink color.Color) {
	if len(xy) > 0 {
		line := p.line(xy)
		line.Color = ink
		p.Legend.Add(name, line)
	}
}

// WriteSVG draws the true offset of each clock as a line and the estimated one
// as a pale line below it. The scale is that of the points from time skip on.
func WriteSVG(w io.Writer, title string, all []Series, skip time.Duration) error {
	p := newPlot(title, "time (s)", "offset (ns)")
	low, high := math.Inf(1), math.Inf(-1)
	for i := range all {
		s := &all[i]
		for _, pt := range s.Settled(skip) {
			low, high = min(low, pt.True), max(high, pt.True)
		}
		ink := colors[i%len(colors)]
		estimated := s.curve(func(p Point) float64 { return p.Believed })
		p.curve(estimated, s.Name+", believed", pale(ink))
		p.curve(s.curve(func(p Point) float64 { return p.True }), s.Name+", true", ink)
	}
	if low > high {
		return fmt.Errorf("plot: no points after %v", skip)
	}
	margin := max((high-low)/4, 1)
	p.Y.Min, p.Y.Max = low-margin, high+2*margin // room for the legend
	return p.write(w, clockSize)
}

// curve is a value of all points that have one.
func (s *Series) curve(value func(Point) float64) (xy plotter.XYs) {
	for _, p := range s.Points {
		if v := value(p); !math.IsNaN(v) {
			xy = append(xy, plotter.XY{X: p.At.Seconds(), Y: v})
		}
	}
	return xy
}

// Curve is a line through points.
type Curve struct {
	Name string
	X, Y []float64
}

// WriteCurves draws curves in one chart.
func WriteCurves(w io.Writer, title, x, y string, all []Curve) error {
	p := newPlot(title, x, y)
	p.Legend.Left = true
	for i, c := range all {
		xy := make(plotter.XYs, len(c.X))
		for k := range xy {
			xy[k] = plotter.XY{X: c.X[k], Y: c.Y[k]}
		}
		p.curve(xy, c.Name, colors[i%len(colors)])
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
	p := newPlot(title, "time (s)", value)
	var xy plotter.XYs
	for _, v := range all {
		xy = append(xy, plotter.XY{X: v.from, Y: v.value}, plotter.XY{X: v.to, Y: v.value})
	}
	line := p.line(xy)
	line.Color, line.FillColor = colors[0], pale(colors[0])
	p.Y.Min, p.Y.Max = 0, 1.15*p.Y.Max // room for the legend
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
	p := newPlot(title, value, "share (%)")
	most := 0.0
	for _, b := range bars {
		box, err := plotter.NewPolygon(plotter.XYs{{X: b.low}, {X: b.low, Y: b.share}, {X: b.high, Y: b.share},
			{X: b.high}})
		if err != nil {
			return err
		}
		box.Color, box.LineStyle.Color, box.LineStyle.Width = pale(colors[0]), colors[0], vg.Points(0.5)
		p.Add(box)
		most = max(most, b.share)
	}
	for i, m := range markers {
		line := p.line(plotter.XYs{{X: m.at}, {X: m.at, Y: most}})
		line.Color, line.Width = colors[(i+1)%len(colors)], vg.Points(1.5)
		p.Legend.Add(m.name, line)
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Y.Min, p.Y.Max = 0, 1.15*p.Y.Max // room for the legend
	return p.write(w, workloadSize)
}

// logTicks are 1, 2 and 5 of each power of ten, or all of 1 to 9 where these
// are few, or else equal steps.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	for _, digits := range [][]float64{{1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		ticks = nil
		for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
			for _, d := range digits {
				if v := d * power; v >= low && v <= high {
					ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
				}
			}
		}
		if len(ticks) >= 3 {
			return ticks
		}
	}
	return plot.DefaultTicks{}.Ticks(low, high)
}
