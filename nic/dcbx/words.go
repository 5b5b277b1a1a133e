package dcbx

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/wire/lldp"
)

// selectors are the names of those of applications.
var selectors = [...]string{lldp.SelEtherType: "ethtype", lldp.SelTCP: "tcp", lldp.SelUDP: "udp", lldp.SelPort: "port",
	lldp.SelDSCP: "dscp"}

// ParseApp reads SELECTOR:PROTOCOL:PRIORITY, such as udp:4791:3 or ethtype:0x8915:3, with the
// selectors ethtype, tcp, udp and port; false: it is something else.
func ParseApp(v string) (a lldp.AppEntry, ok bool) {
	words := strings.Split(v, ":")
	if len(words) != 3 {
		return a, false
	}
	selector := slices.Index(selectors[:], words[0])
	protocol, err1 := strconv.ParseUint(words[1], 0, 16)
	prio, err2 := strconv.ParseUint(words[2], 10, 3)
	if selector < 1 || selector == lldp.SelDSCP || cmp.Or(err1, err2) != nil {
		return a, false
	}
	return lldp.AppEntry{Selector: uint8(selector), Protocol: uint16(protocol), Priority: uint8(prio)}, true
}

// FormatApp writes an application as ParseApp reads it.
func FormatApp(a lldp.AppEntry) string {
	protocol := strconv.Itoa(int(a.Protocol))
	if a.Selector == lldp.SelEtherType {
		protocol = fmt.Sprintf("%#x", a.Protocol)
	}
	selector := strconv.Itoa(int(a.Selector)) // of a neighbor
	if int(a.Selector) < len(selectors) && a.Selector > 0 {
		selector = selectors[a.Selector]
	}
	return fmt.Sprintf("%s:%s:%d", selector, protocol, a.Priority)
}
