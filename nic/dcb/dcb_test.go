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

// What words say is shown in the same words, and what is no such word changes nothing else.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		pfc, shares         string
		wantPFC, wantShares string // empty: an error
	}{
		{"3:on", "0:30,1:70%", "3:on", "0:30,1:70"},
		{"all:on 3:off", "all:10", "0:on,1:on,2:on,4:on,5:on,6:on,7:on", "0:10,1:10,2:10,3:10,4:10,5:10,6:10,7:10"},
		{"all:off", "all:0", "all:off", "all:0"},
		{"", "", "", ""},
		{"8:on", "8:1", "", ""},
		{"3", "3", "", ""},
		{"3:maybe", "3:101", "", ""},
		{"-1:on", "0:-1", "", ""},
	} {
		var got Config
		if err := got.SetPFC(c.pfc); (err != nil) != (c.wantPFC == "") || err == nil && got.PFCWords() != c.wantPFC {
			t.Errorf("%s: %v, %v", c.pfc, got.PFCWords(), err)
		}
		if err := got.SetShares(c.shares); (err != nil) != (c.wantShares == "") || err == nil && got.ShareWords() != c.wantShares {
			t.Errorf("%s: %v, %v", c.shares, got.ShareWords(), err)
		}
	}
}
