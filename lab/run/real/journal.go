package real

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// journal is what happens, for people: printed, and in the lab's log.
type journal struct {
	mu    sync.Mutex
	start time.Time
	print io.Writer
	file  *os.File
}

// openJournal opens the log in directory out, if there is one.
func openJournal(start time.Time, print io.Writer, out string) (*journal, error) {
	j := &journal{start: start, print: print}
	if out == "" {
		return j, nil
	}
	var err error
	j.file, err = os.Create(filepath.Join(out, "log.txt"))
	return j, err
}

// printf says a line.
func (j *journal) printf(format string, args ...any) { j.say(true, fmt.Sprintf(format, args...)) }

// say says a line; one that is not for everybody goes to the log alone.
func (j *journal) say(aloud bool, text string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%8.3f  %s\n", time.Since(j.start).Seconds(), text)
	if j.print != nil && aloud {
		_, _ = io.WriteString(j.print, line) // who does not listen misses it
	}
	if j.file != nil {
		_, _ = io.WriteString(j.file, line) // the result does not depend on it
	}
}

// voice is where a program's output goes, line by line under its name.
func (j *journal) voice(name string, aloud bool) io.Writer {
	return &voice{j: j, name: name, aloud: aloud}
}

type voice struct {
	j     *journal
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
		v.j.say(v.aloud, v.name+" | "+string(bytes.TrimRight(line, "\r")))
		v.rest = rest
	}
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
}
