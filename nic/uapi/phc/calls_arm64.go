package phc

import "golang.org/x/sys/unix"

// pollCalls are the calls that wait for descriptors; true: with a timeout in a
// struct timespec.
var pollCalls = map[uint32]bool{unix.SYS_PPOLL: true}
