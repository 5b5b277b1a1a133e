package nic

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
	"tapir/nic/toe"
)

// Where the names of the settings are known from.
const (
	originSiw    = "siw"       // parameters of the Linux siw driver
	originFixed  = "siw build" // what siw fixes when it is built
	originDriver = "FastLinQ"  // of the FastLinQ driver core
	originTapir  = "Tapir"
)

// params is the table of all named settings but those of the TAP and the
// addresses.
var params = slices.Concat(siwParams(), fixedParams(), cmParams(), tcpParams(), ptpParams(), rdmaParams(), irqParams(), engineParams(), ethernetParams(), featureParams(), linkSettings(), boardSettings(), firmwareParams())

func siwParams() []*Param {
	return []*Param{
		boolean(Param{Name: "loopback_enabled", Origin: originSiw, Runtime: true,
			Help: "RDMA connections of the NIC to its own addresses; they never reach the wire"},
			func(c *Config) *bool { return &c.NoLoopback }, true),
		crcRequired(),
		crcStrict(),
		boolean(Param{Name: "zcopy_tx", Origin: originSiw, Runtime: true,
			Help: "without CRC, long Writes and Sends are sent again from the memory region instead of from a copy"},
			func(c *Config) *bool { return &c.IWARP.NoZeroCopy }, true),
		boolean(Param{Name: "tcp_nodelay", Origin: originSiw, Runtime: true,
			Help: "send short segments at once; 0 turns Nagle's algorithm on"},
			func(c *Config) *bool { return &c.TCP.Nagle }, true),
		{Name: "iface_list", Type: "list", Origin: originSiw, Expect: "interface names with commas, or none",
			Help: "wire interfaces that RDMA is attached to; none stands for all",
			get: func(c *Config) string {
				if len(c.IfaceList) == 0 {
					return "none"
				}
				return strings.Join(c.IfaceList, ",")
			},
			set: setIfaceList},
	}
}

func setIfaceList(c *Config, v string) error {
	c.IfaceList = nil
	if v == "none" {
		return nil
	}
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" || len(name) > 15 {
			return errValue
		}
		c.IfaceList = append(c.IfaceList, name)
	}
	return nil
}

// crcRequired and crcStrict share one policy: demanded, agreed to, refused.
func crcRequired() *Param {
	return &Param{Name: "mpa_crc_required", Type: "bool", Expect: "1 or 0", Origin: originSiw, Runtime: true,
		Help: "demand CRC32C of every peer; 0 still agrees to a peer that demands it",
		get:  func(c *Config) string { return bit(c.IWARP.CRC == mpa.CRCRequired) },
		set: func(c *Config, v string) error {
			on, err := strconv.ParseBool(v)
			c.IWARP.CRCRequired = iwarp.Off
			if on {
				c.IWARP.CRCRequired = iwarp.On
			}
			if c.IWARP.CRC != mpa.CRCRefused {
				c.IWARP.CRC = agreed(&c.IWARP)
			}
			return err
		}}
}

func crcStrict() *Param {
	return &Param{Name: "mpa_crc_strict", Type: "bool", Expect: "1 or 0", Origin: originSiw, Runtime: true,
		Help: "refuse peers that demand CRC32C; excludes mpa_crc_required=1",
		get:  func(c *Config) string { return bit(c.IWARP.CRC == mpa.CRCRefused) },
		set: func(c *Config, v string) error {
			on, err := strconv.ParseBool(v)
			c.IWARP.CRC = agreed(&c.IWARP)
			if on {
				c.IWARP.CRC = mpa.CRCRefused
			}
			return err
		}}
}

// agreed is the policy without mpa_crc_strict.
func agreed(c *iwarp.Config) mpa.CRCPolicy {
	if c.CRCRequired == iwarp.Off {
		return mpa.CRCOptional
	}
	return mpa.CRCRequired
}

func fixedParams() []*Param {
	return []*Param{
		number(Param{Name: "mpa_version", Origin: originFixed, Runtime: true, Expect: "1 or 2",
			Help: "MPA revision asked for, and the highest accepted"},
			func(c *Config) *uint8 { return &c.IWARP.Revision }, 2, 1, 2),
		boolean(Param{Name: "peer_to_peer", Origin: originFixed, Runtime: true,
			Help: "ask for the peer-to-peer model: a ready-to-receive indication lets the accepting side send first"},
			func(c *Config) *bool { return &c.IWARP.PeerToPeer }, false),
		bits(Param{Name: "rtr_type", Origin: originFixed, Runtime: true,
			Help: "zero-length messages that may be the ready-to-receive indication"},
			func(c *Config) *mpa.RTR { return &c.IWARP.RTR }, mpa.RTRAny, false,
			named[mpa.RTR]{"send", mpa.RTRSend}, named[mpa.RTR]{"write", mpa.RTRWrite}, named[mpa.RTR]{"read", mpa.RTRRead}),
		boolean(Param{Name: "relaxed_ird_negotiation", Origin: originFixed, Runtime: true,
			Help: "cut ORD to what the peer serves; 0 ends a connection whose sides want different numbers of Reads"},
			func(c *Config) *bool { return &c.IWARP.StrictReads }, true),
		boolean(Param{Name: "try_gso", Origin: originFixed, Runtime: true,
			Help: "FPDUs of several segments if the peer offers them too (a bit that RFC 5044 reserves)"},
			func(c *Config) *bool { return &c.IWARP.GSO }, false),
		boolean(Param{Name: "siw_tcp_nagle", Origin: originFixed, Runtime: true,
			Help: "the contrary of tcp_nodelay"},
			func(c *Config) *bool { return &c.TCP.Nagle }, false),
	}
}

