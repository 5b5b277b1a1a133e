package admission

import (
	"net/netip"
	"testing"
)

var (
	a4  = netip.MustParseAddr("10.0.0.1")
	b4  = netip.MustParseAddr("10.0.0.2")
	a6  = netip.MustParseAddr("2001:db8::1")
	a6b = netip.MustParseAddr("2001:db8::ffff") // the same host
	b6  = netip.MustParseAddr("2001:db8:0:1::1")
)

// TestBounds meets each bound by the connection that is one too many.
func TestBounds(t *testing.T) {
	const many = 100
	for _, c := range []struct {
		name  string
		limit Limits
		door  Backlog
		half  []netip.Addr // half-open ones before
		open  []netip.Addr
		from  netip.Addr
		conns int
		want  Verdict
	}{
		{"nothing", Limits{1, 1, 1, 1, 1}, Backlog{Backlog: 1}, nil, nil, a4, 0, Keep},
		{"all", Limits{5, many, many, many, many}, Backlog{Backlog: many}, nil, nil, a4, 5, Refuse},
		{"port", Limits{many, 2, many, many, many}, Backlog{Backlog: many}, []netip.Addr{a4}, []netip.Addr{b4}, b6, 2, Refuse},
		{"host", Limits{many, many, 2, many, many}, Backlog{Backlog: many}, []netip.Addr{a4}, []netip.Addr{a4}, a4, 2, Refuse},
		{"another host", Limits{many, many, 2, many, many}, Backlog{Backlog: many}, []netip.Addr{a4}, []netip.Addr{a4}, b4, 2, Keep},
		{"prefix", Limits{many, many, 2, many, many}, Backlog{Backlog: many}, []netip.Addr{a6}, []netip.Addr{a6b}, a6, 2, Refuse},
		{"another prefix", Limits{many, many, 2, many, many}, Backlog{Backlog: many}, []netip.Addr{a6}, []netip.Addr{a6b}, b6, 2, Keep},
		{"listener", Limits{many, many, many, many, many}, Backlog{Backlog: many, Max: 1}, nil, []netip.Addr{b4}, a4, 1, Refuse},
		{"paused", Limits{many, many, many, many, many}, Backlog{Backlog: many, Paused: true}, nil, nil, a4, 0, Refuse},
		{"backlog", Limits{many, many, many, many, many}, Backlog{Backlog: 1}, []netip.Addr{b4}, nil, a4, 1, Cookie},
		{"half per port", Limits{many, many, many, 1, many}, Backlog{Backlog: many}, []netip.Addr{b4}, nil, a4, 1, Cookie},
		{"half per host", Limits{many, many, many, many, 1}, Backlog{Backlog: many}, []netip.Addr{a4}, nil, a4, 1, Cookie},
		{"open ones are not half open", Limits{many, many, many, 1, 1}, Backlog{Backlog: 1}, nil, []netip.Addr{a4}, a4, 1, Keep},
		{"nobody accepts", Limits{many, many, many, many, many}, Backlog{Backlog: 2, Queued: func() int { return 2 }}, nil, nil, a4, 0, Refuse},
		{"half are queued", Limits{many, many, many, many, many}, Backlog{Backlog: 2, Queued: func() int { return 1 }}, []netip.Addr{b4}, nil, a4, 1, Cookie},
	} {
		b := NewLimiter(c.limit)
		for _, from := range c.half {
			b.HalfOpen(&c.door, from)
		}
		for _, from := range c.open {
			b.HalfOpen(&c.door, from)
			b.Opened(&c.door, from)
		}
		if got := b.Admit(&c.door, c.from, c.conns); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		for _, from := range c.half {
			b.Left(&c.door, from, true)
		}
		for _, from := range c.open {
			b.Left(&c.door, from, false)
		}
		if len(b.ports)+b.Hosts() != 0 {
			t.Errorf("%s: left are %v, %v", c.name, b.ports, b.hosts)
		}
	}
}
