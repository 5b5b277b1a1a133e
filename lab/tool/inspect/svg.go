package inspect

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Sizes of the picture in pixels.
const (
	svgMargin = 130 // packet and time
	svgGap    = 420 // between two columns
	svgRow    = 30
	svgHead   = 50
	svgChar   = 7 // at most, of a character's width
)

// WriteSVG draws the exchange of each flow as a picture.
func (r *Report) WriteSVG(w io.Writer) error {
	list := r.drawings()
	width, height := svgMargin, 20
	for _, d := range list {
		width = max(width, d.width())
		height += svgHead + svgRow*len(d.rungs) + 20
	}
	p := &printer{w: w}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	p.f(`<rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	y := 20
	for _, d := range list {
		y = d.svg(p, y)
	}
	if r.Beyond > 0 {
		p.f(`<text x="10" y="%d">%s</text>`+"\n", height-6, r.beyond())
	}
	p.f("</svg>\n")
	return p.err
}

// width is that of the flow's drawing, with all its texts.
func (d *drawing) width() (n int) {
	right := svgMargin + svgGap*(len(d.ends)-1) + svgGap/4
	for _, x := range d.rungs {
		if x.finding != nil {
			n = max(n, svgMargin+svgChar*len(x.finding.String()))
		} else {
			n = max(n, right+svgChar*len(x.event.Detail))
		}
	}
	return max(n, right)
}

// svg draws one flow from y down and returns where it ends.
func (d *drawing) svg(p *printer, y int) int {
	p.f(`<text x="10" y="%d" font-weight="bold">flow %d  %s</text>`+"\n", y, d.flow.Number, escape(d.flow.Protocol))
	top := y + svgHead - 20
	end := top + svgRow*len(d.rungs) + 10
	for k, name := range d.ends {
		x := svgMargin + svgGap*k
		p.f(`<text x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>`, x, top-6, escape(name))
		p.f(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#999"/>`+"\n", x, top, x, end)
	}
	for k, x := range d.rungs {
		at := top + svgRow*(k+1) - 4
		if x.finding != nil {
			color := "#b00"
			if x.finding.Note {
				color = "#a60"
			}
			p.f(`<text x="%d" y="%d" fill="%s">%s</text>`+"\n", svgMargin+10, at-4, color, escape(x.finding.String()))
			continue
		}
		d.arrow(p, x.event, at)
	}
	return end + 30
}

func (d *drawing) arrow(p *printer, e *Event, y int) {
	left, right, forward := d.span(e)
	x1, x2 := svgMargin+svgGap*left, svgMargin+svgGap*right
	p.f(`<text x="8" y="%d" fill="#666">%d  %.6f</text>`, y, e.Packet, e.Time.Seconds())
	tip, back := x2, x2-9
	if !forward {
		tip, back = x1, x1+9
	}
	// The head is no marker: the ids of several pictures in one page would meet.
	p.f(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#235"/><path d="M%d,%d L%d,%d L%d,%d z" fill="#235"/>`,
		x1, y, x2, y, tip, y, back, y-4, back, y+4)
	p.f(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (x1+x2)/2, y-4, escape(e.Name))
	p.f(`<text x="%d" y="%d" fill="#555">%s</text>`+"\n", svgMargin+svgGap*(len(d.ends)-1)+10, y, escape(e.Detail))
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return fmt.Sprint(err)
	}
	return b.String()
}
