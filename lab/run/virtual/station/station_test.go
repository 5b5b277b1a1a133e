package station_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/run/virtual/station"
	"tapir/lab/topo/ping"
	"tapir/nic/buf"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// lan joins hosts: what one sends all others receive after a millisecond.
type lan struct {
	pool  *buf.Pool
	hosts []*station.Host
	ports []*port
	now   frame.Time
	lose  func(b []byte) bool // nil: nothing
	twice bool
}

type port struct {
	lan   *lan
	iface *station.Iface
	sent  []*frame.Frame
}

func (p *port) Room() int               { return 1 }
func (p *port) Transmit(f *frame.Frame) { p.sent = append(p.sent, f) }

func newLAN(addrs ...string) *lan {
	l := &lan{pool: buf.NewPool(1024, 4096)}
	for i, a := range addrs {
		h, p := station.New(l.pool), &port{lan: l}
		var list []netip.Prefix
		for _, s := range strings.Fields(a) {
			list = append(list, netip.MustParsePrefix(s))
		}
		p.iface = h.Add(station.Config{MAC: ether.Addr{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: list, MTU: 1500}, p)
		l.hosts, l.ports = append(l.hosts, h), append(l.ports, p)
	}
	return l
}

// tick is a millisecond.
func (l *lan) tick() {
	for _, h := range l.hosts {
		h.Poll(l.now)
	}
	l.now = l.now.Add(time.Millisecond)
	for _, from := range l.ports {
		sent := from.sent
		from.sent = nil
		for _, f := range sent {
			l.flood(from, f.Bytes())
			f.Release()
		}
	}
}

func (l *lan) flood(from *port, b []byte) {
	if l.lose != nil && l.lose(b) {
		return
	}
	copies := 1
	if l.twice {
		copies = 2
	}
	for _, to := range l.ports {
		for range copies {
			if to != from {
				f := l.pool.Get(len(b))
				f.Append(b)
				to.iface.Receive([]*frame.Frame{f}, l.now)
			}
		}
	}
}

// ping runs a command on the first host and returns its exit code, what it
// said, and how long it took.
func (l *lan) ping(t *testing.T, command string) (int, string, time.Duration) {
	t.Helper()
	o, err := ping.Parse(strings.Fields(command))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	begun := l.now
	p := l.hosts[0].Ping(o, l.now, func(line string) { said.WriteString(line + "\n") })
	for l.now < begun.Add(time.Minute) {
		if code := p.ExitCode(); p.HasEnded() {
			return code, said.String(), l.now.Sub(begun).Round(100 * time.Millisecond)
		}
		l.tick()
	}
	t.Fatalf("%s does not end: %s", command, said.String())
	return 0, "", 0
}

// Ping says and returns what that of iputils does, and takes as long.
func TestPing(t *testing.T) {
	arp := func(b []byte) bool { return b[12] == 8 && b[13] == 6 }
	for _, c := range []struct {
		name, command string
		lose          func(b []byte) bool
		twice         bool
		code          int
		took          time.Duration
		says          string
	}{
		{"found", "ping -c 3 10.0.0.2", nil, false, 0, 2 * time.Second,
			"PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=4.00 ms\n64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=2.00 ms\n" +
				"64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=2.00 ms\n\n--- 10.0.0.2 ping statistics ---\n" +
				"3 packets transmitted, 3 received, 0% packet loss, time 2002ms\nrtt min/avg/max/mdev = 2.000/2.666/4.000/0.942 ms\n"},
		{"six", "ping -q -c 2 -i 0.1 -s 1000 fd00::2", nil, false, 0, 100 * time.Millisecond, "PING fd00::2(fd00::2) 1000 data bytes\n\n--- fd00::2 ping statistics ---\n2 packets transmitted, 2 received, 0%"},
		{"itself", "ping -c 1 10.0.0.1", nil, false, 0, 0, "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.000 ms"},
		{"twice", "ping -c 1 -i 0.1 10.0.0.2", nil, true, 0, 0, "1 packets transmitted, 1 received, +3 duplicates, 0% packet loss"},
		{"nobody", "ping -c 1 10.0.0.9", nil, false, 1, 3 * time.Second, "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable\n"},
		{"nobody, six", "ping -c 1 fd00::9", nil, false, 1, 3 * time.Second, "+1 errors, 100% packet loss"},
		{"deadline", "ping -c 2 -w 1 10.0.0.2", arp, false, 1, time.Second, "1 packets transmitted, 0 received, 100% packet loss, time 1000ms"},
		{"patience", "ping -c 1 10.0.0.2", func(b []byte) bool { return b[12] == 8 && b[13] == 0 }, false, 1, 10 * time.Second, "1 packets transmitted, 0 received, 100% packet loss"},
		{"another deadline", "ping -i 0.25 -w 1 10.0.0.2", nil, false, 0, time.Second, "4 packets transmitted, 4 received"},
		{"no route", "ping -c 1 10.9.0.2", nil, false, 2, 0, "ping: connect: Network is unreachable"},
		{"too long", "ping -c 1 -s 1473 10.0.0.2", nil, false, 1, 0, "ping: local error: message too long, mtu=1500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLAN("10.0.0.1/24 fd00::1/64", "10.0.0.2/24 fd00::2/64", "10.0.0.3/24")
			l.lose, l.twice = c.lose, c.twice
			code, said, took := l.ping(t, c.command)
			if code != c.code || took != c.took || !strings.Contains(said, c.says) {
				t.Errorf("exit code %d after %v, expected %d after %v\n%s", code, took, c.code, c.took, said)
			}
		})
	}
}

// Nothing from the wire stops a host, and each thing that it does not take is
// counted.
func FuzzReceive(f *testing.F) {
	l := newLAN("10.0.0.1/24 fd00::1/64")
	arp := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1}, make([]byte, 18)...)
	f.Add(arp)
	f.Add(arp[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		drops := l.hosts[0].Drops()
		before := drops.Total()
		g := l.pool.Get(len(b))
		g.Append(b)
		l.ports[0].iface.Receive([]*frame.Frame{g}, 0)
		l.hosts[0].Poll(0)
		drops = l.hosts[0].Drops()
		if len(b) < ether.HeaderLen && drops.Total() != before+1 {
			t.Errorf("% x is not counted", b)
		}
		for _, s := range l.ports[0].sent {
			s.Release()
		}
		l.ports[0].sent = nil
		if n := l.pool.Lent(); n != 0 {
			t.Errorf("%d frames are lost", n)
		}
	})
}
