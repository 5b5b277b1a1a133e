package scsi

import (
	"slices"
	"strconv"
	"strings"

	"tapir/wire/iscsi"
)

// kind is how a key is negotiated.
type kind uint8

const (
	declared kind = iota
	list          // the first of the offered values that the other side knows
	either        // Yes if one says so
	both          // Yes if both say so
	least
	greatest
)

// key is a key of RFC 7143 chapter 13 or RFC 7145 section 6.
type key struct {
	kind     kind
	min, max int    // of numbers; max 0: no number
	def      string // what holds without negotiation
}

const most24 = 1<<24 - 1

var known = map[string]key{
	"HeaderDigest": {kind: list, def: "None"}, "DataDigest": {kind: list, def: "None"},
	"AuthMethod": {kind: list}, "TaskReporting": {kind: list, def: "RFC3720"},
	"InitialR2T": {kind: either, def: "Yes"}, "ImmediateData": {kind: both, def: "Yes"},
	"DataPDUInOrder": {kind: either, def: "Yes"}, "DataSequenceInOrder": {kind: either, def: "Yes"},
	"MaxConnections":           {least, 1, 65535, "1"},
	"MaxBurstLength":           {least, 512, most24, "262144"},
	"FirstBurstLength":         {least, 512, most24, "65536"},
	"DefaultTime2Wait":         {greatest, 0, 3600, "2"},
	"DefaultTime2Retain":       {least, 0, 3600, "20"},
	"MaxOutstandingR2T":        {least, 1, 65535, "1"},
	"ErrorRecoveryLevel":       {least, 0, 2, "0"},
	"iSCSIProtocolLevel":       {least, 0, 31, "1"},
	"MaxRecvDataSegmentLength": {declared, 512, most24, "8192"},
	"InitiatorName":            {}, "TargetName": {}, "SessionType": {}, "TargetPortalGroupTag": {},
}

// ofISER are the keys of RFC 7145 section 6, which others need not know.
var ofISER = map[string]key{
	"RDMAExtensions":                 {kind: both, def: "No"},
	"TargetRecvDataSegmentLength":    {least, 512, most24, "8192"},
	"InitiatorRecvDataSegmentLength": {least, 512, most24, "8192"},
	"MaxOutstandingUnexpectedPDUs":   {kind: declared}, "MaxAHSLength": {kind: declared},
	"TaggedBufferForSolicitedDataOnly": {kind: declared}, "iSERHelloRequired": {kind: declared},
}

// lookup finds a key that both sides must know.
func (s *keys) lookup(name string) (key, bool) {
	k, ok := known[name]
	if !ok && s.iser {
		k, ok = ofISER[name]
	}
	return k, ok
}

// keys are what both sides have said in the login.
type keys struct {
	iser    bool
	said    [2]map[string]string // offers and declarations
	results map[string]string
	unsure  bool // not all of it was seen
}

func newKeys() keys {
	return keys{said: [2]map[string]string{{}, {}}, results: map[string]string{}}
}

// key judges a pair of the login phase.
func (c *Conn) key(p *pdu, name, value string) {
	k, is := c.keys.lookup(name)
	offer, offered := c.keys.said[1-p.side][name]
	if _, answered := c.keys.results[name]; offered && is && k.kind != declared && !answered {
		c.answer(p, name, value, offer, &k)
		return
	}
	if _, again := c.keys.said[p.side][name]; again && is && name != "TargetName" {
		c.bad(p, keyAgain, "%s=%s", name, value)
		return
	}
	if is && offered && k.kind != declared {
		c.bad(p, keyAgain, "%s=%s", name, value)
		return
	}
	c.keys.said[p.side][name] = value
	if is && !k.has(value) {
		c.bad(p, keyRange, "%s=%s", name, value)
	}
}

// has tells whether the key may have the value.
func (k *key) has(value string) bool {
	switch {
	case k.max > 0:
		n, ok := number(value)
		return ok && n >= k.min && n <= k.max
	case k.kind == either || k.kind == both:
		return value == "Yes" || value == "No"
	}
	return value != ""
}

