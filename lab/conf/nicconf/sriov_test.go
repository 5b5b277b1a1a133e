package nicconf

import (
	"strings"
	"testing"
)

// VFs that cannot be are told with their place.
func TestSRIOV(t *testing.T) {
	for in, want := range map[string]string{
		"numvfs: 4": "", "vfs: [{host_tap: vf0, netns: c1, qos: 3, vlan: 100, trust: on}]": "",
		"numvfs: 121":            "n.yaml:3:21: numvfs: expected",
		"numvfs: 5, totalvfs: 4": "numvfs 5 is more than totalvfs 4",
		"vfs: [{vlan: x}]":       "n.yaml:3:26: vlan: vlan x: want a number",
		"vfs: [{spoofchk: 3}]":   "spoofchk 3: want on or off",
		"vfs: [{tap: x}]":        "n.yaml:3:20: tap: unknown key",
		"storm: 1000/200":        "", "storm: none": "",
		"storm: 0":                     "n.yaml:3:20: storm: expected frames per second, such as 1000, or 1000/200 with a burst, or none",
		"mode: evb":                    "mode: expected veb or vepa",
		"vfs: [{mac: nobody}]":         "mac: mac nobody",
		"vfs: [{host_tap: 'a b c d'}]": "host_tap: expected an interface name",
	} {
		_, err := Parse("n.yaml", []byte("nics:\n  - ip: 10.0.0.1/24\n    sriov: {"+in+"}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
