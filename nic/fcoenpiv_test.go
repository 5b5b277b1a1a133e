package nic

import (
	"bytes"
	"container/heap"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/node/sw/fcf"
	"tapir/nic/fcoe"
	"tapir/nic/scsi"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// fabric is a forwarder between two NICs.
type fabric struct {
	*world
	fcf *fcf.FCF
	due frame.Time
}

// newFabric makes one. The NICs of the world come next, each on a port of its own.
func newFabric(t *testing.T, zones []swconf.Zone) *fabric {
	f := &fabric{world: newWorld(t), due: frame.Never}
	c := swconf.Config{FCF: swconf.FCF{On: true, Zones: zones}}.WithDefaults()
	f.fcf = fcf.New(c.FCF, fcf.Env{MAC: c.FCFMAC(), Ports: 2,
		Send: func(port int, b []byte, now frame.Time) { f.out(port, b) }})
	f.lose = func(from *node, b []byte) bool {
		in := 0
		if from == f.nodes[1] {
			in = 1
		}
		b = bytes.Clone(b)
		if out, why := f.fcf.Receive(in, b, f.now); out >= 0 && why == frame.DropNone {
			f.out(out, b)
		}
		f.due = 0
		return true
	}
	return f
}

// out sends a frame by a port: what comes from the one NIC reaches the other.
func (f *fabric) out(port int, b []byte) {
	f.seq++
	heap.Push(&f.events, event{f.now + delay, f.seq, f.nodes[1-port], bytes.Clone(b), frame.Offload{}})
}

// pass lets time go until something has happened.
func (f *fabric) pass(limit time.Duration, done func() bool) {
	f.t.Helper()
	f.until(limit, func() bool {
		if f.due <= f.now {
			f.due = f.fcf.Poll(f.now)
		}
		return done()
	})
}

// Sixty-four virtual ports of a NIC log in by FDISC beside its own. Each has a name, sees the disk
// that the target port of its number has for it alone, and logs out; the function has a
// connection for each.
//
// FC-07
func TestFCoEVirtualPorts(t *testing.T) {
	const ports = fcoe.MaxPorts
	name := func(target, i int) fc.WWN { return fc.WWN(0x2001_0200_0000_0000 | target<<16 | i) }
	var zones []swconf.Zone
	var initiators, targets []fcoe.PortConfig
	for i := range ports {
		zones = append(zones, swconf.Zone{name(1, i), name(2, i)})
		initiators = append(initiators, fcoe.PortConfig{Port: name(1, i), Initiator: true})
		targets = append(targets, fcoe.PortConfig{Port: name(2, i), Hosts: []fc.WWN{name(1, i)},
			Units: []*scsi.Unit{memoryUnit(t, 64<<10)}})
	}
	zones = append(zones, swconf.Zone{name(1, 7), name(2, 8)}) // whose host it is not
	f := newFabric(t, zones)
	a, err := fcoeFunction(t, f.world, "a", "fcoe_num_cons=65")
	must(t, err)
	b, err := fcoeFunction(t, f.world, "b", "fcoe_num_cons=65 fcoe_is_target=1")
	must(t, err)
	f.due = 0
	b.dev.FCoE.Start(fcoe.Config{Ports: targets}, fcoe.Env{}, f.now)
	n := a.dev.FCoE.Start(fcoe.Config{Ports: initiators}, fcoe.Env{}, f.now)
	disk := func(i int) *fcoe.Remote {
		for _, r := range n.Port(i).Remotes() {
			if r.State() == fcoe.Ready && r.Name == name(2, i) {
				return r
			}
		}
		return nil
	}
	f.pass(time.Minute, func() bool {
		for i := range ports {
			if disk(i) == nil {
				return false
			}
		}
		return true
	})
	if c := f.fcf.Counts(); c.FDISCs != 2*(ports-1) || c.FLOGIs != 2 || c.Refused != 0 {
		t.Errorf("the forwarder has %+v", c)
	}
	if got := a.iscsiRow("fcoe_connections", ""); got != "65/65" || b.iscsiRow("cid", "FCOE") != "66/66" {
		t.Errorf("%s connections, %s ids", got, b.iscsiRow("cid", "FCOE"))
	}
	if b.counter("fcoe_not_allowed") == 0 {
		t.Error("a port that is no host of the target's was not refused")
	}
	left := 0
	do := func(i int, write bool, want byte) {
		q := &fcoe.Request{}
		q.CDB[0], q.CDB[13] = 0x88, 1
		data := bytes.Repeat([]byte{want}, 512)
		if q.In = make([]byte, 512); write {
			q.CDB[0], q.Out, q.In = 0x8a, data, nil
		}
		left++
		q.Done = func(q *fcoe.Request, _ frame.Time) {
			if left--; want > 0 && (q.Err != nil || q.Status != scsi.Good || !write && !bytes.Equal(q.In, data)) {
				t.Errorf("port %d: %v, status %v", i, q.Err, q.Status)
			}
		}
		disk(i).Submit(q, f.now)
	}
	for _, write := range []int{-1, 1, 0} { // first the unit tells that it is new
		for i := range ports {
			want := byte(i + 1)
			if write < 0 {
				want = 0
			}
			do(i, write == 1, want)
		}
		f.pass(time.Minute, func() bool { return left == 0 })
	}
	a.dev.FCoE.Stop(f.now)
	b.dev.FCoE.Stop(f.now)
	f.pass(time.Minute, func() bool { return len(f.fcf.Logins()) == 0 })
	if c := f.fcf.Counts(); c.LOGOs < 2 || a.iscsiRow("fcoe_connections", "") != "0/65" || b.iscsiRow("cid", "FCOE") != "1/66" {
		t.Errorf("after the end: %+v, %s, %s", c, a.iscsiRow("fcoe_connections", ""), b.iscsiRow("cid", "FCOE"))
	}
	if n := a.dev.failures() + b.dev.failures(); n > 0 {
		t.Errorf("%d failures: %v, %v", n, a.dev.lastErr(), b.dev.lastErr())
	}
}
