package script

import (
	"fmt"
	"strings"
	"time"
)

// ladderWidth is the room between the peer and the NIC.
const ladderWidth = 96

// rung writes one line of the trace of an iWARP script: an arrow from the
// peer (left) to the NIC (right) or back, or what the NIC's application was
// told, to the right of it.
func (r *runner) rung(dir, text string, at time.Duration) {
	if !r.begun {
		r.begun = true
		fmt.Fprintf(r.trace, "%-10s peer%sNIC\n", "time", strings.Repeat(" ", ladderWidth-4))
	}
	gap := max(1, ladderWidth-6-len(text))
	middle := strings.Repeat(" ", ladderWidth)
	after := ""
	switch dir {
	case "<":
		tip := "->"
		if strings.HasPrefix(text, "[lost") || strings.HasPrefix(text, "[hidden") || strings.HasPrefix(text, "[join") {
			tip = "  " // it does not arrive, or not yet
		}
		middle = "-- " + text + " " + strings.Repeat("-", gap) + tip
	case ">":
		middle = "<-" + strings.Repeat("-", gap) + " " + text + " --"
	default:
		after = "  " + text
	}
	fmt.Fprintf(r.trace, "%-10s |%s|%s\n", formatTime(at), middle, after)
}
