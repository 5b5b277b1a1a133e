package ucma

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"tapir/nic/verbs"
)

func TestBind(t *testing.T) {
	p := newPair(t, nil)
	ch := p.s.open()
	for _, c := range []struct {
		at   string
		want error
	}{
		{"10.0.0.2:7000", nil}, {"[fd00::2]:7000", nil}, {"0.0.0.0:7001", nil}, {"[::]:7002", nil}, {"127.0.0.1:7003", nil},
		{"10.0.0.1:7004", syscall.EADDRNOTAVAIL}, // the other NIC's
		{"[fd00::1]:7004", syscall.EADDRNOTAVAIL},
	} {
		i, err := p.s.create(ch)
		must(t, err)
		if err := i.bind(c.at); err != c.want {
			t.Errorf("bind to %s: %v", c.at, err)
			continue
		}
		if c.want == nil {
			src, err := i.queryRoute()
			if err != nil || src.addrPort() != netip.MustParseAddrPort(c.at) {
				t.Errorf("bound to %s, shown as %v: %v", c.at, src, err)
			}
			if err := i.bind(c.at); err != syscall.EINVAL {
				t.Errorf("bind twice: %v", err)
			}
		} else if err := i.bind("0.0.0.0:0"); err != nil {
			t.Errorf("bind after a failure: %v", err)
		}
	}
	i, err := p.s.create(ch)
	must(t, err)
	linkLocal := body{}.u64(0).addr("[fe80::1]:1", 28)
	order.PutUint32(linkLocal[8+24:], 0)
	for family, want := range map[uint16]error{familyIB: syscall.EAFNOSUPPORT, 0: syscall.EAFNOSUPPORT, 10: syscall.EINVAL} {
		b := append(body(nil), linkLocal...)
		order.PutUint16(b[8:], family)
		if err := p.s.write(ch, cmdBindIP, b.u32(i.num), 0); err != want {
			t.Errorf("family %d: %v", family, err)
		}
	}
	if err := p.s.write(ch, cmdBind, body{}.u32(i.num).u16(48).u16(0).u16(familyIB).zero(126), 0); err != syscall.EAFNOSUPPORT {
		t.Errorf("what librdmacm tries first: %v", err)
	}
	if err := p.s.write(ch, cmdBind, body{}.u32(i.num).u16(28).u16(0).addr("10.0.0.2:7010", 128), 0); err != syscall.EINVAL {
		t.Errorf("wrong length: %v", err)
	}
	must(t, p.s.write(ch, cmdBind, body{}.u32(i.num).u16(16).u16(0).addr("10.0.0.2:7010", 128), 0))
	p.checkEmpty(t, ch)
}

// Who may have a port beside whom, as the kernel has it.
func TestPortSharing(t *testing.T) {
	p := newPair(t, nil)
	const reuse, only = 1, 2
	for _, c := range []struct {
		name          string
		first, second string
		opt1, opt2    int
		want          error
	}{
		{"same address", "10.0.0.2:9", "10.0.0.2:9", 0, 0, syscall.EADDRINUSE},
		{"two addresses", "10.0.0.2:9", "[fd00::2]:9", 0, 0, nil},
		{"wildcard first", "0.0.0.0:9", "10.0.0.2:9", 0, 0, syscall.EADDRNOTAVAIL},
		{"wildcard last", "10.0.0.2:9", "0.0.0.0:9", 0, 0, syscall.EADDRNOTAVAIL},
		{"both families", "[::]:9", "0.0.0.0:9", 0, 0, syscall.EADDRNOTAVAIL},
		{"each its family", "[::]:9", "0.0.0.0:9", only, 0, nil},
		{"reused", "10.0.0.2:9", "10.0.0.2:9", reuse, reuse, nil},
		{"one reuses", "10.0.0.2:9", "10.0.0.2:9", reuse, 0, syscall.EADDRINUSE},
	} {
		ch := p.s.open()
		var ids [2]*cmid
		var err error
		for n, opt := range []int{c.opt1, c.opt2} {
			ids[n], err = p.s.create(ch)
			must(t, err)
			if opt == reuse {
				must(t, ids[n].option(optionReuseAddr, 1, 0, 0, 0))
			}
			if opt == only {
				must(t, ids[n].option(optionAFOnly, 1, 0, 0, 0))
			}
		}
		must(t, ids[0].bind(c.first))
		if err := ids[1].bind(c.second); err != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.opt1 == reuse && c.opt2 == reuse {
			if err := ids[0].listen(1); err != syscall.EADDRINUSE {
				t.Errorf("%s: listen beside another: %v", c.name, err)
			}
			ids[1].end()
			must(t, ids[0].listen(1))
			late, err := p.s.create(ch)
			must(t, err, late.option(optionReuseAddr, 1, 0, 0, 0))
			if err := late.bind(c.second); err != syscall.EADDRINUSE {
				t.Errorf("%s: beside one that listens: %v", c.name, err)
			}
			if err := ids[0].option(optionReuseAddr, 1, 0, 0, 0); err != syscall.EINVAL {
				t.Errorf("%s: reuse while listening: %v", c.name, err)
			}
		}
		ch.close()
	}
}

