package tap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/buf"
	"tapir/nic/tap"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

var must = testenv.Must

// room is a namespace for one test, without the kernel's own IPv6 traffic.
func room(t testing.TB) (*netns.NS, *link.Net) {
	t.Helper()
	s := testenv.Space(t, link.Quiet)
	return s.NS, s.Net
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openTAP(t testing.TB, n *link.Net, cfg tap.Config) *tap.TAP {
	t.Helper()
	q, err := n.OpenTAP(cfg)
	must(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// poll waits until the queue is ready.
func poll(t testing.TB, q tap.Queue, events int16) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(q.Fd()), Events: events}}
	if n, err := unix.Poll(fds, 60000); n != 1 {
		t.Fatalf("nothing within a minute: %v", err)
	}
}

// next reads frames until want accepts one.
func next(t testing.TB, pool frame.Pool, q tap.Queue, want func(b []byte) bool) *frame.Frame {
	t.Helper()
	for {
		f := pool.Get(65600)
		err := q.Read(f)
		if err == tap.ErrAgain {
			f.Release()
			poll(t, q, unix.POLLIN)
			continue
		}
		must(t, err)
		if want(f.Bytes()) {
			return f
		}
		f.Release()
	}
}

func etherType(want uint16) func([]byte) bool {
	return func(b []byte) bool {
		h, _, err := ether.Parse(b)
		return err == nil && h.Type == want
	}
}

func each(t *testing.T, fn func(t *testing.T, vnet bool)) {
	t.Run("plain", func(t *testing.T) { fn(t, false) })
	t.Run("vnet", func(t *testing.T) { fn(t, true) })
}

// The kernel's ARP request and ping are seen as frames, and our reply is
// believed.
func TestKernelPing(t *testing.T) {
	each(t, func(t *testing.T, vnet bool) {
		ns, links := room(t)
		q := openTAP(t, links, tap.Config{Name: "tap0", Vnet: vnet})
		if !q.Created() || q.Vnet() != vnet || q.Name() != "tap0" {
			t.Errorf("created %v, vnet %v, name %s", q.Created(), q.Vnet(), q.Name())
		}
		must(t, links.AddAddr("tap0", netip.MustParsePrefix("10.0.0.254/24")), links.Up("tap0"))
		ping := exec.CommandContext(t.Context(), "ping", "-c", "1", "-W", "60", "10.0.0.1")
		must(t, ns.Start(ping))
		pool := buf.NewPool(8, 0)
		mac := ether.Addr{2, 0, 0, 0, 0, 1}

		f := next(t, pool, q, etherType(ether.TypeARP))
		_, n, _ := ether.Parse(f.Bytes())
		req, err := arp.Parse(f.Bytes()[n:])
		must(t, err)
		f.Release()
		f = pool.Get(64)
		f.Append(ether.Header{Dst: req.SenderMAC, Src: mac, Type: ether.TypeARP}.AppendTo(nil))
		f.Append(arp.Packet{Op: arp.Reply, SenderMAC: mac, SenderIP: req.TargetIP, TargetMAC: req.SenderMAC, TargetIP: req.SenderIP}.AppendTo(nil))
		must(t, q.Write(f))
		f.Release()

		f = next(t, pool, q, etherType(ether.TypeIPv4))
		eth, n, _ := ether.Parse(f.Bytes())
		h, body, err := ip.Parse(f.Bytes()[n:])
		must(t, err)
		if eth.Dst != mac || h.Proto != ip.ProtoICMP || body[0] != 8 {
			t.Fatalf("not the ping: %+v %+v", eth, h)
		}
		reply := pool.Get(1500)
		reply.Append(ether.Header{Dst: eth.Src, Src: mac, Type: ether.TypeIPv4}.AppendTo(nil))
		h.Src, h.Dst, h.PayloadLen = h.Dst, h.Src, len(body)
		h.Put(reply.Extend(h.HeaderLen()))
		body[0], body[2], body[3] = 0, 0, 0
		binary.BigEndian.PutUint16(body[2:], ip.Checksum(body, 0))
		reply.Append(body)
		must(t, q.Write(reply))
		reply.Release()
		f.Release()
		must(t, ping.Wait())
		if pool.Lent() != 0 {
			t.Errorf("%d frames are lost", pool.Lent())
		}
	})
}

func TestAgainWhenEmpty(t *testing.T) {
	each(t, func(t *testing.T, vnet bool) {
		_, links := room(t)
		q := openTAP(t, links, tap.Config{Vnet: vnet})
		f := buf.NewPool(1, 0).Get(2000)
		if err := q.Read(f); err != tap.ErrAgain {
			t.Errorf("an empty queue gives %v", err)
		}
		if f.Len() != 0 || f.Headroom() != frame.DefaultHeadroom {
			t.Errorf("the frame was changed: %d octets, headroom %d", f.Len(), f.Headroom())
		}
		f.Append(make([]byte, 60))
		if err := q.Write(f); err != tap.ErrRefused {
			t.Errorf("a TAP that is down takes frames: %v", err)
		}
	})
}

