// Package settings holds the named settings of a NIC but for those of its
// hardware, its TAPs and its addresses.
package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/toe"
)

// Bound are the fields of a NIC's configuration that have names.
type Bound struct {
	NoLoopback *bool
	IfaceList  *[]string
	Msglvl     *msglog.Msglvl
	IWARP      *iwarp.Config
	TCP        *toe.Config
	RDMA       *RDMA
	PHC        *PHC
	PTP        *PTP
	DCB        *DCB
}

// Rows are their settings, in the order of the documents.
func (c *Bound) Rows() []*param.Row {
	rows := slices.Concat(c.siwRows(), c.fixedRows())
	for i := range Aliases {
		rows = append(rows, Aliases[i].Row(rows))
	}
	return slices.Concat(rows, c.cmRows(), c.tcpRows(), clockRows(c.PHC, c.PTP), c.rdmaRows(), c.dcbRows())
}

// Aliases are second names of settings. Those that share a field without being
// aliases: mpa_crc_required and mpa_crc_strict, two halves of one policy, and
// dprint and msglvl, the topics of a word and the word.
var Aliases = [...]param.Alias{
	{Name: "siw_tcp_nagle", Of: "tcp_nodelay", Origin: param.SiwBuild, Inverse: true},
}

func (c *Bound) siwRows() []*param.Row {
	return []*param.Row{
		param.Bool(param.Row{Name: "loopback_enabled", Origin: param.Siw, Runtime: true,
			Help: "RDMA connections of the NIC to its own addresses; they never reach the wire"},
			c.NoLoopback, true),
		c.crcRequired(),
		c.crcStrict(),
		param.Bool(param.Row{Name: "zcopy_tx", Origin: param.Siw, Runtime: true,
			Help: "without CRC, long Writes, Sends and Read Responses are sent from the memory region itself, also " +
				"again; 0: from a copy"},
			&c.IWARP.NoZeroCopy, true),
		param.Bool(param.Row{Name: "tcp_nodelay", Origin: param.Siw, Runtime: true,
			Help: "send short segments at once; 0 turns Nagle's algorithm on"},
			&c.TCP.Nagle, true),
		param.Text(param.Row{Name: "iface_list", Type: "list", Origin: param.Siw,
			Expect: "up to 12 interface names with commas, or none",
			Help:   "wire interfaces that RDMA is attached to; none stands for all"},
			func() string {
				if len(*c.IfaceList) == 0 {
					return "none"
				}
				return strings.Join(*c.IfaceList, ",")
			},
			c.setIfaceList),
	}
}

// maxIfaces is siw's limit of the list.
const maxIfaces = 12

func (c *Bound) setIfaceList(v string) error {
	*c.IfaceList = nil
	if v == "none" {
		return nil
	}
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" || len(name) > 15 {
			return param.ErrValue
		}
		*c.IfaceList = append(*c.IfaceList, name)
	}
	if len(*c.IfaceList) > maxIfaces {
		return param.ErrValue
	}
	return nil
}

// crcRequired and crcStrict share one policy: demanded, agreed to, refused.
func (c *Bound) crcRequired() *param.Row {
	return param.Text(param.Row{Name: "mpa_crc_required", Type: "bool", Expect: "1 or 0", Origin: param.Siw,
		Runtime: true,
		Help:    "demand CRC32C of every peer; 0 still agrees to a peer that demands it"},
		func() string { return param.Bit(c.IWARP.CRC == mpa.CRCRequired) },
		func(v string) error {
			on, err := strconv.ParseBool(v)
			c.IWARP.CRCRequired = iwarp.Off
			if on {
				c.IWARP.CRCRequired = iwarp.On
			}
			if c.IWARP.CRC != mpa.CRCRefused {
				c.IWARP.CRC = agreed(c.IWARP)
			}
			return err
		})
}

