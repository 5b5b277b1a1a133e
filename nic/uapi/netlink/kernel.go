package netlink

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// kernelPatience bounds how long the kernel may take for an answer, in seconds.
const kernelPatience = 5

// longest is the room for a datagram of the kernel.
const longest = 1 << 17

// reads tells whether requests of a type change nothing, so that anyone may make
// them: the kernel sees the supervisor's rights, not the caller's.
func (of *protocol) reads(kind uint16) bool {
	switch of.number {
	case unix.NETLINK_ROUTE: // types come in fours: new, delete, get, set
		return (kind-unix.RTM_BASE)%4 == 2
	case unix.NETLINK_GENERIC: // of families, only their list says so
		return kind == unix.GENL_ID_CTRL
	}
	return false
}

// takeSpaces puts descriptors of ours in the place of the program's that links are to be
// moved to (IFLA_NET_NS_FD): the kernel looks for them in the process that asks.
func (of *protocol) takeSpaces(c *trap.Call, datagram []byte) (taken []int) {
	for m := range messages(datagram) {
		if of.number != unix.NETLINK_ROUTE || m.Type != unix.RTM_NEWLINK && m.Type != unix.RTM_SETLINK ||
			len(m.Body) < unix.SizeofIfInfomsg {
			continue
		}
		for kind, v := range Attributes(m.Body[unix.SizeofIfInfomsg:]).All() {
			if kind != unix.IFLA_NET_NS_FD || len(v) != 4 {
				continue
			}
			fd, err := c.Fd(int(int32(native.Uint32(v))))
			if err == nil {
				taken = append(taken, fd)
			}
			native.PutUint32(v, uint32(fd)) // -1 the kernel refuses
		}
	}
	return taken
}

// capNetAdmin is the bit of CAP_NET_ADMIN in /proc/PID/status.
const capNetAdmin = 1 << unix.CAP_NET_ADMIN

// admin tells whether the caller may change what this process may change.
func admin(c *trap.Call) bool {
	of := func(pid string) bool {
		fields, err := trap.ProcFields("/proc/" + pid + "/status")
		caps, _ := strconv.ParseUint(fields["CapEff"], 16, 64) // none if there are none
		return err == nil && caps&capNetAdmin != 0
	}
	return of(strconv.Itoa(c.Thread())) && ours(c, "user")
}

// listen queues what the kernel sends to the socket itself: answers to requests that
// were passed on, and news of groups.
func (s *socket) listen() {
	raw, err := s.ahead.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, longest)
	for {
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), buf, 0)
			return failed != unix.EAGAIN
		})
		if err != nil { // it is closed
			return
		}
		if failed == nil {
			s.put(bytes.Clone(buf[:n]))
		}
	}
}

// exchange asks the kernel on a socket for this request alone, with the options of
// the program's.
func (s *socket) exchange(m Message) (list []Message, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, s.of.number)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	strict, _ := unix.GetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK) // 0 where there is none
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, strict)
	for _, option := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} { // since Linux 4.12
		_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Sec: kernelPatience}); err != nil {
		return nil, err
	}
	if q := (&Request{Message: m}); !q.Dump() {
		m.Flags |= unix.NLM_F_ACK // which is the end
	}
	if err := unix.Sendto(fd, m.append(nil), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for {
		buf := make([]byte, longest)
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, err
		}
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		for part := range messages(buf[:n]) {
			switch {
			case part.Seq != m.Seq:
			case part.Type == unix.NLMSG_ERROR || part.Type == unix.NLMSG_DONE:
				if len(part.Body) < 4 {
					return nil, fmt.Errorf("an answer of %d octets: %w", len(part.Body), os.ErrInvalid)
				}
				return list, refusal(&part)
			default:
				part.Flags &^= unix.NLM_F_MULTI
				list = append(list, part)
			}
		}
	}
}

// refusal is what an NLMSG_ERROR, whose request is its header alone, or an NLMSG_DONE says;
// nil: all went well.
func refusal(m *Message) error {
	code := syscall.Errno(-int32(native.Uint32(m.Body)))
	if code == 0 {
		return nil
	}
	at := 4
	if m.Type == unix.NLMSG_ERROR {
		at += headerLen
	}
	if m.Flags&unix.NLM_F_ACK_TLVS == 0 || len(m.Body) < at {
		return code
	}
	attrs, _ := ParseAttributes(m.Body[at:]) // none where they cannot be read
	if text := unix.ByteSliceToString(attrs[unix.NLMSGERR_ATTR_MSG]); text != "" {
		return &Refusal{code, text}
	}
	return code
}
