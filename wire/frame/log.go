package frame

import (
	"fmt"
	"slices"
	"strings"
)

// Topic is a set of subjects that a Log is told about, after the debug mask of
// the Linux siw driver.
type Topic uint32

const (
	LogCM    Topic = 1 << iota // connection events and states
	LogMPA                     // start-up frames
	LogTX                      // each FPDU sent
	LogRX                      // each FPDU received
	LogError                   // protocol errors and Terminates (siw: eh)
	LogDrop                    // each frame dropped, and why
	LogObj                     // objects made and destroyed
	LogMM                      // memory registered, invalidated, bound to windows
	LogWR                      // each work request posted and completed
	LogCmd                     // each command of a program, step by step
	LogData                    // each piece of memory read or written for a message
	// LogAll is the set of all topics.
	LogAll Topic = 1<<iota - 1
)

// TopicNames are the topics' names, in the order of their bits.
var TopicNames = [...]string{"cm", "mpa", "tx", "rx", "eh", "drop", "obj", "mm", "wr", "cmd", "data"}

func (t Topic) String() string {
	for i, name := range TopicNames {
		if t == 1<<i {
			return name
		}
	}
	return fmt.Sprintf("topics %#x", uint32(t))
}

// ParseTopics reads names of topics, separated by commas.
func ParseTopics(s string) (all Topic, err error) {
	for name := range strings.SplitSeq(s, ",") {
		i := slices.Index(TopicNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("topic %q; expected %s", name, strings.Join(TopicNames[:], ", "))
		}
		all |= 1 << i
	}
	return all, nil
}

// Line is one line of a Log.
type Line struct {
	Seq   uint64 // from 0, without gaps
	At    Time
	Topic Topic
	Text  string
}

// logLines bounds the lines that a Log keeps.
const logLines = 1024

// Log keeps the latest lines that the layers of one NIC have to say about the
// topics of Mask. While a topic is off it costs one branch; callers ask On
// first, so that arguments are not evaluated without need.
type Log struct {
	Mask Topic
	Now  func() Time // the time of a line; nil: none
	ring []Line
	next uint64
	buf  []byte
	// heard are the topics of which tell is told.
	heard Topic
	tell  func(t Topic, at Time, text []byte)
}

// On reports whether lines about t are wanted. A nil Log wants none.
func (l *Log) On(t Topic) bool { return l != nil && (l.Mask|l.heard)&t != 0 }

// Listen has tell, which borrows the text, told of every line about topics as it
// comes, whatever Mask says; no topics end that.
func (l *Log) Listen(topics Topic, tell func(t Topic, at Time, text []byte)) {
	l.heard, l.tell = topics, tell
}

// Addf adds a line about t.
func (l *Log) Addf(t Topic, format string, args ...any) {
	l.buf = fmt.Appendf(l.buf[:0], format, args...)
	l.add(t)
}

// Append adds the line that write appends to the slice it is given, for lines
// that are too frequent for a format.
func (l *Log) Append(t Topic, write func(b []byte) []byte) {
	l.buf = write(l.buf[:0])
	l.add(t)
}

func (l *Log) add(t Topic) {
	at := Time(0)
	if l.Now != nil {
		at = l.Now()
	}
	if l.heard&t != 0 {
		l.tell(t, at, l.buf)
	}
	if l.Mask&t == 0 {
		return
	}
	line := Line{Seq: l.next, At: at, Topic: t, Text: string(l.buf)}
	l.next++
	if len(l.ring) < logLines {
		l.ring = append(l.ring, line)
		return
	}
	l.ring[line.Seq%logLines] = line
}

// Since returns the lines kept from number seq on, in order.
func (l *Log) Since(seq uint64) []Line {
	first := max(seq, l.next-uint64(len(l.ring)))
	list := make([]Line, 0, max(first, l.next)-first)
	for n := first; n < l.next; n++ {
		list = append(list, l.ring[n%logLines])
	}
	return list
}
