package nvme

import "strings"

// NQNRule is what ValidNQN wants.
const NQNRule = "a name begins with nqn. and has at most 223 octets without blanks and slashes"

// ValidNQN tells whether s can be the name of a subsystem or host (NVMe Base specification section
// 4.5, as far as it is checked).
func ValidNQN(s string) bool {
	return strings.HasPrefix(s, "nqn.") && len(s) > 4 && len(s) <= MaxNQN && !strings.ContainsAny(s, " \t\n/\x00")
}
