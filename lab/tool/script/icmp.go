package script

import (
	"fmt"
)

// icmpError is an ICMP error about a segment of the NIC, from a router:
//
//	icmp frag-needed mtu 1280 seq 1
//
// seq is the sequence number of the segment that it quotes.
type icmpError struct {
	name string
	hard bool
	mtu  int64
	seq  int64
}

// icmpNames are the errors with whether they last (RFC 5461 section 2, RFC
// 1122 section 4.2.3.9). Both families have the same words here.
var icmpNames = []string{"net-unreachable", "host-unreachable", "protocol-unreachable", "port-unreachable",
	"admin-prohibited", "time-exceeded", "frag-needed"}

var icmpHard = map[string]bool{"protocol-unreachable": true, "port-unreachable": true}

func parseICMP(l *line, out bool) message {
	if out {
		panic(l.at(l.peek(), "TCP sends no ICMP; expected a segment"))
	}
	i, w := l.oneOf("an ICMP error", icmpNames)
	m := &icmpError{name: w.text, hard: icmpHard[icmpNames[i]]}
	if w.text == "frag-needed" {
		l.expect("mtu", "mtu N, the MTU of the next hop")
		m.mtu, _ = l.integer("an MTU", 68, 65535)
	}
	l.expect("seq", "seq N, the sequence number of the segment that is quoted")
	m.seq, _ = l.integer("a sequence number", -1<<31, 1<<32-1)
	return m
}

func (m *icmpError) send(r *runner, p *peer) (string, *difference) {
	r.engine.Unreachable(p.local, p.remote, p.base+uint32(m.seq), m.hard, int(m.mtu), r.now())
	if m.mtu > 0 {
		return fmt.Sprintf("icmp %s mtu %d seq %d", m.name, m.mtu, m.seq), nil
	}
	return fmt.Sprintf("icmp %s seq %d", m.name, m.seq), nil
}

// compare is never called: parseICMP takes nothing that goes out.
func (m *icmpError) compare(*runner, *peer, *packet) []difference { return nil }
