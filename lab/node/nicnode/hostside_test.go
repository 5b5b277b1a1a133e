package nicnode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// The operating systems of both sides of a hostPair.
const (
	hostAddr = "10.0.0.1" // that of the NIC, too
	peerAddr = "10.0.0.3"
)

// hostWorld is a NIC with a host TAP of four queues, which has all from that, a
// NIC on the other side, and the operating systems behind both.
type hostWorld struct {
	t    *testing.T
	pair *link.Pair
	a, b *Node
}

func newHostWorld(t *testing.T, cfg Config) *hostWorld { return newHostWorldOf(t, 4, cfg) }

// newHostWorldOf has so many queues.
func newHostWorldOf(t *testing.T, queues int, cfg Config) *hostWorld {
	vnet := cfg.Vnet()
	p := testenv.Pair(t, 1500, vnet)
	cfg.Name, cfg.TAP, cfg.HostTAP, cfg.Queues, cfg.IPFromHost = "a", link.PairTAP, "host0", queues, true
	w := &hostWorld{t: t, pair: p}
	w.a = start(t, cfg, node.Env{NS: p.A.NS})
	w.b = start(t, Config{Name: "b", TAP: link.PairTAP, Frames: cfg.Frames, IP: prefixes("10.0.0.2/24")}, node.Env{NS: p.B.NS})
	must(t, p.A.Net.AddAddr("host0", netip.MustParsePrefix(hostAddr+"/24")), p.B.Net.AddAddr("br0", netip.MustParsePrefix(peerAddr+"/24")))
	await(t, "the NIC has its address", func() bool { return len(deviceConfig(t, w.a).Addrs) == 1 })
	w.a.cfg.IP = prefixes(hostAddr + "/24") // where verify looks for it
	return w
}

func (w *hostWorld) do(ns *netns.NS, argv ...string) {
	w.t.Helper()
	if out, err := in(w.t, ns, argv...); err != nil {
		w.t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

func (w *hostWorld) counters() map[string]uint64 {
	all := map[string]uint64{}
	must(w.t, w.a.DoWait(func(frame.Time) {
		for _, c := range w.a.Device.Counters() {
			all[c.Name] = c.Value
		}
	}))
	return all
}

// pings sends echo requests around the lengths where something changes: the
// shortest frame, the MTU, one fragment more.
func (w *hostWorld) pings() {
	for _, from := range []struct {
		ns *netns.NS
		to string
	}{{w.pair.A.NS, peerAddr}, {w.pair.B.NS, hostAddr}} {
		for _, size := range []int{0, 1, 17, 18, 19, 1471, 1472} {
			w.do(from.ns, "ping", "-q", "-c", "2", "-i", "0.002", "-W", "10", "-M", "do", "-s", fmt.Sprint(size), from.to)
		}
		for _, size := range []int{1473, 1480, 1481, 2952, 2953, 65507} {
			w.do(from.ns, "ping", "-q", "-c", "1", "-W", "10", "-M", "dont", "-s", fmt.Sprint(size), from.to)
		}
		if out, err := in(w.t, from.ns, "ping", "-q", "-c", "1", "-W", "1", "-M", "do", "-s", "1473", from.to); err == nil {
			w.t.Errorf("a packet longer than the MTU passes: %s", out)
		}
	}
}

// iperfReport is what a test wants of iperf3's report.
type iperfReport struct {
	Error string
	End   struct {
		Received struct{ Bytes float64 } `json:"sum_received"`
		Sum      struct{ Packets float64 }
	}
}

// iperf moves n octets with iperf3 from one side to the other and back.
func (w *hostWorld) iperf(octets string, args ...string) {
	w.t.Helper()
	server := exec.Command("iperf3", "-s", "-B", hostAddr)
	must(w.t, w.pair.A.NS.Start(server))
	defer func() {
		_ = server.Process.Kill() // it serves for ever
		_ = server.Wait()
	}()
	for _, reverse := range [][]string{nil, {"-R"}} {
		argv := append(append([]string{"iperf3", "-J", "-c", hostAddr, "-n", octets}, args...), reverse...)
		var r iperfReport
		await(w.t, strings.Join(argv, " "), func() bool { // the server may not listen yet
			out, err := in(w.t, w.pair.B.NS, argv...)
			r = iperfReport{}
			return err == nil && json.Unmarshal([]byte(out), &r) == nil && r.Error == ""
		})
		if r.End.Received.Bytes == 0 && r.End.Sum.Packets == 0 {
			w.t.Errorf("%v moved nothing: %+v", argv, r)
		}
	}
}

// connections opens n TCP connections from the peer to the host.
func (w *hostWorld) connections(n int) {
	w.t.Helper()
	var l net.Listener
	must(w.t, w.pair.A.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", hostAddr+":0")
		return err
	}))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	defer l.Close()
	for range n {
		must(w.t, w.pair.B.NS.Do(func() error {
			c, err := net.DialTimeout("tcp", l.Addr().String(), 20*time.Second)
			if err == nil {
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				_, err = c.Read(make([]byte, 5))
			}
			return err
		}))
	}
}

