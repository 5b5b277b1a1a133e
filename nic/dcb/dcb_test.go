package dcb

import "testing"

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		Config
		err string
	}{
		"off":       {Config{}, ""},
		"strict":    {Config{PrioTC: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}}, ""},
		"ETS":       {Config{Weight: [8]uint8{70, 30}, TSA: [8]TSA{ETS, ETS}}, ""},
		"sum":       {Config{Weight: [8]uint8{70, 20}, TSA: [8]TSA{ETS, ETS}}, "the weights of the ETS classes have the sum 90, not 100"},
		"the class": {Config{PrioTC: [8]uint8{3: 8}}, "priority 3: traffic class 8 is over 7"},
	} {
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.err {
			t.Errorf("%s: %q, not %q", name, got, c.err)
		}
	}
	c := Config{PrioTC: [8]uint8{4: 2}}
	if n := c.TCs(); n != 3 {
		t.Errorf("%d traffic classes, not 3", n)
	}
}
