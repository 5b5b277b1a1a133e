package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Size of a plot.
const (
	plotWidth  = 22 * vg.Centimeter
	plotHeight = 12 * vg.Centimeter
)

// colors of clocks, in turn: the eight of M. Okabe and K. Ito without black
// and yellow, which all eyes tell apart.
var colors = []color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255},
}

// WriteSVG draws the true offset of each clock as a line and the believed one
// as a pale line below it. The scale is that of what happens from time skip
// on.
func WriteSVG(w io.Writer, title string, all []Series, skip time.Duration) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "time (s)", "offset (ns)"
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	low, high := math.Inf(1), math.Inf(-1)
	for i := range all {
		s := &all[i]
		for _, pt := range s.Settled(skip) {
			low, high = min(low, pt.True), max(high, pt.True)
		}
		ink := colors[i%len(colors)]
		pale := ink
		pale.A = 70
		if err := addLine(p, believed(s.Points), s.Name+", believed", pale); err != nil {
			return err
		}
		if err := addLine(p, truths(s.Points), s.Name+", true", ink); err != nil {
			return err
		}
	}
	if low > high {
		return fmt.Errorf("plot: no points after %v", skip)
	}
	margin := max((high-low)/4, 1)
	p.Y.Min, p.Y.Max = low-margin, high+2*margin // room for the legend
	c, err := p.WriterTo(plotWidth, plotHeight, "svg")
	if err != nil {
		return err
	}
	_, err = c.WriteTo(w)
	return err
}

func addLine(p *plot.Plot, xy plotter.XYs, name string, ink color.Color) error {
	if len(xy) == 0 {
		return nil
	}
	line, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	line.Color = ink
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

func truths(points []Point) plotter.XYs {
	xy := make(plotter.XYs, len(points))
	for i, p := range points {
		xy[i] = plotter.XY{X: p.At.Seconds(), Y: p.True}
	}
	return xy
}

func believed(points []Point) (xy plotter.XYs) {
	for _, p := range points {
		if !math.IsNaN(p.Believed) {
			xy = append(xy, plotter.XY{X: p.At.Seconds(), Y: p.Believed})
		}
	}
	return xy
}
