package iwarp

import (
	"strings"
	"testing"

	"tapir/nic/cm"
)

// TestWords: events and reasons have names of their own, and reasons the firmware's codes.
func TestWords(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range words.Events {
		if name := string(e); name == "" || name != strings.ToUpper(name) || seen[name] {
			t.Errorf("event %q", name)
		}
		seen[string(e)] = true
	}
	for why, ev := range errorEvents {
		if !seen[string(ev)] || why.Code < irqFull.Code || why.Status() != "ECONNRESET" {
			t.Errorf("%v %d %s of an established connection: event %v", why, why.Code, why.Status(), ev)
		}
	}
	for _, r := range []struct {
		cm.Reason
		code uint8
		want string
	}{{cm.Reason{}, 0, "0"}, {tcpReset, 7, "ECONNRESET"}, {mpaTimeout, 17, "EBUSY"}, {goodClose, 19, "0"},
		{mpaReject, 9, "ECONNREFUSED"}, {terminateReceived, 31, "ECONNRESET"}} {
		if r.Code != r.code || r.Status() != r.want {
			t.Errorf("%v: %d %s, want %d %s", r, r.Code, r.Status(), r.code, r.want)
		}
	}
}
