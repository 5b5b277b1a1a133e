package keys

import (
	"slices"
	"strconv"
	"strings"

	"tapir/wire/iscsi"
)

// Answers that are no values (RFC 7143 section 6.2).
const (
	yes           = "Yes"
	no            = "No"
	Refused       = "Reject"
	irrelevant    = "Irrelevant"
	NotUnderstood = "NotUnderstood"
)

// Login is a negotiation as the target has it.
type Login struct {
	Par       Params
	Discovery bool
	RDMA      bool // the connection is RDMA's
	Declared  bool // our MaxRecvDataSegmentLength is told, or our MaxOutstandingUnexpectedPDUs
	bounds    bool // the initiator has declared the latter
	seen      []string
}

// Again tells whether a key has come before (RFC 7143 section 6.3).
func (l *Login) Again(pairs []iscsi.Pair) bool {
	for _, p := range pairs {
		if slices.Contains(l.seen, p.Key) {
			return true
		}
		l.seen = append(l.seen, p.Key)
	}
	return false
}

// Operate answers operational keys; bad is how many were refused.
func (l *Login) Operate(reply []byte, pairs []iscsi.Pair) (_ []byte, bad uint64) {
	for _, p := range pairs { // the others depend on these
		if p.Key == "RDMAExtensions" || p.Key == "TaggedBufferForSolicitedDataOnly" {
			l.iserKey(p.Key, p.Value)
		}
	}
	for _, p := range pairs {
		answer := l.key(p.Key, p.Value)
		if answer == NotUnderstood || answer == Refused && !strings.Contains(p.Key, "FMark") { // markers have ended
			bad++
		}
		if answer != "" {
			reply = iscsi.AppendText(reply, p.Key, answer)
		}
	}
	switch {
	case l.Declared:
	case l.Par.ISER && l.bounds: // open-iscsi, which does not, ends a login that has the key
		l.Declared = true
		reply = iscsi.AppendText(reply, "MaxOutstandingUnexpectedPDUs", strconv.Itoa(Unexpected))
	case !l.RDMA:
		l.Declared = true
		reply = iscsi.AppendText(reply, "MaxRecvDataSegmentLength", strconv.Itoa(MaxSegment))
	}
	return reply, bad
}

// key negotiates one key; "" is no answer, which declarations have.
func (l *Login) key(key, v string) string {
	switch key {
	case "InitiatorName", "InitiatorAlias", "TargetName", "SessionType":
		return ""
	case "HeaderDigest":
		return l.digest(v, &l.Par.Digests.Header)
	case "DataDigest":
		return l.digest(v, &l.Par.Digests.Data)
	case "MaxRecvDataSegmentLength":
		n, ok := number(v, 512, 1<<24-1)
		switch {
		case !ok:
			return Refused
		case !l.RDMA:
			l.Par.Send = n
		case l.Discovery: // iSER has another key
			l.Par.Send = min(n, ControlData)
		}
		return ""
	case "IFMarker", "OFMarker", "IFMarkInt", "OFMarkInt": // RFC 7143 section 13.25
		return Refused
	}
	if answer, known := l.iserKey(key, v); known {
		return answer
	}
	if l.Discovery && strings.Contains(ofNormal, " "+key+" ") {
		return irrelevant
	}
	switch key {
	case "InitialR2T":
		return l.unsolicited(v, &l.Par.InitialR2T, yes)
	case "ImmediateData":
		return l.unsolicited(v, &l.Par.ImmediateData, no)
	case "DataPDUInOrder", "DataSequenceInOrder":
		var any bool
		return boolean(v, &any, yes)
	case "TaskReporting": // RFC 7143 section 13.23
		if strings.Contains(","+v+",", ",RFC3720,") {
			return "RFC3720"
		}
		return Refused
	}
	return l.limit(key, v)
}

// ofNormal are the keys that a discovery session has no use for ("Irrelevant when" in RFC 7143 section 13).
const ofNormal = " MaxConnections InitialR2T ImmediateData MaxBurstLength FirstBurstLength MaxOutstandingR2T " +
	"DataPDUInOrder DataSequenceInOrder TaskReporting "

// unsolicited negotiates whether data may come without being asked for. In iSER it may not, which is
// never, unless it is sure where advertised memory begins then: initiators that do not say so take
// RFC 7145 section 6.9 for the opposite of what it has.
func (l *Login) unsolicited(v string, to *bool, never string) (answer string) {
	answer = boolean(v, to, v)
	if l.RDMA && !l.Par.Tagged && answer != Refused {
		*to, answer = never == yes, never
	}
	return answer
}