func cmParams() []*Param {
	second := time.Second
	return []*Param{
		boolean(Param{Name: "mpa_markers", Origin: originTapir, Runtime: true,
			Help: "demand MPA markers from peers"},
			func(c *Config) *bool { return &c.IWARP.Markers }, false),
		boolean(Param{Name: "mpa_fallback", Origin: originTapir, Runtime: true,
			Help: "try again with mpa_version 1 when a peer closes on a request of version 2"},
			func(c *Config) *bool { return &c.IWARP.Fallback }, false),
		boolean(Param{Name: "ooo_placement", Origin: originTapir, Runtime: true,
			Help: "place segments that arrive out of order at once, if there is a CRC; 0 holds them until the gap in front closes"},
			func(c *Config) *bool { return &c.IWARP.InOrder }, true),
		depth("ird", "Reads served per queue pair at a time, if the application names no number",
			func(c *Config) *uint16 { return &c.IWARP.IRD }),
		depth("ord", "Reads issued per queue pair at a time, if the application names no number",
			func(c *Config) *uint16 { return &c.IWARP.ORD }),
		number(Param{Name: "max_ird", Origin: originDriver, Help: "the most that an application may name for ird; siw: 128"},
			func(c *Config) *int { return &c.RDMA.MaxIRD }, maxReads, 1, 1024),
		number(Param{Name: "max_ord", Origin: originDriver, Help: "the most that an application may name for ord; siw: 128"},
			func(c *Config) *int { return &c.RDMA.MaxORD }, maxReads, 1, 1024),
		duration(Param{Name: "mpa_request_timeout", Origin: originTapir, Runtime: true,
			Help: "how long a peer may take for its MPA request"},
			func(c *Config) *time.Duration { return &c.IWARP.RequestTimeout }, 5*second, time.Hour, false),
		duration(Param{Name: "mpa_reply_timeout", Origin: originTapir, Runtime: true,
			Help: "how long a peer, and the application behind it, may take for the MPA reply"},
			func(c *Config) *time.Duration { return &c.IWARP.ReplyTimeout }, 10*second, time.Hour, false),
		duration(Param{Name: "close_timeout", Origin: originTapir, Runtime: true,
			Help: "time without progress after which a graceful disconnect turns abortive"},
			func(c *Config) *time.Duration { return &c.IWARP.CloseTimeout }, 5*second, time.Hour, false),
		bits(Param{Name: "dprint", Origin: originSiw, Runtime: true,
			Help: "topics that tapir show NIC log has lines about"},
			func(c *Config) *msglog.Msglvl { return &c.Msglvl }, 0, true, topics()...),
		msglvl(),
		duration(Param{Name: "first_delay", Origin: originTapir, Runtime: true,
			Help: "time to wait with the first FPDU of a connection that the NIC opens"},
			func(c *Config) *time.Duration { return &c.IWARP.FirstDelay }, 0, second, true),
		orNever(Param{Name: "nudge", Help: "silence of the peer after the NIC's first FPDU that makes it send a zero-length Write, for siw as server"},
			func(c *Config) *time.Duration { return &c.IWARP.Nudge }, defaultNudge, time.Second),
		orNever(Param{Name: "send_first", Help: "silence of a client after which an unmodified program that serves may send first, for siw as client"},
			func(c *Config) *time.Duration { return &c.IWARP.SendFirst }, defaultSendFirst, time.Minute),
	}
}

func topics() (words []named[msglog.Msglvl]) {
	for _, n := range msglog.TopicNames {
		words = append(words, named[msglog.Msglvl]{n.Name, msglog.Msglvl(n.Topic)})
	}
	return words
}

