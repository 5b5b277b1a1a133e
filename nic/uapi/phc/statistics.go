package phc

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// Statistics is a Netdev that has some, for ethtool -S. Names have at most 31 octets there.
type Statistics interface {
	Statistics() (names []string, values []uint64, err error)
}

// Of include/uapi/linux/ethtool.h.
const (
	statisticsSet = 1 // ETH_SS_STATS
	stringLen     = 32
)

// statistics answers what ethtool -S asks for: how many there are, their names, their values.
func (n *netdev) statistics(c *trap.Call, cmd uint32, data uint64) trap.Answer {
	from, ok := n.Netdev.(Statistics)
	if !ok {
		return trap.Pass()
	}
	head, err := trap.Get[[3]uint32](c, data) // command, and of GSTRINGS a set; then a length
	if err != nil || cmd == unix.ETHTOOL_GSTRINGS && head[1] != statisticsSet {
		return trap.Pass()
	}
	if cmd == unix.ETHTOOL_GSSET_INFO { // command, reserved, a mask of 64 bits; then a length for each bit
		if mask, err := trap.Get[uint64](c, data+8); err != nil || mask != 1<<statisticsSet {
			return trap.Pass()
		}
	}
	names, values, err := from.Statistics()
	if err != nil {
		return trap.Pass()
	}
	switch cmd {
	case unix.ETHTOOL_GSSET_INFO:
		n := uint32(len(names))
		return done(trap.Put(c, data+16, &n))
	case unix.ETHTOOL_GSTRINGS:
		p := make([]byte, stringLen*min(len(names), int(head[2])))
		for i := range len(p) / stringLen {
			copy(p[i*stringLen:(i+1)*stringLen-1], names[i])
		}
		return done(c.Write(data+12, p))
	}
	var p []byte
	for _, v := range values[:min(len(values), int(head[1]))] {
		p = binary.NativeEndian.AppendUint64(p, v)
	}
	return done(c.Write(data+8, p))
}