// limits are the keys with numbers: their range, ours, and whether the larger one counts.
var limits = map[string]struct {
	low, high, ours int
	larger          bool
}{
	"MaxBurstLength":     {512, 1<<24 - 1, 1 << 20, false},
	"FirstBurstLength":   {512, 1<<24 - 1, MaxSegment, false},
	"MaxConnections":     {1, 65535, 1, false},
	"MaxOutstandingR2T":  {1, 65535, 1, false},
	"DefaultTime2Wait":   {0, 3600, 2, true},
	"DefaultTime2Retain": {0, 3600, 0, false},
	"ErrorRecoveryLevel": {0, 2, 0, false},
	"iSCSIProtocolLevel": {0, 31, 1, false},
}

// limit negotiates a number.
func (l *Login) limit(key, v string) string {
	k, ok := limits[key]
	if !ok {
		return NotUnderstood
	}
	n, ok := number(v, k.low, k.high)
	if !ok {
		return Refused
	}
	if n = min(n, k.ours); l.RDMA && key == "FirstBurstLength" {
		n = min(n, ControlData) // receives are there for one Data-Out of a command
	}
	if k.larger {
		theirs, _ := number(v, k.low, k.high)
		n = max(theirs, k.ours)
	}
	switch key {
	case "MaxBurstLength":
		l.Par.Burst = n
	case "FirstBurstLength":
		l.Par.First = n
	}
	return strconv.Itoa(n)
}

// number reads a number in decimal or hexadecimal.
func number(v string, low, high int) (int, bool) {
	n, err := strconv.ParseUint(v, 0, 32)
	if err != nil || strings.HasPrefix(v, "0b") || strings.HasPrefix(v, "0o") || strings.Contains(v, "_") {
		return 0, false
	}
	return int(n), int(n) >= low && int(n) <= high
}

// boolean reads a value, and returns answer.
func boolean(v string, to *bool, answer string) string {
	if v != yes && v != no {
		return Refused
	}
	*to = v == yes
	return answer
}

// digest chooses the first that is known; with RDMA there is none.
func (l *Login) digest(list string, on *bool) string {
	for v := range strings.SplitSeq(list, ",") {
		if v == "CRC32C" && !l.RDMA || v == "None" {
			*on = v == "CRC32C"
			return v
		}
	}
	return Refused
}

// iserKey negotiates a key of iSER (RFC 7145 section 6). known is false for others.
func (l *Login) iserKey(key, v string) (answer string, known bool) {
	switch key {
	case "RDMAExtensions":
		if l.Discovery {
			return irrelevant, true
		}
		answer = boolean(v, &l.Par.ISER, v)
		if l.Par.ISER = l.Par.ISER && l.RDMA; answer == yes && !l.RDMA {
			answer = no
		}
		return answer, true
	case "TargetRecvDataSegmentLength", "InitiatorRecvDataSegmentLength", "MaxOutstandingUnexpectedPDUs",
		"MaxAHSLength", "TaggedBufferForSolicitedDataOnly", "iSERHelloRequired":
	default:
		return "", false
	}
	if !l.Par.ISER {
		return irrelevant, true
	}
	var flag *bool
	low, high := 2, 1<<32-1
	switch key {
	case "TaggedBufferForSolicitedDataOnly":
		flag = &l.Par.Tagged
	case "iSERHelloRequired":
		flag = &l.Par.Hello
	case "TargetRecvDataSegmentLength", "InitiatorRecvDataSegmentLength":
		low, high = 512, 1<<24-1
	}
	if flag != nil { // declared: only what is wrong has an answer
		if answer = boolean(v, flag, v); answer != Refused {
			answer = ""
		}
		return answer, true
	}
	n, ok := number(v, low, high)
	switch {
	case !ok && (v != "0" || low != 2):
		return Refused, true
	case key == "MaxOutstandingUnexpectedPDUs":
		l.bounds, l.Par.Unexpected = true, n
		return "", true
	case low == 2:
		return "", true
	}
	n = min(n, ControlData)
	if key == "InitiatorRecvDataSegmentLength" {
		l.Par.Send = n
	}
	return strconv.Itoa(n), true
}
