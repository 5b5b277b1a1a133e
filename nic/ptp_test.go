package nic

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// ptpPair is two NICs on a cable, the second with a clock that is 37 ppm fast
// and starts 5 ms ahead.
func ptpPair(t *testing.T) (w *world, master, slave *node) {
	t.Helper()
	w = newWorld(t)
	master = w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64")})
	slave = w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.2/24", "fd00::2/64"), PHC: PHC{PPB: 37000}})
	if err := slave.dev.PTP.PHC().AdjTime(w.now, 5*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	return w, master, slave
}

// startPTP starts an instance that sends 8 Syncs a second.
func (n *node) startPTP(change func(c *unit.InstanceConfig)) *ptp.Instance {
	n.w.t.Helper()
	c := n.dev.PTP.DefaultInstance(ptp.DefaultE2E)
	p := &c.Ports[0]
	p.LogAnnounceInterval, p.LogSyncInterval, p.LogMinDelayReqInterval, p.LogMinPdelayReqInterval = -2, -3, -3, -3
	change(&c)
	i, err := n.dev.PTP.Start(c, n.w.now)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return i
}

// apart is how far two NICs' clocks are from each other now.
func apart(a, b *node) time.Duration {
	return time.Duration(b.dev.PTP.PHC().Now(a.w.now) - a.dev.PTP.PHC().Now(a.w.now))
}

// Two NICs synchronize over every transport, with both delay mechanisms, in
// one step and in two: bytes, stamps and timers are those of the wire.
func TestPTPBetweenNICs(t *testing.T) {
	for _, kind := range []transport.Kind{transport.Ethernet, transport.UDPv4, transport.UDPv6} {
		for _, mech := range []msg.DelayMechanism{msg.DelayE2E, msg.DelayP2P} {
			for _, twoStep := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v/%d/two-step=%v", kind, mech, twoStep), func(t *testing.T) {
					w, master, slave := ptpPair(t)
					set := func(c *unit.InstanceConfig) {
						c.Transport, c.Ports[0].DelayMechanism, c.TwoStep, c.P2POneStep = kind, mech, twoStep, !twoStep
					}
					m := master.startPTP(func(c *unit.InstanceConfig) { set(c); c.Priority1 = 1 })
					s := slave.startPTP(func(c *unit.InstanceConfig) { set(c); c.SlaveOnly = true; c.Quality.Class = 255 })
					w.run(8 * time.Second)
					if m.State(0) != msg.StateMaster || s.State(0) != msg.StateSlave || !s.Locked() {
						t.Fatalf("states %v, %v, locked %v: %+v", m.State(0), s.State(0), s.Locked(), s.Stats(0))
					}
					if d := apart(master, slave); d.Abs() > 5 {
						t.Errorf("%v apart", d)
					}
					for _, r := range append(master.drops, slave.drops...) {
						t.Fatalf("dropped for %v: % x", r.Drop, r.Data)
					}
				})
			}
		}
	}
}

// Unicast Delay_Reqs find the master by ARP and ND.
func TestPTPHybrid(t *testing.T) {
	for _, kind := range []transport.Kind{transport.UDPv4, transport.UDPv6, transport.Ethernet} {
		w, master, slave := ptpPair(t)
		set := func(c *unit.InstanceConfig) { c.Transport, c.Ports[0].HybridE2E = kind, true }
		master.startPTP(func(c *unit.InstanceConfig) { set(c); c.Priority1 = 1 })
		s := slave.startPTP(set)
		w.run(8 * time.Second)
		if d := apart(master, slave); !s.Locked() || d.Abs() > 5 {
			t.Errorf("%v: locked %v, %v apart", kind, s.Locked(), d)
		}
		unicast := 0
		for _, r := range slave.all {
			if p, ok := transport.Find(r.Data); ok && r.Dir == frame.Outbound && msg.Type(p.Body[0]&15) == msg.DelayReq && !p.Dst.IsMulticast() {
				unicast++
			}
		}
		if unicast < 10 {
			t.Errorf("%v: %d unicast requests", kind, unicast)
		}
	}
}

// The instance and the driver of the host function exclude each other.
func TestPTPOwnsThePort(t *testing.T) {
	w, n, _ := stamped(t, nil)
	if _, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); err != nil {
		t.Fatal(err)
	}
	c := n.dev.PTP.DefaultInstance(ptp.DefaultP2P)
	if _, err := n.dev.PTP.Start(c, w.now); !errors.Is(err, unit.ErrBusy) || n.dev.PTP.Instance() != nil {
		t.Errorf("%v", err)
	}
	if _, err := n.dev.PTP.SetHWTimestamps(unit.HWConfig{}, w.now); err != nil {
		t.Fatal(err)
	}
	if _, err := n.dev.PTP.Start(c, w.now); err != nil || n.dev.PTP.Owner() != "engine" {
		t.Errorf("%v, owner %q", err, n.dev.PTP.Owner())
	}
	if _, err := n.dev.PTP.Start(c, w.now); !errors.Is(err, unit.ErrPTPRuns) {
		t.Errorf("%v", err)
	}
	if _, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); !errors.Is(err, unit.ErrBusy) {
		t.Errorf("%v", err)
	}
	n.dev.PTP.Stop()
	n.dev.PTP.Stop()
	if _, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); err != nil || n.dev.PTP.Instance() != nil {
		t.Error(err)
	}
	c.Transport = transport.UDPv4 // the NIC has no such address
	if _, err := n.dev.PTP.Start(c, w.now); err == nil || n.dev.PTP.Instance() != nil {
		t.Error("an instance without an address")
	}
}

