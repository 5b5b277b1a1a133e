package testenv

import (
	"net"
	"strings"
	"testing"
)

// DoctorTAP is how the names of the TAPs begin that `tapir doctor` makes, to see
// whether it may.
const DoctorTAP = "tapirdoc"

// Links are the names of the links of this process's network namespace, but for
// a doctor's TAPs: those of tests in other processes come and go.
func Links(t testing.TB) (names []string) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if !strings.HasPrefix(l.Name, DoctorTAP) {
			names = append(names, l.Name)
		}
	}
	return names
}
