package secret

import "testing"

func TestSecret(t *testing.T) {
	seen := map[Secret]string{}
	for name, s := range map[string]Secret{
		"root": FromSeed(1, "nic0"), "other seed": FromSeed(2, "nic0"), "other name": FromSeed(1, "nic1"),
		"use": FromSeed(1, "nic0").For("stag"), "other use": FromSeed(1, "nic0").For("isn"), "none": {},
	} {
		if before, ok := seen[s]; ok {
			t.Errorf("%s is %s", name, before)
		}
		seen[s] = name
	}
	if FromSeed(1, "nic0") != FromSeed(1, "nic0") {
		t.Error("one seed makes two secrets")
	}
	a, b := FromSeed(1, "nic0").Source(), FromSeed(1, "nic0").Source()
	for range 100 {
		if a.Uint64() != b.Uint64() {
			t.Fatal("one secret makes two series")
		}
	}
}