// Both of a wildcard's families are served, or with AFONLY one.
func TestFamilyOnly(t *testing.T) {
	p := newPair(t, nil)
	l, err := p.s.create(p.s.open())
	must(t, err, l.option(optionAFOnly, 1, 0, 0, 0), l.bind("[::]:7471"), l.listen(0))
	c := p.resolved("10.0.0.2:7471")
	must(t, c.connect(""))
	c.expect(Rejected)
	c6 := p.resolved("[fd00::2]:7471")
	must(t, c6.connect(""))
	s, _ := l.request()
	must(t, s.createQP(p.server), s.accept(""))
	c6.expect(Established)
	p.checkEmpty(t, l.ch, c.ch, c6.ch)
}

// Ports that a program does not choose are all different, and not used again at
// once.
func TestAutomaticPorts(t *testing.T) {
	p := newPair(t, nil)
	ch := p.s.open()
	seen := map[uint16]bool{}
	for range 100 {
		i, err := p.s.create(ch)
		must(t, err, i.bind("0.0.0.0:0"))
		src, err := i.queryRoute()
		if err != nil || src.port < firstPort || seen[src.port] {
			t.Errorf("port %d, %v", src.port, err)
		}
		seen[src.port] = true
		i.end()
	}
	p.checkEmpty(t, ch)
}

func TestResolveErrors(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	i, err := p.c.create(ch)
	must(t, err)
	for _, c := range []struct {
		dst  string
		want error
	}{
		{"192.0.2.1:7471", syscall.ENETUNREACH}, {"198.51.100.1:7471", syscall.ENETUNREACH},
		{"[fd00::2]:7471", syscall.EINVAL}, // it is bound to any address of IPv4 by now
	} {
		if err := i.resolve("", c.dst, 100); err != c.want {
			t.Errorf("to %s: %v", c.dst, err)
		}
	}
	six, err := p.c.create(ch)
	must(t, err)
	if err := six.resolve("", "[2001:db8::1]:7471", 100); err != syscall.ENETUNREACH {
		t.Errorf("IPv6 without a route: %v", err)
	}
	if err := i.resolveRoute(1); err != syscall.EINVAL {
		t.Errorf("route before address: %v", err)
	}
	if err := i.connect(""); err != syscall.EINVAL {
		t.Errorf("connect before all: %v", err)
	}
	must(t, i.resolve("", "10.0.0.2:7471", 100))
	i.expect(AddrResolved)
	if err := i.resolve("", "10.0.0.2:7471", 100); err != syscall.EINVAL {
		t.Errorf("resolved twice: %v", err)
	}
	if err := i.resolveRoute(0); err != syscall.EINVAL {
		t.Errorf("no time for the route: %v", err)
	}
	p.checkEmpty(t, ch)
}

