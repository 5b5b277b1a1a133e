// Package stats has the counters of a TCP engine.
package stats

import "tapir/wire/frame"

// Stats counts what an engine has done since New.
type Stats struct {
	SegsIn, SegsOut     uint64 // true segments, also inside super-frames
	FramesIn, FramesOut uint64
	BytesIn, BytesOut   uint64 // payload octets; in: delivered in order; out: first sendings and retransmissions
	Retransmits         uint64 // segments
	Timeouts            uint64
	FastRecoveries      uint64
	Undone              uint64 // recoveries taken back because nothing was lost
	TailProbes          uint64
	KeepAliveProbes     uint64
	KeepAliveEnds       uint64 // connections of which no peer answered these
	BlackHoles          uint64 // MTUs reduced because full segments vanished
	OutOfOrder          uint64 // segments that arrived before others in front of them
	BytesHeld           uint64 // octets copied aside until their turn
	ChallengeAcks       uint64
	CEMarks             uint64 // data segments that arrived with a mark of congestion
	ECNReductions       uint64 // windows reduced because the peer saw such marks
	ResetsIn, ResetsOut uint64
	ActiveOpens         uint64
	PassiveOpens        uint64
	Failures            uint64 // connections that ended with an error
	CookiesSent         uint64 // SYNs answered with a SYN cookie
	CookiesTaken        uint64 // connections made from one
	TimeWaitOverflows   uint64 // stays in TIME-WAIT cut short for lack of records
	TimeWait            int    // connections now in TIME-WAIT
	Open                int    // connections now, TIME-WAIT included
	Drops               frame.Drops
}
