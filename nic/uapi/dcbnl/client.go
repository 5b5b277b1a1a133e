package dcbnl

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
)

// Client asks for the DCB of a NIC.
type Client struct {
	Netdev string
	Ask    func(Request) (Answer, error)
}

// IEEE is what a NIC has of IEEE 802.1Qaz; nil: it has none, as while DCBX is CEE.
type IEEE struct {
	ETS     *ETS
	PFC     *PFC
	MaxRate *MaxRate
	Buffer  *Buffer
	Apps    []App
}

// exchange sends a message and returns the attributes of the answer. An errno in the octet of
// a type of attribute, 0: of none, is an error.
func (c *Client) exchange(kind uint16, cmd uint8, status uint16, fill func(*netlink.Attributes)) (
	attrs map[uint16][]byte, err error) {
	a := netlink.Attributes{unix.AF_UNSPEC, cmd, 0, 0}
	a.String(attrIfname, c.Netdev)
	if fill != nil {
		fill(&a)
	}
	answer, err := c.Ask(Request{kind, a})
	if err != nil {
		return nil, err
	}
	if len(answer.Body) < headerLen {
		return nil, answer.err(answer.Errno)
	}
	if attrs, err = netlink.ParseAttributes(answer.Body[headerLen:]); err != nil || status == 0 {
		return attrs, err
	}
	if len(attrs[status]) != 1 {
		return nil, unix.EBADMSG
	}
	if code := -int8(attrs[status][0]); code != 0 {
		return nil, answer.err(syscall.Errno(code))
	}
	return attrs, nil
}

// err is that of an answer.
func (a *Answer) err(errno syscall.Errno) error {
	if a.Text != "" {
		return errors.New(a.Text)
	}
	return errno
}

// Get asks for all.
func (c *Client) Get() (i IEEE, err error) {
	attrs, err := c.exchange(unix.RTM_GETDCB, cmdIEEEGet, 0, nil)
	if err != nil {
		return i, err
	}
	of, err := netlink.ParseAttributes(attrs[attrIEEE])
	if err != nil {
		return i, err
	}
	i.ETS, i.PFC, i.MaxRate = decoded[ETS](of[ieeeETS]), decoded[PFC](of[ieeePFC]), decoded[MaxRate](of[ieeeMaxRate])
	i.Buffer = decoded[Buffer](of[ieeeBuffer])
	for kind, b := range netlink.Attributes(of[ieeeApps]).All() {
		if a := decoded[App](b); kind == ieeeApp && a != nil {
			i.Apps = append(i.Apps, *a)
		}
	}
	return i, nil
}

// decoded is a structure; nil: it is missing, or too short.
func decoded[T any](b []byte) *T {
	v := new(T)
	if !get(b, v) {
		return nil
	}
	return v
}

// Set changes what is not nil; Apps are added.
func (c *Client) Set(i IEEE) error { return c.change(cmdIEEESet, i) }

// Remove takes applications away.
func (c *Client) Remove(apps []App) error { return c.change(cmdIEEEDel, IEEE{Apps: apps}) }

func (c *Client) change(cmd uint8, i IEEE) error {
	_, err := c.exchange(unix.RTM_SETDCB, cmd, attrIEEE, func(a *netlink.Attributes) {
		a.Nest(attrIEEE, func(a *netlink.Attributes) {
			if i.ETS != nil {
				a.Put(ieeeETS, octets(i.ETS))
			}
			if i.PFC != nil {
				a.Put(ieeePFC, octets(i.PFC))
			}
			if i.MaxRate != nil {
				a.Put(ieeeMaxRate, octets(i.MaxRate))
			}
			if i.Buffer != nil {
				a.Put(ieeeBuffer, octets(i.Buffer))
			}
			if i.Apps != nil {
				a.Nest(ieeeApps, func(a *netlink.Attributes) {
					for _, app := range i.Apps {
						a.Put(ieeeApp, octets(app))
					}
				})
			}
		})
	})
	return err
}

// Mode asks for the mode of DCBX, bits of Modes.
func (c *Client) Mode() (mode uint8, err error) {
	attrs, err := c.exchange(unix.RTM_GETDCB, cmdGetDCBX, 0, nil)
	if err == nil && len(attrs[attrDCBX]) != 1 {
		return 0, unix.EBADMSG
	}
	if err != nil {
		return 0, err
	}
	return attrs[attrDCBX][0], nil
}

// SetMode changes it.
func (c *Client) SetMode(mode uint8) error {
	_, err := c.exchange(unix.RTM_SETDCB, cmdSetDCBX, attrDCBX, func(a *netlink.Attributes) { a.Uint8(attrDCBX, mode) })
	return err
}

// Modes are the words of dcb(8) for the bits of a mode, from bit 0 on.
var Modes = [...]string{"host", "lld-managed", "cee", "ieee", "static"}
