package settings

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/hardware"
	"tapir/nic/hostfn"
	"tapir/nic/param"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// ethernetRows are the settings of the host function's netdev.
func (c *Config) ethernetRows() []*param.Row {
	all := append(c.netdevRows(), c.vportRows()...)
	for _, r := range all {
		r.Host, r.Origin, r.Runtime = true, param.FastLinQ, true
	}
	return all
}

func (c *Config) netdevRows() []*param.Row {
	return []*param.Row{
		param.Choice(
			param.Row{Name: "rx_mode",
				Help: "frames that the host TAP gets: all, all groups, or those of its station and filters"},
			&c.Ethernet.RxMode,
			param.Named("promisc", RxPromisc), param.Named("allmulti", RxAllMulti), param.Named("regular", RxRegular)),
		addresses(
			param.Row{Name: "rx_macs",
				Help: "stations beside the NIC's own whose frames the host TAP gets; too many make it promiscuous"},
			&c.Ethernet.Ucast),
		addresses(param.Row{Name: "rx_groups",
			Help: "multicast addresses whose frames the host TAP gets; more than 64 let all pass"}, &c.Ethernet.Mcast),
		param.List(param.Row{Name: "rx_vlans", Expect: "VLAN ids with commas, or all",
			Help: "VLANs whose frames the host TAP gets, beside frames without a tag; more than 64 let all pass"},
			"all", &c.Ethernet.VLANs, parseVLAN, func(v uint16) string { return strconv.Itoa(int(v)) }),
		param.Number(param.Row{Name: "channels", Help: "queue pairs of the host TAP in use, 0 for all"},
			&c.Ethernet.Channels, 0, 0, hardware.MaxQueues),
		param.Number(param.Row{Name: "rx_ring", Help: "frames that a receive queue of the host TAP holds"},
			&c.Ethernet.RxRing, ringSize, l2.MinRing, l2.MaxRing),
		param.Number(param.Row{Name: "tx_ring", Help: "frames that a transmit queue of the host TAP holds"},
			&c.Ethernet.TxRing, ringSize, l2.MinRing, l2.MaxRing),
		param.Bits(
			param.Row{Name: "rss_hash",
				Help: "packets that RSS spreads over the queues; those with a transport by their ports"},
			&c.Ethernet.Hashes, l2.DefaultHash, false,
			param.Named("ipv4", l2.HashIPv4), param.Named("ipv6", l2.HashIPv6), param.Named("tcp4", l2.HashIPv4TCP),
			param.Named("tcp6", l2.HashIPv6TCP), param.Named("udp4", l2.HashIPv4UDP),
			param.Named("udp6", l2.HashIPv6UDP)),
		c.rssKey(),
		param.List(param.Row{Name: "rss_table", Expect: "queues with commas, at most 128, or equal",
			Help: "queue of each entry of the indirection table, repeated to 128; equal: all in turn"},
			"equal", &c.Ethernet.Table, strconv.Atoi, strconv.Itoa),
		param.List(param.Row{Name: "ntuple", Expect: "rules such as 0 tcp4 dst-port 80 action 1, with commas, or none",
			Help: "rules that send packets to a queue, or with action -1 drop them; all compare the same fields"},
			"none", &c.Ethernet.Rules, ParseRule, FormatRule),
		param.Number(param.Row{Name: "pvid", Help: "VLAN of frames that the host TAP sends without a tag, 0 for none"},
			&c.Ethernet.PVID, 0, 0, 4094),
		param.Bool(
			param.Row{Name: "spoof_check", Help: "drop what the host TAP sends with the address of another station"},
			&c.Ethernet.SpoofCheck, false),
		param.Bool(param.Row{Name: "drop_ttl0", Help: "drop packets for the host TAP whose time to live is 0"},
			&c.Ethernet.DropTTL0, false),
		param.Number(
			param.Row{Name: "tx_maxrate",
				Help: "what the host TAP may send, in Mb/s; 0: no limit but that of the management firmware"},
			&c.Ethernet.TxMaxRate, 0, 0, l2.MaxRate),
		param.Bool(
			param.Row{Name: "gro_hw", Help: "put TCP segments for the host TAP together; needs frames gso or jumbo"},
			&c.Ethernet.GRO, false),
		param.Number(param.Row{Name: "vxlan_port", Help: "UDP port whose packets are VXLAN, 0 for none"},
			&c.Ethernet.VXLANPort, 0, 0, 65535),
		param.Number(param.Row{Name: "geneve_port", Help: "UDP port whose packets are Geneve, 0 for none"},
			&c.Ethernet.GenevePort, 0, 0, 65535),
		param.Choice(
			param.Row{Name: "tunnel_class", Help: "addresses of tunnels that the filters of the host TAP compare"},
			&c.Ethernet.InnerClass, param.Named("outer", false), param.Named("inner", true)),
	}
}

