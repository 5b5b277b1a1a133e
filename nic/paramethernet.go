package nic

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// ethernetParams are the settings of the host function's netdev.
func ethernetParams() []*Param {
	all := netdevParams()
	for _, p := range all {
		p.host, p.Origin, p.Runtime = true, originDriver, true
	}
	return all
}

func errNoHost(p *Param) error {
	return fmt.Errorf("%s: the NIC has no host TAP: give it one with --host-tap", p.Name)
}

// needHost refuses settings of the host function for a NIC without a host TAP.
func (c *Config) needHost() error {
	for _, p := range params {
		if p.host && p.get(c) != p.get(&Config{}) {
			return errNoHost(p)
		}
	}
	return nil
}

func netdevParams() []*Param {
	return []*Param{
		choice(Param{Name: "rx_mode", Help: "frames that the host TAP gets: all, all groups, or those of its station and filters"},
			func(c *Config) *RxMode { return &c.Ethernet.RxMode },
			named[RxMode]{"promisc", RxPromisc}, named[RxMode]{"allmulti", RxAllMulti}, named[RxMode]{"regular", RxRegular}),
		addresses(Param{Name: "rx_macs", Help: "stations beside the NIC's own whose frames the host TAP gets; too many make it promiscuous"},
			func(c *Config) *[]ether.Addr { return &c.Ethernet.Ucast }),
		addresses(Param{Name: "rx_groups", Help: "multicast addresses whose frames the host TAP gets; more than 64 let all pass"},
			func(c *Config) *[]ether.Addr { return &c.Ethernet.Mcast }),
		list(Param{Name: "rx_vlans", Expect: "VLAN ids with commas, or all", Help: "VLANs whose frames the host TAP gets, beside frames without a tag; more than 64 let all pass"},
			"all", func(c *Config) *[]uint16 { return &c.Ethernet.VLANs }, parseVLAN, func(v uint16) string { return strconv.Itoa(int(v)) }),
		number(Param{Name: "channels", Help: "queue pairs of the host TAP in use, 0 for all"},
			func(c *Config) *int { return &c.Ethernet.Channels }, 0, 0, MaxQueues),
		number(Param{Name: "rx_ring", Help: "frames that a receive queue of the host TAP holds"},
			func(c *Config) *int { return &c.Ethernet.RxRing }, ringSize, l2.MinRing, l2.MaxRing),
		number(Param{Name: "tx_ring", Help: "frames that a transmit queue of the host TAP holds"},
			func(c *Config) *int { return &c.Ethernet.TxRing }, ringSize, l2.MinRing, l2.MaxRing),
		bits(Param{Name: "rss_hash", Help: "packets that RSS spreads over the queues; those with a transport by their ports"},
			func(c *Config) *l2.HashTypes { return &c.Ethernet.Hashes }, l2.DefaultHash, false,
			named[l2.HashTypes]{"ipv4", l2.HashIPv4}, named[l2.HashTypes]{"ipv6", l2.HashIPv6}, named[l2.HashTypes]{"tcp4", l2.HashIPv4TCP},
			named[l2.HashTypes]{"tcp6", l2.HashIPv6TCP}, named[l2.HashTypes]{"udp4", l2.HashIPv4UDP}, named[l2.HashTypes]{"udp6", l2.HashIPv6UDP}),
		rssKey(),
		list(Param{Name: "rss_table", Expect: "queues with commas, at most 128, or equal", Help: "queue of each entry of the indirection table, repeated to 128; equal: all in turn"},
			"equal", func(c *Config) *[]int { return &c.Ethernet.Table }, strconv.Atoi, strconv.Itoa),
		list(Param{Name: "ntuple", Expect: "rules such as 0 tcp4 dst-port 80 action 1, with commas, or none", Help: "rules that send packets to a queue, or with action -1 drop them; all compare the same fields"},
			"none", func(c *Config) *[]qede.Rule { return &c.Ethernet.Rules }, ParseRule, FormatRule),
		number(Param{Name: "pvid", Help: "VLAN of frames that the host TAP sends without a tag, 0 for none"},
			func(c *Config) *uint16 { return &c.Ethernet.PVID }, 0, 0, 4094),
		boolean(Param{Name: "spoof_check", Help: "drop what the host TAP sends with the address of another station"},
			func(c *Config) *bool { return &c.Ethernet.SpoofCheck }, false),
		boolean(Param{Name: "drop_ttl0", Help: "drop packets for the host TAP whose time to live is 0"},
			func(c *Config) *bool { return &c.Ethernet.DropTTL0 }, false),
		number(Param{Name: "tx_maxrate", Help: "what the host TAP may send, in Mb/s; 0: no limit but that of the management firmware"},
			func(c *Config) *int { return &c.Ethernet.TxMaxRate }, 0, 0, l2.MaxRate),
		boolean(Param{Name: "gro_hw", Help: "put TCP segments for the host TAP together; needs frames gso or jumbo"},
			func(c *Config) *bool { return &c.Ethernet.GRO }, false),
		number(Param{Name: "vxlan_port", Help: "UDP port whose packets are VXLAN, 0 for none"},
			func(c *Config) *uint16 { return &c.Ethernet.VXLANPort }, 0, 0, 65535),
		number(Param{Name: "geneve_port", Help: "UDP port whose packets are Geneve, 0 for none"},
			func(c *Config) *uint16 { return &c.Ethernet.GenevePort }, 0, 0, 65535),
		choice(Param{Name: "tunnel_class", Help: "addresses of tunnels that the filters of the host TAP compare"},
			func(c *Config) *bool { return &c.Ethernet.InnerClass }, named[bool]{"outer", false}, named[bool]{"inner", true}),
	}
}

