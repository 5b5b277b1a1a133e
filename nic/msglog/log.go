// Package msglog keeps the lines that the layers of a NIC log, by topic and
// level, as the FastLinQ driver's message level (ethtool's msglvl) selects
// them.
package msglog

import (
	"fmt"
	"slices"
	"strings"

	"tapir/wire/frame"
)

// Topic is a set of subjects that a Log is told about: the module mask of the
// FastLinQ driver core (DP_MODULE), whose lower half are the bits of ethtool's
// message level. Those of the Linux siw driver's debug mask have its names.
type Topic uint32

const (
	Cmd     Topic = 0x1       // drv: each command of a program, step by step
	Probe   Topic = 0x2       // probe: what a function is found to be
	Link    Topic = 0x4       // link: the port opens and closes
	Down    Topic = 0x10      // ifdown: a function stops
	Drop    Topic = 0x40      // rx_err: each frame dropped, and why
	TX      Topic = 0x100     // tx_queued: each FPDU sent
	Intr    Topic = 0x200     // intr: interrupts
	WR      Topic = 0x400     // tx_done: each work request posted and completed
	RX      Topic = 0x800     // rx_status: each FPDU received
	Data    Topic = 0x1000    // pktdata: each piece of memory read or written for a message
	HW      Topic = 0x2000    // hw: registers, windows, phases
	SPQ     Topic = 0x10000   // spq: ramrods
	IOV     Topic = 0x80000   // iov: what virtual functions are refused, and shut out for
	Errors  Topic = 0x100000  // sp: protocol errors and Terminates (siw: eh), and what the management firmware answers
	Storage Topic = 0x200000  // storage: connections of the iSCSI and FCoE functions
	Obj     Topic = 0x800000  // cxt: objects made and destroyed
	MPA     Topic = 0x1000000 // ll2: start-up frames
	MM      Topic = 0x2000000 // ilt: memory registered, invalidated, bound to windows
	CM      Topic = 0x4000000 // rdma: connection events and states
	// All is the set of all topics.
	All Topic = 1<<30 - 1
)

// Modules are the driver core's names of topics, in the order of their bits; a
// bit without a name is of nobody.
var Modules = [30]string{"drv", "probe", "link", "timer", "ifdown", "ifup", "rx_err", "tx_err", "tx_queued", "intr",
	"tx_done", "rx_status", "pktdata", "hw", "wol", "", "spq", "stats", "dcb", "iov", "sp", "storage", "", "cxt", "ll2",
	"ilt", "rdma", "debug", "", ""}

// Name is a topic with its name.
type Name struct {
	Name  string
	Topic Topic
}

// TopicNames are the topics' names: those of siw, in the order of a
// connection's life, then the modules that siw does not know.
var TopicNames = withModules([]Name{{"cm", CM}, {"mpa", MPA}, {"tx", TX}, {"rx", RX}, {"eh", Errors}, {"drop", Drop},
	{"obj", Obj}, {"mm", MM}, {"wr", WR}, {"cmd", Cmd}, {"data", Data}})

func withModules(names []Name) []Name {
	for i, name := range Modules {
		t := Topic(1) << i
		if name != "" && !slices.ContainsFunc(names, func(n Name) bool { return n.Topic == t }) {
			names = append(names, Name{name, t})
		}
	}
	return names
}

func (t Topic) String() string {
	for _, n := range TopicNames {
		if t == n.Topic {
			return n.Name
		}
	}
	return fmt.Sprintf("topics %#x", uint32(t))
}

// ParseTopics reads names of topics, of siw or of the driver core, separated by
// commas.
func ParseTopics(s string) (all Topic, err error) {
	for name := range strings.SplitSeq(s, ",") {
		i := slices.IndexFunc(TopicNames, func(n Name) bool { return n.Name == name })
		m := slices.Index(Modules[:], name)
		switch {
		case i >= 0:
			all |= TopicNames[i].Topic
		case name != "" && m >= 0:
			all |= 1 << m
		default:
			return 0, fmt.Errorf("topic %q; expected %s", name, strings.Join(topicNames(), ", "))
		}
	}
	return all, nil
}