// vportRows are the settings of its vports.
func (c *Config) vportRows() []*param.Row {
	return []*param.Row{
		param.Bool(param.Row{Name: "silent_vlan", Help: "remove the VLAN tags of what the host TAP gets"},
			&c.Ethernet.SilentVLAN, false),
		param.List(param.Row{Name: "queue_maxrate", Expect: "rates such as 100,0,50, or none",
			Help: "what each queue of the host TAP may send, from the first on, in Mb/s; 0: no limit of its own"},
			"none", &c.Ethernet.TxRates, strconv.Atoi, strconv.Itoa),
		param.List(param.Row{Name: "vports", Expect: "stations such as 02:00:00:00:00:05 or 02:00:00:00:00:05/30 " +
			"with commas, or none",
			Help: "stations of the host TAP with a vport each and the last of its queues, for instance of " +
				"macvlan interfaces; with their weights in WFQ, in percent. Needs rx_mode regular or allmulti"},
			"none", &c.Ethernet.Stations, parseStation, formatStation),
		param.Bool(param.Row{Name: "tx_switching", Help: "keep what a station of one vport sends to that of another " +
			"in the device; 0: it goes to the wire"}, &c.Ethernet.TxSwitching, false),
		param.Bits(param.Row{Name: "control_check", Help: "drop what the host TAP sends to the addresses of link " +
			"protocols (mac), or with the EtherTypes of MAC control and LLDP (type)"},
			&c.Ethernet.Control, 0, true, param.Named("mac", ControlMAC), param.Named("type", ControlType)),
	}
}

func addresses(r param.Row, field *[]ether.Addr) *param.Row {
	r.Expect = "MAC addresses with commas, or none"
	return param.List(r, "none", field, ether.ParseAddr, ether.Addr.String)
}

func parseStation(s string) (st qede.Station, err error) {
	mac, weight, given := strings.Cut(s, "/")
	if st.MAC, err = ether.ParseAddr(mac); err == nil && given {
		st.Weight, err = strconv.Atoi(weight)
	}
	return st, err
}

func formatStation(s qede.Station) string {
	if s.Weight == 0 {
		return s.MAC.String()
	}
	return fmt.Sprintf("%v/%d", s.MAC, s.Weight)
}

func parseVLAN(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > 4094 {
		return 0, param.ErrValue
	}
	return uint16(n), nil
}

func (c *Config) rssKey() *param.Row {
	return param.Text(param.Row{Name: "rss_key", Type: "choice",
		Expect: "40 octets in hexadecimal with colons, or random",
		Help:   "key of the Toeplitz hash; random: a new key at each start"},
		func() string {
			if c.Ethernet.Key == ([l2.KeyLen]byte{}) {
				return "random"
			}
			return strings.ReplaceAll(fmt.Sprintf("% x", c.Ethernet.Key), " ", ":")
		},
		func(v string) error {
			c.Ethernet.Key = [l2.KeyLen]byte{}
			if v == "random" {
				return nil
			}
			b, err := hex.DecodeString(strings.ReplaceAll(v, ":", ""))
			if err != nil || len(b) != l2.KeyLen {
				return param.ErrValue
			}
			copy(c.Ethernet.Key[:], b)
			return nil
		})
}

// flowTypes are ethtool's words for what a rule is about.
var flowTypes = []struct {
	name  string
	proto uint8
	v6    bool
}{{"tcp4", ip.ProtoTCP, false}, {"udp4", ip.ProtoUDP, false}, {"tcp6", ip.ProtoTCP, true}, {"udp6", ip.ProtoUDP, true}}

// ParseRule reads a rule in the words of ethtool -N, its location first: 0 tcp4
// dst-port 80 action 1.
func ParseRule(s string) (r hostfn.Rule, err error) {
	words := strings.Fields(s)
	if len(words) < 4 || len(words)%2 != 0 {
		return r, param.ErrValue
	}
	if r.Location, err = strconv.Atoi(words[0]); err != nil {
		return r, err
	}
	for _, t := range flowTypes {
		if t.name == words[1] {
			r.Proto, r.V6 = t.proto, t.v6
		}
	}
	action := false
	for i := 2; i < len(words); i += 2 {
		if err := ruleField(&r, words[i], words[i+1]); err != nil {
			return r, err
		}
		action = action || words[i] == "action"
	}
	if !action || r.Proto == 0 {
		return r, param.ErrValue
	}
	return r, nil
}

func ruleField(r *hostfn.Rule, word, value string) (err error) {
	var port uint64
	if word == "src-port" || word == "dst-port" {
		if port, err = strconv.ParseUint(value, 10, 16); err != nil || port == 0 {
			return param.ErrValue
		}
	}
	switch word {
	case "src-ip":
		r.Src, err = netip.ParseAddr(value)
	case "dst-ip":
		r.Dst, err = netip.ParseAddr(value)
	case "src-port":
		r.SrcPort = uint16(port)
	case "dst-port":
		r.DstPort = uint16(port)
	case "action":
		r.Queue, err = strconv.Atoi(value)
		if r.Queue < -1 {
			err = param.ErrValue
		}
		if r.Drop = r.Queue == -1; r.Drop {
			r.Queue = 0
		}
	default:
		err = param.ErrValue
	}
	return err
}

// FormatRule is a rule as ParseRule reads it.
func FormatRule(r hostfn.Rule) string {
	s := strconv.Itoa(r.Location)
	for _, t := range flowTypes {
		if t.proto == r.Proto && t.v6 == r.V6 {
			s += " " + t.name
		}
	}
	for _, f := range []struct {
		word string
		have bool
		v    any
	}{{"src-ip", r.Src.IsValid(), r.Src}, {"dst-ip", r.Dst.IsValid(), r.Dst}, {"src-port", r.SrcPort != 0, r.SrcPort},
		{"dst-port", r.DstPort != 0, r.DstPort}} {
		if f.have {
			s += fmt.Sprintf(" %s %v", f.word, f.v)
		}
	}
	if r.Drop {
		return s + " action -1"
	}
	return fmt.Sprintf("%s action %d", s, r.Queue)
}
