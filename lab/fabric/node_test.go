package fabric

import (
	"testing"

	"tapir/opa"
)

func lid(i int) opa.LID { return opa.LID(i) }

func TestTwoHFIs(t *testing.T) {
	b := newBed(t)
	a := b.start(number(1, VNIC{VESW: 2, IP: ips("10.0.0.1/24", "fd00::1/64")}))
	c := b.start(number(2, VNIC{VESW: 2, IP: ips("10.0.0.2/24", "fd00::2/64")}))
	a.ping(t, "10.0.0.2")
	c.ping(t, "fd00::1")
	a.ping(t, "10.0.0.2", "-s", "1472", "-M", "do")
	if n := a.counter(t, "opa-vesw2", "tx_unicast"); n < 6 {
		t.Errorf("tx_unicast %d", n)
	}
}
