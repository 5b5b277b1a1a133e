package tap_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
	"tapir/nic/buf"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// ptpMessage is the beginning of a PTP message, and room for the rest.
func ptpMessage(typ byte, seq uint16) []byte {
	b := make([]byte, 44)
	b[0], b[1] = typ, 2
	binary.BigEndian.PutUint16(b[2:], 44)
	binary.BigEndian.PutUint16(b[30:], seq)
	return b
}

// carriages put a message into a frame, by name.
var carriages = map[string]func(msg []byte) []byte{
	"L2": func(msg []byte) []byte { return append(ptpHeader(0).AppendTo(nil), msg...) },
	"VLAN": func(msg []byte) []byte {
		return append(ptpHeader(5).AppendTo(nil), msg...)
	},
	"UDPv4": func(msg []byte) []byte {
		return overUDP(ether.TypeIPv4, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("224.0.1.129"), msg)
	},
	"UDPv6": func(msg []byte) []byte {
		return overUDP(ether.TypeIPv6, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff0e::181"), msg)
	},
}

func ptpHeader(vlan uint16) ether.Header {
	h := ether.Header{Dst: ether.Addr{1, 0x1b, 0x19}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypePTP}
	if vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: vlan}
	}
	return h
}

func overUDP(typ uint16, src, dst netip.Addr, msg []byte) []byte {
	b := ether.Header{Dst: ether.Addr{1, 0, 0x5e, 0, 1, 0x81}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: typ}.AppendTo(nil)
	h := ip.Header{Version: 6, TTL: 1, Proto: ip.ProtoUDP, Src: src, Dst: dst, PayloadLen: 8 + len(msg)}
	if src.Is4() {
		h.Version = 4
	}
	n := len(b)
	b = append(b, make([]byte, h.HeaderLen())...)
	h.Put(b[n:])
	b = binary.BigEndian.AppendUint16(b, 319)
	b = binary.BigEndian.AppendUint16(b, 319)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(msg)))
	return append(append(b, 0, 0), msg...)
}

// observed is a TAP that is up, with its observer.
func observed(t *testing.T) (*netns.NS, tap.Queue, *tap.Observer) {
	ns, links := room(t)
	q := openTAP(t, links, tap.Config{Name: "tap0"})
	must(t, links.Up("tap0"))
	var o *tap.Observer
	must(t, ns.Do(func() (err error) { o, err = tap.Observe("tap0"); return err }))
	t.Cleanup(func() { o.Close() })
	return ns, q, o
}

// kernelSends has the kernel send frames on tap0, as a raw socket does.
func kernelSends(t *testing.T, ns *netns.NS, frames ...[]byte) {
	t.Helper()
	must(t, ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		index, err := ifIndex("tap0")
		for _, b := range frames {
			if err == nil {
				err = unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: index})
			}
		}
		return err
	}))
}

func now() int64 { return time.Now().UnixNano() }

// within tells whether a stamp lies between two looks at the clock.
func within(t *testing.T, what string, begin, stamp int64, ok bool) {
	t.Helper()
	if end := now(); !ok || stamp < begin || stamp > end {
		t.Errorf("%s: stamp %d, %v: not between %d and %d", what, stamp, ok, begin, end)
	}
}

// Every carriage is stamped in both directions, at the time it passed.
func TestObserverStamps(t *testing.T) {
	ns, q, o := observed(t)
	pool := buf.NewPool(8, 0)
	for name, carry := range carriages {
		msg := carry(ptpMessage(3, 7))
		begin := now()
		kernelSends(t, ns, msg)
		f := next(t, pool, q, func(b []byte) bool { return tap.EventHeader(b) != nil })
		stamp, ok := o.Received(f.Bytes())
		if name == "VLAN" { // a raw socket leaves the tag among the octets, which the filter does not look for
			if ok {
				t.Errorf("%s: a stamp", name)
			}
		} else {
			within(t, name+" received", begin, stamp, ok)
		}
		f.Release()

		f = pool.Get(2000)
		f.Append(msg)
		begin = now()
		must(t, q.Write(f))
		stamp, ok = o.Sent(f.Bytes())
		within(t, name+" sent", begin, stamp, ok)
		if _, again := o.Sent(f.Bytes()); again {
			t.Errorf("%s: one stamp, found twice", name)
		}
		f.Release()
	}
}

