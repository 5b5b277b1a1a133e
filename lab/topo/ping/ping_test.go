package ping

import (
	"strings"
	"testing"
)

// What ping has not here is an error in one line.
func TestParse(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"ping", "ping: an address is missing"},
		{"ping 10.0.0.1", "ping: say how often, by -c, or how long, by -w"},
		{"ping -c 1 host", "ping: host: expected an address"},
		{"ping -c 1 10.0.0.1 10.0.0.2", "ping: 10.0.0.2: one address is expected"},
		{"ping -c 0 10.0.0.1", "ping: -c 0: expected a number from 1 to 65535"},
		{"ping -i 0 -c 1 10.0.0.1", "ping: -i 0: expected seconds from 0.001 to 1000000"},
		{"ping -M dont -c 1 10.0.0.1", "ping: -M dont: expected do"},
		{"ping 10.0.0.1 -c", "ping: -c: its value is missing"},
		{"ping -f 1 10.0.0.1", "ping: -f: of the options of ping there are -c, -i, -M do, -n, -q, -s, -t, -w and -W"},
	} {
		if _, err := Parse(strings.Fields(c.command)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, expected %s", c.command, err, c.want)
		}
	}
}
