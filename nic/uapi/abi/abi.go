// Package abi is what the servers of the kernel's RDMA interface (nic/uapi/uverbs,
// nic/uapi/ucma) and what brings them the commands of programs
// (nic/uapi/relay, nic/umode) know of each other.
//
// Such an interface is a character device: a program opens it and writes
// commands into it, each with the address where the answer is to be put. One
// thread has a file and all that was made through it, its home: every method
// of File is called there, and so must be Caller.Done.
package abi

import (
	"errors"

	"tapir/nic/verbs"
)

// Caller is the thread of a program that opened a file or wrote a command into
// it, and sleeps until the answer. Unless an answer is due later it is valid
// only for the call that it was given to.
type Caller interface {
	// Process is the id of its process: the owner of what the command makes.
	Process() int
	// Read copies len(p) octets from address addr of the program. Error: EFAULT.
	Read(addr uint64, p []byte) error
	// Write copies p to address addr of the program. Error: EFAULT.
	Write(addr uint64, p []byte) error
	// Install gives the program a descriptor for the file that fd is open on,
	// and returns its number; fd is taken. Of flags, O_CLOEXEC is used. Errors:
	// EMFILE, ESRCH, ETIMEDOUT.
	Install(fd, flags int) (number int, err error)
	// Region is the program's memory [addr, addr+n), for as long as the program
	// lives, written only if write is set. Its first and last octets are
	// touched: EFAULT if they are not mapped so. Later errors of ReadAt and
	// WriteAt are EFAULT too, never a crash.
	Region(addr, n uint64, write bool) (verbs.Memory, error)
	// Nonblocking tells whether the descriptor that the command was written to
	// is O_NONBLOCK now.
	Nonblocking() bool
	// Waits tells whether the thread still waits for the answer. What would be
	// lost with it must not be handed out if not: the command will be cancelled,
	// and perhaps come again.
	Waits() bool
	// Done ends a command that was answered Later: with nil, or an errno.
	Done(err error)
}

// LastWords is what a Caller has whose program may outlive the NIC's process.
type LastWords interface {
	// LastWords has b, at most 64 octets, written to fd, which is borrowed, if the process
	// of the NIC dies while the file is open and revoke was not called.
	LastWords(fd int, b []byte) (revoke func())
}

// File is an open device file.
type File interface {
	// Command serves a write(2) of b, borrowed. Errors: an errno; nil means that
	// all octets were taken; Later that Done of the caller will be called.
	Command(c Caller, b []byte) error
	// Ioctl serves ioctl(2) VerbsIoctl. b, borrowed, is what stands at address addr
	// of the program: the header and as many octets as it says, if these are at
	// most MaxIoctl. Errors: an errno, ENOTTY of a file without such requests.
	Ioctl(c Caller, addr uint64, b []byte) error
	// Cancel takes back a command that was answered Later and whose thread has
	// a signal to handle or is gone: its Done will not be called. False means
	// that it was called already, or will be soon: what has begun and cannot be
	// taken back must not begin again.
	Cancel(c Caller) bool
	// Close is called once, when the last descriptor and mapping of the last
	// process is gone, however that came about: all that was made through the
	// file is cleaned up.
	Close()
}

// Opener makes a File for open(2) with these flags. fd, which the caller of
// Opener takes, is what the program gets: its inode belongs to this File
// alone, and opening /proc/self/fd/N made it, so that inotify(7) sees its end.
type Opener func(c Caller, flags int) (f File, fd int, err error)

// Later is File.Command's way to say that the answer comes later.
var Later = errors.New("the answer comes later")
