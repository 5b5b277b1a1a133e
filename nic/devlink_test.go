package nic

import (
	"slices"
	"testing"

	"tapir/nic/view"
)

// XX-03 What devlink shows is of the flash, the firmware and the driver core.
func TestShowDevlink(t *testing.T) {
	_, a, _ := twoNICs(t, Config{})
	i := a.dev.ShowDevlink()
	of := func(list []view.DevlinkVersion, name string) string {
		n := slices.IndexFunc(list, func(v view.DevlinkVersion) bool { return v.Name == name })
		if n < 0 {
			return ""
		}
		return list[n].Version
	}
	if i.Serial != "00001" || of(i.Fixed, "board.id") != "TAPIR" || of(i.Running, "fw.mgmt") != "8.59.1.0" || of(i.Stored, "fw.undi") != "8.59.1" {
		t.Errorf("%+v", i)
	}
	used := func(name string) int {
		list := a.dev.ShowDevlink().Resources
		n := slices.IndexFunc(list, func(r view.DevlinkResource) bool { return r.Name == name })
		if n < 0 || list[n].Occ == nil {
			t.Fatalf("no use of %s", name)
		}
		return *list[n].Occ
	}
	before := used("pd")
	if _, err := a.dev.Verbs.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if used("pd") != before+1 || used("cid_eth") == 0 || used("ilt_lines") == 0 {
		t.Errorf("%d PDs, were %d", used("pd"), before)
	}
	a.dev.MFW().DamageNVM(0)
	if i = a.dev.ShowDevlink(); i.Serial != "" || len(i.Stored) != 0 || of(i.Running, "fw.mgmt") == "" {
		t.Errorf("of a damaged flash: %+v", i)
	}
}
