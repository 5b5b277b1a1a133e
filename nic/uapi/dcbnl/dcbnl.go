// Package dcbnl answers the kernel's netlink messages about Data Center Bridging (RTM_GETDCB
// and RTM_SETDCB, linux/dcbnl.h) for NICs that the kernel does not know, as the operations of
// a driver do (include/net/dcbnl.h): those of IEEE 802.1Qaz and the mode of DCBX.
//
//	IEEE_GET             ETS, PFC, MAXRATE, BUFFER, APP_TABLE and what the neighbor has told   get.go
//	IEEE_SET, IEEE_DEL   ETS, PFC, MAXRATE, BUFFER, APP_TABLE                          set.go
//	GDCBX, SDCBX         who decides: the host, or DCBX of the NIC                     mode.go
//
// Serve is the engine, beside the NIC. Register has programs under a supervisor
// (nic/uapi/trap), such as dcb(8), reach it by the name of a netdev.
package dcbnl

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/uapi/netlink"
)

// Commands (enum dcbnl_commands).
const (
	cmdIEEESet = 20
	cmdIEEEGet = 21
	cmdGetDCBX = 22
	cmdSetDCBX = 23
	cmdIEEEDel = 27
	cmdMost    = 27
)

// Attributes of a message (enum dcbnl_attrs), of DCB_ATTR_IEEE (enum ieee_attrs), and of its
// tables of applications (enum ieee_attrs_app).
const (
	attrIfname = 1
	attrIEEE   = 13
	attrDCBX   = 14

	ieeeETS      = 1
	ieeePFC      = 2
	ieeeApps     = 3
	ieeePeerETS  = 4
	ieeePeerPFC  = 5
	ieeePeerApps = 6
	ieeeMaxRate  = 7
	ieeeBuffer   = 10

	ieeeApp = 1
)

// headerLen is struct dcbmsg: a family, a command and padding of two octets.
const headerLen = 4

// Request is the body of a netlink message, behind its header.
type Request struct {
	Type uint16 // RTM_GETDCB or RTM_SETDCB
	Body []byte
}

// Answer is the body of a message of the request's type, or without one an errno. Text is a
// line for the user that the message has no room for: above all, why a change was refused.
type Answer struct {
	Body  []byte
	Errno syscall.Errno
	Text  string
}

// State is what a NIC has of DCB.
type State struct {
	Port  dcb.Port     // administered, with defaults filled in
	Admin dcbx.Values  // the same with applications and what is willing
	Oper  *dcbx.Values // what DCBX has come to; nil: it is off
	Peer  *dcbx.Values // what the neighbor has told; nil: nothing
	// Set is the version of DCBX that is set, Version the one in use.
	Set, Version dcbx.Version
	Static       bool // no negotiation
	NoDCBX       bool // the hardware has no DCBX
	// Sent and Received are PFC frames about each priority.
	Sent, Received [dcb.Classes]uint64
}

// NIC is one whose messages are served.
type NIC interface {
	State() (State, error)
	// Setting is the value of one, empty: there is none. Set changes settings, all or none.
	Setting(name string) string
	Set(changes ...Change) error
}

// Change is a value for a setting.
type Change struct{ Name, Value string }

// refused is an errno that a driver's operation returns, with the reason.
func refused(errno syscall.Errno, format string, args ...any) error {
	return &netlink.Refusal{Errno: errno, Text: fmt.Sprintf(format, args...)}
}

// parse reads a message. Error: EINVAL.
func (q Request) parse() (cmd uint8, attrs map[uint16][]byte, err error) {
	if len(q.Body) < headerLen {
		return 0, nil, unix.EINVAL
	}
	attrs, err = netlink.ParseAttributes(q.Body[headerLen:])
	return q.Body[1], attrs, err
}

// Serve answers a request about a NIC.
func Serve(n NIC, q Request) (a Answer) {
	body, note, err := serve(n, q)
	a.Body, a.Text = body, note
	if err != nil && body == nil {
		a.Errno = unix.EINVAL
		errors.As(err, &a.Errno)
	}
	if r := (*netlink.Refusal)(nil); errors.As(err, &r) {
		a.Text = r.Text
	}
	return a
}

