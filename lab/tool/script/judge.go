package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/mpa"
)

// blind are the expectations about the inside of a machine that nothing tells
// of, by their first word. The verbs library of Linux has none of them:
// siw says that each queue pair is in RESET.
var blind = map[string]bool{
	"qp": true, "region": true, "counter": true, "state": true, "dropped": true, "connections": true, "resets-in": true,
	"resets-out": true, "failures": true,
}

// blindWords begin expectations that have no counterpart in Linux: no event
// follows the last one of a connection, and none is made of a Terminate.
var blindWords = []string{"event closed", "async terminated"}

// expect judges an expectation. What is not so is a difference, and the script
// goes on.
func (v *live) expect(e *expectation, s *step) *Error {
	text := strings.TrimPrefix(e.word.text, "expect ")
	first := e.about()
	for _, w := range blindWords {
		if strings.HasPrefix(text, w) {
			v.out.Unseen++
			return nil
		}
	}
	switch {
	case blind[first] && (first != "state" || v.r.world != nil):
		v.out.Unseen++
		return nil
	case first == "async":
		v.asyncs = append(v.asyncs, stated{e, v.r.peer(s.conn)})
		return nil
	}
	p := v.r.peer(s.conn)
	ok, have := false, ""
	v.within(patience, func() bool {
		v.settle()
		ok, have = e.holds(v.r, p)
		return ok || v.bench.decided(e, p)
	})
	if v.dead != nil || ok {
		return nil
	}
	v.differ(&v.out.Inside, "not so: "+text, have)
	v.bench.skip(e, p)
	return nil
}

// overIn is how long after the end of a connection the application learns
// everything about it, at the latest.
const overIn = time.Second

// settled tells whether nothing can be on its way any more: the machine has
// ended the connection for a while.
func (e *endpoint) settled(v *live) bool {
	if !e.rst && !e.finGot {
		e.overSince = 0
		return false
	}
	if e.overSince == 0 {
		e.overSince = v.r.at
	}
	return v.r.at-e.overSince > overIn
}

// longestLive is how long a script may take against a live machine.
const longestLive = 20 * time.Second

// ours are settings of this NIC that no other has, with what they are about.
var ours = map[string]string{
	"markers": "siw has no markers", "rtr": "which indications are supported is fixed in siw",
	"strict-reads": "a setting of this NIC", "request-timeout": "siw's time for a request is fixed",
	"reply-timeout": "siw's time for a reply is fixed", "close-timeout": "a setting of this NIC",
	"first-delay": "a setting of this NIC", "nudge": "a setting of this NIC",
	"placement": "siw never places out of order", "iwarp": "a setting of this NIC",
	"segments": "it states each segment of this NIC's TCP engine",
}

// commandsOfOurs are words of commands that the verbs of Linux or siw do not
// have.
var commandsOfOurs = map[string]string{
	"invalidate": "user programs of siw cannot invalidate an STag", "abort": "rdma_cm has no abortive end",
	"send-imm": "siw has no Immediate Data", "write-imm": "siw has no Immediate Data",
	"fetch-add": "siw has no atomics",
	"swap":      "siw has no atomics", "cmp-swap": "siw has no atomics",
}

// inapplicable says why the script cannot be run against a live machine, ""
// if it can.
func (s *Script) inapplicable() string {
	switch {
	case s.set.proto != nil && s.set.proto != roceProtocol:
		return "siw has no Omni-Path and no PTP"
	case s.set.proto == nil && !s.set.iwarp:
		return "it states each segment as this NIC's TCP engine sends it; siw's TCP is that of Linux"
	case s.notLive != "":
		return s.notLive
	}
	for _, name := range s.given {
		switch why := ours[name]; {
		case why != "":
			return why
		case name == "crc" && s.set.rdma.CRC == mpa.CRCRefused:
			return "siw never refuses CRCs"
		}
	}
	var length time.Duration
	for _, st := range s.steps {
		switch st.when.kind {
		case relative:
			length += st.when.until
		case absolute:
			length = st.when.until
		}
		if why := st.inapplicable(); why != "" {
			return why
		}
	}
	if length > longestLive {
		return fmt.Sprintf("it takes %s in real time", formatTime(length))
	}
	return ""
}

// inapplicable says which word of the step a live machine has no counterpart
// for.
func (st *step) inapplicable() string {
	if _, ok := st.act.(*command); !ok || st.line.proto != nil {
		return ""
	}
	words := strings.Fields(st.line.source)
	for i, w := range words[1:] {
		if why := commandsOfOurs[w]; why != "" {
			return why
		}
		if words[1] == "mr" && (w == "addr" || i > 1 && slices.Contains(strings.Split(w, ","), "ra")) {
			return "siw has neither addresses of one's choice nor atomics"
		}
	}
	return ""
}

// NotLive says why the script cannot be run against a live machine, "" if it
// can.
func (s *Script) NotLive() string { return s.inapplicable() }

// IPv6 tells whether the script is about IPv6.
func (s *Script) IPv6() bool { return s.set.v6 }

// MTU is that of the script's machine, in octets of IP.
func (s *Script) MTU() int {
	if s.set.proto == roceProtocol {
		return roceMTU
	}
	return s.set.mtu()
}

// RXE tells whether its live machine is rxe, the driver of RoCE.
func (s *Script) RXE() bool { return s.set.proto == roceProtocol }

// SiwParameters are what siw is loaded with to do what the script's settings
// ask of the NIC, "" for the stock driver.
func (s *Script) SiwParameters() string {
	var list []string
	if s.RXE() {
		return ""
	}
	if s.set.rdma.CRC == mpa.CRCRequired {
		list = append(list, "mpa_crc_required=1")
	}
	if s.set.rdma.PeerToPeer {
		list = append(list, "peer_to_peer=1")
	}
	if s.set.rdma.Revision == 1 {
		list = append(list, "mpa_version=1")
	}
	return strings.Join(list, " ")
}
