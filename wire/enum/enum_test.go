package enum

import "testing"

type fruit uint8

var names = []string{"apple", "", "pear"}

func TestName(t *testing.T) {
	for v, want := range map[fruit]string{0: "apple", 1: "fruit 1", 2: "pear", 3: "fruit 3", 255: "fruit 255"} {
		if got := Name(names, v, "fruit %d"); got != want {
			t.Errorf("%d: %q, want %q", v, got, want)
		}
	}
	if got := Name(names, -1, "unknown"); got != "unknown" {
		t.Errorf("-1: %q", got)
	}
}

func TestParse(t *testing.T) {
	if v, err := Parse[fruit](names, "pear", "no fruit %q"); v != 2 || err != nil {
		t.Errorf("pear: %d, %v", v, err)
	}
	for _, s := range []string{"", "plum"} {
		if _, err := Parse[fruit](names, s, "no fruit %q"); err == nil || err.Error() != `no fruit "`+s+`"` {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestBits(t *testing.T) {
	for v, want := range map[fruit]string{0: "", 1: "apple", 5: "apple,pear", 8: ""} {
		if got := Bits(names, v); got != want {
			t.Errorf("%d: %q, want %q", v, got, want)
		}
	}
}