// list makes a setting of a list with commas; none is the word for an empty one.
func list[T any](p Param, none string, field func(*Config) *[]T, parse func(string) (T, error), format func(T) string) *Param {
	p.Type = "list"
	p.get = func(c *Config) string {
		var words []string
		for _, v := range *field(c) {
			words = append(words, format(v))
		}
		if words == nil {
			return none
		}
		return strings.Join(words, ",")
	}
	p.set = func(c *Config, v string) error {
		var values []T
		for word := range strings.SplitSeq(v, ",") {
			if v == none {
				break
			}
			value, err := parse(strings.TrimSpace(word))
			if err != nil {
				return err
			}
			values = append(values, value)
		}
		*field(c) = values
		return nil
	}
	return &p
}

func addresses(p Param, field func(*Config) *[]ether.Addr) *Param {
	p.Expect = "MAC addresses with commas, or none"
	return list(p, "none", field, ether.ParseAddr, ether.Addr.String)
}

func parseVLAN(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > 4094 {
		return 0, errValue
	}
	return uint16(n), nil
}

func rssKey() *Param {
	return &Param{Name: "rss_key", Type: "choice", Expect: "40 octets in hexadecimal with colons, or random",
		Help: "key of the Toeplitz hash; random: by the NIC's name and seed",
		get: func(c *Config) string {
			if c.Ethernet.Key == ([l2.KeyLen]byte{}) {
				return "random"
			}
			return strings.ReplaceAll(fmt.Sprintf("% x", c.Ethernet.Key), " ", ":")
		},
		set: func(c *Config, v string) error {
			c.Ethernet.Key = [l2.KeyLen]byte{}
			if v == "random" {
				return nil
			}
			b, err := hex.DecodeString(strings.ReplaceAll(v, ":", ""))
			if err != nil || len(b) != l2.KeyLen {
				return errValue
			}
			copy(c.Ethernet.Key[:], b)
			return nil
		}}
}

// flowTypes are ethtool's words for what a rule is about.
var flowTypes = []struct {
	name  string
	proto uint8
	v6    bool
}{{"tcp4", ip.ProtoTCP, false}, {"udp4", ip.ProtoUDP, false}, {"tcp6", ip.ProtoTCP, true}, {"udp6", ip.ProtoUDP, true}}

// ParseRule reads a rule in the words of ethtool -N, its location first: 0 tcp4
// dst-port 80 action 1.
func ParseRule(s string) (r qede.Rule, err error) {
	words := strings.Fields(s)
	if len(words) < 4 || len(words)%2 != 0 {
		return r, errValue
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
		return r, errValue
	}
	return r, nil
}

func ruleField(r *qede.Rule, word, value string) (err error) {
	var port uint64
	if word == "src-port" || word == "dst-port" {
		if port, err = strconv.ParseUint(value, 10, 16); err != nil || port == 0 {
			return errValue
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
			err = errValue
		}
		if r.Drop = r.Queue == -1; r.Drop {
			r.Queue = 0
		}
	default:
		err = errValue
	}
	return err
}

// FormatRule is a rule as ParseRule reads it.
func FormatRule(r qede.Rule) string {
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
	}{{"src-ip", r.Src.IsValid(), r.Src}, {"dst-ip", r.Dst.IsValid(), r.Dst}, {"src-port", r.SrcPort != 0, r.SrcPort}, {"dst-port", r.DstPort != 0, r.DstPort}} {
		if f.have {
			s += fmt.Sprintf(" %s %v", f.word, f.v)
		}
	}
	if r.Drop {
		return s + " action -1"
	}
	return fmt.Sprintf("%s action %d", s, r.Queue)
}
