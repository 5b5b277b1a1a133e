package ucma

import "syscall"

// The options of an id.
const (
	levelID          = 0
	optionTOS        = 0
	optionReuseAddr  = 1
	optionAFOnly     = 2
	optionAckTimeout = 3
)

// setOption is SET_OPTION. ENOSYS: the option is none of an RNIC.
func (f *File) setOption(c *command) {
	i := f.live(c, 8)
	if i == nil {
		return
	}
	level, name, size := c.u32(12), c.u32(16), c.u32(20)
	if level != levelID || name > optionAckTimeout {
		c.finish(syscall.ENOSYS)
		return
	}
	val := make([]byte, [...]int{1, 4, 4, 1}[name])
	if int(size) != len(val) {
		c.finish(syscall.EINVAL)
		return
	}
	if err := c.caller.Read(c.u64(0), val); err != nil {
		c.finish(err)
		return
	}
	c.finish(i.set(name, val))
}

func (i *id) set(name uint32, val []byte) error {
	on := len(val) == 4 && order.Uint32(val) != 0
	switch name {
	case optionTOS:
		i.tos = val[0]
	case optionReuseAddr:
		if i.state != idle && (!on || i.state == listening) {
			return syscall.EINVAL
		}
		if i.reuse = on; i.binding != nil {
			i.file.home.s.share(i.binding, on)
		}
	case optionAFOnly:
		if i.state > bound {
			return syscall.EINVAL
		}
		i.afOnly, i.afOnlySet = on, true
	case optionAckTimeout:
		i.ack = ackTimeout{val[0], true}
	}
	return nil
}

// ackTimeout is an attribute of InfiniBand's queue pairs, 4.096 us * 2^value.
// TCP measures for itself; the queue pair keeps what a program has set.
type ackTimeout struct {
	value uint8
	set   bool
}

// notify is NOTIFY: an event of the queue pair that the connection manager is
// to know of. That of an RNIC knows before.
func (f *File) notify(c *command) {
	i := f.live(c, 0)
	switch {
	case i == nil:
	case i.dev == nil || i.conn == nil:
		c.finish(syscall.EINVAL)
	default:
		c.finish(nil)
	}
}

// joinIPMulticast and joinMulticast are refused as the kernel does for an
// RNIC.
func (f *File) joinIPMulticast(c *command) { f.join(c, 44) }
func (f *File) joinMulticast(c *command)   { f.join(c, 16) }

func (f *File) join(c *command, at int) {
	if f.attached(c, at) != nil {
		c.finish(syscall.ENOSYS)
	}
}

// leaveMulticast finds no group, as none was joined.
func (f *File) leaveMulticast(c *command) { c.finish(syscall.ENOENT) }
