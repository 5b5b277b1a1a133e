package ucma

import (
	"errors"
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
	name   string
	caller abi.Caller
	body   []byte // behind the header
	out    int    // room for the answer
	later  bool   // the caller has been told to wait
	ended  bool   // answered or cancelled
	err    error
}

// handler serves a command. It returns abi.Later if c.finish is called, now or
// later.
type handler func(f *File, c *command) error

// handlers are the commands with the least size of what follows the header, and
// the least room for the answer.
var handlers = [numCommands]struct {
	name      string // as in rdma_user_cm.h
	size, out int
	serve     handler
}{
	cmdCreateID:        {"CREATE_ID", 24, 4, (*File).createID},
	cmdDestroyID:       {"DESTROY_ID", 16, 4, (*File).destroyID},
	cmdBindIP:          {"BIND_IP", 40, 0, withID(36, (*id).serveBind)},
	cmdResolveIP:       {"RESOLVE_IP", 64, 0, withID(56, (*id).resolveIP)},
	cmdResolveRoute:    {"RESOLVE_ROUTE", 8, 0, withNIC(0, (*id).resolveRoute)},
	cmdQueryRoute:      {"QUERY_ROUTE", 16, routeLenOld, withID(8, (*id).queryRoute)},
	cmdConnect:         {"CONNECT", 280, 0, withNIC(272, (*id).connect)},
	cmdListen:          {"LISTEN", 8, 0, withID(0, (*id).listen)},
	cmdAccept:          {"ACCEPT", 288, 0, withNIC(280, (*id).accept)},
	cmdReject:          {"REJECT", 264, 0, withNIC(0, (*id).reject)},
	cmdDisconnect:      {"DISCONNECT", 4, 0, withNIC(0, (*id).disconnect)},
	cmdInitQPAttr:      {"INIT_QP_ATTR", 16, qpAttrLen, withNIC(8, (*id).initQPAttr)},
	cmdGetEvent:        {"GET_EVENT", 8, eventLenOld, (*File).getEvent},
	cmdGetOption:       {"GET_OPTION", 0, 0, refuse(syscall.ENOSYS)}, // no kernel has it
	cmdSetOption:       {"SET_OPTION", 24, 0, withID(8, (*id).setOption)},
	cmdNotify:          {"NOTIFY", 8, 0, withID(0, (*id).notify)},
	cmdJoinIPMulticast: {"JOIN_IP_MCAST", 48, 4, withNIC(44, (*id).joinIP)},
	cmdLeaveMulticast:  {"LEAVE_MCAST", 16, 4, (*File).leaveGroup},
	cmdMigrateID:       {"MIGRATE_ID", 16, 0, (*File).migrateID},
	cmdQuery:           {"QUERY", 16, 0, withID(8, (*id).serveQuery)},
	cmdBind:            {"BIND", 136, 0, (*File).bindAddr},
	cmdResolveAddr:     {"RESOLVE_ADDR", 272, 0, withID(0, (*id).resolveAddr)},
	cmdJoinMulticast:   {"JOIN_MCAST", 152, 4, withNIC(16, (*id).joinGroup)},
}

// refuse serves a command that always fails.
func refuse(err error) handler { return func(*File, *command) error { return err } }

// withID serves a command about the id that it names at offset at.
func withID(at int, serve func(i *id, c *command) error) handler {
	return func(f *File, c *command) error {
		i, err := f.find(c.u32(at))
		switch {
		case err != nil:
			return err
		case i.state == removed:
			return syscall.ENXIO
		}
		return serve(i, c)
	}
}

// withNIC is withID for commands that need a NIC.
func withNIC(at int, serve func(i *id, c *command) error) handler {
	return withID(at, func(i *id, c *command) error {
		if i.dev == nil {
			return syscall.EINVAL
		}
		return serve(i, c)
	})
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
	cmd := &command{f: f, name: handlers[num].name, caller: c, body: b[headerLen:], out: out}
	err := error(syscall.ENOSPC)
	if out >= handlers[num].out {
		err = handlers[num].serve(f, cmd)
	}
	if !errors.Is(err, abi.Later) {
		cmd.finish(err)
	}
	if cmd.ended {
		return cmd.err
	}
	cmd.later, cmd.body = true, slices.Clone(cmd.body)
	if num != cmdGetEvent {
		f.parked = append(f.parked, cmd)
	}
	return abi.Later
}

// Ioctl implements abi.File: there is none.
func (f *File) Ioctl(abi.Caller, uint64, []byte) error { return syscall.ENOTTY }

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
		b = fmt.Appendf(b, "process %d rdma_cm %s", c.caller.Process(), c.name)
		if c.err != nil {
			b = fmt.Appendf(b, ": %v", c.err)
		}
		return b
	})
}

// answer writes b to the address at offset at of the body.
func (c *command) answer(at int, b []byte) error {
	return c.caller.Write(c.u64(at), b[:min(len(b), c.out)])
}

// answerCount answers with one number, the events reported to an id.
func (c *command) answerCount(n uint32) error { return c.answer(0, order.AppendUint32(nil, n)) }

func (c *command) u16(at int) uint16 { return order.Uint16(c.body[at:]) }
func (c *command) u32(at int) uint32 { return order.Uint32(c.body[at:]) }
func (c *command) u64(at int) uint64 { return order.Uint64(c.body[at:]) }

// on executes do on n's thread. Then, on the thread of the file's home NIC, it
// finishes c with the error that then returns for do's.
func (c *command) on(n *Device, do func(now frame.Time) error, then func(err error) error) error {
	home := c.f.home
	n.run(home, func(now frame.Time) {
		err := do(now)
		home.run(n, func(frame.Time) { c.finish(then(err)) })
	})
	return abi.Later
}
