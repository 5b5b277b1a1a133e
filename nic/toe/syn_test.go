package toe

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/toe/isn"
	"tapir/nic/toe/packet"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// cookiePeer is an engine whose backlog is full, so that it answers the SYN
// of p.remote with a cookie.
func cookiePeer(t *testing.T, a *app) *rawPeer {
	p := newRawPeer(t, Config{})
	p.listen(a)
	for port := uint16(1); port <= 4; port++ {
		p.remote = addrPortOf("10.0.0.2", port)
		p.in(tcp.SYN, 0, 0, "")
	}
	p.poll()
	p.remote, p.engKnown = addrPortOf("10.0.0.2", 9999), false
	return p
}

func TestSynCookie(t *testing.T) {
	full := tcp.Options{MSS: 1448, HasWS: true, WS: 7, SACKPermitted: true, HasTS: true, TSVal: 100}
	noTS := tcp.Options{MSS: 9999}
	for _, r := range []struct {
		name string
		opts tcp.Options
		ecn  tcp.Flags
		mss  int
	}{
		{"every option", full, tcp.ECE | tcp.CWR, 1440 - tsLen},
		{"no timestamps", noTS, 0, 1460},
		{"timestamps alone", tcp.Options{HasTS: true, TSVal: 5}, 0, 216 - tsLen},
	} {
		t.Run(r.name, func(t *testing.T) {
			a := quietApp(0)
			p := cookiePeer(t, a)
			open := p.e.Stats().Open
			p.opts = r.opts
			p.in(tcp.SYN|r.ecn, 0, 0, "")
			want := "SYN,ACK 0 ack 1"
			if r.ecn != 0 {
				want = "SYN,ACK,ECE 0 ack 1"
			}
			p.expect(want)
			if p.e.Stats().Open != open || p.e.Stats().CookiesSent != 1 {
				t.Fatal("the SYN is kept")
			}
			o := p.last.Opts
			if o.HasTS != r.opts.HasTS || o.SACKPermitted != r.opts.SACKPermitted || o.HasWS != r.opts.HasWS || o.MSS != 1460 {
				t.Fatalf("offered %+v", o)
			}
			p.now = p.now.Add(isn.CookieLife / 2)
			p.opts = tcp.Options{HasTS: o.HasTS, TSVal: r.opts.TSVal + 1, TSEcr: o.TSVal}
			p.in(pa, 1, 1, "hello")
			if got := p.poll(); !strings.Contains(got, "ACK 1 ack 6") {
				t.Fatalf("sent %q", got)
			}
			ackTS := uint32(p.conn.tsNow(p.now))
			i := p.conn.Info()
			if a.received != 5 || i.State != StateEstablished || i.SACK != r.opts.SACKPermitted || i.Timestamps != o.HasTS ||
				i.SndScale != r.opts.WS || i.ECN != (r.ecn != 0) || i.MSS != r.mss {
				t.Fatalf("received %d: %+v", a.received, i)
			}
			if o.HasTS && int32(ackTS-o.TSVal) < 0 {
				t.Fatal("the timestamp went back")
			}
		})
	}
}

// TestForgedCookies tries ACKs that no cookie was sent for, and stale ones.
func TestForgedCookies(t *testing.T) {
	p := cookiePeer(t, quietApp(0))
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	open := p.e.Stats().Open
	for i := range 5000 {
		p.in(tcp.ACK, 1, 2+i*7919, "")
		p.in(tcp.ACK, 2+i, 1, "")
		p.poll()
	}
	p.remote = addrPortOf("10.0.0.3", 9999)
	p.in(tcp.ACK, 1, 1, "")
	p.remote = addrPortOf("10.0.0.2", 9999)
	p.now = p.now.Add(isn.CookieLife + time.Second)
	p.in(tcp.ACK, 1, 1, "")
	if s := p.e.Stats(); s.CookiesTaken != 0 || s.Open != open {
		t.Fatalf("%d cookies taken", s.CookiesTaken)
	}
}

