package link

import (
	"net"
	"slices"
	"testing"
	"time"

	"tapir/nic/tap"
)

// oneTAP is a namespace with one open TAP.
func oneTAP(t *testing.T) (*Net, *tap.TAP) {
	t.Helper()
	n := newNet(t)
	q, err := n.OpenTAP(tap.Config{Name: "opa0"})
	must(t, err)
	t.Cleanup(func() { q.Close() })
	return n, q
}

// await tries until ok, as the kernel takes its time.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

func TestCarrierAndDormant(t *testing.T) {
	n, q := oneTAP(t)
	is := func(want string) func() bool {
		return func() bool {
			state, err := n.Operstate("opa0")
			must(t, err)
			return state == want
		}
	}
	must(t, q.SetCarrier(false))
	must(t, n.Up("opa0"))
	await(t, "down without a carrier", is("down"))
	must(t, n.SetDormant("opa0", true))
	must(t, q.SetCarrier(true))
	await(t, "dormant", is("dormant"))
	must(t, n.SetDormant("opa0", false))
	await(t, "up", is("up"))
	must(t, n.SetDormant("opa0", true))
	await(t, "dormant again", is("dormant"))
	must(t, q.SetCarrier(false))
	await(t, "down again", is("down"))
	if err := n.SetDormant("nothing", true); err == nil {
		t.Error("a link that does not exist was set")
	}
}

func TestFollowNetdev(t *testing.T) {
	n, q := oneTAP(t)
	changes := make(chan Netdev, 64)
	stop, err := n.Follow(func(d Netdev) { changes <- d })
	must(t, err)
	defer stop()
	next := func(what string, ok func(Netdev) bool) {
		t.Helper()
		for {
			select {
			case d := <-changes:
				if ok(d) {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no news of %s", what)
			}
		}
	}
	d, err := n.Netdev("opa0")
	must(t, err)
	all, err := n.Netdevs()
	must(t, err)
	if got := all[d.Index]; got.Name != "opa0" || got.MAC.String() != d.MAC.String() {
		t.Errorf("%+v among %v", d, all)
	}
	mac := net.HardwareAddr{6, 0x2c, 0, 5, 0, 0}
	must(t, n.SetMAC("opa0", mac))
	next("the MAC", func(x Netdev) bool { return x.Index == d.Index && x.MAC.String() == mac.String() && !x.Up })
	must(t, n.SetMTU("opa0", 9000))
	next("the MTU", func(x Netdev) bool { return x.MTU == 9000 })
	must(t, n.Up("opa0"))
	next("up", func(x Netdev) bool { return x.Up })
	q.Close()
	next("the end", func(x Netdev) bool { return x.Gone && x.Name == "opa0" })
}

func TestHardwareLists(t *testing.T) {
	n, _ := oneTAP(t)
	must(t, n.Up("opa0"))
	d, err := n.Netdev("opa0")
	must(t, err)
	unicast := net.HardwareAddr{2, 0, 0, 0, 0, 0x99}
	group := net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}
	must(t, n.AddHardwareAddr("opa0", unicast))
	must(t, n.AddHardwareAddr("opa0", group))
	lists, err := n.HardwareLists()
	must(t, err)
	for _, want := range []net.HardwareAddr{unicast, group, {1, 0, 0x5e, 0, 0, 1}} {
		if !slices.ContainsFunc(lists[d.Index], func(a net.HardwareAddr) bool { return a.String() == want.String() }) {
			t.Errorf("%v is missing in %v", want, lists[d.Index])
		}
	}
	for i := 1; i < len(lists[d.Index]); i++ {
		if lists[d.Index][i-1].String() >= lists[d.Index][i].String() {
			t.Errorf("not in order: %v", lists[d.Index])
		}
	}
}