// A NIC that runs no instance drops PTP as it did.
func TestPTPWithoutInstance(t *testing.T) {
	w, master, slave := ptpPair(t)
	master.startPTP(func(c *unit.InstanceConfig) { c.Ports[0].DelayMechanism = msg.DelayP2P })
	w.run(3 * time.Second)
	if len(slave.drops) == 0 || slave.drops[0].Drop != drop.NotOurMAC {
		t.Errorf("%d drops", len(slave.drops))
	}
}

// A lost Tx stamp makes the port faulty until the fault is reset; stamps that
// come late or twice do no harm.
func TestPTPTxStampFaults(t *testing.T) {
	w, master, slave := ptpPair(t)
	master.startPTP(func(c *unit.InstanceConfig) { c.Priority1 = 1 })
	s := slave.startPTP(func(c *unit.InstanceConfig) {})
	w.run(8 * time.Second)
	if !s.Locked() {
		t.Fatalf("state %v", s.State(0))
	}
	slave.with(Setting{"ptp_tx_duplicate", "1"})
	w.run(2 * time.Second)
	slave.with(Setting{"ptp_tx_duplicate", "0"}, Setting{"ptp_tx_delay", "3"}, Setting{"ptp_tx_delay_by", "5ms"})
	w.run(4 * time.Second)
	if d := apart(master, slave); !s.Locked() || d.Abs() > 50 {
		t.Errorf("with late and repeated stamps: locked %v, %v apart", s.Locked(), d)
	}
	slave.with(Setting{"ptp_tx_delay", "0"}, Setting{"ptp_tx_lose", "1"})
	w.run(time.Second)
	if s.State(0) != msg.StateFaulty {
		t.Errorf("state %v after a lost stamp", s.State(0))
	}
	slave.with(Setting{"ptp_tx_lose", "0"})
	w.run(24 * time.Second)
	if d := apart(master, slave); !s.Locked() || d.Abs() > 50 {
		t.Errorf("after the fault: state %v, %v apart", s.State(0), d)
	}
}

// A client in the network reads what an instance has, and one on the machine
// changes it.
func TestPTPManagement(t *testing.T) {
	w, master, slave := ptpPair(t)
	master.startPTP(func(c *unit.InstanceConfig) { c.Transport = transport.UDPv4 })
	if slave.dev.PTP.Manager() != nil {
		t.Error("a server without an instance")
	}
	w.run(time.Second)
	var local answers
	server := master.dev.PTP.Manager()
	server.SetLocal(&local)
	client := mgmt.Client{Identity: msg.PortIdentity{Port: 1}}
	ask := func(line string) *mgmt.Reply {
		t.Helper()
		r, err := mgmt.ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		local = nil
		server.Local("me", client.Append(nil, r, w.now), w.now)
		if len(local) != 1 {
			t.Fatalf("%s: %d answers", line, len(local))
		}
		reply, ok := client.Receive(local[0])
		if !ok {
			t.Fatalf("%s: %x", line, local[0])
		}
		return &reply
	}
	if p, ok := ask("GET PORT_PROPERTIES_NP").Data.(*msg.PortProperties); !ok || p.Interface != "nic0" || p.Timestamping != msg.TimestampingHardware {
		t.Errorf("%+v", p)
	}
	if d, ok := ask("GET CLOCK_DESCRIPTION").Data.(*msg.ClockDescription); !ok || d.ProtocolAddress.Protocol != msg.NetworkUDPv4 || d.Profile[1] != 0x1b {
		t.Errorf("%+v", d)
	}
	if v, ok := ask("SET PRIORITY1 99").Data.(*msg.Octet); !ok || v.Value != 99 {
		t.Errorf("%+v", v)
	}
	if d, ok := ask("GET DEFAULT_DATA_SET").Data.(*msg.DefaultDataSet); !ok || d.Priority1 != 99 {
		t.Errorf("%+v", d)
	}
	// From the network: the slave's port sends a request and has the answer.
	other := slave.startPTP(func(c *unit.InstanceConfig) { c.Transport = transport.UDPv4 })
	taken := &taker{}
	other.Manage(taken)
	q := msg.Message{Header: msg.Header{Type: msg.Management, Source: msg.PortIdentity{Clock: msg.ClockIdentity{1}, Port: 1}}, Port: msg.AllPorts,
		TLVs: msg.AppendManagement(nil, msg.IDPriority1, nil)}
	other.SendManagement(0, &q, transport.Addr{})
	w.run(time.Second)
	if len(taken.got) != 1 || taken.got[0].Action != msg.Response || taken.got[0].Source.Clock != msg.IdentityOf(master.dev.cfg.MAC) {
		t.Errorf("%+v", taken.got)
	}
}

type answers [][]byte

func (a *answers) Send(_ string, b []byte) { *a = append(*a, slices.Clone(b)) }

// taker keeps management messages.
type taker struct{ got []msg.Message }

func (k *taker) Management(_ int, m *msg.Message, _ ptp.Meta) { k.got = append(k.got, *m) }
func (k *taker) Poll(frame.Time)                              {}
