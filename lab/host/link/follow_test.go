package link

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// A watch that could not keep up with the kernel knows in the end how things
// are.
func TestWatchThatFellBehind(t *testing.T) {
	n, _ := oneTAP(t)
	must(t, n.Up("opa0"))
	news := make(chan bool)
	stop, err := n.Watch("opa0", func(live bool) { news <- live }, nil)
	must(t, err)
	next := func(want bool) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case live := <-news:
				if live == want {
					return
				}
			case <-deadline:
				t.Fatalf("no news of a link that is up=%v", want)
			}
		}
	}
	next(true)
	must(t, n.Down("opa0")) // of which it tells, and nobody listens
	must(t, n.AddBridge("other"))
	for i := range 2000 {
		must(t, n.SetMTU("other", 1400+i%2))
	}
	must(t, n.Up("opa0"))
	next(false)
	next(true)
	stop()
}

// Links and addresses are listed while others come and go.
func TestListsWhileLinksChange(t *testing.T) {
	n := newNet(t)
	const links = 60 // more than one message of the kernel holds
	for i := range links {
		must(t, n.AddBridge(fmt.Sprint("b", i)))
		must(t, n.AddAddr(fmt.Sprint("b", i), netip.MustParsePrefix(fmt.Sprintf("10.0.%d.1/24", i))))
	}
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		other, err := In(n.ns)
		if err != nil {
			ended <- err
			return
		}
		defer other.Close()
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := other.AddBridge("other"); err != nil {
				ended <- err
				return
			}
			if err := other.Delete("other"); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 50 {
		all, err := n.Netdevs()
		must(t, err)
		if len(all) < links {
			t.Fatalf("%d links of %d", len(all), links)
		}
		infos, err := n.Get("b7")
		must(t, err)
		if len(infos.Addrs) == 0 {
			t.Fatal("no address")
		}
		_, err = n.HardwareLists()
		must(t, err)
	}
	close(over)
	must(t, <-ended)
}
