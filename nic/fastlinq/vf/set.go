package vf

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"tapir/nic/fastlinq/iov"
	"tapir/wire/ether"
)

// Set is what an administrator changes of a VF, as `ip link set PF vf N` says it: what is
// nil stays.
type Set struct {
	MAC        *ether.Addr    `json:",omitempty"`
	VLAN       *int           `json:",omitempty"`
	QoS        int            `json:",omitempty"` // of VLAN
	Proto      uint16         `json:",omitempty"` // EtherType of VLAN; 0: 802.1Q
	MaxRate    *int           `json:",omitempty"` // Mb/s
	MinRate    *int           `json:",omitempty"`
	SpoofChk   *bool          `json:",omitempty"`
	Trust      *bool          `json:",omitempty"`
	State      *iov.LinkState `json:",omitempty"`
	QueryRSS   *bool          `json:",omitempty"`
	withoutTag bool           // qos or proto came before vlan
}

// EtherTypes of VLANs, by the words of ip link.
var vlanProtos = map[string]uint16{"802.1q": iov.VLANProto, "802.1Q": iov.VLANProto, "802.1ad": 0x88a8}

// Words are the settings in the order of ip link's help.
const Words = "mac, vlan, qos, proto, rate, max_tx_rate, min_tx_rate, spoofchk, query_rss, state or trust"

// ParseSet reads the words of `ip link set PF vf N`.
func ParseSet(words []string) (s Set, err error) {
	if len(words) == 0 {
		return s, fmt.Errorf("what to set is missing: %s", Words)
	}
	for ; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return s, fmt.Errorf("%s: the value is missing", words[0])
		}
		if err := s.word(words[0], words[1]); err != nil {
			return s, err
		}
	}
	if s.withoutTag && s.VLAN == nil {
		return s, fmt.Errorf("qos and proto are about vlan: give vlan, too")
	}
	return s, nil
}

// word reads one setting.
func (s *Set) word(name, v string) (err error) {
	switch name {
	case "mac":
		var a ether.Addr
		a, err = ether.ParseAddr(v)
		s.MAC = &a
	case "vlan":
		s.VLAN, err = number(v)
	case "qos":
		var n *int
		if n, err = number(v); err == nil {
			s.QoS, s.withoutTag = *n, true
		}
	case "proto":
		var ok bool
		if s.Proto, ok = vlanProtos[v]; !ok {
			err = fmt.Errorf("want 802.1q or 802.1ad")
		}
		s.withoutTag = true
	case "rate", "max_tx_rate":
		s.MaxRate, err = number(v)
	case "min_tx_rate":
		s.MinRate, err = number(v)
	case "spoofchk":
		s.SpoofChk, err = onOff(v)
	case "trust":
		s.Trust, err = onOff(v)
	case "query_rss":
		s.QueryRSS, err = onOff(v)
	case "state":
		var st iov.LinkState
		st, err = iov.ParseLinkState(v)
		s.State = &st
	default:
		return fmt.Errorf("%q is no setting of a VF: use %s", name, Words)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, v, err)
	}
	return nil
}

func number(v string) (*int, error) {
	n, err := strconv.ParseUint(v, 0, 31)
	if err != nil {
		return nil, fmt.Errorf("want a number")
	}
	return new(int(n)), nil
}

func onOff(v string) (*bool, error) {
	if v != "on" && v != "off" {
		return nil, fmt.Errorf("want on or off")
	}
	return new(v == "on"), nil
}

// Apply changes a VF. The first setting that is refused ends it, with one of Linux's error
// numbers; those before it stay, as in Linux.
func (s *Set) Apply(p *iov.PF, vf int) error {
	i, err := p.VFInfo(vf)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return when(s.MAC, func(a ether.Addr) error { return p.SetVFMAC(vf, a) }) },
		func() error {
			return when(s.VLAN, func(v int) error {
				proto := s.Proto
				if proto == 0 {
					proto = iov.VLANProto
				}
				return p.SetVFVLAN(vf, v, s.QoS, proto)
			})
		},
		func() error {
			if s.MinRate == nil && s.MaxRate == nil {
				return nil
			}
			low, high := i.MinRate, i.MaxRate
			set(&low, s.MinRate)
			set(&high, s.MaxRate)
			return p.SetVFRate(vf, low, high)
		},
		func() error { return when(s.SpoofChk, func(on bool) error { return p.SetVFSpoofchk(vf, on) }) },
		func() error { return when(s.State, func(l iov.LinkState) error { return p.SetVFLinkState(vf, l) }) },
		func() error { return when(s.QueryRSS, func(on bool) error { return p.SetVFQueryRSS(vf, on) }) },
		func() error { return when(s.Trust, func(on bool) error { return p.SetVFTrust(vf, on) }) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// when calls do with a value that is given.
func when[T any](v *T, do func(T) error) error {
	if v == nil {
		return nil
	}
	return do(*v)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Errno is the name of Linux's number of an error, empty if it has none.
func Errno(err error) string {
	for _, e := range []struct {
		n    syscall.Errno
		name string
	}{{syscall.EINVAL, "EINVAL"}, {syscall.EBUSY, "EBUSY"}, {syscall.ERANGE, "ERANGE"}, {syscall.EPERM, "EPERM"},
		{syscall.EPROTONOSUPPORT, "EPROTONOSUPPORT"}, {syscall.ENODEV, "ENODEV"}} {
		if errors.Is(err, e.n) {
			return e.name
		}
	}
	return ""
}
