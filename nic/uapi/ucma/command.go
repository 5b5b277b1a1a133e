package ucma

import (
	"fmt"
	"slices"
	"syscall"

	"tapir/nic/msglog"
	"tapir/nic/uapi/abi"
	"tapir/wire/frame"
)

// command is one write(2), from which the thread returns when it is finished.
type command struct {
	f      *File
	number uint32
	caller abi.Caller
	body   []byte // behind the header
	in     int    // octets of it that the header names
	out    int    // room for the answer
	later  bool   // the caller has been told to wait
	ended  bool   // answered or cancelled
	err    error
}

// handlers are the commands with the least size of what follows the header.
var handlers = [numCommands]struct {
	size  int
	serve func(f *File, c *command)
}{
	cmdCreateID:        {24, (*File).createID},
	cmdDestroyID:       {16, (*File).destroyID},
	cmdBindIP:          {40, (*File).bindIP},
	cmdResolveIP:       {64, (*File).resolveIP},
	cmdResolveRoute:    {8, (*File).resolveRoute},
	cmdQueryRoute:      {16, (*File).queryRoute},
	cmdConnect:         {280, (*File).connect},
	cmdListen:          {8, (*File).listen},
	cmdAccept:          {288, (*File).accept},
	cmdReject:          {264, (*File).reject},
	cmdDisconnect:      {4, (*File).disconnect},
	cmdInitQPAttr:      {16, (*File).initQPAttr},
	cmdGetEvent:        {8, (*File).getEvent},
	cmdGetOption:       {0, (*File).unknown},
	cmdSetOption:       {24, (*File).setOption},
	cmdNotify:          {8, (*File).notify},
	cmdJoinIPMulticast: {48, (*File).joinIPMulticast},
	cmdLeaveMulticast:  {16, (*File).leaveMulticast},
	cmdMigrateID:       {16, (*File).migrateID},
	cmdQuery:           {16, (*File).query},
	cmdBind:            {136, (*File).bindAddr},
	cmdResolveAddr:     {272, (*File).resolveAddr},
	cmdJoinMulticast:   {152, (*File).joinMulticast},
}

// Command implements abi.File. EINVAL: the command is none or too short;
// ENOENT: there is no such id; ENXIO: its NIC is gone.
func (f *File) Command(c abi.Caller, b []byte) error {
	if len(b) < headerLen {
		return syscall.EINVAL
	}
	num, in, out := order.Uint32(b), int(order.Uint16(b[4:])), int(order.Uint16(b[6:]))
	if num >= numCommands || headerLen+in > len(b) || len(b)-headerLen < handlers[num].size || f.closed {
		return syscall.EINVAL
	}
	cmd := &command{f: f, number: num, caller: c, body: b[headerLen:], in: in, out: out}
	handlers[num].serve(f, cmd)
	if cmd.ended {
		return cmd.err
	}
	cmd.later, cmd.body = true, slices.Clone(cmd.body)
	if num != cmdGetEvent {
		f.parked = append(f.parked, cmd)
	}
	return abi.Later
}

// Cancel implements abi.File. Only GET_EVENT can be taken back: what another
// NIC's thread has been given is done, and answered soon.
func (f *File) Cancel(c abi.Caller) bool {
	for i, cmd := range f.waiting {
		if cmd.caller == c {
			cmd.ended = true
			f.waiting = slices.Delete(f.waiting, i, i+1)
			return true
		}
	}
	return false
}

// finish ends the command.
func (c *command) finish(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	c.log()
	if !c.later {
		return
	}
	c.f.parked = slices.DeleteFunc(c.f.parked, func(o *command) bool { return o == c })
	c.caller.Done(err)
}

// log says how the command has ended.
func (c *command) log() {
	log := c.f.home.Verbs.Log()
	if !log.On(msglog.Cmd) {
		return
	}
	log.Append(msglog.Cmd, func(b []byte) []byte {
		b = fmt.Appendf(b, "process %d rdma_cm %s", c.caller.Process(), commandNames[c.number])
		if c.err != nil {
			b = fmt.Appendf(b, ": %v", c.err)
		}
		return b
	})
}

// answer writes b to the address at offset at of the body and finishes.
func (c *command) answer(at int, b []byte) {
	if !c.ended {
		c.finish(c.caller.Write(c.u64(at), b[:min(len(b), c.out)]))
	}
}

// answerCount answers with one number, the events reported to an id.
func (c *command) answerCount(at int, n uint32) {
	c.answer(at, order.AppendUint32(nil, n))
}

func (c *command) u16(at int) uint16 { return order.Uint16(c.body[at:]) }
func (c *command) u32(at int) uint32 { return order.Uint32(c.body[at:]) }
func (c *command) u64(at int) uint64 { return order.Uint64(c.body[at:]) }

// on executes do on n's thread, then finishes c with what then makes of its
// error on the home's.
func (c *command) on(n *Device, do func(now frame.Time) error, then func(err error) error) {
	home := c.f.home
	n.run(home, func(now frame.Time) {
		err := do(now)
		home.run(n, func(frame.Time) { c.finish(then(err)) })
	})
}

// unknown is a command that no kernel has.
func (f *File) unknown(c *command) { c.finish(syscall.ENOSYS) }