func (c *Bound) crcStrict() *param.Row {
	return param.Text(param.Row{Name: "mpa_crc_strict", Type: "bool", Expect: "1 or 0", Origin: param.Siw,
		Runtime: true,
		Help:    "refuse peers that demand CRC32C; excludes mpa_crc_required=1"},
		func() string { return param.Bit(c.IWARP.CRC == mpa.CRCRefused) },
		func(v string) error {
			on, err := strconv.ParseBool(v)
			c.IWARP.CRC = agreed(c.IWARP)
			if on {
				c.IWARP.CRC = mpa.CRCRefused
			}
			return err
		})
}

// agreed is the policy without mpa_crc_strict.
func agreed(c *iwarp.Config) mpa.CRCPolicy {
	if c.CRCRequired == iwarp.Off {
		return mpa.CRCOptional
	}
	return mpa.CRCRequired
}

func (c *Bound) fixedRows() []*param.Row {
	return []*param.Row{
		param.Number(param.Row{Name: "mpa_version", Origin: param.SiwBuild, Runtime: true, Expect: "1 or 2",
			Help: "MPA revision asked for, and the highest accepted"},
			&c.IWARP.Revision, 2, 1, 2),
		param.Bool(param.Row{Name: "peer_to_peer", Origin: param.SiwBuild, Runtime: true,
			Help: "ask for the peer-to-peer model: a ready-to-receive indication lets the accepting side send first"},
			&c.IWARP.PeerToPeer, false),
		param.Bits(param.Row{Name: "rtr_type", Origin: param.SiwBuild, Runtime: true,
			Help: "zero-length messages that may be the ready-to-receive indication"},
			&c.IWARP.RTR, mpa.RTRAny, false,
			param.Named("send", mpa.RTRSend), param.Named("write", mpa.RTRWrite), param.Named("read", mpa.RTRRead)),
		param.Bool(param.Row{Name: "relaxed_ird_negotiation", Origin: param.SiwBuild, Runtime: true,
			Help: "cut ORD to what the peer serves; 0 ends a connection whose sides want different numbers of Reads"},
			&c.IWARP.StrictReads, true),
		param.Bool(param.Row{Name: "try_gso", Origin: param.SiwBuild, Runtime: true,
			Help: "FPDUs of several segments if the peer offers them too (a bit that RFC 5044 reserves)"},
			&c.IWARP.GSO, false),
	}
}