func number(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 0, 64)
	return int(n), err == nil
}

// answer judges the answer to an offer.
func (c *Conn) answer(p *pdu, name, value, offer string, k *key) {
	c.keys.results[name] = value
	switch {
	case value == "NotUnderstood":
		c.bad(p, keyUnknown, "%s", name)
	case value == "Reject" || value == "Irrelevant":
		delete(c.keys.results, name)
		c.keys.results[name] = k.def
	case k.kind == list:
		if !slices.Contains(strings.Split(offer, ","), value) {
			c.bad(p, keyChoice, "%s=%s, offered: %s", name, value, offer)
		}
	case !k.has(value):
		c.bad(p, keyRange, "%s=%s", name, value)
	case !k.follows(offer, value):
		c.bad(p, keyResult, "%s=%s, offered: %s", name, value, offer)
	}
}

// follows tells whether an answer may be given to an offer.
func (k *key) follows(offer, value string) bool {
	a, _ := number(offer)
	b, _ := number(value)
	switch k.kind {
	case either:
		return offer == "No" || value == "Yes"
	case both:
		return offer == "Yes" || value == "No"
	case least:
		return b <= a
	case greatest:
		return b >= a
	}
	return true
}

// result is what a key has come to.
func (s *keys) result(name, def string) string {
	if v, ok := s.results[name]; ok {
		return v
	}
	for _, said := range s.said {
		v, ok := said[name]
		if k, _ := s.lookup(name); ok && (k.kind == either && v == "Yes" || k.kind == both && v == "No") {
			return v // it needs no answer
		}
	}
	return def
}

// unanswered looks for offers without an answer when the login ends.
func (c *Conn) unanswered(p *pdu) {
	if c.keys.unsure {
		return
	}
	for side, said := range c.keys.said {
		names := make([]string, 0, len(said))
		for name := range said {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			k, is := c.keys.lookup(name)
			_, answered := c.keys.results[name]
			if v := said[name]; is && k.kind != declared && !answered && c.keys.result(name, "") != v {
				c.bad(p, keyUnanswered, "%s=%s of the %s", name, v, role(side == c.initiator))
			}
		}
	}
}

func role(initiator bool) string {
	if initiator {
		return "initiator"
	}
	return "target"
}

// params are what the keys have come to; 0 and unknown where they are not known.
type params struct {
	initialR2T, immediate    fact
	pdusInOrder, seqsInOrder fact
	burst, first             int // octets
	r2ts, connections        int
	recovery                 int
	receive                  [2]int // the longest data segment that a side takes, in octets
	leveled                  bool   // recovery is known
}

func (s *keys) outcome(initiator int) (p params) {
	fact := func(name string) fact { return factOf(s.result(name, known[name].def) == "Yes") }
	num := func(name string) int { n, _ := number(s.result(name, known[name].def)); return n }
	p = params{initialR2T: fact("InitialR2T"), immediate: fact("ImmediateData"), pdusInOrder: fact("DataPDUInOrder"),
		seqsInOrder: fact("DataSequenceInOrder"), burst: num("MaxBurstLength"), first: num("FirstBurstLength"),
		r2ts: num("MaxOutstandingR2T"), connections: num("MaxConnections"), recovery: num("ErrorRecoveryLevel"),
		leveled: true}
	for side := range p.receive {
		if s.iser {
			name := "TargetRecvDataSegmentLength"
			if side == initiator {
				name = "InitiatorRecvDataSegmentLength"
			}
			p.receive[side], _ = number(s.result(name, ofISER[name].def))
			continue
		}
		p.receive[side] = 8192
		if n, ok := number(s.said[side]["MaxRecvDataSegmentLength"]); ok {
			p.receive[side] = n
		}
	}
	return p
}

// redeclare takes the length that a text PDU of the full feature phase declares.
func (c *Conn) redeclare(p *pdu) {
	pairs, _ := iscsi.ParseText(p.text)
	for _, x := range pairs {
		if n, ok := number(x.Value); ok && x.Key == "MaxRecvDataSegmentLength" && !c.late && c.iser == nil {
			c.par.receive[p.side] = n
		}
	}
}