// resets notes the segments by which somebody ends a connection of the engine.
type resets struct {
	mu   sync.Mutex
	list []uint16
}

// Trace looks for RSTs from ports that the operating system does not use.
func (r *resets) Trace(rec *frame.Record) {
	if rec.Port != frame.Wire || rec.Dir != frame.Outbound || len(rec.Data) < ether.HeaderLen || rec.Drop != frame.DropNone {
		return
	}
	h, seg, err := ip.Parse(rec.Data[ether.HeaderLen:])
	if err != nil || h.Proto != ip.ProtoTCP {
		return
	}
	th, _, err := tcp.Parse(seg)
	if err == nil && th.Flags.Has(tcp.RST) && th.SrcPort != 5201 && th.SrcPort < 32768 {
		r.mu.Lock()
		r.list = append(r.list, th.SrcPort)
		r.mu.Unlock()
	}
}

// sideBySide has RDMA and iperf3 share the address.
func (w *hostWorld) sideBySide() {
	seen := &resets{}
	must(w.t, w.a.DoWait(func(frame.Time) { w.a.Device.SetTracer(seen) }))
	var both sync.WaitGroup
	both.Go(func() { w.iperf("8M") })
	verify(w.t, w.a, w.b)
	verify(w.t, w.b, w.a)
	both.Wait()
	must(w.t, w.a.DoWait(func(frame.Time) { w.a.Device.SetTracer(nil) }))
	if len(seen.list) > 0 {
		w.t.Errorf("resets of the engine's connections, from ports %v", seen.list)
	}
}

// ownType is the EtherType of experiments (IEEE 802).
const ownType = 0x88b5

// raw opens a packet socket, which sees tags.
func raw(t *testing.T, s *link.Space, dev string) (fd int) {
	t.Helper()
	d, err := s.Net.Netdev(dev)
	must(t, err)
	must(t, s.NS.Do(func() error {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: d.Index})
	}))
	must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// send sends a frame of our type, and returns what arrived of it with the tag