// Stamps find their frames in any order, as long as they are not too many.
func TestObserverMatches(t *testing.T) {
	ns, q, o := observed(t)
	pool := buf.NewPool(80, 0)
	var all [][]byte
	for seq := range 40 {
		all = append(all, carriages["L2"](ptpMessage(0, uint16(seq))), carriages["L2"](ptpMessage(0xb, uint16(seq))))
	}
	begin := now()
	kernelSends(t, ns, all...)
	var events []*frame.Frame
	for len(events) < 40 {
		events = append(events, next(t, pool, q, func(b []byte) bool { return tap.EventHeader(b) != nil }))
	}
	var last int64
	for i := len(events) - 1; i >= 0; i-- { // the newest first: 39 others come before it
		stamp, ok := o.Received(events[i].Bytes())
		if i < 7 { // of those 39, 32 can wait
			if ok {
				t.Errorf("message %d: a stamp that must be gone", i)
			}
			continue
		}
		within(t, fmt.Sprint("message ", i), begin, stamp, ok)
		if last != 0 && stamp > last {
			t.Errorf("message %d is later than the next one", i)
		}
		last = stamp
	}
	if st, want := o.Stats(), (tap.ObserverStats{Stamped: 33, Missed: 7, Strange: 7}); st != want {
		t.Errorf("%+v, want %+v", st, want)
	}
	for _, f := range events {
		f.Release()
	}
}

func TestObserverNeedsALink(t *testing.T) {
	ns, _ := room(t)
	err := ns.Do(func() error { _, err := tap.Observe("tap9"); return err })
	if err == nil {
		t.Error("observed what does not exist")
	}
}

func TestEventHeader(t *testing.T) {
	for name, carry := range carriages {
		for typ := range byte(16) {
			b := carry(ptpMessage(typ, 1))
			h := tap.EventHeader(b)
			// Over UDP the port tells what is an event message.
			if want := typ < 4 || name[0] == 'U'; (h != nil) != want {
				t.Errorf("%s type %d: event %v", name, typ, h != nil)
			}
			for n := range len(b) {
				if h := tap.EventHeader(b[:n]); h != nil && len(h) != 34 {
					t.Fatalf("%s cut to %d octets: %d of header", name, n, len(h))
				}
			}
		}
	}
}

func ifIndex(name string) (int, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return ifi.Index, nil
}

// Messages in a tunnel are seen as those without one, in all carriages; others of
// its EtherType, and those of another, are not.
func TestObserverInTunnels(t *testing.T) {
	ns, links := room(t)
	q := openTAP(t, links, tap.Config{Name: "tap0"})
	must(t, links.Up("tap0"))
	const typ = 0x88b5
	var o *tap.Observer
	must(t, ns.Do(func() (err error) {
		o, err = tap.Observe("tap0", tap.Tunnel{EtherType: 0x0800, At: 70}, tap.Tunnel{EtherType: typ, At: 34})
		return err
	}))
	t.Cleanup(func() { o.Close() })
	pool := buf.NewPool(8, 0)
	outer := append(ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 9}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: typ}.AppendTo(nil),
		make([]byte, 20)...)
	for name, carry := range carriages {
		b := append(outer[:len(outer):len(outer)], carry(ptpMessage(1, 3))...)
		begin := now()
		kernelSends(t, ns, b)
		f := next(t, pool, q, o.Event)
		stamp, ok := o.Received(f.Bytes())
		if name == "VLAN" {
			if ok {
				t.Errorf("%s: a stamp", name) // as without a tunnel
			}
		} else {
			within(t, name+" received", begin, stamp, ok)
		}
		f.Release()
		if name == "VLAN" {
			continue
		}
		f = pool.Get(2000)
		f.Append(b)
		begin = now()
		must(t, q.Write(f))
		stamp, ok = o.Sent(f.Bytes())
		within(t, name+" sent", begin, stamp, ok)
		f.Release()
	}
	for _, b := range [][]byte{carriages["L2"](ptpMessage(0, 1))[:20], outer, append(outer[:len(outer):len(outer)], make([]byte, 60)...)} {
		if o.Event(b) {
			t.Errorf("%x: an event message", b)
		}
	}
}
