// Package draw draws the topology of a lab: for Mermaid, for Graphviz, and as SVG.
package draw

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
)

// label is what a graph says about a node: its name, its kind, its addresses.
func nodeLabel(n *topo.Node) []string {
	kind := string(n.Title())
	if n.Kind == topo.Switch {
		kind += " " + n.Switch.Mode.String()
	}
	all := []string{n.Name, kind}
	for _, v := range n.HFI.VNICs {
		all = append(all, fmt.Sprintf("vESW %d", v.VESW))
		for _, p := range v.IP {
			all = append(all, p.String())
		}
	}
	for _, v := range n.EM.Fabric.VESWs {
		all = append(all, fmt.Sprintf("vESW %d %s", v.ID, v.Name))
	}
	if n.Kind != topo.HFI {
		for _, p := range n.Addrs() {
			all = append(all, p.String())
		}
	}
	return all
}

// look is how graphs draw a kind of nodes.
type look struct {
	open, end string // of Mermaid
	dot       string
	fill      string
	round     float64
}

var looks = map[topo.Kind]look{
	topo.NIC:     {"[", "]", "box", "#e8f0fe", 3},
	topo.Target:  {"[(", ")]", "cylinder", "#dfe7ef", 8},
	topo.Card:    {"[[", "]]", "box", "#d2e3fc", 3},
	topo.Host:    {"[", "]", "box", "#eee", 3},
	topo.Switch:  {"{{", "}}", "hexagon", "#fdeccf", 16},
	topo.HFI:     {"[", "]", "box", "#e2f3e4", 3},
	topo.Manager: {"([", "])", "ellipse", "#d5ebd9", 24},
	topo.Peer:    {"[(", ")]", "cylinder", "#f6e3ea", 12},
	topo.Gateway: {"[/", "/]", "parallelogram", "#f3efd0", 8},
}

// label is what a graph says about a link: what is special about it.
func linkLabel(l *topo.Link) (all []string) {
	if l.Name != l.Ends[0]+"-"+l.Ends[1] {
		all = append(all, l.Name)
	}
	if l.Fault[0] == l.Fault[1] {
		all = append(all, faultLabel(&l.Fault[0])...)
	} else {
		for i, end := range l.Ends {
			for _, text := range faultLabel(&l.Fault[i]) {
				all = append(all, text+" from "+end)
			}
		}
	}
	for i := range l.Rules {
		all = append(all, l.Rules[i].Name)
	}
	if l.MTU > 0 {
		all = append(all, fmt.Sprintf("mtu %d", l.MTU))
	}
	if l.Compensate {
		all = append(all, "compensates residence")
	}
	return all
}

func faultLabel(f *fault.Impairment) (all []string) {
	add := func(name string, value any, is bool) {
		if is {
			all = append(all, fmt.Sprintf("%s %v", name, value))
		}
	}
	add("delay", f.Delay, f.Delay > 0)
	add("jitter", f.Jitter, f.Jitter > 0)
	add("rate", formatRate(f.Rate), f.Rate > 0)
	add("loss", percent(f.Loss), f.Loss > 0)
	add("duplicate", percent(f.Duplicate), f.Duplicate > 0)
	add("reorder", percent(f.Reorder), f.Reorder > 0)
	add("corrupt", percent(f.Corrupt), f.Corrupt > 0)
	return all
}

func percent(ppm int) string { return strconv.FormatFloat(float64(ppm)/1e4, 'g', -1, 64) + "%" }

