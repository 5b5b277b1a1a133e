package steps

import (
	"testing"

	"tapir/lab/topo"
)

// A link has an engine for its rules, those of steps too, and none without.
func TestRules(t *testing.T) {
	l, err := topo.Parse("lab.yaml", []byte(`
nodes: {a: {kind: host}, b: {kind: host}, c: {kind: host}, s: {kind: switch}}
links: [{between: [a, s], rules: [{drop: fpdu}]}, [b, s], [c, s]]
steps: [{fault: b-s, rules: [{drop: fpdu}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		if e, err := Rules(l, &l.Links[i], nil); (e != nil) != want || err != nil {
			t.Errorf("%s: engine %v, %v", l.Links[i].Name, e, err)
		}
	}
}
