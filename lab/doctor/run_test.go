package doctor_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"tapir/lab/doctor"
)

// TestRun checks the machine that runs the test, whatever it is like.
func TestRun(t *testing.T) {
	before := links(t)
	checks := doctor.Run(t.Context())
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
		t.Logf("%-4s %s: %s; %s", c.State, c.Name, c.Found, c.Remedy)
		if c.Found == "" || strings.Contains(c.Found+c.Remedy, "\n") {
			t.Errorf("%s: %q, %q: want one line each", c.Name, c.Found, c.Remedy)
		}
		if (c.State == doctor.OK) != (c.Remedy == "") {
			t.Errorf("%s: %s with remedy %q: want a remedy exactly where not ok", c.Name, c.State, c.Remedy)
		}
	}
	want := []string{"kernel", "tun", "tap", "user namespaces", "seccomp notify", "yama", "rdma-core", "bridge netfilter", "ip", "tshark", "tcpdump"}
	if !slices.Equal(names, want) {
		t.Errorf("checks %q, want %q", names, want)
	}
	if after := links(t); !slices.Equal(before, after) {
		t.Errorf("links %q became %q", before, after)
	}
}

// links lists the links a check could have left behind.
func links(t *testing.T) (names []string) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if strings.HasPrefix(l.Name, "tapirdoc") {
			names = append(names, l.Name)
		}
	}
	return names
}
