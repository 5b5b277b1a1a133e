package phc

import "golang.org/x/sys/unix"

// pollCalls are the calls that wait for descriptors; true: with a timeout in a
// struct timespec, not in milliseconds.
var pollCalls = map[uint32]bool{unix.SYS_POLL: false, unix.SYS_PPOLL: true}
