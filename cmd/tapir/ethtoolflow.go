package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/nic"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/wire/ip"
)

// flowOptions show and change which packets go where.
func flowOptions() []ethtoolOption {
	show := "rules of received packets; rule N; rx-flow-hash tcp4|udp4|tcp6|udp6"
	change := "change them: flow-type tcp4 dst-port 80 action 2 [loc N]; delete N; rx-flow-hash udp4 sdfn"
	operands := "flow-type TYPE ...|delete N|rx-flow-hash TYPE FIELDS"
	return []ethtoolOption{
		{short: "n", long: "show-nfc", example: "-n nic0 rx-flow-hash udp4", usage: show, operands: "rule N|rx-flow-hash TYPE", run: printNFC},
		{short: "u", long: "show-ntuple", example: "-u nic0", usage: "the same", operands: "rule N|rx-flow-hash TYPE", run: printNFC},
		{short: "N", long: "config-nfc", example: "-N nic0 flow-type tcp4 dst-port 80 action 1", usage: change, operands: operands, run: setNFC},
		{short: "U", long: "config-ntuple", example: "-U nic0 delete 255", usage: "the same", operands: operands, run: setNFC},
	}
}

// flowType is what ethtool calls a kind of packets.
type flowType struct {
	word, rule string // in rules; empty: there are none
	flows      string // in the fields of the hash
	proto      uint8
	v6         bool
	hash       l2.HashTypes // that has its ports, too; 0: not hashed beyond the addresses
}

var flowTypes = []flowType{
	{"tcp4", "TCP over IPv4", "TCP over IPV4", ip.ProtoTCP, false, l2.HashIPv4TCP},
	{"udp4", "UDP over IPv4", "UDP over IPV4", ip.ProtoUDP, false, l2.HashIPv4UDP},
	{"tcp6", "TCP over IPv6", "TCP over IPV6", ip.ProtoTCP, true, l2.HashIPv6TCP},
	{"udp6", "UDP over IPv6", "UDP over IPV6", ip.ProtoUDP, true, l2.HashIPv6UDP},
}

func findFlowType(word string) *flowType {
	for i := range flowTypes {
		if flowTypes[i].word == word {
			return &flowTypes[i]
		}
	}
	return nil
}