// serve returns the message, and what is to be told beside it. With an error of an operation
// there is a message, too.
func serve(n NIC, q Request) (body []byte, note string, err error) {
	cmd, attrs, err := q.parse()
	if err != nil {
		return nil, "", err
	}
	s, err := n.State()
	if err != nil {
		return nil, "", err
	}
	sets := cmd == cmdIEEESet || cmd == cmdIEEEDel || cmd == cmdSetDCBX
	if cmd > cmdMost || sets && q.Type != unix.RTM_SETDCB {
		return nil, "", unix.EINVAL
	}
	var reply netlink.Attributes
	switch cmd {
	case cmdIEEEGet:
		reply.Put(attrIfname, attrs[attrIfname])
		s.putIEEE(&reply)
	case cmdGetDCBX:
		reply.Uint8(attrDCBX, s.mode())
	case cmdIEEESet, cmdIEEEDel:
		if attrs[attrIEEE] == nil {
			return nil, "", unix.EINVAL
		}
		changes, failed := s.ieee(n, attrs[attrIEEE], cmd == cmdIEEEDel)
		note, err = apply(n, changes, failed)
		reply.Uint8(attrIEEE, status(err))
	case cmdSetDCBX:
		if len(attrs[attrDCBX]) != 1 {
			return nil, "", unix.EINVAL
		}
		changes, failed := s.setMode(n, attrs[attrDCBX][0])
		note, err = apply(n, changes, failed)
		reply.Uint8(attrDCBX, status(err))
	default:
		return nil, "", unix.EOPNOTSUPP
	}
	return append([]byte{q.Body[0], cmd, 0, 0}, reply...), note, err
}

// apply makes changes unless they are wrong already, and tells what programs get wrong: old ones
// of iproute2 write octets per second where the kernel has kb/s.
func apply(n NIC, changes []Change, failed error) (note string, err error) {
	if failed != nil || len(changes) == 0 {
		return "", failed
	}
	if err := n.Set(changes...); err != nil {
		return "", refused(unix.EINVAL, "%v", err)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.Name == "tc_maxrate" }) {
		note = "tc_maxrate is " + n.Setting("tc_maxrate") +
			" now; if that is 125 times what you gave, this dcb(8) writes octets per second for kb/s: use tapir dcb"
	}
	return note, nil
}

// status is an errno as messages have it in an octet.
func status(err error) uint8 {
	errno := syscall.Errno(0)
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EINVAL
	}
	return uint8(-int8(errno))
}

// Device is a NIC that programs find.
type Device struct {
	Netdev string
	Serve  func(Request) (Answer, error) // error: an errno
	Tell   func(text string)             // shows the user a line
}

// Register has p answer for these devices; other netdevs are the kernel's.
func Register(p *netlink.Proxy, devices ...Device) {
	p.Register(unix.NETLINK_ROUTE, func(q *netlink.Request) ([]netlink.Message, error) {
		r := Request{q.Type, q.Body}
		_, attrs, err := r.parse()
		if err != nil {
			return q.Kernel()
		}
		name := unix.ByteSliceToString(attrs[attrIfname])
		for _, d := range devices {
			if d.Netdev == name {
				return d.ask(r, q.Admin)
			}
		}
		return q.Kernel()
	}, unix.RTM_GETDCB, unix.RTM_SETDCB)
}

func (d *Device) ask(r Request, admin bool) ([]netlink.Message, error) {
	if r.Type == unix.RTM_SETDCB && !admin {
		return nil, unix.EPERM
	}
	a, err := d.Serve(r)
	if err != nil {
		return nil, err
	}
	if a.Text != "" {
		d.Tell(a.Text)
	}
	if a.Body == nil {
		return nil, a.Errno
	}
	return []netlink.Message{{Type: r.Type, Body: a.Body}}, nil
}