func TestOversize(t *testing.T) {
	each(t, func(t *testing.T, vnet bool) {
		ns, links := room(t)
		q := openTAP(t, links, tap.Config{Name: "tap0", Vnet: vnet})
		must(t, links.AddAddr("tap0", netip.MustParsePrefix("10.0.0.254/24")), links.Up("tap0"))
		send(t, ns, "10.0.0.255", 1400)
		poll(t, q, unix.POLLIN)
		f := buf.NewPool(1, 1000).Get(1000)
		if err := q.Read(f); err != tap.ErrOversize {
			t.Errorf("a frame of 1442 octets in 1000 gives %v", err)
		}
	})
}

// send sends one broadcast datagram of n octets.
func send(t *testing.T, ns *netns.NS, to string, n int) {
	t.Helper()
	must(t, ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
		return unix.Sendto(fd, make([]byte, n), 0, &unix.SockaddrInet4{Port: 9, Addr: netip.MustParseAddr(to).As4()})
	}))
}

// A super-frame crosses bridge, cable and bridge whole, and arrives as true
// segments at a TAP that did not ask for offload.
func TestSuperFrameCrossesThePair(t *testing.T) {
	const payload, size = 20 * 1448, 1448
	each(t, func(t *testing.T, vnet bool) {
		p := testenv.Pair(t, 1500, true)
		a := openTAP(t, p.A.Net, tap.Config{Name: link.PairTAP, Vnet: true})
		b := openTAP(t, p.B.Net, tap.Config{Name: link.PairTAP, Vnet: vnet})
		if a.Created() || b.Created() {
			t.Error("the pair's TAPs count as created")
		}
		pool := buf.NewPool(64, 0)
		f := superFrame(pool, payload, size)
		forwarded(t, pool, a, b)
		must(t, a.Write(f))
		if f.Headroom() != frame.DefaultHeadroom {
			t.Errorf("headroom %d after Write", f.Headroom())
		}
		var stream []byte
		frames := 0
		for len(stream) < payload {
			g := next(t, pool, b, etherType(ether.TypeIPv4))
			_, body, err := ip.Parse(g.Bytes()[ether.HeaderLen:])
			must(t, err)
			h, data, err := tcp.Parse(body)
			must(t, err)
			if int(h.Seq) != len(stream) {
				t.Fatalf("segment at %d, expected %d", h.Seq, len(stream))
			}
			if !vnet && (len(data) > size || ip.Checksum(body, ip.PseudoSum(src, dst, ip.ProtoTCP, len(body))) != 0) {
				t.Fatalf("not a true segment: %d octets, checksum %x", len(data), h.Checksum)
			}
			if vnet && (g.GSO != frame.GSOTCPv4 || g.GSOSize != size || !g.NeedsCsum) {
				t.Fatalf("offload %+v", g.Offload)
			}
			stream = append(stream, data...)
			frames++
			g.Release()
		}
		if want := map[bool]int{true: 1, false: 20}[vnet]; frames != want {
			t.Errorf("%d frames, want %d", frames, want)
		}
		if !bytes.Equal(stream, pattern(payload)) {
			t.Error("the payload changed on the way")
		}
		f.Release()
	})
}

var src, dst = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func superFrame(pool frame.Pool, payload, size int) *frame.Frame {
	f := pool.Get(65536)
	f.Append(ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 2}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeIPv4}.AppendTo(nil))
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: src, Dst: dst, PayloadLen: tcp.HeaderLen + payload}
	h.Put(f.Extend(h.HeaderLen()))
	th := tcp.Header{SrcPort: 1, DstPort: 2, Flags: tcp.ACK, Window: 100,
		Checksum: ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, tcp.HeaderLen+payload))}
	th.Put(f.Extend(tcp.HeaderLen))
	f.Append(pattern(payload))
	f.Offload = frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: uint16(size), HdrLen: 54, CsumStart: 34, CsumOffset: 16}
	return f
}

// forwarded repeats a small frame until the bridges let it through.
func forwarded(t *testing.T, pool frame.Pool, a, b tap.Queue) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		f := pool.Get(64)
		f.Append(ether.Header{Dst: ether.Broadcast, Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: 0x88b5}.AppendTo(nil))
		f.Append(make([]byte, 46))
		must(t, a.Write(f))
		f.Release()
		g := pool.Get(65600)
		err := b.Read(g)
		g.Release()
		if err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the bridges forward nothing")
}

