package ucma

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// migrateID is MIGRATE_ID, written to the channel that the id moves to, which
// gets the events that wait. The id is known without the other channel, whose
// descriptor the program names to prove that it has it. The answer is how many events the program has fetched so far.
func (f *File) migrateID(c *command) {
	home, num := f.home, c.u32(8)
	if num >= uint32(len(home.ids)) || home.ids[num] == nil || home.ids[num].pending {
		c.finish(syscall.ENOENT)
		return
	}
	i := home.ids[num]
	switch {
	case i.file.owner != f.owner && !i.file.heldBy(c.caller.Process(), c.u32(12)):
		c.finish(syscall.EINVAL)
		return
	case i.state == removed:
		c.finish(syscall.ENXIO)
		return
	}
	list := i.file.withdraw(i)
	i.file = f
	c.answerCount(0, i.reported)
	for _, ev := range list {
		if ev.req != nil {
			ev.req.file = f
		}
		f.queue(ev)
	}
}

// heldBy tells whether the process has a descriptor of f with that number, as
// one that was forked may.
func (f *File) heldBy(pid int, fd uint32) bool {
	var theirs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), &theirs) == nil && unix.Fstat(f.tokens.read, &ours) ==
		nil &&
		theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}
