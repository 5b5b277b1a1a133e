package steps

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Log tells people what happens: it prints, and writes the lab's log.
type Log struct {
	mu    sync.Mutex
	now   func() time.Duration
	print io.Writer
	file  *os.File
	kept  []Line // the latest, up to keptLines
	next  uint64 // number of the next line
}

// Line is a line of the log.
type Line struct {
	Seq  uint64 `json:"seq"`
	At   string `json:"time"` // seconds since the start of the lab
	Text string `json:"text"`
}

// keptLines is how many lines Since may return.
const keptLines = 1000

// Since returns the lines from that number on, as far as they are kept, and the number
// of the next.
func (l *Log) Since(seq uint64) (lines []Line, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.kept {
		if l.kept[i].Seq >= seq {
			return slices.Clone(l.kept[i:]), l.next
		}
	}
	return []Line{}, l.next
}

// OpenLog opens the log in directory o.Out, if there is one. Its times are those
// of now.
func OpenLog(now func() time.Duration, o Options) (*Log, error) {
	l := &Log{now: now, print: o.Print}
	if o.Out == "" {
		return l, nil
	}
	var err error
	l.file, err = os.Create(filepath.Join(o.Out, "log.txt"))
	return l, err
}

// Printf logs a line.
func (l *Log) Printf(format string, args ...any) { l.say(true, fmt.Sprintf(format, args...)) }

// say logs a line and, if aloud, prints it.
func (l *Log) say(aloud bool, text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Seconds()
	line := fmt.Sprintf("%8.3f  %s\n", now, text)
	l.kept = append(l.kept, Line{l.next, fmt.Sprintf("%.3f", now), text})
	if l.next++; len(l.kept) > 2*keptLines {
		l.kept = slices.Clone(l.kept[len(l.kept)-keptLines:])
	}
	if l.print != nil && aloud {
		_, _ = io.WriteString(l.print, line) // a failed print is not an error of the lab
	}
	if l.file != nil {
		_, _ = io.WriteString(l.file, line) // the result does not depend on it
	}
}

// Voice returns a writer that logs the output of a program line by line, under
// its name.
func (l *Log) Voice(name string, aloud bool) io.Writer {
	return &voice{log: l, name: name, aloud: aloud}
}

type voice struct {
	log   *Log
	name  string
	aloud bool
	rest  []byte
}

func (v *voice) Write(p []byte) (int, error) {
	v.rest = append(v.rest, p...)
	for {
		line, rest, ok := bytes.Cut(v.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		v.log.say(v.aloud, v.name+" | "+string(bytes.TrimRight(line, "\r")))
		v.rest = rest
	}
}

// Close closes the log's file.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
