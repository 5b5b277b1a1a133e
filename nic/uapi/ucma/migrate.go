package ucma

import "syscall"

// migrateID is MIGRATE_ID, written to the channel that the id moves to, which
// gets the events that wait. The program names the other channel by its
// descriptor; the id is known without it, and must be of a file of the same
// program. The answer is how many events the program has fetched so far.
func (f *File) migrateID(c *command) {
	home, num := f.home, c.u32(8)
	if num >= uint32(len(home.ids)) || home.ids[num] == nil || home.ids[num].pending {
		c.finish(syscall.ENOENT)
		return
	}
	i := home.ids[num]
	switch {
	case i.file.owner != f.owner && i.file.owner != c.caller.Process():
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