func topicNames() (all []string) {
	for _, n := range TopicNames {
		all = append(all, n.Name)
	}
	return all
}

// Level is how much a line matters (DP_LEVEL).
type Level uint8

const (
	Verbose Level = iota // of a topic that was asked for
	Info
	Notice
	Err
)

func (l Level) String() string { return [...]string{"VERBOSE", "INFO", "NOTICE", "ERR"}[l&3] }

// Msglvl is the verbosity of a device in one word, as ethtool has it: 30 bits
// of topics, of which any makes the level VERBOSE, else in bits 30 and 31 the
// level of the lines that are wanted, and higher ones. 0 stands for NOTICE.
type Msglvl uint32

const levelShift = 30

// Topics are the topics of which all lines are wanted.
func (m Msglvl) Topics() Topic { return Topic(m) & All }

// Level is the least level of the lines that are wanted of any topic; Verbose
// stands for Info, too.
func (m Msglvl) Level() Level {
	switch {
	case m.Topics() != 0:
		return Verbose
	case m == 0:
		return Notice
	}
	return Level(m >> levelShift)
}

// Word is m in its only form.
func (m Msglvl) Word() uint32 { return uint32(m.Level())<<levelShift | uint32(m.Topics()) }

// Line is one line of a Log.
type Line struct {
	Seq   uint64 // from 0, without gaps
	At    frame.Time
	Level Level
	Topic Topic
	Text  string
}

// logLines bounds the lines that a Log keeps.
const logLines = 1024

// Log keeps the latest lines that the layers of one NIC have to say about the
// topics of Mask. While a topic is off it costs one branch; callers ask On
// first, so that arguments are not evaluated without need.
type Log struct {
	Mask  Topic
	Level Level // of other topics too, lines of this level and of higher ones are kept
	Latest[Line]
	begun frame.Time // see Begin
	buf   []byte
	// heard are the topics of which tell is told.
	heard Topic
	tell  func(t Topic, at frame.Time, text []byte)
}

// SetMsglvl sets the verbosity.
func (l *Log) SetMsglvl(m Msglvl) { l.Mask, l.Level = m.Topics(), m.Level() }

// On reports whether lines about t are wanted. A nil Log wants none.
func (l *Log) On(t Topic) bool { return l != nil && (l.Mask|l.heard)&t != 0 }

// Begin says when the call began of which the following lines tell: their stamp.
func (l *Log) Begin(now frame.Time) { l.begun = now }

// Listen has tell, which borrows the text, told of every line about topics as it
// comes, whatever Mask says; no topics end that.
func (l *Log) Listen(topics Topic, tell func(t Topic, at frame.Time, text []byte)) {
	l.heard, l.tell = topics, tell
}

// Addf adds a line about t.
func (l *Log) Addf(t Topic, format string, args ...any) {
	l.buf = fmt.Appendf(l.buf[:0], format, args...)
	l.add(Verbose, t)
}

// Say adds a line of a level above Verbose about t, unless only higher ones are
// wanted.
func (l *Log) Say(level Level, t Topic, format string, args ...any) {
	if l != nil && (level >= l.Level || l.heard&t != 0) {
		l.buf = fmt.Appendf(l.buf[:0], format, args...)
		l.add(level, t)
	}
}

// Append adds the line that write appends to the slice it is given, for lines
// that are too frequent for a format.
func (l *Log) Append(t Topic, write func(b []byte) []byte) {
	l.buf = write(l.buf[:0])
	l.add(Verbose, t)
}

func (l *Log) add(level Level, t Topic) {
	if l.heard&t != 0 {
		l.tell(t, l.begun, l.buf)
	}
	if level == Verbose && l.Mask&t == 0 || level < l.Level {
		return
	}
	l.Add(Line{Seq: l.Next(), At: l.begun, Level: level, Topic: t, Text: string(l.buf)}, logLines)
}
