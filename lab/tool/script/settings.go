package script

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tapir/mpa"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
)

// settings are what a script says before its first step.
type settings struct {
	cfg       toe.Config
	seed      uint64 // of the NIC
	v6        bool
	isn       uint32
	port      uint16
	tolerance time.Duration

	iwarp    bool // the NIC is a whole one; messages of MPA, DDP and RDMAP
	rdma     iwarp.Config
	explicit bool // every segment is stated

	proto  *protocol // neither TCP nor iWARP
	fabric fabricSettings
	ptp    ptpSettings
}

func defaultSettings() settings {
	return settings{isn: 1000, port: 7174, tolerance: time.Millisecond, rdma: iwarp.Config{Nudge: iwarp.Never}}
}

func (s *settings) mtu() int {
	if s.cfg.MTU == 0 {
		return 1500
	}
	return s.cfg.MTU
}

func (s *settings) local() netip.Addr {
	if s.v6 {
		return netip.MustParseAddr("fd00::1")
	}
	return netip.MustParseAddr("10.0.0.1")
}

func (s *settings) remote() netip.Addr {
	if s.v6 {
		return netip.MustParseAddr("fd00::2")
	}
	return netip.MustParseAddr("10.0.0.2")
}

// parse reads one line of settings: NAME VALUE.
func (s *settings) parse(l *line) {
	w := l.next("a setting")
	if s.proto != nil && w.text != "tolerance" {
		s.proto.parseSetting(s, l, w)
		return
	}
	if rdmaSettings[w.text] && !s.iwarp {
		panic(l.at(w, "%q belongs to scripts of iWARP; expected the line before: protocol iwarp", w.text))
	}
	if count := counts[w.text]; count.set != nil {
		n, _ := l.integer(w.text+" N", count.lo, count.hi)
		count.set(s, n)
		l.finish()
		return
	}
	if span := spans[w.text]; span != nil {
		d, _ := l.duration("a time")
		*span(s) = d
		l.finish()
		return
	}
	if choice := choices[w.text]; choice.set != nil {
		i, _ := l.oneOf(w.text, choice.names)
		choice.set(s, i)
		l.finish()
		return
	}
	panic(l.at(w, "%q: expected a time (of a step) or a setting: %s", w.text, s.names()))
}

// names are the settings that a script of its protocol may have.
func (s *settings) names() string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(counts)), maps.Keys(choices))
	names = slices.AppendSeq(names, maps.Keys(spans))
	names = slices.DeleteFunc(names, func(name string) bool { return rdmaSettings[name] && !s.iwarp })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// count is a setting that is a number between lo and hi.
type count struct {
	lo, hi int64
	set    func(s *settings, n int64)
}

var counts = map[string]count{
	"mtu":              {576, 65535, func(s *settings, n int64) { s.cfg.MTU = int(n) }},
	"rcvwnd":           {65536, 1 << 30, func(s *settings, n int64) { s.cfg.RcvWnd = int(n) }},
	"sndwnd":           {1, 1 << 30, func(s *settings, n int64) { s.cfg.SndWnd = int(n) }},
	"gso":              {1, 1000, func(s *settings, n int64) { s.cfg.MaxSegs = int(n) }},
	"isn":              {0, 1<<32 - 1, func(s *settings, n int64) { s.isn = uint32(n) }},
	"port":             {1, 65535, func(s *settings, n int64) { s.port = uint16(n) }},
	"seed":             {0, 1 << 62, func(s *settings, n int64) { s.seed = uint64(n) }},
	"ttl":              {1, 255, func(s *settings, n int64) { s.cfg.TTL = uint8(n) }},
	"tos":              {0, 255, func(s *settings, n int64) { s.cfg.TOS = uint8(n) }},
	"syn-retries":      {1, 100, func(s *settings, n int64) { s.cfg.SynRetries = int(n) }},
	"retries":          {1, 100, func(s *settings, n int64) { s.cfg.Retries = int(n) }},
	"max-conns":        {1, 1 << 16, func(s *settings, n int64) { s.cfg.MaxConns = int(n) }},
	"max-time-wait":    {1, 1 << 16, func(s *settings, n int64) { s.cfg.MaxTimeWait = int(n) }},
	"fin-retries":      {1, 100, func(s *settings, n int64) { s.cfg.FinRetries = int(n) }},
	"keepalive-probes": {1, 100, func(s *settings, n int64) { s.cfg.KeepAliveProbes = int(n) }},
}

