package virtual

import (
	"testing"
	"time"

	"tapir/lab/topo"
)

// The hardware clock of a NIC steps and drifts, exactly, when it is told to.
func TestPHC(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24, phc_drift_register: 0}
links: [[a, b]]
steps:
  - {phc: a, step: -10ms, after: 1s}
  - {phc: b, ppb: 100000}
  - wait: 2s
`))
	if err != nil {
		t.Fatal(err)
	}
	up, err := Up(t.Context(), lab, Options{})
	if err != nil {
		t.Fatal(err)
	}
	up.Steps(t.Context())
	l := up.lab
	now := l.world.Now()
	a, b := l.node("a").dev.PTP.PHC().Now(now)-l.world.At(now), l.node("b").dev.PTP.PHC().Now(now)-l.world.At(now)
	if want := 200 * time.Microsecond; time.Duration(a) != -10*time.Millisecond || (time.Duration(b)-want).Abs() > time.Nanosecond {
		t.Errorf("a is %v off, b %v", time.Duration(a), time.Duration(b))
	}
	l.Close()
}
