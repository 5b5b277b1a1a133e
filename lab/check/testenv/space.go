package testenv

import (
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// Space is a network namespace with its links until the test ends. prepare,
// such as link.Quiet, sets it up first; it may be nil.
func Space(t testing.TB, prepare func(*netns.NS) error) *link.Space {
	t.Helper()
	s, err := link.NewSpace(prepare)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
