package suite

import (
	"testing"
	"time"

	"tapir/ptp"
	"tapir/ptp/bmca"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/ptp/unicast"
)

// mechanism sets the delay mechanism of all ports.
func mechanism(d msg.DelayMechanism) func(*ptp.Config) {
	return func(c *ptp.Config) {
		for i := range c.Ports {
			c.Ports[i].DelayMechanism = d
		}
	}
}

func TestP2P(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.master, s.slave = mechanism(msg.DelayP2P), mechanism(msg.DelayP2P)
	run(t, s).inSync(t)
	s.slave = mechanism(msg.DelayE2E)
	run(t, s).outOfSync(t)
}

func TestBestMaster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ master, slave func(*ptp.Config) }{
		{master: func(c *ptp.Config) { c.Quality.Class = 6 }},
		{slave: func(c *ptp.Config) { c.Quality.Class = 249 }},
		{master: func(c *ptp.Config) { c.Priority1 = 127 }},
		{slave: func(c *ptp.Config) { c.Priority2 = 129 }},
	} {
		s := defaults()
		s.masters, s.master, s.slave = []int{2}, c.master, c.slave
		run(t, s).inSync(t)
	}
}

func slaveOnly(c *ptp.Config) { c.SlaveOnly, c.Quality.Class = true, msg.ClassSlaveOnly }

func TestSlaveOnly(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.masters, s.slave = []int{2}, slaveOnly
	run(t, s).inSync(t)
}

// mesh is
//
//	1 --- 2 --- 3
//	      |     |
//	      4 --- 5 --- 6,7
var mesh = [][]int{{1, 2}, {2, 3}, {2, 4}, {3, 5}, {4, 5}, {5, 6, 7}}

func TestBoundary(t *testing.T) {
	t.Parallel()
	for _, master := range []int{1, 4, 7} {
		s := defaults()
		s.subnets, s.masters = mesh, []int{master}
		s.syncBetween(10*time.Second, 100*time.Second)
		s.master = func(c *ptp.Config) { c.Quality.Class = 6 }
		run(t, s).inSync(t)
	}
}

func TestPathTrace(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = mesh
	s.syncBetween(10*time.Second, 100*time.Second)
	s.master = func(c *ptp.Config) { c.Quality.Class = 6 }
	s.all = func(c *ptp.Config) { c.PathTrace = true }
	o := run(t, s)
	o.inSync(t)
	for _, c := range []struct{ from, to, octets int }{
		{1, 2, 76}, {2, 3, 84}, {2, 4, 84}, {3, 5, 92}, {4, 5, 92}, {5, 6, 100}, {5, 7, 100},
	} {
		if !o.announced(c.from, c.to, c.octets) {
			t.Errorf("no Announce of %d octets from %d to %d", c.octets, c.from, c.to)
		}
	}
}

func TestPassivePort(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}, {1, 2}, {1, 2}}
	s.limits.End, s.limits.TimeMax, s.limits.FreqMax = 2000*time.Second, 5e3, 5e3
	s.more = func(subnet int) time.Duration { return time.Duration(subnet+1) * 10 * time.Microsecond }
	s.down = func(subnet int, at time.Duration) bool {
		return (at+time.Duration(subnet)*100*time.Second)%(300*time.Second) >= 150*time.Second
	}
	run(t, s).inSync(t)
}

func TestMasterOnly(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.slave = func(c *ptp.Config) { c.Ports[0].MasterOnly = true }
	o := run(t, s)
	for n := 1; n <= 2; n++ {
		o.wantState(t, n, 1, master)
	}
}

func TestTelecomComparison(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		second func(*ptp.Config)
		want   msg.PortState
	}{
		{func(*ptp.Config) {}, slave},
		{func(c *ptp.Config) { c.LocalPriority = 127 }, master},
		{func(c *ptp.Config) { c.Ports[0].LocalPriority = 129 }, master},
	} {
		s := defaults()
		s.subnets, s.slaveStart, s.limits.End = [][]int{{1, 2}}, 0, 50*time.Second
		s.all = func(c *ptp.Config) { c.Algorithm = bmca.Telecom }
		s.slave = c.second
		o := run(t, s)
		o.wantState(t, 1, 1, master)
		o.wantState(t, 2, 1, c.want)
	}
}

