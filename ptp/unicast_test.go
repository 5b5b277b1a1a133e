package ptp

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// unicastWorld has masters that grant, and a slave that asks them, with a
// bystander on the same link; all of G.8275.2.
func unicastWorld(t *testing.T, masters int, change func(i int, c *Config)) (w *world, ms []*node, slave *node) {
	w = newWorld(t)
	var ends []*end
	var table []transport.Addr
	for i := range masters {
		cfg := fast(G8275x2, i+1, 1)
		cfg.Quality.Class = 6
		cfg.Ports[0].LocalPriority = 128
		cfg.Priority2 = uint8(100 + i)
		if change != nil {
			change(i, &cfg)
		}
		m := w.add("master", cfg, clockOff(0, 0))
		ms, ends, table = append(ms, m), append(ends, m.ends[0]), append(table, m.addr())
	}
	cfg := fast(G8275x2, 9, 1)
	cfg.SlaveOnly, cfg.Quality.Class = true, 255
	cfg.Ports[0].Unicast.Masters, cfg.Ports[0].Unicast.Duration, cfg.Ports[0].Unicast.Listen = table, 10, false
	if change != nil {
		change(masters, &cfg)
	}
	slave = w.add("slave", cfg, clockOff(37000, time.Millisecond))
	link(500*time.Nanosecond, append(ends, slave.ends[0])...)
	return w, ms, slave
}

// TestUnicast: a slave asks for service, gets it, renews it, and changes to
// the other master when the first is gone. Nothing is sent by multicast.
func TestUnicast(t *testing.T) {
	w, ms, slave := unicastWorld(t, 2, nil)
	w.until("lock", 20*time.Second, slave.converged(ms[0], 100))
	w.run(60 * time.Second) // six grants long
	if off := slave.off(ms[0]); off > 10 || off < -10 || len(slave.states) != 3 {
		t.Errorf("offset %v\n%s", off, w.dump())
	}
	if s := ms[1].Stats(0); s.Tx[msg.Sync] != 0 || s.Tx[msg.Announce] < 200 {
		t.Errorf("the second master sent %d Syncs, %d Announces", s.Tx[msg.Sync], s.Tx[msg.Announce])
	}
	data, _ := slave.Get(msg.IDUnicastMasterTable, 0)
	rows := data.(*msg.UnicastMasterTable).Masters
	if len(rows) != 2 || !rows[0].Selected || rows[0].State != 3 || rows[1].Selected || rows[1].State != 1 ||
		rows[0].Identity.Clock != id(1) || rows[0].Quality.Class != 6 {
		t.Errorf("unicast master table %+v", rows)
	}
	ms[0].ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	w.until("the other master", 20*time.Second, slave.converged(ms[1], 100))
	if s := slave.Stats(0); s.UnicastRequestTimeout == 0 || ms[0].Stats(0).UnicastServiceTimeout == 0 {
		t.Errorf("%d requests, %d messages served", s.UnicastRequestTimeout, ms[0].Stats(0).UnicastServiceTimeout)
	}
	ms[0].ends[0].alter = nil
	w.until("the first again", 60*time.Second, slave.converged(ms[0], 100))
	before := ms[1].Stats(0).Tx[msg.Sync]
	w.run(5 * time.Second)
	if after := ms[1].Stats(0).Tx[msg.Sync]; after > before {
		t.Errorf("a master that is not followed still sends Syncs: %d", after-before)
	}
}

// TestUnicastRefused: who was not granted service gets none, and what was not
// asked for is not used.
func TestUnicastRefused(t *testing.T) {
	w, ms, slave := unicastWorld(t, 1, nil)
	w.until("lock", 20*time.Second, slave.converged(ms[0], 100))
	stranger := transport.Addr{MAC: [6]byte{2, 9, 9, 9, 9, 9}}
	req := msg.Message{Header: msg.Header{Type: msg.DelayReq, Domain: 44, Flags: msg.FlagUnicast, Source: msg.PortIdentity{Clock: id(77), Port: 1}}}
	ms[0].deliver(0, req.Append(nil), stranger)
	before := slave.Stats(0).Drops[DropUnicast]
	ann := msg.Message{Header: msg.Header{Type: msg.Announce, Domain: 44, Flags: msg.FlagUnicast, Source: msg.PortIdentity{Clock: id(77), Port: 1}}}
	slave.deliver(0, ann.Append(nil), stranger)
	if ms[0].Stats(0).Drops[DropUnicast] != 1 || slave.Stats(0).Drops[DropUnicast] != before+1 {
		t.Errorf("drops %v and %v", ms[0].Stats(0).Drops, slave.Stats(0).Drops)
	}
}

// TestUnicastNotMaster: a port that is no longer master takes its grants back.
func TestUnicastNotMaster(t *testing.T) {
	w, ms, slave := unicastWorld(t, 2, nil)
	w.until("lock", 20*time.Second, slave.converged(ms[0], 100))
	ms[0].Set(msg.IDDisablePort, 0, &msg.Empty{}, w.now)
	ms[0].poll()
	w.until("the other master", 20*time.Second, slave.converged(ms[1], 100))
}

// TestHybrid: Syncs by multicast, Delay_Req and Delay_Resp by unicast.
func TestHybrid(t *testing.T) {
	w, nodes := bus(t, 3, func(i int, c *Config) { c.Ports[0].HybridE2E = true })
	w.until("lock", 20*time.Second, func() bool {
		return nodes[1].converged(nodes[0], 100)() && nodes[2].converged(nodes[0], 100)()
	})
	w.run(5 * time.Second)
	for i, n := range nodes[1:] {
		s := n.Stats(0)
		if s.Rx[msg.DelayReq] > 5 || s.Rx[msg.DelayResp] > s.Tx[msg.DelayReq] {
			t.Errorf("clock %d hears what is not for it: %v", i+2, s.Rx)
		}
	}
}