func printNFC(cmd *cobra.Command, d *netdev, operands []string) error {
	if err := d.notHost("Cannot get RX rings"); err != nil {
		return err
	}
	var b strings.Builder
	switch {
	case len(operands) == 0:
		fmt.Fprintf(&b, "%d RX rings available\nTotal %d rules\n\n", d.nic.Channels.Combined, len(d.nic.Rules))
		for _, r := range byLocation(d.nic.Rules) {
			printRule(&b, &r)
		}
	case len(operands) == 2 && operands[0] == "rule":
		n, err := count(operands[1])
		if err != nil {
			return usagef("ethtool (-n): invalid value '%s' for parameter 'rule'", operands[1])
		}
		i := slices.IndexFunc(d.nic.Rules, func(r qede.Rule) bool { return uint64(r.Location) == n })
		if i < 0 {
			return fmt.Errorf("rxclass: Cannot get RX class rule: there is no rule %d", n)
		}
		printRule(&b, &d.nic.Rules[i])
	case len(operands) == 2 && operands[0] == "rx-flow-hash":
		t := findFlowType(operands[1])
		if t == nil {
			return usagef("ethtool (-n): invalid value '%s' for parameter 'rx-flow-hash': choose tcp4, udp4, tcp6 or udp6", operands[1])
		}
		fmt.Fprintf(&b, "%s flows use these fields for computing Hash flow key:\n%s\n", t.flows, hashFields(d.nic.RSS.Hashes, t))
	default:
		return usagef("-n takes rule N or rx-flow-hash TYPE: see: tapir ethtool --help")
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

func byLocation(rules []qede.Rule) []qede.Rule {
	return slices.SortedFunc(slices.Values(rules), func(a, b qede.Rule) int { return a.Location - b.Location })
}

// hashFields are the fields that packets are hashed by, a line each.
func hashFields(have l2.HashTypes, t *flowType) string {
	l3 := l2.HashIPv4
	if t.v6 {
		l3 = l2.HashIPv6
	}
	switch {
	case have&t.hash != 0:
		return "IP SA\nIP DA\nL4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n"
	case have&l3 != 0:
		return "IP SA\nIP DA\n"
	}
	return "None"
}

// printRule writes a rule; a mask has a bit for each that is not compared.
func printRule(b *strings.Builder, r *qede.Rule) {
	i := slices.IndexFunc(flowTypes, func(t flowType) bool { return t.proto == r.Proto && t.v6 == r.V6 })
	t := &flowTypes[max(0, i)]
	anyAddr, anyMask, service := "0.0.0.0", "255.255.255.255", "TOS"
	if t.v6 {
		anyAddr, anyMask, service = "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "Traffic Class"
	}
	addr := func(name string, a netip.Addr) {
		if a.IsValid() {
			fmt.Fprintf(b, "\t%s IP addr: %v mask: %s\n", name, a, anyAddr)
		} else {
			fmt.Fprintf(b, "\t%s IP addr: %s mask: %s\n", name, anyAddr, anyMask)
		}
	}
	port := func(name string, p uint16) {
		mask := 0
		if p == 0 {
			mask = 0xffff
		}
		fmt.Fprintf(b, "\t%s port: %d mask: 0x%x\n", name, p, mask)
	}
	fmt.Fprintf(b, "Filter: %d\n\tRule Type: %s\n", r.Location, t.rule)
	addr("Src", r.Src)
	addr("Dest", r.Dst)
	fmt.Fprintf(b, "\t%s: 0x0 mask: 0xff\n", service)
	port("Src", r.SrcPort)
	port("Dest", r.DstPort)
	if r.Drop {
		b.WriteString("\tAction: Drop\n\n")
	} else {
		fmt.Fprintf(b, "\tAction: Direct to queue %d\n\n", r.Queue)
	}
}

// setNFC is ethtool -N.
func setNFC(cmd *cobra.Command, d *netdev, operands []string) error {
	if err := d.notHost("Cannot insert classification rule"); err != nil {
		return err
	}
	if len(operands) > 1 {
		switch operands[0] {
		case "flow-type":
			return addRule(cmd, d, operands[1:])
		case "delete":
			return deleteRule(cmd, d, operands[1:])
		case "rx-flow-hash":
			return setFlowHash(cmd, d, operands[1:])
		}
	}
	return usagef("-N takes flow-type, delete or rx-flow-hash: tapir ethtool -N %s flow-type tcp4 dst-port 80 action 2: see: tapir ethtool --help", d.name)
}

// addRule inserts a rule, at the last free place unless one is named.
func addRule(cmd *cobra.Command, d *netdev, operands []string) error {
	const failed = "rmgr: Cannot insert RX class rule"
	t := findFlowType(operands[0])
	if t == nil {
		return usagef("Add rule, invalid syntax: flow-type '%s': choose tcp4, udp4, tcp6 or udp6", operands[0])
	}
	words, err := pairs("-N", operands[1:], func(s string) (string, error) { return s, nil },
		"src-ip", "dst-ip", "src-port", "dst-port", "action", "loc")
	if err != nil {
		return err
	}
	loc, named := words["loc"]
	at, err := count(cmp.Or(loc, "0"))
	if err != nil {
		return usagef("ethtool (-N): invalid value '%s' for parameter 'loc'", loc)
	}
	rest := t.word
	for _, name := range []string{"src-ip", "dst-ip", "src-port", "dst-port"} {
		if words[name] != "" {
			rest += " " + name + " " + words[name]
		}
	}
	rest += " action " + cmp.Or(words["action"], "0")
	if _, err := nic.ParseRule("0 " + rest); err != nil {
		return usagef("Add rule, invalid syntax: '%s': expected flow-type %s with src-ip, dst-ip, src-port, dst-port, action and loc", strings.Join(operands, " "), t.word)
	}
	err = d.changeRules(cmd, failed, func(rules []qede.Rule) (string, error) {
		free := true
		if !named {
			at, free = lastFree(rules, d.nic.MaxRules)
		}
		if !free && d.nic.MaxRules > 0 { // a NIC without places says itself why
			return "", fmt.Errorf("%s: all %d places are in use", failed, d.nic.MaxRules)
		}
		return ruleList(byLocation(rules), fmt.Sprintf("%d %s", at, rest)), nil
	})
	if err != nil || named {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Added rule with ID %d\n", at)
	return err
}

// changeRules sets the rules that change makes of those there are, once more
// if somebody else has changed them in between.
func (d *netdev) changeRules(cmd *cobra.Command, failed string, change func([]qede.Rule) (string, error)) error {
	for {
		rules, err := change(d.nic.Rules)
		if err != nil {
			return err
		}
		err = d.set(cmd, failed, ctl.Setting{Name: "ntuple", Value: rules, Was: ruleList(d.nic.Rules)})
		if !ctl.IsConflict(err) {
			return err
		}
		d.nic = &nic.EthtoolInfo{}
		if err := d.client.Show(cmd.Context(), "ethtool", d.nic); err != nil {
			return fmt.Errorf("%s: %w", failed, err)
		}
	}
}

// lastFree is the free place of the least priority.
func lastFree(rules []qede.Rule, places int) (at uint64, ok bool) {
	for at := places - 1; at >= 0; at-- {
		if !slices.ContainsFunc(rules, func(r qede.Rule) bool { return r.Location == at }) {
			return uint64(at), true
		}
	}
	return 0, false
}

// ruleList is the value of the setting of rules.
func ruleList(rules []qede.Rule, more ...string) string {
	var list []string
	for _, r := range rules {
		list = append(list, nic.FormatRule(r))
	}
	if list = append(list, more...); list == nil {
		return "none"
	}
	return strings.Join(list, ",")
}

func deleteRule(cmd *cobra.Command, d *netdev, operands []string) error {
	n, err := count(operands[0])
	if err != nil || len(operands) > 1 {
		return usagef("ethtool (-N): invalid value '%s' for parameter 'delete'", strings.Join(operands, " "))
	}
	const failed = "rmgr: Cannot delete RX class rule"
	return d.changeRules(cmd, failed, func(rules []qede.Rule) (string, error) {
		left := slices.DeleteFunc(slices.Clone(rules), func(r qede.Rule) bool { return uint64(r.Location) == n })
		if len(left) == len(rules) {
			return "", fmt.Errorf("%s: there is no rule %d", failed, n)
		}
		return ruleList(left), nil
	})
}

// setFlowHash has ports hashed, or not: as with the driver qede those of UDP
// alone are up to the user.
func setFlowHash(cmd *cobra.Command, d *netdev, operands []string) error {
	const failed = "Cannot change RX network flow hashing options"
	if len(operands) != 2 {
		return usagef("ethtool (-N): rx-flow-hash takes a type and fields: tapir ethtool -N %s rx-flow-hash udp4 sdfn", d.name)
	}
	t := findFlowType(operands[0])
	if t == nil {
		return usagef("ethtool (-N): invalid value '%s' for parameter 'rx-flow-hash': choose tcp4, udp4, tcp6 or udp6", operands[0])
	}
	fields := []byte(operands[1])
	if strings.Trim(operands[1], "mvtsdfnr") != "" {
		return usagef("ethtool (-N): invalid value '%s' for parameter '%s': fields are letters of mvtsdfnr", operands[1], t.word)
	}
	slices.Sort(fields)
	have := d.nic.RSS.Hashes
	switch set := string(slices.Compact(fields)); {
	case set == "dfns":
		have |= t.hash
	case set == "ds" && t.proto == ip.ProtoUDP:
		have &^= t.hash
	case t.proto == ip.ProtoUDP:
		return fmt.Errorf("%s: UDP is hashed by sd or sdfn", failed)
	default:
		return fmt.Errorf("%s: TCP is hashed by sdfn", failed)
	}
	if have == d.nic.RSS.Hashes {
		return nil
	}
	return d.set(cmd, failed, ctl.Setting{Name: "rss_hash", Value: hashNames(have)})
}

// hashNames is the value of the setting of hash types.
func hashNames(h l2.HashTypes) string {
	var names []string
	for i, name := range []string{"ipv4", "ipv6", "tcp4", "tcp6", "udp4", "udp6"} {
		if h&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
