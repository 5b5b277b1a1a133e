package result

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// plot is a chart with two axes, a title and a legend, to be written as SVG.
type plot struct {
	title      string
	x, y       axis
	legendLeft bool // else right
	shapes     []shape
}

// axis is one direction of a plot. Where low and high are equal, the points tell
// the range.
type axis struct {
	label     string
	low, high float64
}

type point struct{ x, y float64 }

// shape is a line through points.
type shape struct {
	points []point
	name   string // in the legend
	ink    string // the color, as CSS has it
	pale   bool
}

// add adds a shape, if it has points.
func (p *plot) add(s shape) {
	if len(s.points) > 0 {
		p.shapes = append(p.shapes, s)
	}
}

// fit widens the axis to the values that it has to show.
func (a *axis) fit(value func(point) float64, shapes []shape) error {
	if a.low == a.high {
		a.low, a.high = math.Inf(1), math.Inf(-1)
		for i := range shapes {
			for _, pt := range shapes[i].points {
				a.low, a.high = min(a.low, value(pt)), max(a.high, value(pt))
			}
		}
	}
	if a.low == a.high {
		a.high += max(1, math.Abs(a.high)/1e6)
	}
	if !(a.low < a.high) || math.IsInf(a.high-a.low, 0) {
		return fmt.Errorf("chart: no range of %s to draw", a.label)
	}
	return nil
}

// at is the place of a value, 0 at the axis's low end and 1 at its high end.
func (a *axis) at(v float64) float64 {
	return (v - a.low) / (a.high - a.low)
}

// ticks are the values with a label, in equal steps.
func (a *axis) ticks() (all []float64) {
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/3)))
	for _, n := range []float64{5, 2} {
		if (a.high-a.low)/(n*step) >= 3 {
			step *= n
			break
		}
	}
	first := math.Ceil(a.low / step)
	for k := range 20 {
		if v := (first + float64(k)) * step; v <= a.high {
			all = append(all, v)
		}
	}
	return all
}

func tickLabel(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// write writes the plot as one SVG element.
func (p *plot) write(w io.Writer, s size) error {
	err := errors.Join(p.x.fit(func(pt point) float64 { return pt.x }, p.shapes),
		p.y.fit(func(pt point) float64 { return pt.y }, p.shapes))
	if err != nil {
		return err
	}
	const left, right, top, bottom, font, entry = 70, 15, 30.0, 45, 12, 16
	width, height := s.width-left-right, s.height-top-bottom
	x := func(v float64) float64 { return left + width*p.x.at(v) }
	y := func(v float64) float64 { return top + height*(1-min(max(p.y.at(v), 0), 1)) }
	b := bufio.NewWriter(w)
	text := func(x, y float64, anchor, more, words string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more,
			html.EscapeString(words))
	}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" `+
		`font-family="sans-serif" font-size="%d"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n",
		s.width, s.height, s.width, s.height, font)
	text(left+width/2, 18, "middle", ` font-size="14"`, p.title)
	text(left+width/2, s.height-8, "middle", "", p.x.label)
	text(16, top+height/2, "middle", fmt.Sprintf(` transform="rotate(-90 16 %.1f)"`, top+height/2), p.y.label)
	grid := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	for _, v := range p.x.ticks() {
		grid(x(v), top, x(v), top+height)
		text(x(v), top+height+16, "middle", "", tickLabel(v))
	}
	for _, v := range p.y.ticks() {
		grid(left, y(v), left+width, y(v))
		text(left-6, y(v)+4, "end", "", tickLabel(v))
	}
	fmt.Fprintf(b, `<path d="M%d %.0fV%.1fH%.1f" fill="none" stroke="#555"/>`+"\n", left, top, top+height, left+width)
	p.writeShapes(b, x, y)
	at, words, anchor := left+width-30, left+width-36, "end"
	if p.legendLeft {
		at, words, anchor = left+8, left+38, "start"
	}
	line := top + 12.0
	for i := range p.shapes {
		if s := &p.shapes[i]; s.name != "" {
			fmt.Fprintf(b, `<path %s d="M%.1f %.1fh24"/>`+"\n", s.style(), at, line-4)
			text(words, line, anchor, "", s.name)
			line += entry
		}
	}
	fmt.Fprint(b, "</svg>\n")
	return b.Flush()
}

// style has the attributes of the shape's path.
func (s *shape) style() string {
	if s.pale {
		return fmt.Sprintf(`fill="none" stroke="%s" stroke-width="1.5" stroke-opacity="0.3"`, s.ink)
	}
	return fmt.Sprintf(`fill="none" stroke="%s" stroke-width="1.5"`, s.ink)
}

// writeShapes writes the shapes; x and y have the place of a value in pixels.
func (p *plot) writeShapes(w io.Writer, x, y func(float64) float64) {
	for i := range p.shapes {
		s := &p.shapes[i]
		fmt.Fprintf(w, `<path %s d="`, s.style())
		for k, pt := range s.points {
			fmt.Fprintf(w, "%c%.1f %.1f", "ML"[min(k, 1)], x(pt.x), y(pt.y))
		}
		fmt.Fprint(w, "\"/>\n")
	}
}
