package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/nicdrop"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// kernelBridges are bridges of Linux, one for each VLAN, with a TAP for each of its ports
// there: what has a tag on a port has none in the bridge of its VLAN.
type kernelBridges struct {
	t     *testing.T
	ports []bridgePort
	taps  map[int][]*tap.TAP // by VLAN, and port; nil: it is not there
	buf   [2048]byte
}

// bridgePort says what a port is.
type bridgePort struct {
	mac      ether.Addr // of the station behind it, zero: it is the way to all others
	vlan     int        // that its frames belong to, without a tag; 0: it has tags, or none
	spoofchk bool       // frames of other stations are refused there
}

// newKernelBridges makes bridges that know their stations and learn none, as a VEB.
func newKernelBridges(t *testing.T, vlans []int, ports []bridgePort) *kernelBridges {
	k := &kernelBridges{t: t, ports: ports, taps: map[int][]*tap.TAP{}}
	for _, vlan := range vlans {
		s := testenv.Space(t, link.Quiet)
		testenv.Must(t, s.Net.AddBridge("br0"))
		batch := ""
		for i, p := range ports {
			if p.vlan != 0 && p.vlan != vlan {
				k.taps[vlan] = append(k.taps[vlan], nil)
				continue
			}
			q, err := s.Net.OpenTAP(tap.Config{Name: fmt.Sprint("p", i)})
			testenv.Must(t, err)
			t.Cleanup(func() { q.Close() })
			k.taps[vlan] = append(k.taps[vlan], q)
			testenv.Must(t, s.AddPort(q.Name(), "br0", 1500))
			batch += fmt.Sprintf("link set dev %s learning off flood %s locked %s\n", q.Name(), onOff(p.mac.IsZero()), onOff(p.spoofchk))
			if !p.mac.IsZero() {
				batch += fmt.Sprintf("fdb add %v dev %s master static\n", p.mac, q.Name())
			}
		}
		file := filepath.Join(t.TempDir(), "batch")
		testenv.Must(t, os.WriteFile(file, []byte(batch), 0o600))
		if out, err := testenv.Run(t, s.NS, "bridge", "-batch", file); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	k.take() // what joining has caused
	return k
}

// send has the station behind a port send a frame, and returns what all receive, by port.
func (k *kernelBridges) send(port int, b []byte) map[int]string {
	vlan := k.ports[port].vlan
	if b = bytes.Clone(b); vlan == 0 && binary.BigEndian.Uint16(b[12:]) == ether.TypeVLAN {
		vlan = int(binary.BigEndian.Uint16(b[14:]))
		b = append(b[:12], b[16:]...)
	}
	if _, err := unix.Write(k.taps[vlan][port].Fd(), b); err != nil {
		k.t.Fatal(err)
	}
	return k.take()
}

// take returns what has come, by port.
func (k *kernelBridges) take() (got map[int]string) {
	got = map[int]string{}
	for vlan, taps := range k.taps {
		for i, q := range taps {
			for q != nil {
				n, err := unix.Read(q.Fd(), k.buf[:])
				if errors.Is(err, unix.EAGAIN) {
					break
				}
				testenv.Must(k.t, err)
				b := k.buf[:n]
				if k.ports[i].vlan == 0 && vlan != 0 {
					b = slices.Concat(b[:12], []byte{0x81, 0, byte(vlan >> 8), byte(vlan)}, b[12:])
				}
				got[i] += string(b)
			}
		}
	}
	return got
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// The bridge of the NIC gives frames to the same stations as a bridge of Linux with the
// same stations, with the same octets: unicast to them and to others, groups and
// broadcasts, in VLANs and without, also forged ones. Linux's has its stations in static
// entries, learns nothing and floods unknown stations to the uplink alone, as the NIC's
// does by itself. They differ in three cases, which are left out: what a station sends to
// itself leaves by the port of the NIC, as loopback tests need, and Linux drops it; a VF with
// a VLAN may send no tags at all, an access port of Linux passes that of its own VLAN; and
// Linux passes no frames to 01:80:c2:00:00:00 to 0f, which the NIC leaves to spoofchk and trust.
//
// IO-07 IO-26 IO-27 IO-29
func TestVEBLikeLinux(t *testing.T) {
	r := newVFs(t, Config{Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxMode: settings.RxAllMulti}}},
		fastlinq.SRIOV{}, 6)
	const pf, wire, forced, other = 6, 7, 100, 200
	r.set(2, "vlan", fmt.Sprint(forced))
	r.set(3, "vlan", fmt.Sprint(forced))
	r.set(4, "vlan", fmt.Sprint(other))
	r.set(1, "spoofchk", "on")
	r.set(3, "spoofchk", "on")
	vlans := []int{0, forced, other, 300}
	var ports []bridgePort
	for i, vlan := range []int{0, 0, forced, forced, other, 0} {
		ports = append(ports, bridgePort{mac: r.mac[i], vlan: vlan, spoofchk: i == 1 || i == 3})
	}
	ports = append(ports, bridgePort{mac: r.dev.cfg.MAC}, bridgePort{})
	k := newKernelBridges(t, vlans, ports)
	rnd := rand.New(rand.NewPCG(24, 1))
	peers := []ether.Addr{vfPeer, {2, 9, 9, 9, 9, 8}}
	station := func(but int) ether.Addr {
		if n := rnd.IntN(len(ports) + 1); n < wire && n != but {
			return ports[n].mac
		}
		return peers[rnd.IntN(2)]
	}
	kinds := map[string]int{}
	for seq := range uint32(10_000) {
		from := rnd.IntN(len(ports))
		src, dst := ports[from].mac, station(from)
		if from == wire || rnd.IntN(10) == 0 {
			src = peers[rnd.IntN(2)]
		}
		kind := "unicast"
		switch rnd.IntN(5) {
		case 0:
			dst, kind = ether.Broadcast, "broadcast"
		case 1:
			dst, kind = ether.Addr{1, 0, 0x5e, 0, 0, byte(rnd.IntN(256))}, "multicast"
		}
		vlan := vlans[rnd.IntN(len(vlans))]
		if ports[from].vlan != 0 {
			vlan = 0
		}
		b := vfFrame(dst, src, uint16(vlan))
		binary.BigEndian.PutUint32(b[len(b)-4:], seq)
		r.send([]int{0, 1, 2, 3, 4, 5, -2, -1}[from], b)
		got, want := r.byPort(), k.send(from, b)
		if !maps.Equal(got, want) {
			t.Fatalf("frame %d from %d to %v in VLAN %d: %v, Linux %v", seq, from, dst, vlan, places(got), places(want))
		}
		kinds[fmt.Sprint(kind, len(want))]++
	}
	t.Log(kinds)
}

