package iscsi

// Counter is something that a target counts.
type Counter uint8

// Counters. Those from BadCHAP on are faults of peers, or of the way to them.
const (
	Connections Counter = iota
	Sessions
	Discoveries
	Commands
	OctetsRead
	OctetsWritten
	R2Ts
	Pings
	TaskRequests
	Logouts
	Reinstated
	BadCHAP
	LoginRefused
	LoginTimeout
	BadKey
	HeaderDigest
	DataDigest
	TooLong
	Malformed
	OutsideWindow
	Rejected
	DataSequence
	UnexpectedData
	WrongAmount
	NoSuchLUN
	NoSuchTask
	Busy
	SlowReader
	Overrun
	Silent
	BadISER
	Withheld
	counters
)

var counterNames = [counters]string{
	"connections", "sessions", "discovery_sessions", "commands", "octets_read", "octets_written", "r2t", "pings",
	"task_management", "logouts", "sessions_reinstated", "chap_failures", "logins_refused", "login_timeouts",
	"keys_refused", "header_digest_errors", "data_digest_errors", "data_segments_too_long", "malformed_logins",
	"commands_outside_window", "pdus_rejected", "data_out_of_sequence", "unexpected_data", "wrong_amount_of_data",
	"no_such_lun", "no_such_task", "task_set_full", "peers_that_do_not_read", "queue_overruns", "peers_gone_silent",
	"iser_errors", "unexpected_pdus_withheld",
}

// String is the name that statistics have.
func (c Counter) String() string { return counterNames[c] }

// Stats are the counters of a target, by Counter.
type Stats [counters]uint64

// Add adds other counters.
func (s *Stats) Add(o Stats) {
	for i, v := range o {
		s[i] += v
	}
}
