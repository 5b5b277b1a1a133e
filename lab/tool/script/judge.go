package script

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tapir/mpa"
	"tapir/nic"
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
	inside := v.cable.machine() == NIC
	for _, w := range blindWords {
		if strings.HasPrefix(text, w) {
			v.out.Unseen++
			return nil
		}
	}
	switch {
	case blind[first] && (first != "state" || v.r.world != nil) && (!inside || first == "region"):
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
		if inside && tcpExpects[first] != nil && v.r.world != nil {
			v.inside(func(dev *nic.Device) {
				v.r.engine = dev.TCP()
				ok, have = e.holds(v.r, p)
				v.r.engine = nil // it is the NIC's thread's
			})
		} else {
			ok, have = e.holds(v.r, p)
		}
		return ok || v.bench.decided(e, p)
	})
	if v.dead != nil || ok {
		return nil
	}
	v.differ(&v.out.Inside, "not so: "+text, have)
	v.bench.skip(e, p)
	return nil
}

// inside looks at the NIC, on its thread.
func (v *live) inside(look func(dev *nic.Device)) {
	if err := v.cable.Inside(look); err != nil {
		v.fail(err)
	}
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

// lacks are words of scripts that a machine has no counterpart for, with the reason.
type lacks struct {
	settings, commands map[string]string
	mr                 string // of a region with an address, and with the right ra if noAtomics
	noAtomics          bool
	tcp, others        string // of scripts of TCP alone, of 16B packets and PTP
}

var lacking = map[Machine]*lacks{
	Linux: {
		settings: map[string]string{
			"markers": "siw has no markers", "rtr": "which indications are supported is fixed in siw",
			"strict-reads": "a setting of this NIC", "request-timeout": "siw's time for a request is fixed",
			"reply-timeout": "siw's time for a reply is fixed", "close-timeout": "a setting of this NIC",
			"first-delay": "a setting of this NIC", "nudge": "a setting of this NIC",
			"placement": "siw never places out of order", "iwarp": "a setting of this NIC",
			"segments": "it states each segment of this NIC's TCP engine",
		},
		commands: map[string]string{
			"invalidate": "user programs of siw cannot invalidate an STag",
			"abort":      "rdma_cm has no abortive end",
			"send-imm":   "siw has no Immediate Data", "write-imm": "siw has no Immediate Data",
			"fetch-add": "siw has no atomics",
			"swap":      "siw has no atomics", "cmp-swap": "siw has no atomics",
		},
		mr: "siw has neither addresses of one's choice nor atomics", noAtomics: true,
		tcp:    "it states each segment as this NIC's TCP engine sends it; siw's TCP is that of Linux",
		others: "siw has no Omni-Path and no PTP",
	},
	NIC: {
		settings: map[string]string{"gso": "super-frames do not pass the wire",
			"nudge": "the connection of a program begins with a Write, which is the nudge"},
		commands: map[string]string{
			"invalidate": "the verbs library invalidates an STag by a work request alone",
			"abort":      "rdma_cm has no abortive end",
			"swap":       "the verbs library has no Swap",
			"mask":       "the verbs library has no masked atomics",
		},
		mr:     "the program does not choose its addresses",
		tcp:    "the verbs library has no TCP streams",
		others: "the verbs library has no Omni-Path and no PTP",
	},
}

// NotLive says why the script cannot be run against a live machine, "" if it can.
func (s *Script) NotLive(m Machine) string {
	lack := lacking[m]
	switch {
	case s.set.proto != nil && s.set.proto != roceProtocol:
		return lack.others
	case s.set.proto == nil && !s.set.iwarp:
		return lack.tcp
	case s.notLive[m] != "":
		return s.notLive[m]
	case s.set.roce.plain && m == NIC:
		return "the NIC has no queue pair of RoCE, and the program needs one"
	}
	for _, name := range s.given {
		switch why := lack.settings[name]; {
		case why != "":
			return why
		case name == "crc" && s.set.rdma.CRC == mpa.CRCRefused && m == Linux:
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
		if why := lack.of(st); why != "" {
			return why
		}
		if s.set.explicit && m == NIC && strings.Contains(st.line.source, " connect") {
			return "it states each segment, and the connection of a program begins with one more"
		}
	}
	if length > longestLive {
		return fmt.Sprintf("it takes %s in real time", formatTime(length))
	}
	return ""
}

// of says which word of the step the machine has no counterpart for.
func (a *lacks) of(st *step) string {
	if _, ok := st.act.(*command); !ok || st.line.proto != nil {
		return ""
	}
	words := strings.Fields(st.line.source)
	for i, w := range words[1:] {
		if why := a.commands[w]; why != "" {
			return why
		}
		atomics := a.noAtomics && i > 1 && slices.Contains(strings.Split(w, ","), "ra")
		if words[1] == "mr" && (w == "addr" || atomics) {
			return a.mr
		}
	}
	return ""
}

// FirstPort is that of the peer's first connection in virtual time.
const FirstPort = 40000

// Remote is the peer's address in virtual time, Port the NIC's port.
func (s *Script) Remote() netip.Addr { return s.set.remote() }
func (s *Script) Port() uint16       { return s.set.port }

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