// A plain queue does the segmentation that the sender left undone.
func TestPlainQueueSplits(t *testing.T) {
	p := testenv.Pair(t, 1500, false)
	a := openTAP(t, p.A.Net, tap.Config{Name: link.PairTAP})
	b := openTAP(t, p.B.Net, tap.Config{Name: link.PairTAP})
	pool := buf.NewPool(64, 0)
	forwarded(t, pool, a, b)
	f := superFrame(pool, 5000, 1448)
	must(t, a.Write(f))
	f.Release()
	octets := 0
	for octets < 5000 {
		g := next(t, pool, b, etherType(ether.TypeIPv4))
		_, body, err := ip.Parse(g.Bytes()[ether.HeaderLen:])
		must(t, err)
		if ip.Checksum(body, ip.PseudoSum(src, dst, ip.ProtoTCP, len(body))) != 0 {
			t.Error("checksum wrong")
		}
		octets += len(body) - tcp.HeaderLen
		g.Release()
	}
}

func TestBusyNamesTheHolder(t *testing.T) {
	_, links := room(t)
	pid := os.Getpid()
	name := fmt.Sprint("busy", pid) // no TAP of another namespace has it too
	openTAP(t, links, tap.Config{Name: name})
	_, err := links.OpenTAP(tap.Config{Name: name})
	want := fmt.Sprintf("TAP %s is held by another process (pid %d): stop it", name, pid)
	if !errors.Is(err, unix.EBUSY) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestNotATAP(t *testing.T) {
	_, links := room(t)
	must(t, links.AddBridge("br0"))
	if _, err := links.OpenTAP(tap.Config{Name: "br0"}); err == nil || !strings.Contains(err.Error(), "is not a TAP") {
		t.Errorf("%v", err)
	}
}

// A persistent TAP of someone else survives us, opened either way.
func TestPersistentStays(t *testing.T) {
	each(t, func(t *testing.T, vnet bool) {
		_, links := room(t)
		must(t, links.AddTAP("tap0", false))
		q := openTAP(t, links, tap.Config{Name: "tap0", Vnet: vnet})
		if q.Created() {
			t.Error("found, but counts as created")
		}
		must(t, q.Close())
		if !links.Exists("tap0") {
			t.Error("the TAP went with our queue")
		}
		mine := openTAP(t, links, tap.Config{Name: "mine", Vnet: vnet})
		must(t, mine.Close(), mine.Close())
		if links.Exists("mine") {
			t.Error("our own TAP stayed")
		}
	})
}

func TestMultiQueueTAP(t *testing.T) {
	each(t, func(t *testing.T, vnet bool) {
		ns, links := room(t)
		add := exec.Command("ip", "tuntap", "add", "dev", "tap0", "mode", "tap", "multi_queue")
		must(t, ns.Start(add), add.Wait())
		q := openTAP(t, links, tap.Config{Name: "tap0", Vnet: vnet})
		if q.Name() != "tap0" || q.Created() {
			t.Errorf("%s, created %v", q.Name(), q.Created())
		}
	})
}

func TestReadyDescriptor(t *testing.T) {
	_, links := room(t)
	plain := openTAP(t, links, tap.Config{Name: "plain"})
	vnet := openTAP(t, links, tap.Config{Name: "vnet", Vnet: true})
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	tests := []struct {
		name string
		fd   int
		cfg  tap.Config
		vnet bool
		want string
	}{
		{"plain", plain.Fd(), tap.Config{}, false, ""},
		{"its name", plain.Fd(), tap.Config{Name: "plain"}, false, ""},
		{"with vnet", vnet.Fd(), tap.Config{Vnet: true}, true, ""},
		{"vnet, but no offload wanted", vnet.Fd(), tap.Config{}, true, ""},
		{"vnet wanted", plain.Fd(), tap.Config{Vnet: true}, false, "without IFF_VNET_HDR"},
		{"another name", plain.Fd(), tap.Config{Name: "vnet"}, false, "belongs to plain, not to vnet"},
		{"no TAP", int(null.Fd()), tap.Config{}, false, "is not an attached TAP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fd, err := unix.Dup(tt.fd)
			must(t, err)
			tt.cfg.FD = fd
			q, err := tap.Open(tt.cfg)
			if tt.want != "" {
				unix.Close(fd)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				return
			}
			must(t, err)
			if q.Vnet() != tt.vnet || q.Created() {
				t.Errorf("vnet %v, created %v", q.Vnet(), q.Created())
			}
			must(t, q.Close())
		})
	}
}

func TestRemovedTAP(t *testing.T) {
	_, links := room(t)
	q := openTAP(t, links, tap.Config{Name: "tap0"})
	must(t, links.Delete("tap0"))
	f := buf.NewPool(1, 0).Get(2000)
	if err := q.Read(f); err != tap.ErrGone {
		t.Errorf("Read gives %v", err)
	}
	f.Append(make([]byte, 60))
	if err := q.Write(f); err != tap.ErrGone {
		t.Errorf("Write gives %v", err)
	}
}

