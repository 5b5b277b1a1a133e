package testenv

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"tapir/lab/host/netns"
)

var lastMacvtap atomic.Int32

// Macvtap makes a macvtap interface, called mv and the name of the interface that it is on, and
// returns its wire. The name of the device file has the interface's index, which is chosen to be
// another in each namespace.
func Macvtap(t testing.TB, ns *netns.NS, on, mode string) (wire string) {
	t.Helper()
	index := 1_000_000 + os.Getpid()%100_000*1000 + int(lastMacvtap.Add(1))
	for _, c := range []string{
		fmt.Sprintf("ip link add link %s name mv%s index %d type macvtap mode %s", on, on, index, mode),
		fmt.Sprintf("ip link set mv%s up allmulticast on", on)} {
		if out, err := Run(t, ns, strings.Fields(c)...); err != nil {
			t.Fatalf("%s: %v\n%s", c, err, out)
		}
	}
	path := fmt.Sprint("/dev/tap", index)
	Until(t, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	return "tapdev:" + path
}
