package peer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/peer"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

var interop = flag.Bool("interop", false, "run what takes a guest and half a minute")

// tags counts the frames of the wire by tags, outer first, in each direction.
type tags struct {
	mu   sync.Mutex
	seen map[[2]uint16]*[2]int
}

func (s *tags) Trace(r *frame.Record) {
	if r.Port != frame.Wire || r.Drop != frame.DropNone {
		return
	}
	var k [2]uint16
	b := r.Data
	for i, at := 0, 12; i < 2 && len(b) >= at+4; i, at = i+1, at+ether.TagLen {
		if t := binary.BigEndian.Uint16(b[at:]); t != ether.TypeVLAN && t != ether.TypeQinQ {
			break
		}
		k[i] = binary.BigEndian.Uint16(b[at+2:]) & 0xfff
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[k] == nil {
		s.seen[k] = &[2]int{}
	}
	s.seen[k][r.Dir]++
}

// Interfaces for VLANs, also within VLANs, of a Linux that has the NIC's host TAP
// on one of its cables and the wire on the other: the two ends talk through the NIC.
func TestVLANInterfaces(t *testing.T) {
	if !*interop {
		t.Skip("`make interop` runs it: a guest takes its time")
	}
	boots := image(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	ns, links := bridge(t)
	must(t, links.AddBridge("br1"))
	g := start(t, ctx, boots, peer.Config{NS: ns, Bridge: "br0", More: []string{"br1"},
		IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}, Life: 12 * time.Minute})
	n, err := nicnode.Start(ctx, nicconf.Config{Name: "nic0", TAP: "wire0", HostTAP: "host0", IPFromHost: true, Queues: 2}, node.Env{NS: ns})
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	must(t, errors.Join(links.Join("host0", "br0"), links.Up("host0"), links.Join("wire0", "br1"), links.Up("wire0")))
	seen := &tags{seen: map[[2]uint16]*[2]int{}}
	must(t, n.DoWait(func(frame.Time) { n.Device.SetTracer(seen) }))
	do := func(command string) {
		t.Helper()
		var out bytes.Buffer
		if code, err := g.Run(ctx, 90*time.Second, command, &out); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v: %s", command, code, err, out.String())
		}
	}
	do(`modprobe 8021q && ip netns add w && ip link set eth1 netns w && ip -n w link set lo up && ip -n w link set eth1 up &&
ip -n w addr add 10.0.0.2/24 dev eth1 &&
ends() { # NAME PARENT ADDRESS OPTIONS...
	ip link add link eth0$2 name eth0$1 type vlan $4 && ip -n w link add link eth1$2 name eth1$1 type vlan $4 &&
	ip addr add $3.1/24 dev eth0$1 && ip -n w addr add $3.2/24 dev eth1$1 && ip link set eth0$1 up && ip -n w link set eth1$1 up
} &&
ends .5 "" 10.5.0 "id 5" && ends .4094 "" 10.40.0 "id 4094" &&
ends .7 "" 10.7.0 "proto 802.1ad id 7" && ends .7.9 .7 10.79.0 "id 9" &&
ip link set eth0.7.9 mtu 1496 && ip -n w link set eth1.7.9 mtu 1496 && ip netns exec w iperf3 -s -D`)
	for _, to := range []string{"10.0.0.2", "10.5.0.2", "10.40.0.2", "10.7.0.2", "10.79.0.2"} {
		do("ping -c 2 -W 20 " + to + " && ping -c 2 -s 1468 -W 20 " + to)
	}
	do("ping -c 2 -s 1472 -W 20 10.5.0.2") // as long as the MTU allows, and the tag
	for _, to := range []string{"10.5.0.2", "10.79.0.2"} {
		do("iperf3 -c " + to + " -n 1M && iperf3 -R -c " + to + " -n 1M && iperf3 -u -b 5M -c " + to + " -n 200K")
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, k := range [][2]uint16{{0, 0}, {5, 0}, {4094, 0}, {7, 0}, {7, 9}} {
		if c := seen.seen[k]; c == nil || c[0] < 4 || c[1] < 4 {
			t.Errorf("tags %v: %v frames in and out of the wire", k, c)
		}
	}
}
