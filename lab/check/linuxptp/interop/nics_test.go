package interop

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/msg"
)

var must = testenv.Must

// Two NICs on two TAPs synchronize across a Linux bridge. Their clocks are
// compared directly; half of the comparisons have to be within what a wrong
// sign or unit would exceed.
func TestNICsAcrossABridge(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := testenv.Space(t, link.Quiet)
	ns, n := s.NS, s.Net
	must(t, n.AddBridge("br0"))
	must(t, n.Up("br0"))
	var beds [2]*Bed
	for i := range beds {
		tapName := fmt.Sprint("tap", i)
		must(t, n.AddTAP(tapName, false))
		must(t, n.Join(tapName, "br0"))
		must(t, n.Up(tapName))
		cfg := nicconf.Config{Name: fmt.Sprint("nic", i), TAP: tapName,
			IP: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24)}}
		cfg.NIC.PHC.PPB = float64(i) * slavePPB
		beds[i] = &Bed{}
		nic, err := nicnode.Start(ctx, cfg, node.Env{NS: ns})
		must(t, err)
		beds[i].NIC = nic
		defer beds[i].NIC.Close()
	}
	rates := func(c *unit.InstanceConfig) {
		p := &c.Ports[0]
		p.LogAnnounceInterval, p.LogSyncInterval, p.LogMinDelayReqInterval = -2, -4, -4
		p.TxTimestampTimeout = time.Second
	}
	_, err := beds[0].StartPTP(ptp.DefaultE2E, 1, func(c *unit.InstanceConfig) { rates(c); c.Priority1 = 1 })
	must(t, err)
	w, err := beds[1].StartPTP(ptp.DefaultE2E, 24, func(c *unit.InstanceConfig) {
		rates(c)
		c.SlaveOnly, c.Quality.Class = true, msg.ClassSlaveOnly
	})
	must(t, err)
	select {
	case <-w.reached:
	case <-ctx.Done():
		t.Fatal("not locked")
	}
	var apart []int64
	for range 25 {
		a, err := beds[0].ClockError()
		must(t, err)
		b, err := beds[1].ClockError()
		must(t, err)
		apart = append(apart, int64(b-a))
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(apart)
	if median := apart[len(apart)/2]; median < -200_000 || median > 200_000 {
		t.Errorf("the clocks are %d ns apart", median)
	} else {
		t.Logf("the clocks are %d ns apart", median)
	}
}