func formatRate(bits int64) string {
	v, unit := float64(bits), "bit"
	for _, u := range []string{"kbit", "Mbit", "Gbit"} {
		if v >= 1000 {
			v, unit = v/1000, u
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64) + unit
}

// Mermaid writes the topology as a Mermaid flowchart.
func Mermaid(l *topo.Lab, w io.Writer) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i := range l.Nodes {
		n := &l.Nodes[i]
		text := strings.ReplaceAll(strings.Join(nodeLabel(n), "<br/>"), `"`, "#quot;")
		k := looks[n.Title()]
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, k.open, text, k.end)
	}
	for i := range l.Links {
		k := &l.Links[i]
		begin, line := "--", "---"
		if k.Fabric {
			begin, line = "==", "==="
		}
		if text := strings.Join(linkLabel(k), ", "); text != "" {
			line = begin + ` "` + text + `" ` + line
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", index(l, k.Ends[0]), line, index(l, k.Ends[1]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func index(l *topo.Lab, name string) int {
	for i := range l.Nodes {
		if l.Nodes[i].Name == name {
			return i
		}
	}
	return -1
}

// DOT writes the topology for Graphviz.
func DOT(l *topo.Lab, w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %q {\n  rankdir=LR;\n", l.Name)
	for i := range l.Nodes {
		n := &l.Nodes[i]
		fmt.Fprintf(&b, "  %q [shape=%s, label=%q];\n", n.Name, looks[n.Title()].dot, strings.Join(nodeLabel(n), "\n"))
	}
	for i := range l.Links {
		k := &l.Links[i]
		style := ""
		if k.Fabric {
			style = ", style=bold"
		}
		fmt.Fprintf(&b, "  %q -- %q [label=%q%s];\n", k.Ends[0], k.Ends[1], strings.Join(linkLabel(k), ", "), style)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Measures of the drawing, in pixels.
const (
	boxWide, boxLine, boxPad = 130.0, 16.0, 12.0
	spread                   = 300.0 // between neighbors on the circle
)

// SVG draws the topology: switches in the middle, everything else around them.
func SVG(l *topo.Lab, w io.Writer) error {
	at, wide, high := place(l)
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" `+
			`font-family="sans-serif" font-size="12" text-anchor="middle">`+"\n", wide, high)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i := range l.Links {
		k := &l.Links[i]
		p, q := at[index(l, k.Ends[0])], at[index(l, k.Ends[1])]
		fmt.Fprintf(&b, `<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f" stroke="%s"/>`+"\n", p.x, p.y, q.x, q.y,
			stroke(k))
		text := linkLabel(k)
		for i, line := range text {
			fmt.Fprintf(&b,
				`<text x="%.0f" y="%.0f" fill="#a40" paint-order="stroke" stroke="white" `+
					`stroke-width="4">%s</text>`+"\n",
				(p.x+q.x)/2, (p.y+q.y)/2-6-boxLine*float64(len(text)-1-i), html.EscapeString(line))
		}
	}
	for i := range l.Nodes {
		drawNode(&b, &l.Nodes[i], at[i])
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// stroke is the color and width of a link: those of Omni-Path are thicker.
func stroke(l *topo.Link) string {
	if l.Fabric {
		return `#286" stroke-width="3`
	}
	return `#555" stroke-width="1.5`
}

type point struct{ x, y float64 }

// place says where the nodes lie and how large the drawing is.
func place(l *topo.Lab) (at []point, wide, high float64) {
	outer := 0
	for i := range l.Nodes {
		if l.Nodes[i].Kind != topo.Switch {
			outer++
		}
	}
	inner := len(l.Nodes) - outer
	r := math.Max(spread/2, float64(max(outer, 2))*spread/(2*math.Pi))
	if inner > 0 {
		r = math.Max(r, spread*0.75)
	}
	next := [2]int{}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i := range l.Nodes {
		ring, count, radius := 0, outer, r
		if l.Nodes[i].Kind == topo.Switch {
			ring, count, radius = 1, inner, r/2
			if inner == 1 {
				radius = 0
			}
		}
		angle := math.Pi + 2*math.Pi*float64(next[ring])/float64(count)
		next[ring]++
		p := point{r + boxWide/2 + 20 + radius*math.Cos(angle), radius * math.Sin(angle)}
		at = append(at, p)
		lowest, highest = math.Min(lowest, p.y), math.Max(highest, p.y)
	}
	const margin = 70
	for i := range at {
		at[i].y += margin - lowest
	}
	return at, 2*r + boxWide + 40, highest - lowest + 2*margin
}

// draw draws the node around p.
func drawNode(b *strings.Builder, n *topo.Node, p point) {
	lines := nodeLabel(n)
	k := looks[n.Title()]
	high := float64(len(lines))*boxLine + boxPad
	fmt.Fprintf(b, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="%.0f" fill="%s" stroke="#333"/>`+"\n",
		p.x-boxWide/2, p.y-high/2, boxWide, high, k.round, k.fill)
	for i, text := range lines {
		weight := "normal"
		if i == 0 {
			weight = "bold"
		}
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-weight="%s">%s</text>`+"\n",
			p.x, p.y-high/2+boxPad/2+boxLine*(float64(i)+0.75), weight, html.EscapeString(text))
	}
}
