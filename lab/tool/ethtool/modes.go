package ethtool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/nic/view"
)

// listModes prints link modes behind head, one on a line.
func (c *call) listModes(head string, list []view.EthtoolMode) {
	if len(list) == 0 {
		c.printf("\t%sNot reported\n", head)
	}
	for i, m := range list {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		c.printf("\t%s%s\n", head, m.Name)
	}
}

// notLinkModes are the bits of ethtool's masks that name ports, pause and
// auto-negotiation.
const notLinkModes = 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<13 | 1<<14 | 1<<16

// changeModes changes the set old of modes as the first n of values say: a
// mask, a mask with another of the bits that it changes, or names of modes with
// on or off. have are the modes that there are; speeds are those of the new set.
func changeModes(old, have []view.EthtoolMode, values []string) (speeds string, n int, err error) {
	on, all := modeBits(old), modeBits(have)
	if bits, of, ok := parseMask(values[0]); ok {
		on, n = on&^of|bits&of, 1
	} else if on, n = namedModes(on, have, values); n == 0 {
		var names []string
		for _, m := range have {
			names = append(names, m.Name)
		}
		return "", 0, fmt.Errorf("advertise: %q: expected a mask in hexadecimal, or some of %s, each with on or off",
			values[0], strings.Join(names, ", "))
	}
	if more := on &^ all &^ notLinkModes; more != 0 {
		return "", 0, fmt.Errorf("advertise: mask %s: no mode of the port has bits %#x: it has %#x", values[0], more,
			all)
	}
	var list []string
	for _, m := range have {
		if on>>m.Bit&1 != 0 {
			list = append(list, m.Speed)
		}
	}
	return strings.Join(list, ","), n, nil
}

// modeBits are the bits of modes.
func modeBits(list []view.EthtoolMode) (bits uint64) {
	for _, m := range list {
		bits |= 1 << m.Bit
	}
	return bits
}

// parseMask reads a mask in hexadecimal, perhaps with another of the bits that
// it changes.
func parseMask(v string) (bits, of uint64, ok bool) {
	value, mask, masked := strings.Cut(v, "/")
	bits, err := strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 64)
	of = ^uint64(0)
	if err == nil && masked {
		of, err = strconv.ParseUint(strings.TrimPrefix(mask, "0x"), 16, 64)
	}
	return bits, of, err == nil
}

// namedModes turns modes on or off as the first n of values name them.
func namedModes(on uint64, have []view.EthtoolMode, values []string) (bits uint64, n int) {
	for n+1 < len(values) {
		add, err := parseOnOff(values[n+1])
		i := slices.IndexFunc(have, func(m view.EthtoolMode) bool { return m.Name == values[n] })
		if err != nil || i < 0 {
			break
		}
		on &^= 1 << have[i].Bit
		if add {
			on |= 1 << have[i].Bit
		}
		n += 2
	}
	return on, n
}
