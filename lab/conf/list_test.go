package conf_test

import (
	"fmt"
	"testing"

	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
)

// What a file costs grows with its length, not with the square of it.
func TestLongLists(t *testing.T) {
	for name, tt := range map[string]struct {
		head, each string // each of the element's number, thrice
		parse      func(string)
	}{
		"NICs": {"nics:\n", "- {name: n%d, tap: t%d, ip6: 'fd00::%x/64'}\n",
			func(s string) { _, _ = nicconf.Parse("f", []byte(s)) }},
		"HFIs": {"hfis:\n", "- {guid: %d, lid: %d, vnics: [{vesw: 2, tap: v%d}]}\n",
			func(s string) { _, _ = hficonf.Parse("f", []byte(s)) }},
		"VNICs": {"hfis:\n- guid: 1\n  lid: 1\n  vnics:\n", "  - {vesw: %d, tap: v%d, mtu: 1%03d}\n",
			func(s string) { _, _ = hficonf.Parse("f", []byte(s)) }},
		"switches": {"switches:\n", "- {name: s%d, ports: [a%d, b%d]}\n",
			func(s string) { _, _ = swconf.Parse("f", []byte(s)) }},
		"ports of a switch": {"switches:\n- ports:\n", "  - {tap: t%d, netns: n%d, delay: %dns}\n",
			func(s string) { _, _ = swconf.Parse("f", []byte(s)) }},
	} {
		cost := func(n int) float64 {
			text := tt.head
			for i := range n {
				text += fmt.Sprintf(tt.each, i+1, i+1, i+1)
			}
			return testing.AllocsPerRun(1, func() { tt.parse(text) })
		}
		if short, long := cost(150), cost(600); long > 5*short {
			t.Errorf("%s: %.0f allocations for 150, %.0f for 600", name, short, long)
		}
	}
}