// msglvl is the whole word of which dprint names the bits.
func msglvl() *Param {
	return &Param{Name: "msglvl", Type: "number", Origin: originDriver, Runtime: true, Expect: "a word of 32 bits, such as 0x80000000",
		Help: "topics of dprint as bits, or the level of lines of any topic: 0x40000000 INFO, 0x80000000 NOTICE, 0xc0000000 ERR",
		get:  func(c *Config) string { return fmt.Sprintf("0x%08x", c.Msglvl.Word()) },
		set: func(c *Config, v string) error {
			n, err := strconv.ParseUint(v, 0, 32)
			if err != nil {
				return errValue
			}
			c.Msglvl = msglog.Msglvl(msglog.Msglvl(n).Word())
			return nil
		}}
}

// maxReads is what FastLinQ devices allow, each way.
const maxReads = 32

// depth makes a setting of a number of Reads, of which 0 is a value.
func depth(name, help string, field func(*Config) *uint16) *Param {
	p := number(Param{Name: name, Origin: originTapir, Runtime: true, Help: help}, field, maxReads, 0, 1024)
	get, set := p.get, p.set
	p.get = func(c *Config) string {
		if *field(c) == cm.NoReads {
			return "0"
		}
		return get(c)
	}
	p.set = func(c *Config, v string) error {
		err := set(c, v)
		if err == nil && *field(c) == 0 {
			*field(c) = cm.NoReads
		}
		return err
	}
	return p
}

// defaultNudge is longer than a peer near by takes to answer, and shorter than
// anybody notices.
const defaultNudge = 5 * time.Millisecond

// defaultSendFirst leaves siw the time to take the MPA reply in: it ends a
// connection on which more is there by then.
const defaultSendFirst = 200 * time.Millisecond

// orNever makes the setting of a time of which 0, not the default, says never.
func orNever(p Param, field func(*Config) *time.Duration, def, high time.Duration) *Param {
	p.Origin, p.Runtime = originTapir, true
	made := duration(p, field, def, high, true)
	get, set := made.get, made.set
	made.get = func(c *Config) string {
		if *field(c) < 0 {
			return "0"
		}
		return get(c)
	}
	made.set = func(c *Config, v string) error {
		err := set(c, v)
		if err == nil && *field(c) == 0 {
			*field(c) = iwarp.Never
		}
		return err
	}
	return made
}

func tcpParams() []*Param {
	day := 24 * time.Hour
	return []*Param{
		number(Param{Name: "iwarp_rcv_wnd_size", Origin: originDriver, Expect: "a receive window of 65536 to 1073741824 octets",
			Help: "TCP receive window in octets"},
			func(c *Config) *int { return &c.TCP.RcvWnd }, 1<<20, 64<<10, 1<<30),
		choice(Param{Name: "congestion", Origin: originTapir, Runtime: true, Help: "TCP congestion control"},
			func(c *Config) *toe.Congestion { return &c.TCP.Congestion },
			named[toe.Congestion]{"cubic", toe.Cubic}, named[toe.Congestion]{"reno", toe.Reno}),
		choice(Param{Name: "ecn", Origin: originTapir, Runtime: true, Help: "explicit congestion notification"},
			func(c *Config) *toe.ECN { return &c.TCP.ECN },
			named[toe.ECN]{"accept", toe.ECNAccept}, named[toe.ECN]{"ask", toe.ECNAsk}, named[toe.ECN]{"off", toe.ECNOff}),
		number(Param{Name: "tos", Origin: originTapir, Runtime: true, Expect: "a type of service from 0 to 255 (DSCP times 4)",
			Help: "type of service of TCP packets, DSCP times 4"},
			func(c *Config) *uint8 { return &c.TCP.TOS }, 0, 0, 255),
		duration(Param{Name: "user_timeout", Origin: originTapir, Runtime: true,
			Help: "time without progress that ends a TCP connection; without it retransmissions count"},
			func(c *Config) *time.Duration { return &c.TCP.UserTimeout }, 0, day, true),
		duration(Param{Name: "keepalive", Origin: originTapir, Runtime: true,
			Help: "idle time before TCP keep-alive probes"},
			func(c *Config) *time.Duration { return &c.TCP.KeepAlive }, 0, day, true),
		number(Param{Name: "ka_max_probe_cnt", Origin: originDriver, Runtime: true, Expect: "a number of probes from 1 to 255",
			Help: "unanswered keep-alive probes that end a connection"},
			func(c *Config) *int { return &c.TCP.KeepAliveProbes }, 9, 1, 255),
		number(Param{Name: "max_fin_rt", Origin: originDriver, Runtime: true, Expect: "a number of retransmissions from 1 to 255",
			Help: "retransmissions of a FIN before giving up"},
			func(c *Config) *int { return &c.TCP.FinRetries }, 10, 1, 255),
		duration(Param{Name: "time_wait", Origin: originTapir, Help: "stay in TIME-WAIT"},
			func(c *Config) *time.Duration { return &c.TCP.TimeWait }, time.Minute, day, false),
	}
}