// TestSynFloodIsBounded sends SYNs from ever new addresses: what is kept is
// the backlog, and a true peer still gets through.
func TestSynFloodIsBounded(t *testing.T) {
	a := quietApp(0)
	p := newRawPeer(t, Config{})
	p.listen(a)
	for i := range 20_000 {
		p.remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 999)
		p.in(tcp.SYN, 0, 0, "")
		if i%64 == 63 {
			p.poll()
		}
	}
	if s := p.e.Stats(); s.Open != 4 || p.e.passive.Hosts() != 4 || p.e.answers.Len() > packet.MaxAnswers || p.pool.out != 0 {
		t.Fatalf("%d half-open connections, %d hosts", s.Open, p.e.passive.Hosts())
	}
	p.poll()
	p.remote, p.engKnown = addrPortOf("10.0.0.2", 9999), false
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	p.in(tcp.ACK, 1, 1, "")
	p.state(StateEstablished)
	p.conn.Abort()
	p.wait(5 * time.Minute)
	if s := p.e.Stats(); s.Open != 0 || p.e.passive.Hosts() != 0 {
		t.Fatalf("%d left, %d hosts", s.Open, p.e.passive.Hosts())
	}
}

func TestConnectionLimits(t *testing.T) {
	syn := func(p *rawPeer, addr string, port uint16) (open int) {
		p.remote, p.engKnown = addrPortOf(addr, port), false
		p.in(tcp.SYN, 0, 0, "")
		p.poll()
		if p.engKnown {
			p.in(tcp.ACK, 1, 1, "")
			p.poll()
		}
		return p.e.Stats().Open
	}
	for _, r := range []struct {
		name string
		cfg  Config
		max  int
		want int // after four more from one host and one from another
	}{
		{"engine", Config{MaxConns: 3}, 0, 3},
		{"port", Config{MaxConnsPerPort: 3}, 0, 3},
		{"host", Config{MaxConnsPerHost: 3}, 0, 4},
		{"listener", Config{}, 3, 3},
		{"none", Config{}, 0, 5},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := newRawPeer(t, r.cfg)
			var first *Conn
			l, err := p.e.Listen(p.local, 4, func(c *Conn, _ frame.Time) Handler {
				if first == nil {
					first = c
				}
				return newApp(0, 1)
			})
			if err != nil {
				t.Fatal(err)
			}
			l.SetMaxConns(r.max)
			for port := uint16(1); port <= 4; port++ {
				syn(p, "10.0.0.2", port)
			}
			if got := syn(p, "10.0.0.3", 1); got != r.want {
				t.Fatalf("%d connections, want %d", got, r.want)
			}
			first.Abort()
			p.poll()
			if got := syn(p, "10.0.0.2", 99); got != r.want && r.want < 5 {
				t.Fatalf("%d connections after one has gone", got)
			}
		})
	}
}

func TestHalfOpenLimitsLeadToCookies(t *testing.T) {
	for _, cfg := range []Config{{MaxHalfOpenPerHost: 2}, {MaxHalfOpenPerPort: 2}} {
		p := newRawPeer(t, cfg)
		p.listen(quietApp(0))
		for port := uint16(1); port <= 4; port++ {
			p.remote = addrPortOf("10.0.0.2", port)
			p.in(tcp.SYN, 0, 0, "")
		}
		if s := p.e.Stats(); s.Open != 2 || s.CookiesSent != 2 {
			t.Fatalf("%d half open, %d cookies", s.Open, s.CookiesSent)
		}
	}
}

func TestPausedListener(t *testing.T) {
	p := newRawPeer(t, Config{})
	l := p.listen(quietApp(0))
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	l.Pause(true)
	p.in(tcp.ACK, 1, 1, "") // a handshake under way goes on
	p.state(StateEstablished)
	p.remote = addrPortOf("10.0.0.2", 7)
	p.in(tcp.SYN, 0, 0, "")
	p.expect("")
	l.Pause(false)
	p.engKnown = false
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
}
