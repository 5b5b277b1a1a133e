package nicconf

import (
	"fmt"
	"strings"
	"testing"
)

// card is a file with a card of these settings and functions.
func card(settings string, functions ...string) string {
	s := "nics:\n  - name: card\n"
	for line := range strings.SplitSeq(settings, "; ") {
		s += "    " + line + "\n"
	}
	s += "    functions:\n"
	for _, f := range functions {
		s += "      - {" + f + "}\n"
	}
	return s
}

// A card has one NIC for each function. An error names file, line and key.
func TestCards(t *testing.T) {
	many := func(n int, more string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("ip: 10.0.%d.1/24%s", i, more))
		}
		return list
	}
	const npar = "port_mode: 4x25G; mf_mode: npar"
	for in, want := range map[string]string{
		card(npar, many(16, "")...):                                                             "",
		card("port_mode: 2x25G", many(2, "")...):                                                "",
		card(npar, many(17, "")...):                                                             "n.yaml:2:9: functions: 17 functions",
		card("port_mode: 3x25G", many(1, "")...):                                                "n.yaml:3:16: port_mode: expected ports of a card",
		card("port_mode: 2x25G", many(3, "")...):                                                "several need mf_mode",
		card(npar, "ip: 10.0.0.1/24, port: 4"):                                                  "n.yaml:6:33: port: expected the number of the function's port",
		card("port_mode: 2x25G", "ip: 10.0.0.1/24, port: 2"):                                    "port 2: port mode 2x25G has ports 0 to 1",
		card(npar, "ip: 10.0.0.1/24, personality: rocky"):                                       "n.yaml:6:40: personality: expected",
		card(npar, "ip: 10.0.0.1/24, personality: roce", "ip: 10.0.1.1/24, personality: iwarp"): "",
		card(npar, "ip: 10.0.0.1/24, tap: t0"):                                                  "n.yaml:6:27: tap: unknown key",
		card(npar+"; ports: [a, b, c, d, e]", many(1, "")...):                                   "ports: 5 TAPs: port mode 4x25G has 4",
		card(npar, many(16, ", host_tap: h, queues: 32")...):                                    "queues: 32: the function's share of its engine is 20",
		card(npar, many(16, ", desired_cnq: 5")...):                                             "n.yaml:6:9: cardf0: ",
		card(npar, many(1, ", ovlan: 5")...):                                                    "ovlan 5: a function has an outer VLAN with mf_mode ovlan or ufp",
		card("port_mode: 1x25G; mf_mode: ufp", many(1, "")...):                                  "ovlan 0",
		card(npar, "name: a, ip: 10.0.0.1/24", "name: a, ip: 10.0.1.1/24"):                      "n.yaml:7:9: name: two NICs are called a",
		card("hardware: ideal; ports: [a, b]", "ip: 10.0.0.1/24", "ip: 10.0.1.1/24", "ip: 10.0.2.1/24, port: 3, host_tap: h"): "",
		card("hardware: ideal", "ip: 10.0.0.1/24", "ip: 10.0.1.1/24, port: 1"):                                                "",
		card("hardware: ideal; port_mode: 2x25G", many(2, "")...):                                                             "n.yaml:4:16: port_mode: hardware ideal has no port modes",
		card("mf_mode: ovlan; hardware: ideal", many(2, "")...):                                                               "n.yaml:3:14: mf_mode: hardware ideal has no management firmware",
		card("hardware: ideal", "ip: 10.0.0.1/24, bw_max: 10"):                                                                "n.yaml:5:35: bw_max: hardware ideal has no such setting",
		card("port_mode: 2x25G; ports: ['shm:/run/a', {wire: 'dev:eth1'}]", many(2, "")...):                                   "",
		card("port_mode: 2x25G; ports: [{wire: 'shm:/run/a', tap: b}, c]", many(2, "")...):                                    "n.yaml:4:13: ports: wire takes the place of a TAP",
		card("port_mode: 2x25G; ports: ['shm:x', c]", many(2, "")...):                                                         "n.yaml:4:13: ports: \"x\": expected a path with a slash",
		card("port_mode: 2x25G; wire: 'shm:/run/a'", many(2, "")...):                                                          "tap and wire are of one port: give ports",
		card("hardware: ideal", many(17, "")...):                                                                              "up to 4 ports and 16 functions, not 0 and 17",
		card("port_mode: 1x25G; mf_mode: ovlan", "ip: 10.0.0.1/24, ovlan: 5, ufp_tc: 3"):                                      "n.yaml:6:9: cardf0: ufp_tc and ufp_pri are of functions with mf_mode ufp",
		"nics:\n  - {ip: 10.0.0.1/24, mf_mode: npar}\n":                                                                       "give functions",
		card(npar+"; ip: 10.0.0.1/24", many(1, "")...):                                                                        "ip, mac and host_tap are of one function",
		card(npar, "ip: 10.0.0.1/24, mac: '02:00:00:00:00:01'", many(1, "")[0]):                                               "both use 10.0.0.1",
	} {
		all, err := Parse("n.yaml", []byte(in))
		switch {
		case want == "" && (err != nil || len(all) < 2 || all[1].Name != "cardf1" || all[1].Function != 1 || all[1].Port != 1):
			t.Errorf("%s: %v, %d NICs", in, err, len(all))
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	var d Draft
	for _, f := range []string{"name=x ip=10.0.0.1/24", "name=y ip=10.0.1.1/24 port=1 queues"} {
		if err := d.AddFunction(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SetCard("port-mode", "2x25G"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(); err == nil || !strings.Contains(err.Error(), `"queues": expected settings such as`) {
		t.Errorf("a word that is no setting: %v", err)
	}
}
