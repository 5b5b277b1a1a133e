package wires

import (
	"strings"
	"testing"
)

// The text of a wire is right, or wrong for a reason of one line; what Ends says is right.
func FuzzCheck(f *testing.F) {
	for _, kind := range Local {
		a, b, err := Ends(kind, "/run/cable", 47920)
		if err != nil || Check(a) != nil || Check(b) != nil {
			f.Fatal(kind, err, Check(a), Check(b))
		}
		f.Add(a)
	}
	f.Add("dev:eth1")
	f.Add("tapdev:/dev/tap7")
	f.Add("stream:listen:192.0.2.1:7000,192.0.2.2")
	f.Add("vxlan:7,[fe80::1%eth0]:1,key=")
	f.Fuzz(func(t *testing.T, text string) {
		err := Check(text)
		switch {
		case err == nil && !Is(text):
			t.Errorf("%q is right, and no wire", text)
		case err != nil && (err.Error() == "" || strings.Count(err.Error(), "\n") > strings.Count(text, "\n")):
			t.Errorf("%q: %q", text, err)
		}
	})
}
