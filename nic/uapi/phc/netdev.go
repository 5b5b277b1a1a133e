package phc

import (
	"golang.org/x/sys/unix"

	"tapir/nic/ptp"
	"tapir/nic/uapi/trap"
)

// ifreq is struct ifreq with its pointer.
type ifreq struct {
	Name [unix.IFNAMSIZ]byte
	Data uint64
	_    [16]byte
}

var netdevCalls = map[uint32]func(c *trap.Call, n *netdev, data uint64) trap.Answer{
	unix.SIOCETHTOOL: func(c *trap.Call, n *netdev, data uint64) trap.Answer {
		cmd, err := trap.Get[uint32](c, data)
		switch {
		case err != nil:
			return trap.Pass()
		case cmd == unix.ETHTOOL_GSSET_INFO, cmd == unix.ETHTOOL_GSTRINGS, cmd == unix.ETHTOOL_GSTATS:
			return n.statistics(c, cmd, data)
		case cmd != unix.ETHTOOL_GET_TS_INFO:
			return trap.Pass()
		}
		flags, types, filters := Stamping()
		return done(trap.Put(c, data, &unix.EthtoolTsInfo{Cmd: cmd, Phc_index: int32(n.phc), So_timestamping: flags,
			Tx_types: types, Rx_filters: filters}))
	},
	unix.SIOCGHWTSTAMP: func(c *trap.Call, n *netdev, data uint64) trap.Answer {
		cfg, err := n.Config()
		if err != nil {
			return fail(err)
		}
		return done(trap.Put(c, data, kernelConfig(cfg)))
	},
	unix.SIOCSHWTSTAMP: func(c *trap.Call, n *netdev, data uint64) trap.Answer {
		return update(c, data, func(v *unix.HwTstampConfig) error {
			cfg, err := n.Configure(ptp.HWConfig{Flags: int(v.Flags), TxType: ptp.TxType(v.Tx_type),
				Filter: ptp.RxFilter(v.Rx_filter)})
			*v = *kernelConfig(cfg)
			return err
		})
	},
}

// Stamping is what a netdev can stamp: SOF_TIMESTAMPING flags, and bits of HWTSTAMP_TX
// types and of HWTSTAMP_FILTER numbers.
func Stamping() (flags, types, filters uint32) {
	for _, f := range ptp.Filters() {
		filters |= 1 << f
	}
	return hardware | software, 1<<ptp.TxOff | 1<<ptp.TxOn, filters
}

func kernelConfig(c ptp.HWConfig) *unix.HwTstampConfig {
	return &unix.HwTstampConfig{Flags: int32(c.Flags), Tx_type: int32(c.TxType), Rx_filter: int32(c.Filter)}
}

func (h *Handler) serveNetdev(c *trap.Call, serve func(*trap.Call, *netdev, uint64) trap.Answer) trap.Answer {
	req, err := trap.Get[ifreq](c, c.Arg(2))
	if err != nil {
		return trap.Pass()
	}
	n, ok := h.netdevs[unix.ByteSliceToString(req.Name[:])]
	if !ok {
		return trap.Pass()
	}
	return serve(c, n, req.Data)
}
