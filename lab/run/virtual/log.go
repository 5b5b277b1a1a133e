package virtual

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// log is what happens, for people: printed, and in the lab's log.
type log struct {
	now   func() time.Duration
	print io.Writer
	file  *os.File
}

func openLog(now func() time.Duration, print io.Writer, out string) (*log, error) {
	j := &log{now: now, print: print}
	if out == "" {
		return j, nil
	}
	var err error
	j.file, err = os.Create(filepath.Join(out, "log.txt"))
	return j, err
}

// printf says a line.
func (j *log) printf(format string, args ...any) {
	line := fmt.Sprintf("%8.3f  %s\n", j.now().Seconds(), fmt.Sprintf(format, args...))
	if j.print != nil {
		_, _ = io.WriteString(j.print, line) // who does not listen misses it
	}
	if j.file != nil {
		_, _ = io.WriteString(j.file, line) // the result does not depend on it
	}
}

func (j *log) close() {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
}
