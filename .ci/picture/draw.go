package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	width   = 1180
	gapX    = 26
	gapY    = 46
	margin  = 20
	letter  = 63 // tenths of the width of a letter of the small text
	lineH   = 14
	headerH = 38
)

// draw places the boxes, a row for each floor, and joins them by the imports
// that no other path of imports implies. Imports against the floors are red.
func draw(rows [][]*group) string {
	y := margin
	for n, row := range rows {
		row = slices.DeleteFunc(slices.Clone(row), func(g *group) bool { return len(g.packages) == 0 })
		rows[n] = row
		place(row, n, y)
		high := 0
		for _, g := range row {
			high = max(high, g.h)
		}
		y += high + gapY
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">`+"\n", width,
		y-gapY+margin)
	fmt.Fprintf(&b, `<title>Packages and their imports</title><rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	all := slices.Concat(rows...)
	for _, g := range all {
		for _, to := range all {
			if g.imports[to] && !implied(g, to, all) {
				arrow(&b, g, to)
			}
		}
	}
	for _, g := range all {
		g.box(&b)
	}
	return b.String() + "</svg>\n"
}

// place divides a row among its boxes by the lengths of their lists.
func place(row []*group, n, y int) {
	total := 0
	for _, g := range row {
		g.w = min(460, max(240, 40*len(g.packages)))
		total += g.w + gapX
	}
	x := max(margin, (width-total+gapX)/2)
	for _, g := range row {
		if total > width-2*margin {
			g.w = g.w * (width - 2*margin - gapX*len(row)) / (total - gapX*len(row))
		}
		g.row, g.x, g.y = n, x, y
		g.h = headerH + lineH*len(g.lines())
		x += g.w + gapX
	}
}

// lines is the list of packages below the title, broken to the box's width.
func (g *group) lines() (lines []string) {
	line := ""
	if len(g.packages) == 1 {
		return nil
	}
	for _, p := range g.packages {
		name := p
		if dir := strings.TrimSuffix(g.dirs[0], "/..."); len(g.dirs) == 1 {
			name = strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
		} else if p, ok := strings.CutPrefix(p, "nic/"); ok {
			name = p
		}
		if name == "" {
			continue
		}
		if line != "" && (utf8.RuneCountInString(line)+3+len(name))*letter > 10*(g.w-16) {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " · "
		}
		line += name
	}
	return append(lines, line)
}

func (g *group) box(b *strings.Builder) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="5" fill="#f4f7fb" stroke="#456"/>`+"\n", g.x, g.y,
		g.w, g.h)
	text := func(y int, style, s string) {
		fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", g.x+8, g.y+y, style, s)
	}
	text(16, `font-size="13" font-weight="bold"`, g.title)
	text(31, `font-size="11" fill="#456"`, g.about)
	for i, l := range g.lines() {
		text(headerH+10+lineH*i, `font-size="10" font-family="monospace"`, l)
	}
}

// implied reports whether a path over a third box says the same.
func implied(from, to *group, all []*group) bool {
	if to.row <= from.row {
		return false
	}
	return slices.ContainsFunc(all, func(g *group) bool {
		return g != to && g.row > from.row && g.row < to.row && from.imports[g] && reaches(g, to)
	})
}

func reaches(from, to *group) bool {
	if from.imports[to] {
		return true
	}
	for g := range from.imports {
		if g.row > from.row && g.row < to.row && reaches(g, to) {
			return true
		}
	}
	return false
}

// arrow joins two boxes: down to a lower floor, sideways within one, in red up.
func arrow(b *strings.Builder, from, to *group) {
	x1, y1, x2, y2 := from.x+from.w/2, from.y+from.h, to.x+to.w/2, to.y
	x1 += (x2 - x1) * from.w / (3 * width)
	x2 += (x1 - x2) * to.w / (3 * width)
	color := "#789"
	switch {
	case to.row == from.row && to.x > from.x:
		x1, y1, x2, y2 = from.x+from.w, from.y+12, to.x, to.y+12
	case to.row == from.row:
		x1, y1, x2, y2 = from.x, from.y+24, to.x+to.w, to.y+24
	case to.row < from.row:
		y1, y2, color = from.y, to.y+to.h, "#c33"
	}
	fmt.Fprintf(b,
		`<path d="M%d %dC%d %d %d %d %d %d" fill="none" stroke="%s"/><circle cx="%d" cy="%d" r="3" fill="%[9]s"/>`+"\n",
		x1, y1, x1, (y1+y2)/2, x2, (y1+y2)/2, x2, y2, color, x2, y2)
}
