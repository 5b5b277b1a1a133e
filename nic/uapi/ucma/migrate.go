package ucma

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// migrateID is MIGRATE_ID, written to the channel that the id moves to, which
// gets the events that wait. The id is known without the other channel, whose
// descriptor the program names to prove that it has it. The answer is how many events the program has fetched so far.
func (f *File) migrateID(c *command) error {
	i := f.home.known(c.u32(8))
	switch {
	case i == nil:
		return syscall.ENOENT
	case i.file.owner != f.owner && !i.file.heldBy(c.caller.Process(), c.u32(12)):
		return syscall.EINVAL
	case i.state == removed:
		return syscall.ENXIO
	}
	list := i.file.withdraw(i)
	i.file = f
	err := c.answerCount(i.reported)
	for _, ev := range list {
		if ev.req != nil {
			ev.req.file = f
		}
		f.queue(ev)
	}
	return err
}

// heldBy tells whether the process has a descriptor of f with that number, as
// one that was forked may.
func (f *File) heldBy(pid int, fd uint32) bool {
	var theirs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), &theirs) == nil && unix.Fstat(f.tokens.read, &ours) ==
		nil &&
		theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}