// choice is a setting that is one of some names.
type choice struct {
	names []string
	set   func(s *settings, i int)
}

var choices = map[string]choice{
	"ip":          {[]string{"4", "6"}, func(s *settings, i int) { s.v6 = i == 1 }},
	"cc":          {[]string{"cubic", "reno"}, func(s *settings, i int) { s.cfg.Congestion = toe.Congestion(i) }},
	"ecn":         {[]string{"accept", "ask", "off"}, func(s *settings, i int) { s.cfg.ECN = toe.ECN(i) }},
	"syn-cookies": {[]string{"on", "off"}, func(s *settings, i int) { s.cfg.NoSynCookies = i == 1 }},
	"nagle":       {[]string{"off", "on"}, func(s *settings, i int) { s.cfg.Nagle = i == 1 }},

	"protocol": {[]string{"tcp", "iwarp", "16b", "ptp"}, func(s *settings, i int) {
		s.iwarp, s.proto = i == 1, [...]*protocol{2: fabricProtocol, 3: ptpProtocol}[i]
		s.fabric, s.ptp = defaultFabric(), defaultPTP()
	}},
	"segments": {[]string{"implicit", "explicit"}, func(s *settings, i int) { s.explicit = i == 1 }},
	"revision": {[]string{"1", "2"}, func(s *settings, i int) { s.rdma.Revision = uint8(i + 1) }},
	"crc": {[]string{"required", "optional", "refused"}, func(s *settings, i int) {
		s.rdma.CRC = mpa.CRCPolicy(i)
	}}, "markers": {[]string{"off", "on"}, func(s *settings, i int) { s.rdma.Markers = i == 1 }},
	"p2p":          {[]string{"off", "on"}, func(s *settings, i int) { s.rdma.PeerToPeer = i == 1 }},
	"placement":    {[]string{"early", "in-order"}, func(s *settings, i int) { s.rdma.InOrder = i == 1 }},
	"strict-reads": {[]string{"off", "on"}, func(s *settings, i int) { s.rdma.StrictReads = i == 1 }},
	"rtr": {[]string{"any", "send", "write", "read"}, func(s *settings, i int) {
		s.rdma.RTR = []mpa.RTR{mpa.RTRAny, mpa.RTRSend, mpa.RTRWrite, mpa.RTRRead}[i]
	}},
}

// rdmaSettings are those of iWARP alone.
var rdmaSettings = map[string]bool{
	"segments": true, "revision": true, "crc": true, "markers": true, "p2p": true, "rtr": true, "placement": true,
	"strict-reads":    true,
	"request-timeout": true, "reply-timeout": true, "close-timeout": true, "first-delay": true, "nudge": true,
}

// spans are the settings that are a length of time.
var spans = map[string]func(s *settings) *time.Duration{
	"initial-rto":        func(s *settings) *time.Duration { return &s.cfg.InitialRTO },
	"min-rto":            func(s *settings) *time.Duration { return &s.cfg.MinRTO },
	"max-rto":            func(s *settings) *time.Duration { return &s.cfg.MaxRTO },
	"tail-probe":         func(s *settings) *time.Duration { return &s.cfg.TailProbe },
	"delayed-ack":        func(s *settings) *time.Duration { return &s.cfg.DelayedAck },
	"time-wait":          func(s *settings) *time.Duration { return &s.cfg.TimeWait },
	"fin-timeout":        func(s *settings) *time.Duration { return &s.cfg.FinTimeout },
	"keepalive":          func(s *settings) *time.Duration { return &s.cfg.KeepAlive },
	"keepalive-interval": func(s *settings) *time.Duration { return &s.cfg.KeepAliveInterval },
	"user-timeout":       func(s *settings) *time.Duration { return &s.cfg.UserTimeout },
	"path-mtu-age":       func(s *settings) *time.Duration { return &s.cfg.PathMTUAge },
	"tolerance":          func(s *settings) *time.Duration { return &s.tolerance },

	"request-timeout": func(s *settings) *time.Duration { return &s.rdma.RequestTimeout },
	"reply-timeout":   func(s *settings) *time.Duration { return &s.rdma.ReplyTimeout },
	"close-timeout":   func(s *settings) *time.Duration { return &s.rdma.CloseTimeout },
	"first-delay":     func(s *settings) *time.Duration { return &s.rdma.FirstDelay },
	"nudge":           func(s *settings) *time.Duration { return &s.rdma.Nudge },
}
