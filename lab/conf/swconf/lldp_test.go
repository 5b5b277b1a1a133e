package swconf

import (
	"strings"
	"testing"

	"tapir/nic/lldp"
)

// DCBX speaks by the agent of the nearest bridge and maps priority n to class n; settings
// that would have no effect are refused.
func TestLLDP(t *testing.T) {
	all, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], dcbx: ieee, dcb_willing: all}]"))
	if err != nil {
		t.Fatal(err)
	}
	if c := all[0].WithDefaults(); !c.LLDP.Params(lldp.NearestBridge).Tx || c.LLDP.Params(lldp.NearestCustomer).Rx || !c.Mapped || c.DCB.PrioTC[7] != 7 || !c.Administered().ETS.Willing {
		t.Errorf("%+v", c)
	}
	if all, err = Parse("f.yaml", []byte("switches: [{ports: [a, b], dcbx: ieee, dcb_willing: none}]")); err != nil || all[0].Administered().ETS.Willing {
		t.Errorf("dcb_willing: none: %v", err)
	}
	for text, want := range map[string]string{
		"lldp: nearest":                      "lldp: expected nearest-bridge",
		"dcbx: on":                           "dcbx: expected off, ieee",
		"dcb_app: udp:4791:8":                "dcb_app: expected SELECTOR",
		"dcb_willing: tsa":                   "dcb_willing: expected ets",
		"dcb_app: udp:4791:3":                "say dcbx ieee",
		"buffer_alpha: 2":                    "say buffer",
		"buffer_alpha: 0":                    "buffer_alpha: expected a factor",
		"gateway: 10.0.0.1":                  "say routes",
		"routes: 10.0.0.1":                   "routes: expected PREFIX",
		"routes: 10.0.0.0/8=c":               "there is no port c",
		"routes: [10.0.0.0/8, 10.0.0.1/8]":   "is there twice",
		"routes: 10.0.0.0/8=a, ecmp_seed: 1": "none has several",
		"lldp_hold: 4":                       "say lldp nearest-bridge",
		"dcbx: ieee, dcb_app: [" + strings.Repeat("'udp:1:1', ", 32) + "'udp:1:1']": "room for 32",
	} {
		if _, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], "+text+"}]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
