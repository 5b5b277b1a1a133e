package ptp

import (
	"bytes"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// TestManagementIDs reads every id, and encodes what it got.
func TestManagementIDs(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	host := map[msg.ManagementID]bool{ // what the engine does not know
		msg.IDClockDescription: true, msg.IDSubscribeEvents: true, msg.IDPortProperties: true, msg.IDPortHWClock: true,
		msg.IDEnablePort: true, msg.IDDisablePort: true,
	}
	for _, mid := range msg.ManagementIDs() {
		data, e := slave.Get(mid, 0)
		if host[mid] {
			if e != msg.ErrorNotSupported {
				t.Errorf("%v: %v", mid, e)
			}
			continue
		}
		if e != 0 {
			t.Errorf("%v: %v", mid, e)
			continue
		}
		tlv, _, _ := msg.TLVs(msg.AppendManagement(nil, mid, data)).Next()
		_, b, _ := msg.ParseManagement(tlv.Value)
		again, err := msg.ParseData(mid, b)
		if err != nil || !bytes.Equal(msg.AppendManagement(nil, mid, again), msg.AppendManagement(nil, mid, data)) {
			t.Errorf("%v: %+v does not come back: %+v, %v", mid, data, again, err)
		}
	}
	if _, e := slave.Get(msg.IDPortDataSet, 1); e != msg.ErrorWrongValue {
		t.Errorf("a port that does not exist: %v", e)
	}
	cur, _ := slave.Get(msg.IDCurrentDataSet, 0)
	if c := cur.(*msg.CurrentDataSet); c.StepsRemoved != 1 || c.MeanPathDelay.Duration() < 490 || c.MeanPathDelay.Duration() > 510 {
		t.Errorf("currentDS %+v", c)
	}
	par, _ := slave.Get(msg.IDParentDataSet, 0)
	if p := par.(*msg.ParentDataSet); p.Parent != (msg.PortIdentity{Clock: id(1), Port: 1}) || p.GrandmasterQuality.Class != 187 {
		t.Errorf("parentDS %+v", p)
	}
}

// TestSetPriority lets a slave become master by a SET of PRIORITY1, and back.
func TestSetPriority(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	set := func(n *node, mid msg.ManagementID, v uint8) msg.ManagementError {
		e := n.Set(mid, 0, &msg.Octet{Value: v}, w.now)
		n.poll()
		return e
	}
	if e := set(slave, msg.IDPriority1, 1); e != 0 {
		t.Fatal(e)
	}
	w.until("roles change", 10*time.Second, func() bool {
		return slave.state(0) == msg.StateMaster && master.state(0) == msg.StateSlave
	})
	if e := set(slave, msg.IDPriority1, 200); e != 0 {
		t.Fatal(e)
	}
	w.until("roles change back", 10*time.Second, slave.converged(master, 100))
}

// TestSetErrors tells what cannot be written, and leaves it as it was.
func TestSetErrors(t *testing.T) {
	_, _, slave := pair(t, nil)
	before := slave.Snapshot().Default
	for _, tc := range []struct {
		mid  msg.ManagementID
		data any
		want msg.ManagementError
	}{
		{msg.IDDefaultDataSet, &msg.DefaultDataSet{}, msg.ErrorNotSetable},
		{msg.IDVersionNumber, &msg.Octet{Value: 3}, msg.ErrorNotSetable},
		{msg.IDPortStats, &msg.PortStats{}, msg.ErrorNotSetable},
		{msg.IDPortHWClock, &msg.PortHWClock{}, msg.ErrorNotSupported},
		{msg.IDSlaveOnly, &msg.Octet{Value: 2}, msg.ErrorWrongValue},
		{msg.IDLogSyncInterval, &msg.Octet{Value: 100}, msg.ErrorWrongValue},
		{msg.IDDelayMechanism, &msg.Octet{Value: 9}, msg.ErrorWrongValue},
		{msg.IDAnnounceReceiptTimeout, &msg.Octet{Value: 1}, msg.ErrorWrongValue},
		{msg.IDSynchronizationUncertain, &msg.Octet{Value: 1}, msg.ErrorNotSetable},
	} {
		if got := slave.Set(tc.mid, 0, tc.data, 0); got != tc.want {
			t.Errorf("SET %v: %v, want %v", tc.mid, got, tc.want)
		}
	}
	if after := slave.Snapshot().Default; after != before {
		t.Errorf("defaultDS %+v became %+v", before, after)
	}
}

// TestDisablePort takes a port out of service and back.
func TestDisablePort(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	slave.Set(msg.IDDisablePort, 0, &msg.Empty{}, w.now)
	slave.poll()
	tx := slave.Stats(0).Tx
	w.run(5 * time.Second)
	if slave.state(0) != msg.StateDisabled || slave.Stats(0).Tx != tx {
		t.Fatalf("state %v, sent %v, then %v", slave.state(0), tx, slave.Stats(0).Tx)
	}
	slave.Set(msg.IDEnablePort, 0, &msg.Empty{}, w.now)
	slave.poll()
	w.until("lock again", 10*time.Second, slave.converged(master, 100))
}

// TestServiceStats: timers are counted as linuxptp does.
func TestServiceStats(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.run(10 * time.Second)
	get := func(n *node) [msg.NumServiceStats]uint64 {
		data, _ := n.Get(msg.IDPortServiceStats, 0)
		return data.(*msg.PortServiceStats).Counters
	}
	m, s := get(master), get(slave)
	if tx := master.Stats(0).Tx; m[msg.StatMasterAnnounceTimeout] != tx[msg.Announce] || m[msg.StatMasterSyncTimeout] != tx[msg.Sync] || tx[msg.Sync] < 70 {
		t.Errorf("master %v, sent %v", m, tx)
	}
	if tx := slave.Stats(0).Tx; s[msg.StatDelayTimeout] != tx[msg.DelayReq] || tx[msg.DelayReq] < 40 || s[msg.StatAnnounceTimeout] != 1 {
		t.Errorf("slave %v, sent %v", s, tx)
	}
}

// TestSetOctets: what is written is read back and announced.
func TestSetOctets(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	for _, tc := range []struct {
		mid msg.ManagementID
		v   uint8
	}{
		{msg.IDPriority1, 7}, {msg.IDPriority2, 9}, {msg.IDClockAccuracy, 0x21}, {msg.IDTraceability, 0x30}, {msg.IDTimescale, 0},
		{msg.IDLogAnnounceInterval, 0xff}, {msg.IDLogSyncInterval, 0xfc}, {msg.IDAnnounceReceiptTimeout, 5}, {msg.IDLogMinPdelayReqInterval, 2},
	} {
		if e := master.Set(tc.mid, 0, &msg.Octet{Value: tc.v}, w.now); e != 0 {
			t.Errorf("SET %v: %v", tc.mid, e)
		}
		data, _ := master.Get(tc.mid, 0)
		if got := data.(*msg.Octet).Value; got != tc.v {
			t.Errorf("%v is %#x, want %#x", tc.mid, got, tc.v)
		}
	}
	master.poll()
	w.run(3 * time.Second)
	s := slave.Snapshot()
	g := s.Parent.Grandmaster
	if g.Priority1 != 7 || g.Priority2 != 9 || g.Quality.Accuracy != 0x21 || !s.Time.TimeTraceable || !s.Time.FrequencyTraceable || s.Time.PTPTimescale {
		t.Errorf("the slave knows %+v, %+v", g, s.Time)
	}
	// Another domain, and another delay mechanism, at both ends.
	for _, n := range []*node{master, slave} {
		n.Set(msg.IDDomain, 0, &msg.Octet{Value: 3}, w.now)
		n.Set(msg.IDDelayMechanism, 0, &msg.Octet{Value: uint8(msg.DelayP2P)}, w.now)
		n.poll()
	}
	slave.phcStep(50_000)
	w.until("lock with P2P in domain 3", 20*time.Second, slave.converged(master, 100))
	if tx := slave.Stats(0).Tx; tx[msg.PdelayReq] == 0 {
		t.Errorf("sent %v", tx)
	}
}

// phcStep steps the clock behind the instance's back.
func (n *node) phcStep(d time.Duration) {
	if err := n.phc.AdjTime(n.w.now, d); err != nil {
		n.w.t.Fatal(err)
	}
}

// echo answers each management message with itself.
type echo struct {
	n     *node
	asked int
}

func (e *echo) Management(port int, m *msg.Message, meta Meta) {
	e.asked++
	e.n.SendManagement(port, m, meta.Src)
}

func (e *echo) Poll(frame.Time) {}

// TestManager: management messages of the domain reach the manager, by a port
// that is disabled too; answers wait for Poll, as many as there is room for.
func TestManager(t *testing.T) {
	w, master, slave := pair(t, func(m, _ *Config) { m.Ports[0].Disabled, m.Limits.RequestRate = true, 1_000_000 })
	e := &echo{n: master}
	master.Manage(e)
	w.run(time.Second)
	m := msg.Message{Header: msg.Header{Type: msg.Management, Source: msg.PortIdentity{Clock: id(9), Port: 1}}, Port: msg.AllPorts}
	for range maxOutbox + 5 {
		master.Receive(0, m.Append(nil), Meta{Src: slave.addr(), Now: w.now})
	}
	m.Domain = 9
	master.Receive(0, m.Append(nil), Meta{Src: slave.addr(), Now: w.now})
	if s := master.Stats(0); e.asked != maxOutbox+5 || s.Drops[DropQueue] != 5 || s.Drops[DropDomain] != 1 || s.Tx[msg.Management] != 0 {
		t.Errorf("asked %d times; %+v", e.asked, s)
	}
	if master.poll(); master.Stats(0).Tx[msg.Management] != maxOutbox {
		t.Errorf("sent %d", master.Stats(0).Tx[msg.Management])
	}
	slave.Receive(0, m.Append(nil), Meta{Now: w.now})
	if slave.Stats(0).Drops[DropState] == 0 {
		t.Error("a management message without a manager is not counted")
	}
}
