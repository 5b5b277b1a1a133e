package labtest_test

import (
	"os"
	"strings"
	"testing"

	"tapir/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// A program under test, here ping, between two NICs whose link becomes worse.
func TestLossyLink(t *testing.T) {
	lab := labtest.Start(t, "testdata/pair.yaml", labtest.Seed(7))
	if out := lab.Exec("b", "ping", "-c", "1", "10.0.0.1"); !strings.Contains(out, "1 received") {
		t.Error(out)
	}
	lab.Step("{fault: a-b, loss: 5%}")
	r := lab.Step("{perf: verify, server: a, client: b, size: 300000}")
	for _, c := range r.Perf.Checks {
		if !c.Verified {
			t.Errorf("%s: memory differs", c.Operation)
		}
	}
	lab.Until("the NIC has sent again what was lost", func() bool { return lab.Counter("b", "tcp_retransmits") > 0 })
	lab.Step("expect: {link: a-b, counter: lost}")
}

// A lab as a whole, by the virtual clock: no privileges, no time.
func TestInVirtualTime(t *testing.T) {
	labtest.Run(t, "../examples/lossy-link/lab.yaml", labtest.Clock("virtual"))
}

func Example() {
	var t *testing.T // of a test
	lab := labtest.Start(t, "testdata/pair.yaml")
	lab.Step("{perf: verify, server: a, client: b}")
	lab.Exec("b", "ping", "-c", "1", "10.0.0.1")
}
