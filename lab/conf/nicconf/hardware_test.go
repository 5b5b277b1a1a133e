package nicconf

import (
	"strings"
	"testing"
)

// The kind of hardware is a setting; what it lacks is refused at the key, in
// any order, and by the command line as well.
func TestHardware(t *testing.T) {
	for in, want := range map[string]string{
		"nics:\n  - {ip: 10.0.0.1/24, hardware: ideal}\n":                                              "",
		"nics:\n  - {ip: 10.0.0.1/24, hardware: ideal, host_tap: h, frames: gso}\n":                    "",
		"nics:\n  - {ip: 10.0.0.1/24, hardware: fastlinq, int_mode: msi}\n":                            "",
		"nics:\n  - {ip: 10.0.0.1/24, hardware: best}\n":                                               "n.yaml:2:33: hardware: expected fastlinq or ideal",
		"nics:\n  - ip: 10.0.0.1/24\n    int_mode: msi\n    hardware: ideal\n":                         "n.yaml:3:15: int_mode: hardware ideal has no such setting",
		"nics:\n  - ip: 10.0.0.1/24\n    hardware: ideal\n    firmware: bin\n":                         "n.yaml:4:15: firmware: hardware ideal has no firmware",
		"nics:\n  - {ip: 10.0.0.1/24, hardware: ideal, host_tap: h, frames: gso, host_frames: wire}\n": "remove host_frames",
	} {
		all, err := Parse("n.yaml", []byte(in))
		if want == "" && err == nil {
			if kind := all[0].Device("").Hardware.Kind(); !strings.Contains(in, "hardware: "+kind) {
				t.Errorf("%s: hardware %s", in, kind)
			}
			continue
		}
		if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, c := range []struct{ first, value, then, with, want string }{
		{"hardware", "ideal", "rx-usecs", "5", `rx-usecs: "5": hardware ideal has no such setting`},
		{"rx-usecs", "5", "hardware", "ideal", `hardware: "ideal": hardware ideal has no setting rx_usecs`},
		{"dprint", "cm", "hardware", "ideal", ""},
	} {
		var cfg Config
		if err := cfg.Set(c.first, c.value); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Set(c.then, c.with); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A profile sets what is not given, before or behind it, and nothing else.
func TestProfile(t *testing.T) {
	for _, in := range []string{"profile: siw, ird: 5", "ird: 5, profile: siw", "ird: 5, hardware: ideal, profile: siw"} {
		all, err := Parse("n.yaml", []byte("nics:\n  - {ip: 10.0.0.1/24, "+in+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		c := all[0]
		for name, want := range map[string]string{"mpa_crc_required": "0", "mpa_crc_strict": "1", "ird": "5", "ord": "128", "max_inline": "80",
			"keepalive": "0", "tcp_nodelay": "1"} {
			if got := c.NIC.Param(name).Get(); got != want {
				t.Errorf("%s: %s is %s, want %s", in, name, got, want)
			}
		}
	}
	const want = "n.yaml:2:32: profile: expected siw"
	if _, err := Parse("n.yaml", []byte("nics:\n  - {ip: 10.0.0.1/24, profile: rxe}\n")); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	var c Config
	if err := c.Set("ird", "5"); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("profile", "siw"); err != nil || c.NIC.Param("ird").Get() != "5" || c.NIC.Param("ord").Get() != "128" {
		t.Error(err)
	}
}