func (c *Bound) cmRows() []*param.Row {
	second := time.Second
	return []*param.Row{
		param.Bool(param.Row{Name: "mpa_markers", Origin: param.Tapir, Runtime: true,
			Help: "demand MPA markers from peers"},
			&c.IWARP.Markers, false),
		param.Bool(param.Row{Name: "mpa_fallback", Origin: param.Tapir, Runtime: true,
			Help: "try again with mpa_version 1 when a peer closes on a request of version 2"},
			&c.IWARP.Fallback, false),
		param.Bool(param.Row{Name: "ooo_placement", Origin: param.Tapir, Runtime: true,
			Help: "place segments that arrive out of order at once, if there is a CRC; 0 holds them until the gap " +
				"in front closes"}, &c.IWARP.InOrder, true),
		depth("ird", "Reads served per queue pair at a time, if the application names no number",
			&c.IWARP.IRD),
		depth("ord", "Reads issued per queue pair at a time, if the application names no number",
			&c.IWARP.ORD),
		param.Number(param.Row{Name: "max_ird", Origin: param.FastLinQ,
			Help: "the most that an application may name for ird; siw: 128"},
			&c.RDMA.MaxIRD, MaxReads, 1, 1024),
		param.Number(param.Row{Name: "max_ord", Origin: param.FastLinQ,
			Help: "the most that an application may name for ord; siw: 128"},
			&c.RDMA.MaxORD, MaxReads, 1, 1024),
		param.Duration(param.Row{Name: "mpa_request_timeout", Origin: param.Tapir, Runtime: true,
			Help: "how long a peer may take for its MPA request"},
			&c.IWARP.RequestTimeout, 5*second, time.Hour, false),
		param.Number(param.Row{Name: "mpa_silent_share", Origin: param.Tapir, Runtime: true,
			Expect: "a percentage from 1 to 100",
			Help: "percentage of a listener's backlog that one IPv4 address, or IPv6 /64, may hold with connections " +
				"that send no MPA request, when others need room"},
			&c.IWARP.SilentShare, 50, 1, 100),
		param.Bool(param.Row{Name: "listen_paused", Origin: param.FastLinQ, Runtime: true,
			Help: "listeners take no new connections: SYNs are dropped, peers go on asking (pause_listen)"},
			&c.IWARP.ListenPaused, false),
		param.Duration(param.Row{Name: "mpa_reply_timeout", Origin: param.Tapir, Runtime: true,
			Help: "how long a peer, and the application behind it, may take for the MPA reply"},
			&c.IWARP.ReplyTimeout, 120*second, time.Hour, false),
		param.Duration(param.Row{Name: "close_timeout", Origin: param.Tapir, Runtime: true,
			Help: "time without progress after which a graceful disconnect turns abortive"},
			&c.IWARP.CloseTimeout, 5*second, time.Hour, false),
		param.Bits(param.Row{Name: "dprint", Origin: param.Siw, Runtime: true,
			Help: "topics that tapir show NIC log has lines about"},
			c.Msglvl, 0, true, topics()...),
		c.msglvl(),
		param.Duration(param.Row{Name: "first_delay", Origin: param.Tapir, Runtime: true,
			Help: "time to wait with the first FPDU of a connection that the NIC opens"},
			&c.IWARP.FirstDelay, 0, second, true),
		orNever(param.Row{Name: "nudge", Help: "silence of the peer after the NIC's first FPDU that makes it send a " +
			"zero-length Write, for siw as server"},
			&c.IWARP.Nudge, DefaultNudge, time.Second),
		orNever(
			param.Row{Name: "send_first", Help: "silence of a client after which an unmodified program that serves " +
				"may send first, for siw as client"}, &c.IWARP.SendFirst, DefaultSendFirst, time.Minute),
	}
}

func topics() (words []param.Word[msglog.Msglvl]) {
	for _, n := range msglog.TopicNames {
		words = append(words, param.Named(n.Name, msglog.Msglvl(n.Topic)))
	}
	return words
}

// msglvl is the whole word of which dprint names the bits.
func (c *Bound) msglvl() *param.Row {
	return param.Text(param.Row{Name: "msglvl", Type: "number", Origin: param.FastLinQ, Runtime: true,
		Expect: "a word of 32 bits, such as 0x80000000",
		Help: "topics of dprint as bits, or the level of lines of any topic: 0x40000000 INFO, 0x80000000 NOTICE, " +
			"0xc0000000 ERR"}, func() string { return fmt.Sprintf("0x%08x", c.Msglvl.Word()) },
		func(v string) error {
			n, err := strconv.ParseUint(v, 0, 32)
			if err != nil {
				return param.ErrValue
			}
			*c.Msglvl = msglog.Msglvl(msglog.Msglvl(n).Word())
			return nil
		})
}

// MaxReads is what FastLinQ devices allow, each way.
const MaxReads = 32

// depth makes a setting of a number of Reads, of which 0 is a value.
func depth(name, help string, field *uint16) *param.Row {
	return param.Number(param.Row{Name: name, Origin: param.Tapir, Runtime: true, Help: help}, field, MaxReads, 0,
		1024).
		Wrap(zeroIs(func() bool { return *field == cm.NoReads }), func(v string, set func(string) error) error {
			err := set(v)
			if err == nil && *field == 0 {
				*field = cm.NoReads
			}
			return err
		})
}

// zeroIs shows 0 for a value that stands for it.
func zeroIs(is func() bool) func(get func() string) string {
	return func(get func() string) string {
		if is() {
			return "0"
		}
		return get()
	}
}

