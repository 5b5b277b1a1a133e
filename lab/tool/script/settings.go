package script

import (
	"cmp"
	"maps"
	"net/netip"
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
	roce   roceSettings
}

func defaultSettings() settings {
	return settings{isn: 1000, port: 7174, tolerance: time.Millisecond, rdma: iwarp.Config{Nudge: iwarp.Never}}
}

func (s *settings) mtu() int { return cmp.Or(s.cfg.MTU, 1500) }

func (s *settings) local() netip.Addr { return s.addr(1) }

func (s *settings) remote() netip.Addr { return s.addr(2) }

func (s *settings) addr(n byte) netip.Addr {
	if s.v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: n})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, n})
}

// parse reads one line of settings: NAME VALUE.
func (s *settings) parse(l *line) {
	w := l.next("a setting")
	table := s.table()
	switch {
	case s.proto != nil && w.text != "tolerance":
		table = s.proto.settings(s)
	case rdmaSettings[w.text] && !s.iwarp:
		panic(l.at(w, "%q belongs to scripts of iWARP; expected the line before: protocol iwarp", w.text))
	case !s.iwarp:
		maps.DeleteFunc(table, func(name string, _ reader) bool { return rdmaSettings[name] })
	}
	read := table[w.text]
	if read == nil {
		panic(l.at(w, "%q: expected a time (of a step) or a setting: %s", w.text, sortedNames(table)))
	}
	read(l)
	l.finish()
}

// table are the settings of scripts of TCP and iWARP, by name.
func (s *settings) table() readers {
	c, r := &s.cfg, &s.rdma
	return readers{
		"mtu":              signed(&c.MTU, "mtu N", 576, 65535),
		"rcvwnd":           signed(&c.RcvWnd, "rcvwnd N", 65536, 1<<30),
		"sndwnd":           signed(&c.SndWnd, "sndwnd N", 1, 1<<30),
		"gso":              signed(&c.MaxSegs, "gso N", 1, 1000),
		"isn":              signed(&s.isn, "isn N", 0, 1<<32-1),
		"port":             signed(&s.port, "port N", 1, 65535),
		"seed":             signed(&s.seed, "seed N", 0, 1<<62),
		"ttl":              signed(&c.TTL, "ttl N", 1, 255),
		"tos":              signed(&c.TOS, "tos N", 0, 255),
		"syn-retries":      signed(&c.SynRetries, "syn-retries N", 1, 100),
		"retries":          signed(&c.Retries, "retries N", 1, 100),
		"max-conns":        signed(&c.MaxConns, "max-conns N", 1, 1<<16),
		"max-time-wait":    signed(&c.MaxTimeWait, "max-time-wait N", 1, 1<<16),
		"fin-retries":      signed(&c.FinRetries, "fin-retries N", 1, 100),
		"keepalive-probes": signed(&c.KeepAliveProbes, "keepalive-probes N", 1, 100),

		"ip":           either(&s.v6, "ip", "4", "6"),
		"cc":           oneOf(&c.Congestion, "cc", "cubic,reno,dctcp"),
		"ecn":          oneOf(&c.ECN, "ecn", "accept,ask,off"),
		"syn-cookies":  either(&c.NoSynCookies, "syn-cookies", "on", "off"),
		"nagle":        either(&c.Nagle, "nagle", "off", "on"),
		"protocol":     s.parseProtocol,
		"segments":     either(&s.explicit, "segments", "implicit", "explicit"),
		"revision":     s.parseRevision,
		"crc":          oneOf(&r.CRC, "crc", "required,optional,refused"),
		"markers":      either(&r.Markers, "markers", "off", "on"),
		"p2p":          either(&r.PeerToPeer, "p2p", "off", "on"),
		"placement":    either(&r.InOrder, "placement", "early", "in-order"),
		"strict-reads": either(&r.StrictReads, "strict-reads", "off", "on"),
		"rtr":          s.parseRTR,

		"initial-rto":        timed(&c.InitialRTO),
		"min-rto":            timed(&c.MinRTO),
		"max-rto":            timed(&c.MaxRTO),
		"tail-probe":         timed(&c.TailProbe),
		"delayed-ack":        timed(&c.DelayedAck),
		"time-wait":          timed(&c.TimeWait),
		"fin-timeout":        timed(&c.FinTimeout),
		"keepalive":          timed(&c.KeepAlive),
		"keepalive-interval": timed(&c.KeepAliveInterval),
		"user-timeout":       timed(&c.UserTimeout),
		"path-mtu-age":       timed(&c.PathMTUAge),
		"tolerance":          timed(&s.tolerance),

		"request-timeout": timed(&r.RequestTimeout),
		"reply-timeout":   timed(&r.ReplyTimeout),
		"close-timeout":   timed(&r.CloseTimeout),
		"first-delay":     timed(&r.FirstDelay),
		"nudge":           timed(&r.Nudge),
	}
}

func (s *settings) parseProtocol(l *line) {
	i, _ := l.oneOf("protocol", []string{"tcp", "iwarp", "16b", "ptp", "roce"})
	s.iwarp, s.proto = i == 1, [...]*protocol{2: fabricProtocol, 3: ptpProtocol, 4: roceProtocol}[i]
	s.fabric, s.ptp, s.roce = defaultFabric(), defaultPTP(), defaultRoCE()
}

func (s *settings) parseRevision(l *line) {
	i, _ := l.oneOf("revision", []string{"1", "2"})
	s.rdma.Revision = uint8(i + 1)
}

func (s *settings) parseRTR(l *line) {
	i, _ := l.oneOf("rtr", []string{"any", "send", "write", "read"})
	s.rdma.RTR = []mpa.RTR{mpa.RTRAny, mpa.RTRSend, mpa.RTRWrite, mpa.RTRRead}[i]
}

// rdmaSettings are those of iWARP alone.
var rdmaSettings = map[string]bool{
	"segments": true, "revision": true, "crc": true, "markers": true, "p2p": true, "rtr": true, "placement": true,
	"strict-reads":    true,
	"request-timeout": true, "reply-timeout": true, "close-timeout": true, "first-delay": true, "nudge": true,
}