// A station that does not answer is given up when the program says, and may be
// tried again.
func TestResolveTimeout(t *testing.T) {
	p := newPair(t, nil)
	p.w.mute = func(n *node) bool { return n == p.server }
	ch := p.c.open()
	i, err := p.c.create(ch)
	must(t, err)
	for _, ms := range []uint32{0, 700, 20000} {
		begin := p.w.now
		must(t, i.resolve("", "10.0.0.2:7471", ms))
		if ev := i.expect(AddrError); ev.status != -int32(syscall.ETIMEDOUT) {
			t.Errorf("%+v", ev)
		}
		if took := time.Duration(p.w.now - begin); took != time.Duration(ms)*time.Millisecond {
			t.Errorf("%d ms took %v", ms, took)
		}
	}
	must(t, i.resolve("", "10.0.0.2:7471", 20000))
	p.w.run(9 * time.Second) // longer than the NIC itself asks
	p.w.mute = nil
	i.expect(AddrResolved)
	begin, err := p.c.create(ch)
	must(t, err, begin.resolve("", "10.0.0.99:1", 2000))
	begin.end() // in the middle of it
	p.w.run(5 * time.Second)
	if ch.readable() {
		t.Error("an event of an id that is gone")
	}
	i.end()
	p.checkEmpty(t, ch)
}

// Octets of the answers to QUERY_ROUTE and QUERY.
const (
	routeLen = 208
	addrLen  = 280
)

// QUERY tells the same in its own form, and with GIDs.
func TestQuery(t *testing.T) {
	p := newPair(t, nil)
	c := p.resolved("10.0.0.2:7471")
	ask := func(what uint32, out int) ([]byte, error) {
		err := p.c.write(c.ch, cmdQuery, body{}.u64(p.c.addr).u32(c.num).u32(what), out)
		return p.c.mem, err
	}
	b, err := ask(queryAddr, addrLen)
	must(t, err)
	guid := p.client.dev.Verbs.Identity().GUID
	src, dst := parseSockaddr(b[16:]), parseSockaddr(b[144:])
	if verbs.GUID(b[:8]) != guid || b[8] != 1 || order.Uint16(b[12:]) != 16 || order.Uint16(b[14:]) != 16 ||
		src.addr.String() != "10.0.0.1" || dst.addrPort().String() != "10.0.0.2:7471" || order.Uint32(b[272:]) != noDeviceIndex {
		t.Errorf("addresses %v %v: %x", src, dst, b[:addrLen])
	}
	b, err = ask(queryGID, addrLen)
	must(t, err)
	if sgid := p.client.dev.Verbs.GIDs()[0]; verbs.GID(b[16+8:16+24]) != sgid || verbs.GID(b[144+8:144+24]) != p.server.dev.Verbs.GIDs()[0] ||
		order.Uint16(b[16:]) != familyIB || binary.BigEndian.Uint64(b[144+24:]) != portSpaceTCP<<16|7471 {
		t.Errorf("GIDs: %x", b[:addrLen])
	}
	b, err = ask(queryPath, 8+72*6)
	must(t, err)
	if order.Uint32(b) != 0 {
		t.Errorf("%d paths", order.Uint32(b))
	}
	for what, want := range map[uint32]error{queryAddr: syscall.ENOSPC, queryGID: syscall.ENOSPC, queryPath: syscall.ENOSPC, 3: syscall.ENOSYS} {
		if _, err := ask(what, 4); err != want {
			t.Errorf("option %d: %v", what, err)
		}
	}
	if err := p.c.write(c.ch, cmdQueryRoute, body{}.u64(p.c.addr).u32(c.num).u32(0), 100); err != syscall.ENOSPC {
		t.Errorf("%v", err)
	}
	must(t, p.c.write(c.ch, cmdQueryRoute, body{}.u64(p.c.addr).u32(c.num).u32(0), routeLen))
	if b = p.c.mem; verbs.GUID(b[:8]) != guid || b[196] != 1 || order.Uint32(b[192:]) != 0 || verbs.GID(b[24:40]) != p.client.dev.Verbs.GIDs()[0] {
		t.Errorf("route: %x", b[:routeLen])
	}
	unbound, err := p.c.create(c.ch)
	must(t, err, p.c.write(c.ch, cmdQueryRoute, body{}.u64(p.c.addr).u32(unbound.num).u32(0), routeLen))
	for _, x := range p.c.mem[:routeLen] {
		if x != 0 {
			t.Fatalf("of an id without address: %x", p.c.mem[:routeLen])
		}
	}
	p.checkEmpty(t, c.ch)
}
