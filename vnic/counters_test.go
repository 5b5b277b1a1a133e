package vnic

import (
	"strings"
	"testing"

	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// driverNames are the counters of ethtool -S in the order of the Linux driver.
const driverNames = `rx_packets tx_packets rx_bytes tx_bytes rx_errors tx_errors rx_dropped tx_dropped
tx_unicast tx_mcastbcast tx_untagged tx_vlan tx_64_size tx_65_127 tx_128_255 tx_256_511 tx_512_1023 tx_1024_1518 tx_1519_max
rx_unicast rx_mcastbcast rx_untagged rx_vlan rx_64_size rx_65_127 rx_128_255 rx_256_511 rx_512_1023 rx_1024_1518 rx_1519_max
rx_fifo_errors rx_length_errors tx_fifo_errors tx_carrier_errors tx_dlid_zero tx_drop_state rx_drop_state rx_oversize rx_runt`

func value(s Stats, name string) uint64 {
	for _, c := range s.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	panic(name)
}

func TestCounterNames(t *testing.T) {
	var s Stats
	list := s.Counters()
	names := strings.Fields(driverNames)
	if len(names) != 39 {
		t.Fatalf("%d names", len(names))
	}
	for i, name := range names {
		if list[i].Name != name {
			t.Errorf("counter %d is %s, in the driver %s", i, list[i].Name, name)
		}
	}
	seen := map[string]bool{}
	for _, c := range list {
		if seen[c.Name] {
			t.Errorf("%s twice", c.Name)
		}
		seen[c.Name] = true
	}
}

// Each counter moves by what one frame does, octets with their FCS.
func TestCounterMeaning(t *testing.T) {
	fab := newFabric(t, 2, newFakeHFI)
	a, b := fab.nodes[0].join(t, 0, 2, Policy{Unknown: ToDefaultPort}), fab.nodes[1].join(t, 0, 2, Policy{})
	for _, h := range []*host{a, b} {
		h.reconfigure(t, func(c *Config) { c.EthMTU = 2000 })
	}
	far := ether.Addr{0, 1}
	for _, c := range []struct {
		b     []byte
		moves string // of the sender, and of the receiver
	}{
		{eth(b.mac, a.mac, 20, 0), "tx_packets tx_bytes+64 tx_unicast tx_untagged tx_64_size rx_packets rx_bytes+64 rx_unicast rx_untagged rx_64_size"},
		{eth(b.mac, a.mac, 61, 0), "tx_packets tx_bytes+65 tx_unicast tx_untagged tx_65_127 rx_packets rx_bytes+65 rx_unicast rx_untagged rx_65_127"},
		{tagged(b.mac, a.mac, 1, 123), "tx_packets tx_bytes+127 tx_unicast tx_vlan tx_65_127 rx_packets rx_bytes+127 rx_unicast rx_vlan rx_65_127"},
		{eth(ether.Broadcast, a.mac, 124, 0), "tx_packets tx_bytes+128 tx_mcastbcast tx_untagged tx_128_255 rx_packets rx_bytes+128 rx_mcastbcast rx_untagged rx_128_255"},
		{eth(b.mac, a.mac, 252, 0), "tx_packets tx_bytes+256 tx_unicast tx_untagged tx_256_511 rx_packets rx_bytes+256 rx_unicast rx_untagged rx_256_511"},
		{eth(b.mac, a.mac, 1019, 0), "tx_packets tx_bytes+1023 tx_unicast tx_untagged tx_512_1023 rx_packets rx_bytes+1023 rx_unicast rx_untagged rx_512_1023"},
		{eth(b.mac, a.mac, 1514, 0), "tx_packets tx_bytes+1518 tx_unicast tx_untagged tx_1024_1518 rx_packets rx_bytes+1518 rx_unicast rx_untagged rx_1024_1518"},
		{eth(b.mac, a.mac, 1515, 0), "tx_packets tx_bytes+1519 tx_unicast tx_untagged tx_1519_max rx_packets rx_bytes+1519 rx_unicast rx_untagged rx_1519_max"},
		// A frame that cannot be sent counts as a packet of its size, too.
		{eth(far, a.mac, 60, 0), "tx_packets tx_bytes+64 tx_64_size tx_errors tx_dropped tx_dlid_zero"},
	} {
		tx, rx := a.nd.Stats(), b.nd.Stats()
		a.send(c.b)
		fab.run()
		want := map[string]uint64{}
		for _, m := range strings.Fields(c.moves) {
			name, by, plus := strings.Cut(m, "+")
			want[name] = 1
			if plus {
				want[name] = 0
				for _, digit := range by {
					want[name] = want[name]*10 + uint64(digit-'0')
				}
			}
		}
		for _, name := range strings.Fields(driverNames) {
			before, after := tx, a.nd.Stats()
			if name[0] == 'r' {
				before, after = rx, b.nd.Stats()
			}
			if got := value(after, name) - value(before, name); got != want[name] {
				t.Errorf("frame of %d octets: %s moved by %d, want %d", len(c.b), name, got, want[name])
			}
		}
	}
}

// Runts and oversized packets count as received, those dropped for the state
// do not; the names of the errors are those of the reasons.
func TestCounterErrors(t *testing.T) {
	var s Stats
	bits, all := map[frame.DropReason]uint64{}, uint64(0)
	for r := range frame.DropReasons() {
		bits[r] = 2 << len(bits)
		all += bits[r]
		s.RxDrops[r], s.TxDrops[r] = bits[r], bits[r]
	}
	s.UnknownVESW = 1 << 60
	for name, want := range map[string]uint64{
		"rx_fifo_errors": bits[drop.HostQueue] | bits[drop.NoBuffer], "tx_fifo_errors": bits[drop.TxQueue] | bits[drop.NoBuffer],
		"tx_carrier_errors": bits[opa.DropPort], "tx_dlid_zero": bits[opa.DropNoDLID], "tx_drop_state": bits[opa.DropState],
		"rx_drop_state": bits[opa.DropState], "rx_oversize": bits[drop.Oversize], "rx_runt": bits[opa.DropRunt],
		"tx_smac_filt": bits[opa.DropSpoofed], "rx_bad_veswid": 1 << 60, "rx_length_errors": 0,
		"tx_errors": all, "rx_errors": all + 1<<60,
		"tx_drop_storm_limit": bits[opa.DropStorm], "rx_drop_p_key": bits[opa.DropPKey], "rx_drop_looped_back": bits[opa.DropLooped],
	} {
		if got := value(s, name); got != want {
			t.Errorf("%s is %#x, want %#x", name, got, want)
		}
	}
}
