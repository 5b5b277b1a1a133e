package main

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	found := "mpa/a.go:1:6 tapir/mpa.DefaultConfig\nptp/msg/b.go:2:3 tapir/ptp/msg.Sync.Parse\nnic/c.go:3:4 tapir/nic.idle\n"
	text := "| `tapir/x` | `NotThis` |\n" + heading + "\n\n| package | functions |\n|---|---|\n" +
		"| `tapir/mpa` | `DefaultConfig` |\n| `tapir/ptp/msg` | `Sync`, `Gone` |\n\n## Next\n| `tapir/y` | `NorThis` |\n"
	entries := public(text)
	if want := []string{"mpa.DefaultConfig", "ptp/msg.Sync", "ptp/msg.Gone"}; !slices.Equal(entries, want) {
		t.Fatalf("entries %q", entries)
	}
	want := []string{"nic/c.go:3:4: nothing calls nic.idle", "the entry ptp/msg.Gone is not needed"}
	if got := compare(found, entries); !slices.Equal(got, want) {
		t.Errorf("problems %q", got)
	}
}

func TestReasons(t *testing.T) {
	got, err := named("# comment\n\nnic.idle # a test needs it\n")
	if err != nil || !slices.Equal(got, []string{"nic.idle"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := named("nic.idle\n"); err == nil {
		t.Error("an entry without a reason passed")
	}
}
