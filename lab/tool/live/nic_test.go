package live

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/host/peer"
	"tapir/lab/tool/script"
	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/trap"
)

var interop = flag.Bool("interop", false, "run the whole library of scripts, by each path")

func TestMain(m *testing.M) {
	trap.Launched()
	os.Exit(testenv.Apart(m, "tapir-live"))
}

// lanes are how many scripts run at a time, attempts how often one that differs: a machine
// that stood still for a while is late.
const (
	lanes    = 8
	attempts = 3
)

// Scripts hold in real time, with a program of the verbs library as the application, by each
// of the paths by which it reaches the NIC.
func TestNIC(t *testing.T) {
	if _, err := peer.Application(t.Context()); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name string
		via  uapi.Options
		each int // every nth script of the library
	}{
		{"auto", uapi.Options{}, 8}, {"trap", uapi.Options{NoDoorbells: true}, 32},
		{"preload", uapi.Options{Via: trap.Preload}, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			if *interop {
				c.each = 1
			}
			w, err := NewNICs(t.Context(), lanes, c.via)
			if err != nil {
				t.Fatal(err)
			}
			todo, held := read(t, c.each), 0
			for n := 1; len(todo) > 0; n++ {
				var again []*script.Script
				err := w.Run(t.Context(), todo, false, func(r Result) {
					switch {
					case r.Outcome.State() == script.Holds:
						held++
					case r.Outcome.State() == script.NotApplicable:
					case n < attempts:
						t.Logf("run %d: %v", n, r)
						again = append(again, r.Script)
					default:
						t.Error(r)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				todo = again
			}
			if held < 480/c.each {
				t.Errorf("%d scripts hold", held)
			}
		})
	}
}

// read reads every nth script of the library.
func read(t *testing.T, each int) (list []*script.Script) {
	t.Helper()
	for _, kind := range []string{"iwarp", "roce"} {
		names, err := filepath.Glob("../script/testdata/" + kind + "/*/*.wire")
		if err != nil {
			t.Fatal(err)
		}
		for i := each / 2; i < len(names); i += each {
			s, err := script.ReadFile(names[i])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
	}
	return list
}
