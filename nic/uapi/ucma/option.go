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
func (i *id) setOption(c *command) error {
	level, name, size := c.u32(12), c.u32(16), c.u32(20)
	if level != levelID || name > optionAckTimeout {
		return syscall.ENOSYS
	}
	val := make([]byte, [...]int{1, 4, 4, 1}[name])
	if int(size) != len(val) {
		return syscall.EINVAL
	}
	if err := c.caller.Read(c.u64(0), val); err != nil {
		return err
	}
	return i.set(name, val)
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
func (i *id) notify(*command) error {
	if i.dev == nil || i.conn == nil {
		return syscall.EINVAL
	}
	return nil
}
