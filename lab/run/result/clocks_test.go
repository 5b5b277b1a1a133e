package result

import (
	"testing"
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
)

// TestClocks: samples stay few and at equal intervals, with what is true and believed.
func TestClocks(t *testing.T) {
	if NewClocks(nil, 0, time.Second) != nil || (*Clocks)(nil).Done() != nil {
		t.Error("clocks of no nodes")
	}
	c := NewClocks([]string{"m", "s"}, time.Second, time.Millisecond)
	s := &ptp.Snapshot{}
	s.Current.OffsetFromMaster, s.Current.MeanDelay = 3<<16, 5<<15
	for i := range 3 * clockPoints {
		c.Take(func(node string) (*ptp.Snapshot, int64) {
			if node == "m" {
				return nil, 0
			}
			s.Ports = append(s.Ports[:0], ptp.PortSnapshot{State: msg.StateSlave, StateName: "SLAVE",
				Mechanism: msg.DelayP2P, Corrections: ptp.CorrectionFields{Sync: 7 << 16, FollowUp: 1 << 15, PdelayResp: 1 << 16, PdelayRespFollowUp: 2 << 16}})
			return s, int64(i)
		})
	}
	all := c.Done()
	m, k := all[0], all[1]
	if len(k.At) > clockPoints || len(k.At) < clockPoints/2 || m.True[7] != nil || m.Stability != nil {
		t.Errorf("%d points", len(k.At))
	}
	for i := 2; i < len(k.At); i++ {
		if a, b := k.At[i]-k.At[i-1], k.At[1]-k.At[0]; a < b*0.99 || a > b*1.01 {
			t.Fatalf("intervals %v and %v", a, b)
		}
	}
	if *k.Believed[1] != 3 || *k.Delay[1] != 2.5 || k.State[1] != "SLAVE" || len(k.Stability) == 0 {
		t.Errorf("%+v", k.Stability)
	}
	if last := len(k.At) - 1; *k.Sync[last] != 7 || *k.FollowUp[last] != 0.5 || *k.DelayResp[last] != 3 || m.Sync[last] != nil {
		t.Errorf("correctionFields %v %v %v", *k.Sync[last], *k.FollowUp[last], *k.DelayResp[last])
	}
}
