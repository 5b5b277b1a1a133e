package sw

import (
	"slices"
	"testing"

	"tapir/lab/conf/swconf"
	"tapir/lab/node/sw/fcf"
	"tapir/nic/dcb"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
)

// flogi logs in a host behind a port, and returns the MAC address that it gets.
func (b *bed) flogi(port int, mac ether.Addr) ether.Addr {
	b.t.Helper()
	l := fc.Login{Command: fc.FLOGI, MaxPayload: fc.MaxPayload, Port: fc.FromMAC(0x2000, mac), Node: fc.FromMAC(0x1000, mac), Class3: true}
	m := fip.Message{Op: fip.Request, Flags: fip.FPMA, Login: fip.FLOGI,
		Frame: fc.Header{RCtl: fc.ELSRequest, D: fc.FabricPort, Type: fc.TypeELS, FCtl: fc.Request}.AppendFrame(nil, l.AppendTo(nil))}
	m.Set(fip.MAC)
	b.wires[port].take()
	b.send(port, string(m.AppendTo(ether.Header{Dst: b.s.cfg.FCFMAC(), Src: mac, Type: fip.EtherType}.AppendTo(nil))))
	b.run(0)
	for _, f := range b.wires[port].take() {
		h, n, _ := ether.Parse([]byte(f.b))
		if h.Dst != mac {
			continue
		}
		if m, err := fip.Parse([]byte(f.b)[n:]); err == nil && m.Op == fip.Reply {
			return m.MAC
		}
	}
	b.t.Fatal("no reply")
	return ether.Addr{}
}

// A switch with an FCF carries frames between end nodes by FC_ID, in a class that PFC protects,
// and bridges all others as before. A port that goes down takes its logins with it.
func TestFCF(t *testing.T) {
	b := newBed(t, 3, swconf.Config{FCF: swconf.FCF{On: true}, Queues: swconf.Queues{Mapped: true, DCB: dcb.Config{PrioTC: [8]uint8{3: 1}, PFC: 1 << 3}}})
	b.run(0)
	for i, w := range b.wires {
		got := w.take()
		if len(got) != 1 || ether.Addr([]byte(got[0].b)[:6]) != fip.AllENodes {
			t.Errorf("port %d: %d frames", i, len(got))
		}
	}
	one, two := b.flogi(0, host(1)), b.flogi(1, host(2))
	frame := func(d fc.ID) string {
		h := fc.Header{RCtl: fc.UnsolicitedCmd, D: d, S: 0x010001, Type: fc.TypeFCP, FCtl: fc.Request}
		return string(fcoe.Append(ether.Header{Dst: b.s.cfg.FCFMAC(), Src: one, Type: fcoe.EtherType}.AppendTo(nil), h, []byte("command")))
	}
	b.send(0, frame(0x010101))
	b.send(0, frame(0x010909))
	b.send(0, eth(host(2), host(1), "bridged"))
	b.run(0)
	got := b.wires[1].take()
	if len(got) != 2 || !slices.ContainsFunc(got, func(f left) bool { return ether.Addr([]byte(f.b)[:6]) == two }) {
		t.Errorf("%+v", got)
	}
	counters := map[string]uint64{}
	for _, c := range b.s.Counters() {
		counters[c.Name] = c.Value
	}
	for name, want := range map[string]uint64{"fcf_logins": 2, "fcf_frames": 1, "port0_rx_drop_no_n_port": 1, "port1_tx_prio3_packets": 3,
		"port1_tx_prio0_packets": 1} {
		if counters[name] != want {
			t.Errorf("%s is %d, not %d: %v", name, counters[name], want, b.s.Counters())
		}
	}
	b.s.SetLink(1, false, b.now)
	b.run(0)
	if l := b.s.FCF().Logins(); len(l) != 1 || l[0].MAC != one {
		t.Errorf("%+v", l)
	}
	b.s.SetLink(1, true, b.now)
	b.flogi(1, host(2))
	b.s.Leave(b.now)
	for port := range 2 {
		last := b.wires[port].take()
		if len(last) != 1 {
			t.Fatalf("port %d: %d frames", port, len(last))
		}
		if m, err := fip.Parse([]byte(last[0].b)[ether.HeaderLen:]); err != nil || m.Op != fip.ClearLinks {
			t.Errorf("port %d: %+v, %v", port, m, err)
		}
	}
	if why := fcf.DropNoPort.Counter(); why != "no_n_port" {
		t.Error(why)
	}
}
