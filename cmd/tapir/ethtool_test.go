package main

import (
	"strings"
	"testing"
)

// The help text has an example for each option that does something.
func TestEthtoolExamples(t *testing.T) {
	for _, o := range ethtoolOptions() {
		if flag, _, _ := strings.Cut(o.example, " "); flag != "-"+o.short && flag != "--"+o.long && o.long != "change-eeprom" {
			t.Errorf("--%s: the example is %q", o.long, o.example)
		}
	}
}