func TestNothingOutside(t *testing.T) {
	_, links := room(t)
	name := fmt.Sprint("room", os.Getpid()) // others make and remove theirs meanwhile
	openTAP(t, links, tap.Config{Name: name})
	if i, err := net.InterfaceByName(name); err == nil || !links.Exists(name) {
		t.Errorf("outside %v, inside %v", i, links.Exists(name))
	}
}

// superFrameOf is a super-frame of either family, with options in TCP and
// with flags that only some of its segments may carry.
func superFrameOf(pool frame.Pool, v6 bool, payload, size int) *frame.Frame {
	h := ip.Header{Version: 4, ID: 0xfffe, DF: true, TOS: 1, TTL: 64, Proto: ip.ProtoTCP, Src: src, Dst: dst}
	typ, gso := ether.TypeIPv4, frame.GSOTCPv4
	if v6 {
		typ, gso = ether.TypeIPv6, frame.GSOTCPv6
		h = ip.Header{Version: 6, FlowLabel: 0x12345, TTL: 64, Proto: ip.ProtoTCP,
			Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2")}
	}
	th := tcp.Header{SrcPort: 1, DstPort: 2, Seq: 0xffffff00, Flags: tcp.ACK | tcp.PSH | tcp.FIN, Window: 100,
		Opts: tcp.Options{HasTS: true, TSVal: 9, TSEcr: 8}}
	h.PayloadLen = th.Len() + payload
	th.Checksum = ip.Fold(ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, h.PayloadLen))
	f := pool.Get(65536)
	f.Append(ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 2}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: typ}.AppendTo(nil))
	h.Put(f.Extend(h.HeaderLen()))
	start := f.Len()
	th.Put(f.Extend(th.Len()))
	f.Offload = frame.Offload{NeedsCsum: true, GSO: gso, GSOSize: uint16(size), HdrLen: uint16(f.Len()), CsumStart: uint16(start), CsumOffset: 16}
	f.Append(pattern(payload))
	return f
}

// What the kernel makes of a super-frame for a TAP without offload is, octet
// for octet, what virtio.Split makes of it.
func TestSplitEqualsTheKernel(t *testing.T) {
	p := testenv.Pair(t, 1500, true)
	a := openTAP(t, p.A.Net, tap.Config{Name: link.PairTAP, Vnet: true})
	b := openTAP(t, p.B.Net, tap.Config{Name: link.PairTAP})
	pool := buf.NewPool(64, 0)
	forwarded(t, pool, a, b)
	for _, tt := range []struct {
		v6            bool
		payload, size int
	}{{false, 10000, 1448}, {false, 20 * 1448, 1448}, {false, 1001, 333}, {true, 10000, 1428}, {true, 1429, 1428}} {
		f := superFrameOf(pool, tt.v6, tt.payload, tt.size)
		must(t, a.Write(f))
		i := 0
		must(t, virtio.Split(f.Offload, f.Bytes(), func(seg []byte) {
			h, _, _ := ether.Parse(seg)
			g := next(t, pool, b, etherType(h.Type))
			if !bytes.Equal(g.Bytes(), seg) {
				t.Errorf("%+v: segment %d\nkernel % x\nours   % x", tt, i, g.Bytes()[:90], seg[:90])
			}
			g.Release()
			i++
		}))
		f.Release()
	}
}

// A persistent TAP remembers the offloads of its last holder. Whoever opens
// it plain must still get true frames.
func TestOffloadIsForgotten(t *testing.T) {
	ns, links := room(t)
	must(t, links.AddTAP("tap0", true), links.AddAddr("tap0", netip.MustParsePrefix("10.0.0.254/24")), links.Up("tap0"))
	q := openTAP(t, links, tap.Config{Name: "tap0", Vnet: true})
	must(t, q.Close())
	q = openTAP(t, links, tap.Config{Name: "tap0"})
	poll(t, q, unix.POLLOUT)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if i, err := links.Get("tap0"); err == nil && i.Live {
			break
		}
		time.Sleep(time.Millisecond)
	}
	send(t, ns, "10.0.0.255", 101)
	f := next(t, buf.NewPool(4, 0), q, etherType(ether.TypeIPv4))
	h, body, err := ip.Parse(f.Bytes()[ether.HeaderLen:])
	must(t, err)
	if h.Proto != ip.ProtoUDP || ip.Checksum(body, ip.PseudoSum(h.Src, h.Dst, h.Proto, len(body))) != 0 {
		t.Errorf("the checksum of protocol %d was left to us", h.Proto)
	}
}