// byPort is what VFs, PF and cable have received, by number.
func (r *vfRig) byPort() (got map[int]string) {
	got = map[int]string{}
	for i, e := range append(slices.Clone(r.vfs), &vfEnd{got: r.pf.got}, r.wire) {
		for _, b := range e.take() {
			got[i] += string(b)
		}
	}
	r.pf.got = nil
	return got
}

// places says who has received what.
func places(by map[int]string) string {
	var list []string
	for _, i := range slices.Sorted(maps.Keys(by)) {
		list = append(list, fmt.Sprintf("%d: % x", i, by[i][:18]))
	}
	return strings.Join(list, ", ")
}

// A VF sends no more frames to groups and to all than the storm limit, nor do those of the
// PF and of the cable reach VFs beyond theirs; unicast passes, and so do the storms of others.
// What is dropped is counted by VF, and the capture says so.
//
// IO-26
func TestVFStorm(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Storm: frame.Rate{PerSecond: 1000, Burst: 10}}, 2)
	group := ether.Addr{1, 0, 0x5e, 0, 0, 1}
	storm := func(from int, src ether.Addr, want ...int) {
		t.Helper()
		for i := range 50 {
			r.send(from, vfFrame([]ether.Addr{ether.Broadcast, group}[i%2], src, 0))
		}
		if got := r.count(); !slices.Equal(got, want) {
			t.Errorf("of 50 frames of %d arrive %v, want %v", from, got, want)
		}
	}
	r.drops = nil
	storm(0, r.mac[0], 0, 10, 10, 10)
	if n := r.counter("vf0_tx_storm"); n != 40 || r.counter("vf1_tx_storm") != 0 || r.counter("tx_drop_storm_limit") != 40 {
		t.Errorf("%d are counted", n)
	}
	if len(r.drops) != 40 || r.drops[0].Text() != "VF 0" || r.drops[0].Drop != nicdrop.Storm {
		t.Errorf("the capture has %d drops", len(r.drops))
	}
	storm(1, r.mac[1], 10, 0, 10, 10)
	storm(-1, vfPeer, 10, 10, 50, 0)
	storm(-2, r.dev.cfg.MAC, 10, 10, 0, 50)
	for range 50 {
		r.send(0, vfFrame(r.mac[1], r.mac[0], 0))
	}
	if got := r.count(); !slices.Equal(got, []int{0, 50, 0, 0}) {
		t.Errorf("unicast: %v", got)
	}
	r.run(5 * time.Millisecond)
	storm(0, r.mac[0], 0, 5, 5, 5)
}

// The capture says of a frame that stays inside which VF has sent it and which get it.
//
// IO-26
func TestVFCapture(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 12)
	for _, c := range []struct {
		from int
		dst  ether.Addr
		want []string
	}{
		{0, r.mac[11], []string{"VF 0 to VF 11"}},
		{0, vfPeer, []string{"VF 0"}},
		{-1, r.mac[11], []string{"to VF 11"}},
		{0, ether.Broadcast, []string{"VF 0 to VF 1, 2, 3, 4, 5, 6, 7, 8 and others", "VF 0", ""}},
	} {
		src := vfPeer
		if c.from >= 0 {
			src = r.mac[c.from]
		}
		r.all = nil
		r.send(c.from, vfFrame(c.dst, src, 0))
		var got []string
		for i := range r.all {
			if r.all[i].Port == frame.Wire {
				got = append(got, r.all[i].Text())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %d to %v: %q, want %q", c.from, c.dst, got, c.want)
		}
	}
}
