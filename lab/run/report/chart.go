package report

import (
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Size of the charts of one workload.
const (
	chartWidth  = 16 * vg.Centimeter
	chartHeight = 7 * vg.Centimeter
)

// Interval is a value that held from one time, in seconds, to another.
type Interval struct{ From, To, Value float64 }

// WriteSteps draws a value over time.
func WriteSteps(w io.Writer, title, value string, all []Interval) error {
	if len(all) == 0 {
		return errors.New("chart: no values")
	}
	p := newChart(title, "time (s)", value)
	var xy plotter.XYs
	for _, v := range all {
		xy = append(xy, plotter.XY{X: v.From, Y: v.Value}, plotter.XY{X: v.To, Y: v.Value})
	}
	line, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	line.Color, line.FillColor = colors[0], pale(colors[0])
	p.Add(line)
	p.Y.Min, p.Y.Max = 0, 1.15*p.Y.Max // room for the legend
	return writeChart(w, p)
}

// Bar is a share of all values, in percent, of those from Low to High.
type Bar struct{ Low, High, Share float64 }

// Mark is a value with a name, such as a median.
type Mark struct {
	Name string
	At   float64
}

// WriteHistogram draws a distribution of positive values on a logarithmic
// scale.
func WriteHistogram(w io.Writer, title, value string, bars []Bar, marks []Mark) error {
	if len(bars) == 0 || bars[0].Low <= 0 {
		return errors.New("chart: no distribution of positive values")
	}
	p := newChart(title, value, "share (%)")
	most := 0.0
	for _, b := range bars {
		box, err := plotter.NewPolygon(plotter.XYs{{X: b.Low}, {X: b.Low, Y: b.Share}, {X: b.High, Y: b.Share}, {X: b.High}})
		if err != nil {
			return err
		}
		box.Color, box.LineStyle.Color, box.LineStyle.Width = pale(colors[0]), colors[0], vg.Points(0.5)
		p.Add(box)
		most = max(most, b.Share)
	}
	for i, m := range marks {
		line, err := plotter.NewLine(plotter.XYs{{X: m.At}, {X: m.At, Y: most}})
		if err != nil {
			return err
		}
		line.Color, line.Width = colors[(i+1)%len(colors)], vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(m.Name, line)
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Y.Min, p.Y.Max = 0, 1.15*p.Y.Max // room for the legend
	return writeChart(w, p)
}

// logTicks are 1, 2 and 5 of each power of ten, or all of 1 to 9 where these
// are few, or equal steps where these are, too.
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

func newChart(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	return p
}

func pale(ink color.NRGBA) color.NRGBA {
	ink.A = 70
	return ink
}

func writeChart(w io.Writer, p *plot.Plot) error {
	c, err := p.WriterTo(chartWidth, chartHeight, "svg")
	if err != nil {
		return err
	}
	_, err = c.WriteTo(w)
	return err
}

// Curve is a line through points.
type Curve struct {
	Name string
	X, Y []float64
}

// WriteCurves draws curves in one chart.
func WriteCurves(w io.Writer, title, x, y string, all []Curve) error {
	p := newChart(title, x, y)
	p.Legend.Left = true
	for i, c := range all {
		xy := make(plotter.XYs, len(c.X))
		for k := range xy {
			xy[k] = plotter.XY{X: c.X[k], Y: c.Y[k]}
		}
		if err := addLine(p, xy, c.Name, colors[i%len(colors)]); err != nil {
			return err
		}
	}
	return writeChart(w, p)
}
