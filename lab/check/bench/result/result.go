// Package result is how a process of a benchmark talks to the one that started
// it: a line when it is ready, and a line of JSON at the end.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ReadyLine is what a process prints when its part of the measurement may
// begin.
const ReadyLine = "ready"

// Ready prints ReadyLine.
func Ready() { fmt.Println(ReadyLine) }

// Result is what one process has measured.
type Result struct {
	Bytes    int64         `json:"bytes"`
	Messages int64         `json:"messages"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Latency  time.Duration `json:"latency_ns,omitempty"` // median half round trip
	CPU      time.Duration `json:"cpu_ns"`               // user and system
	Memory   int64         `json:"memory,omitempty"`     // octets of one idle object
	Lost     int64         `json:"lost,omitempty"`       // packets that a capture could not keep
	Held     int64         `json:"held,omitempty"`       // octets that had to be held aside
	Fairness float64       `json:"fairness,omitempty"`   // Jain's index of what queue pairs got
}

// Print reports r to the parent.
func (r Result) Print() error { return json.NewEncoder(os.Stdout).Encode(r) }

// Thread is the user and system time that the calling thread has used.
func Thread() time.Duration { return used(1) } // RUSAGE_THREAD

// CPU is the user and system time that this process has used.
func CPU() time.Duration { return used(syscall.RUSAGE_SELF) }

func used(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
