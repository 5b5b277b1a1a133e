package doctor_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/tool/doctor"
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
	want := []string{"kernel", "tun", "tap", "wire shm", "wire stream", "wire udp", "wire vxlan",
		"wire dev", "wire tapdev", "user namespaces", "seccomp notify", "yama", "rdma-core",
		"bridge netfilter", "PAUSE frames", "ip", "tshark", "tcpdump"}
	if !slices.Equal(names, want) {
		t.Errorf("checks %q, want %q", names, want)
	}
	left := func() []string {
		return slices.DeleteFunc(links(t), func(name string) bool { return slices.Contains(before, name) })
	}
	// Those of tests elsewhere go soon.
	for end := time.Now().Add(time.Minute); len(left()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left: %q", left())
		}
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
		if strings.HasPrefix(l.Name, testenv.DoctorTAP) {
			names = append(names, l.Name)
		}
	}
	return names
}