func TestTelecomBMCA(t *testing.T) {
	t.Parallel()
	s := defaults()
	// 1 --> 3 --> 5 --> 7, 2 --> 4 --> 6 --> 7; 3 and 4, 5 and 6 are joined.
	s.subnets = [][]int{{1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}, {6, 7}, {3, 4}, {5, 6}}
	s.masters = []int{1, 2}
	s.syncBetween(10*time.Second, 100*time.Second)
	s.limits.TimeMax, s.limits.FreqMax = 5e3, 5e3
	s.all = func(c *ptp.Config) { c.Algorithm = bmca.Telecom }
	s.master = func(c *ptp.Config) { c.Quality.Class, c.Ports[0].MasterOnly = 6, true }
	// Of each pair of links the one up is preferred, the one down is not slave:
	// 3 has 1, 5, 4; 4 has 2, 6, 3; 5 has 3, 7, 6; 6 has 4, 7, 5.
	middle := func(c *ptp.Config) { c.Ports[0].LocalPriority, c.Ports[1].MasterOnly = 127, true }
	s.each = map[int]func(*ptp.Config){3: middle, 4: middle, 5: middle, 6: middle}
	o := run(t, s)
	o.inSync(t)
	for node, grandmaster := range map[int]int{3: 1, 5: 1, 7: 1, 4: 2, 6: 2} {
		if got := o.grandmaster(node); got != grandmaster {
			t.Errorf("node %d follows %d, want %d", node, got, grandmaster)
		}
	}
}

func TestHybrid(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.all = func(c *ptp.Config) { c.Ports[0].HybridE2E = true }
	run(t, s).inSync(t)
}

func TestAutomotive(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.syncBetween(10*time.Second, 100*time.Second)
	s.profile = ptp.Automotive
	s.all = func(c *ptp.Config) { c.Ports[0].AsCapable = true }
	s.master = func(c *ptp.Config) { c.Ports[0].Role = ptp.MasterRole }
	s.slave = func(c *ptp.Config) { c.Ports[0].Role, c.Servo.Step = ptp.SlaveRole, 1e9 }
	o := run(t, s)
	o.inSync(t)
	if o.announced(1, 2, 0) {
		t.Error("Announces where the roles are static")
	}
}

// In ptp4l's words: unicast_listen and inhibit_multicast_service at the master,
// a unicast_master_table and unicast_req_duration 60 at the slaves.
func TestUnicast(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.all = func(c *ptp.Config) { c.Ports[0].NoMulticast = true }
	s.master = func(c *ptp.Config) {
		c.Ports[0].Unicast.Listen, c.Ports[0].Unicast.Limits, c.Ports[0].HybridE2E = true, unicast.DefaultLimits(), true
	}
	s.slave = func(c *ptp.Config) {
		first := &node{w: &world{s: &s}, number: 1}
		c.Ports[0].Unicast.Masters, c.Ports[0].Unicast.LogQuery, c.Ports[0].Unicast.Duration = []transport.Addr{first.addr(0)}, 2, 60
	}
	run(t, s).inSync(t)
}

func TestUDPv6(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.carriage = transport.UDPv6
	run(t, s).inSync(t)
}

func TestL2(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.carriage = transport.Ethernet
	run(t, s).inSync(t)
}

func TestAutoDelay(t *testing.T) {
	t.Parallel()
	auto := func(c *ptp.Config) { c.Ports[0].AutoDelay = true }
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.master, s.slave = auto, mechanism(msg.DelayP2P)
	run(t, s).inSync(t)
	s.master, s.slave = mechanism(msg.DelayP2P), auto
	run(t, s).inSync(t)
}

func TestClassThreshold(t *testing.T) {
	t.Parallel()
	for _, class := range []uint8{6, 7, 140} {
		s := defaults()
		s.master = func(c *ptp.Config) { c.Quality.Class = class }
		s.slave = func(c *ptp.Config) { c.MaxClockClass = 7 }
		if w := run(t, s); class <= 7 {
			w.inSync(t)
		} else {
			w.outOfSync(t)
		}
	}
}

// The alternate time offset of the suite, 24 octets more, is left out.
func TestPower(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.master = func(c *ptp.Config) { c.Power.Year = 2017 }
	w := run(t, s)
	w.inSync(t)
	if !w.announced(1, 2, 86) {
		t.Errorf("Announces of %v octets, want 86", w.seen[[2]int{1, 2}])
	}
}