// that it has there.
func (w *hostWorld) send(from, to int, b []byte) (got []byte, tci uint16) {
	w.t.Helper()
	_, err := unix.Write(from, b)
	must(w.t, err)
	got, control := make([]byte, 2000), make([]byte, 64)
	var n, c int
	for {
		var at unix.Sockaddr
		n, c, _, at, err = unix.Recvmsg(to, got, control, 0)
		must(w.t, err)
		if l := at.(*unix.SockaddrLinklayer); l.Pkttype != unix.PACKET_OUTGOING && binary.BigEndian.Uint16(got[12:]) == ownType {
			break
		}
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	must(w.t, err)
	for _, m := range messages { // struct tpacket_auxdata of linux/if_packet.h
		tci = binary.NativeEndian.Uint16(m.Data[16:])
	}
	return got[:n], tci
}

// ends opens sockets on both sides and tells the peer's address.
func (w *hostWorld) ends() (host, peer int, mac ether.Addr) {
	a, err := w.pair.B.Net.MAC("br0")
	must(w.t, err)
	return raw(w.t, w.pair.A, "host0"), raw(w.t, w.pair.B, "br0"), ether.Addr(a)
}

// stations has the host TAP receive for 256 more addresses, and answer by them.
func (w *hostWorld) stations() {
	host, peer, far := w.ends()
	for i := range 256 {
		a := ether.Addr{2, 0, 0, 0x77, 0, byte(i)}
		must(w.t, w.pair.A.Net.AddHardwareAddr("host0", a[:]))
		b := append(ether.Header{Dst: a, Src: far, Type: ownType}.AppendTo(nil), make([]byte, 46)...)
		if got, _ := w.send(peer, host, b); !bytes.Equal(got, b) {
			w.t.Fatalf("%v got % x", a, got)
		}
		copy(b, ether.Header{Dst: far, Src: a, Type: ownType}.AppendTo(nil))
		if got, _ := w.send(host, peer, b); !bytes.Equal(got, b) {
			w.t.Fatalf("%v answered with % x", a, got)
		}
	}
}

// vlan: an interface for a VLAN on the host TAP is one that sends and receives
// tagged frames, also as long as the MTU allows.
func (w *hostWorld) vlan() {
	host, peer, far := w.ends()
	for _, tci := range []uint16{1, 5, 0xe000 | 4094} {
		for _, n := range []int{42, 1500} {
			h := ether.Header{Dst: far, Src: deviceConfig(w.t, w.a).MAC, Type: ownType, NTags: 1, Tags: [2]ether.Tag{{TPID: ether.TypeVLAN, TCI: tci}}}
			for _, way := range [][2]int{{host, peer}, {peer, host}} {
				payload := bytes.Repeat([]byte{byte(tci)}, n)
				got, tag := w.send(way[0], way[1], append(h.AppendTo(nil), payload...))
				if tag != tci || !bytes.Equal(got[ether.HeaderLen:], payload) {
					w.t.Errorf("tag %#x, %d octets: arrived with %#x, %d octets", tci, n, tag, len(got))
				}
				h.Src, h.Dst = h.Dst, h.Src
			}
		}
	}
}

// spread: many connections use all queues, in both directions.
func (w *hostWorld) spread() {
	before := w.queues()
	w.connections(64)
	for i, q := range w.queues() {
		if q.RxPackets == before[i].RxPackets || q.TxPackets == before[i].TxPackets {
			w.t.Errorf("queue %d took no part: %+v, before %+v", i, q, before[i])
		}
	}
}

func (w *hostWorld) queues() (list []view.QueueInfo) {
	must(w.t, w.a.DoWait(func(frame.Time) { list = fastlinq.Of(w.a.Device.Hardware).ShowQueues() }))
	return list
}

// coalesced: frames that wait for each other make fewer interrupts, each queue by
// its own status block.
func (w *hostWorld) coalesced() {
	interrupts := func() (all []view.IRQInfo) {
		must(w.t, w.a.DoWait(func(frame.Time) { all = fastlinq.Of(w.a.Device.Hardware).ShowIRQ() }))
		return all[1:5]
	}
	of := func(usecs string) (updates, events uint64) {
		must(w.t, w.a.DoWait(func(frame.Time) { must(w.t, w.a.Device.Set(nic.Setting{Name: "rx_usecs", Value: usecs})) }))
		before := interrupts()
		w.iperf("1M", "-P", "4")
		for i, r := range interrupts() {
			if r.User != fmt.Sprint("queue ", i) {
				w.t.Errorf("status block %d is that of %s", i, r.User)
			}
			updates, events = updates+r.Updates-before[i].Updates, events+r.Events-before[i].Events
		}
		return updates, events
	}
	if updates, events := of("511"); updates == 0 || updates*2 > events {
		w.t.Errorf("%d interrupts for %d events with 511 us", updates, events)
	}
	of("0")
}

// lossless: nothing was dropped for want of room, or as not understood.
func (w *hostWorld) lossless() {
	w.t.Helper()
	c := w.counters()
	for _, name := range []string{"rx_drop_host_queue_full", "tx_drop_transmit_queue_full", "rx_drop_oversize", "rx_drop_malformed",
		"rx_drop_truncated", "tx_drop_impossible_offload", "rx_drop_no_active_vport", "rx_drop_not_our_mac", "rx_drop_wrong_vlan"} {
		if n, known := c[name]; n != 0 || !known {
			w.t.Errorf("%s %d", name, n)
		}
	}
}

// A NIC is the network interface of an operating system, whatever that does
// with it.
func TestHostSide(t *testing.T) {
	w := newHostWorld(t, Config{})
	w.pings()
	w.vlan()
	w.stations()
	w.spread()
	w.iperf("2M")
	w.iperf("1M", "-u", "-b", "100M")
	w.sideBySide()
	w.coalesced()
	w.lossless()
}

// longest notes the longest frame that came in by each port.
type longest struct {
	mu     sync.Mutex
	octets [2]int
}

func (l *longest) Trace(r *frame.Record) {
	if r.Dir == frame.Inbound {
		l.mu.Lock()
		l.octets[r.Port] = max(l.octets[r.Port], len(r.Data))
		l.mu.Unlock()
	}
}

func (l *longest) of(p frame.Port) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.octets[p]
}

// Super-frames pass whole where both TAPs take them; where the wire does not,
// the NIC cuts them and completes checksums.
func TestHostSuperFrames(t *testing.T) {
	for _, c := range []struct{ wire, host string }{{"gso", ""}, {"wire", "gso"}, {"gso", "wire"}} {
		t.Run(c.wire+" "+c.host, func(t *testing.T) {
			w := newHostWorld(t, Config{Frames: c.wire, HostFrames: c.host})
			seen := &longest{}
			must(t, w.a.DoWait(func(frame.Time) { w.a.Device.SetTracer(seen) }))
			w.iperf("4M")
			if big := seen.of(frame.Host) > 1514; big != (c.host != "wire") {
				t.Errorf("frames of up to %d octets from the host TAP", seen.of(frame.Host))
			}
			if big := seen.of(frame.Wire) > 1514; big != (c.wire == "gso") {
				t.Errorf("frames of up to %d octets from the wire", seen.of(frame.Wire))
			}
			if c.host == "" {
				w.sideBySide()
			}
		})
	}
}
