package draw_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"tapir/lab/topo"
	"tapir/lab/topo/draw"
)

func TestGraphs(t *testing.T) {
	l, err := topo.Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var mermaid, dot, svg strings.Builder
	if err := errors.Join(draw.Mermaid(l, &mermaid), draw.DOT(l, &dot), draw.SVG(l, &svg)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"flowchart LR\n", `  n0["a<br/>nic<br/>10.0.0.1/24<br/>fd00::1/64"]`, `n3{{"s<br/>switch e2e-tc"}}`, "  n0 --- n3\n",
		`  n1 -- "bad, delay 1ms, jitter 100µs, rate 1.5Gbit, loss 1%, duplicate 0.005%, reorder 0.5%, mtu 1400" --- n3`} {
		if !strings.Contains(mermaid.String(), want) {
			t.Errorf("no %q in\n%s", want, mermaid.String())
		}
	}
	if !strings.Contains(dot.String(), `"a" -- "s" [label=""];`) || !strings.Contains(dot.String(), `"s" [shape=hexagon, label="s\nswitch e2e-tc"];`) {
		t.Error(dot.String())
	}
	counts := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
	if counts["line"] != 3 || counts["rect"] != 5 || counts["text"] != 8+4+3+3+2 {
		t.Errorf("%v\n%s", counts, svg.String())
	}
}

func TestFabricGraphs(t *testing.T) {
	l, err := topo.Load("testdata/fabric.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var mermaid, dot, svg strings.Builder
	if err := errors.Join(draw.Mermaid(l, &mermaid), draw.DOT(l, &dot), draw.SVG(l, &svg)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`n0["h1<br/>hfi<br/>vESW 2<br/>10.0.0.1/24<br/>fd00::1/64<br/>vESW 3<br/>10.0.0.1/24"]`, `n2[/"g<br/>gateway<br/>vESW 2<br/>vESW 3"/]`,
		`n3(["em<br/>manager<br/>vESW 2 blue<br/>vESW 3 red"])`, "  n0 === n5\n", `  n4 -- "mtu 1400" --- n6`} {
		if !strings.Contains(mermaid.String(), want) {
			t.Errorf("no %q in\n%s", want, mermaid.String())
		}
	}
	if !strings.Contains(dot.String(), `"h1" -- "s" [label="", style=bold];`) || strings.Count(svg.String(), `stroke-width="3"`) != 4 {
		t.Errorf("%s\n%s", dot.String(), svg.String())
	}
}
