package swconf

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/lldp"
)

// An FCF is true, a mapping, or settings in one word; FCoE has a priority that loses nothing.
func TestFCF(t *testing.T) {
	parse := func(text string) (Config, error) {
		all, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], "+text+"}]"))
		if err != nil {
			return Config{}, err
		}
		return all[0].WithDefaults(), nil
	}
	c, err := parse("fcf: true")
	want := FCF{On: true, Map: fip.DefaultMap, Fabric: SwitchName(c.FCFMAC()), Priority: 128, DomainID: 1, Period: 8 * time.Second, Logins: 1024, NPIV: 64}
	if err != nil || !reflect.DeepEqual(c.FCF, want) || c.FCoEPriority(fcoe.EtherType) != 0 {
		t.Errorf("%+v, %v", c.FCF, err)
	}
	if c, err := parse("fcf: false"); err != nil || !reflect.DeepEqual(c.FCF, FCF{}) {
		t.Errorf("%+v, %v", c.FCF, err)
	}
	if c, err := parse("fcf: true, dcbx: ieee, prio_pfc: 5:on"); err != nil || c.FCoEPriority(fcoe.EtherType) != 5 || len(c.Administered().Apps) != 2 ||
		c.Administered().Apps[1] != (lldp.AppEntry{Priority: 5, Selector: lldp.SelEtherType, Protocol: fip.EtherType}) {
		t.Errorf("%+v, %v", c.Administered().Apps, err)
	}
	if c, err := parse("fcf: true, dcbx: ieee, prio_pfc: '3:on,5:on', dcb_app: ethtype:0x8906:5"); err != nil || c.FCoEPriority(fcoe.EtherType) != 5 || c.FCoEPriority(fip.EtherType) != 3 {
		t.Errorf("%+v, %v", c.Administered().Apps, err)
	}
	var d Draft
	for _, text := range []string{"fcf=vlan=100,zones=20:00:02:00:00:00:00:01|20:00:02:00:00:00:00:02", "fcf=npiv=2,fka_adv_period=1s"} {
		if err := d.SetText(text); err != nil {
			t.Fatal(err)
		}
	}
	if want := (FCF{On: true, VLAN: 100, NPIV: 2, Period: time.Second, Zones: []Zone{{0x2000_0200_0000_0001, 0x2000_0200_0000_0002}}}); !reflect.DeepEqual(d.FCF, want) {
		t.Errorf("%+v", d.FCF)
	}
	if err := d.SetText("fcf=vlan=5000"); err == nil || !strings.Contains(err.Error(), "expected a VLAN from 1 to 4094") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"fcf: perhaps":                    "expected true, false or the settings",
		"fcf: {fc_map: 0x0efd00}":         "fc_map: expected a number of 24 bits",
		"fcf: {fka_adv_period: 1ms}":      "fka_adv_period: expected a time from 500ms",
		"fcf: {zones: [[1]]}":             "zones: expected a world-wide name",
		"fcf: {zones: [20:00]}":           "zones: expected a list of port names",
		"fcf: {fabric: 0000000000000000}": "fabric: expected a world-wide name",
		"fcf: {x: 1}":                     "x: unknown key",
		"fcf: true, dcbx: ieee, prio_pfc: 3:on, dcb_app: ethtype:0x8906:4": "FCoE has priority 4, which may lose frames",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
