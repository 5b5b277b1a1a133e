package relay

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
)

// ClientInfo describes a device file that a program has open, and how what the
// program does there comes to the NIC.
type ClientInfo struct {
	PID     int    `json:"pid"`
	Program string `json:"program"` // the process's name, 15 octets at most; empty once it has ended
	Run     int    `json:"run"`     // of tapir run
	File    string `json:"file"`
	Via     string `json:"via"`   // auto, trap or preload, as tapir run was told; umode
	Calls   string `json:"calls"` // by which commands come
	Posts   string `json:"posts"` // by which posts to queues come
	// Commands is how many were served, each at the price of a stopped system call or a
	// message.
	Commands uint64 `json:"commands"`
	Why      string `json:"why"`
}

// How commands and posts come.
const (
	byTrap     = "trap"     // system calls that the kernel's filter stops
	byPreload  = "preload"  // messages of the preloaded library
	byMessages = "messages" // of the program itself
	byDoorbell = "doorbell" // shared memory
	byCommand  = "command"  // as commands do
)

// Clients lists the device files that programs have open, by process; programs that
// need no supervisor have one line.
func (s *Server) Clients() (list []ClientInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of := range s.sessions {
		list = append(list, of.clients()...)
	}
	for _, pid := range s.direct {
		list = append(list, ClientInfo{PID: pid, Via: "umode", Calls: byMessages, Posts: byDoorbell,
			Why: "it speaks with the NIC's process itself"})
	}
	for i := range list {
		list[i].Program = programOf(list[i].PID)
	}
	slices.SortFunc(list, func(a, b ClientInfo) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.File, b.File))
	})
	return list
}

// programOf is the name of a process, which sets it as it likes: what a terminal cannot print
// becomes a question mark. Empty if the process is gone.
func programOf(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSuffix(string(comm), "\n"))
}

// clients lists a run's.
func (s *session) clients() (list []ClientInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		c := ClientInfo{PID: f.opener, Run: s.supervisor, File: f.name, Via: cmp.Or(s.ask.Via, "auto"), Calls: byTrap,
			Posts: byCommand, Commands: f.commands.Load()}
		if c.Via == byPreload {
			c.Calls = byPreload
		}
		switch {
		case f.name == UCMA:
			c.Posts, c.Why = "", "the connection manager has no queues"
		case f.belled.Load():
			c.Posts, c.Why = byDoorbell, "a dynamic program, with the library of doorbells"
		case c.Via == byTrap:
			c.Why = "tapir run --via trap"
		default:
			c.Why = "it has not posted yet, is static, or has an LD_PRELOAD of its own"
		}
		list = append(list, c)
	}
	return list
}
