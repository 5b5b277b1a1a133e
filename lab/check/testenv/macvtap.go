package testenv

import (
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// Macvtap makes a macvtap interface, called mv and the name of the interface that it is on, and
// returns its wire.
func Macvtap(t testing.TB, ns *netns.NS, on string) (wire string) {
	t.Helper()
	n, err := link.In(ns)
	Must(t, err)
	defer n.Close()
	path, err := n.AddMacvtap("mv"+on, on, false)
	Must(t, err)
	return "tapdev:" + path
}