// DefaultNudge is longer than a peer near by takes to answer, and shorter than
// anybody notices.
const DefaultNudge = 5 * time.Millisecond

// DefaultSendFirst leaves siw the time to take the MPA reply in: it ends a
// connection on which more is there by then.
const DefaultSendFirst = 200 * time.Millisecond

// DefaultKeepAlive has a program that waits in vain, for a NIC that was killed, learn so
// within two minutes: that of the FastLinQ driver's iWARP is 20 minutes. With nine probes
// DefaultKeepAliveInterval bears a peer that is paused for a minute.
const (
	DefaultKeepAlive         = 30 * time.Second
	DefaultKeepAliveInterval = 10 * time.Second
)

// orNever makes the setting of a time of which 0, not the default, says never.
func orNever(r param.Row, field *time.Duration, def, high time.Duration) *param.Row {
	r.Origin, r.Runtime = param.Tapir, true
	return param.Duration(r, field, def, high, true).
		Wrap(zeroIs(func() bool { return *field < 0 }), func(v string, set func(string) error) error {
			err := set(v)
			if err == nil && *field == 0 {
				*field = iwarp.Never
			}
			return err
		})
}

func (c *Bound) tcpRows() []*param.Row {
	day := 24 * time.Hour
	return []*param.Row{
		param.Number(param.Row{Name: "iwarp_rcv_wnd_size", Origin: param.FastLinQ,
			Expect: "a receive window of 65536 to 1073741824 octets",
			Help:   "TCP receive window in octets"},
			&c.TCP.RcvWnd, 1<<20, 64<<10, 1<<30),
		param.Choice(param.Row{Name: "congestion", Origin: param.Tapir, Runtime: true, Help: "TCP congestion control"},
			&c.TCP.Congestion,
			param.Named("cubic", toe.Cubic), param.Named("reno", toe.Reno), param.Named("dctcp", toe.DCTCP)),
		param.Choice(param.Row{Name: "ecn", Origin: param.Tapir, Runtime: true,
			Help: "explicit congestion notification"},
			&c.TCP.ECN,
			param.Named("accept", toe.ECNAccept), param.Named("ask", toe.ECNAsk), param.Named("off", toe.ECNOff)),
		param.Number(param.Row{Name: "tos", Origin: param.Tapir, Runtime: true,
			Expect: "a type of service from 0 to 255 (DSCP times 4)",
			Help:   "type of service of TCP packets, DSCP times 4"},
			&c.TCP.TOS, 0, 0, 255),
		param.Duration(param.Row{Name: "user_timeout", Origin: param.Tapir, Runtime: true,
			Help: "time without progress that ends a TCP connection; without it retransmissions count"},
			&c.TCP.UserTimeout, 0, day, true),
		orNever(param.Row{Name: "keepalive", Help: "silence of the peer on a connection before TCP keep-alive probes"},
			&c.TCP.KeepAlive, DefaultKeepAlive, day),
		param.Duration(param.Row{Name: "ka_interval", Origin: param.FastLinQ, Runtime: true,
			Help: "time between keep-alive probes"},
			&c.TCP.KeepAliveInterval, DefaultKeepAliveInterval, time.Hour, false),
		param.Number(param.Row{Name: "ka_max_probe_cnt", Origin: param.FastLinQ, Runtime: true,
			Expect: "a number of probes from 1 to 255",
			Help:   "unanswered keep-alive probes that end a connection"},
			&c.TCP.KeepAliveProbes, 9, 1, 255),
		param.Number(param.Row{Name: "max_fin_rt", Origin: param.FastLinQ, Runtime: true,
			Expect: "a number of retransmissions from 1 to 255",
			Help:   "retransmissions of a FIN before giving up"},
			&c.TCP.FinRetries, 10, 1, 255),
		param.Duration(param.Row{Name: "time_wait", Origin: param.Tapir, Help: "stay in TIME-WAIT"},
			&c.TCP.TimeWait, time.Minute, day, false),
	}
}
