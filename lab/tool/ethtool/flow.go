package ethtool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/nic/hostfn"
	"tapir/nic/view"
	"tapir/wire/enum"
	"tapir/wire/ip"
)

const (
	nfcShow    = "rules of received packets; rule N; rx-flow-hash tcp4|udp4|tcp6|udp6"
	nfcChange  = "change them: flow-type tcp4 dst-port 80 action 2 [loc N]; delete N; rx-flow-hash udp4 sdfn"
	nfcShown   = "rule N|rx-flow-hash TYPE"
	nfcChanged = "flow-type TYPE ...|delete N|rx-flow-hash TYPE FIELDS"
)

// flowOptions show and change which packets go to which queue.
var flowOptions = []Option{
	{Short: "n", Long: "show-nfc", Example: "-n nic0 rx-flow-hash udp4", Usage: nfcShow, Operands: nfcShown,
		run: printNFC},
	{Short: "u", Long: "show-ntuple", Example: "-u nic0", Usage: "the same", Operands: nfcShown, run: printNFC},
	{Short: "N", Long: "config-nfc", Example: "-N nic0 flow-type tcp4 dst-port 80 action 1", Usage: nfcChange,
		Operands: nfcChanged, run: setNFC},
	{Short: "U", Long: "config-ntuple", Example: "-U nic0 delete 255", Usage: "the same", Operands: nfcChanged,
		run: setNFC},
}

// flowType is ethtool's name of a kind of packets.
type flowType struct {
	word, rule string // in rules; empty: there are none
	flows      string // in the fields of the hash
	proto      uint8
	v6         bool
	hash       fastlinq.HashTypes // that has its ports, too; 0: not hashed beyond the addresses
}

var flowTypes = []flowType{
	{"tcp4", "TCP over IPv4", "TCP over IPV4", ip.ProtoTCP, false, fastlinq.HashIPv4TCP},
	{"udp4", "UDP over IPv4", "UDP over IPV4", ip.ProtoUDP, false, fastlinq.HashIPv4UDP},
	{"tcp6", "TCP over IPv6", "TCP over IPV6", ip.ProtoTCP, true, fastlinq.HashIPv6TCP},
	{"udp6", "UDP over IPv6", "UDP over IPV6", ip.ProtoUDP, true, fastlinq.HashIPv6UDP},
}

// findFlowType returns the type of that name, else an error that begins with
// problem.
func findFlowType(word, problem string) (*flowType, error) {
	for i := range flowTypes {
		if flowTypes[i].word == word {
			return &flowTypes[i], nil
		}
	}
	return nil, usage.Errorf("%s: choose tcp4, udp4, tcp6 or udp6", problem)
}

// findHashed is findFlowType for operands of rx-flow-hash.
func findHashed(flag, word string) (*flowType, error) {
	return findFlowType(word, invalid(flag, word, "rx-flow-hash").Error())
}

func printNFC(c *call) error {
	if err := c.needHostTAP("Cannot get RX rings"); err != nil {
		return err
	}
	operands := c.operands
	switch {
	case len(operands) == 0:
		c.printf("%d RX rings available\nTotal %d rules\n\n", c.nic.Channels.Combined, len(c.nic.Rules))
		for _, r := range byLocation(c.nic.Rules) {
			c.printRule(&r)
		}
	case len(operands) == 2 && operands[0] == "rule":
		n, err := count(operands[1])
		if err != nil {
			return invalid("-n", operands[1], "rule")
		}
		i := slices.IndexFunc(c.nic.Rules, func(r hostfn.Rule) bool { return uint64(r.Location) == n })
		if i < 0 {
			return fmt.Errorf("rxclass: Cannot get RX class rule: there is no rule %d", n)
		}
		c.printRule(&c.nic.Rules[i])
	case len(operands) == 2 && operands[0] == "rx-flow-hash":
		t, err := findHashed("-n", operands[1])
		if err != nil {
			return err
		}
		c.printf("%s flows use these fields for computing Hash flow key:\n%s\n", t.flows,
			hashFields(fastlinq.HashTypes(c.nic.RSS.Hashes), t))
	default:
		return usage.Errorf("-n takes rule N or rx-flow-hash TYPE: see: tapir ethtool --help")
	}
	return nil
}

func byLocation(rules []hostfn.Rule) []hostfn.Rule {
	return slices.SortedFunc(slices.Values(rules), func(a, b hostfn.Rule) int { return a.Location - b.Location })
}

// hashFields are the fields that packets are hashed by, a line each.
func hashFields(have fastlinq.HashTypes, t *flowType) string {
	l3 := fastlinq.HashIPv4
	if t.v6 {
		l3 = fastlinq.HashIPv6
	}
	switch {
	case have&t.hash != 0:
		return "IP SA\nIP DA\nL4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n"
	case have&l3 != 0:
		return "IP SA\nIP DA\n"
	}
	return "None"
}

// printRule prints a rule; a mask has a bit for each that is not compared.
func (c *call) printRule(r *hostfn.Rule) {
	i := slices.IndexFunc(flowTypes, func(t flowType) bool { return t.proto == r.Proto && t.v6 == r.V6 })
	t := &flowTypes[max(0, i)]
	anyAddr, anyMask, service := "0.0.0.0", "255.255.255.255", "TOS"
	if t.v6 {
		anyAddr, anyMask, service = "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "Traffic Class"
	}
	addr := func(name string, a netip.Addr) {
		if a.IsValid() {
			c.printf("\t%s IP addr: %v mask: %s\n", name, a, anyAddr)
		} else {
			c.printf("\t%s IP addr: %s mask: %s\n", name, anyAddr, anyMask)
		}
	}
	port := func(name string, p uint16) {
		c.printf("\t%s port: %d mask: %s\n", name, p, either(p == 0, "0xffff", "0x0"))
	}
	c.printf("Filter: %d\n\tRule Type: %s\n", r.Location, t.rule)
	addr("Src", r.Src)
	addr("Dest", r.Dst)
	c.printf("\t%s: 0x0 mask: 0xff\n", service)
	port("Src", r.SrcPort)
	port("Dest", r.DstPort)
	c.printf("\tAction: %s\n\n", either(r.Drop, "Drop", fmt.Sprintf("Direct to queue %d", r.Queue)))
}

// setNFC is ethtool -N.
func setNFC(c *call) error {
	if err := c.needHostTAP("Cannot insert classification rule"); err != nil {
		return err
	}
	if len(c.operands) > 1 {
		rest := c.operands[1:]
		switch c.operands[0] {
		case "flow-type":
			return addRule(c, rest)
		case "delete":
			return deleteRule(c, rest)
		case "rx-flow-hash":
			return setFlowHash(c, rest)
		}
	}
	return usage.Errorf("-N takes flow-type, delete or rx-flow-hash: "+
		"tapir ethtool -N %s flow-type tcp4 dst-port 80 action 2: see: tapir ethtool --help", c.Name)
}

// addRule inserts a rule, at the last free place unless one is named.
func addRule(c *call, operands []string) error {
	const failed = "rmgr: Cannot insert RX class rule"
	t, err := findFlowType(operands[0], "Add rule, invalid syntax: flow-type '"+operands[0]+"'")
	if err != nil {
		return err
	}
	words, err := pairs("-N", operands[1:], func(s string) (string, error) { return s, nil },
		"src-ip", "dst-ip", "src-port", "dst-port", "action", "loc")
	if err != nil {
		return err
	}
	loc, named := words["loc"]
	at, err := count(cmp.Or(loc, "0"))
	if err != nil {
		return invalid("-N", loc, "loc")
	}
	rest := t.word
	for _, name := range []string{"src-ip", "dst-ip", "src-port", "dst-port"} {
		if words[name] != "" {
			rest += " " + name + " " + words[name]
		}
	}
	rest += " action " + cmp.Or(words["action"], "0")
	if _, err := fastlinq.ParseRule("0 " + rest); err != nil {
		return usage.Errorf("Add rule, invalid syntax: '%s': "+
			"expected flow-type %s with src-ip, dst-ip, src-port, dst-port, action and loc",
			strings.Join(operands, " "), t.word)
	}
	err = c.changeRules(failed, func(rules []hostfn.Rule) (string, error) {
		free := true
		if !named {
			at, free = lastFree(rules, c.nic.MaxRules)
		}
		if !free && c.nic.MaxRules > 0 { // a NIC without places says itself why
			return "", fmt.Errorf("%s: all %d places are in use", failed, c.nic.MaxRules)
		}
		return ruleList(byLocation(rules), fmt.Sprintf("%d %s", at, rest)), nil
	})
	if err == nil && !named {
		c.printf("Added rule with ID %d\n", at)
	}
	return err
}

// changeRules replaces the rules by what change returns, and retries if
// another client has changed them in between.
func (c *call) changeRules(failed string, change func([]hostfn.Rule) (string, error)) error {
	for {
		rules, err := change(c.nic.Rules)
		if err != nil {
			return err
		}
		err = c.set(failed, ctl.Setting{Name: "ntuple", Value: rules, Was: ruleList(c.nic.Rules)})
		if !ctl.IsConflict(err) {
			return err
		}
		c.nic = &view.EthtoolInfo{}
		if err := c.client.Show(c, "ethtool", c.nic); err != nil {
			return fmt.Errorf("%s: %w", failed, err)
		}
	}
}

// lastFree is the free place of the least priority.
func lastFree(rules []hostfn.Rule, places int) (at uint64, ok bool) {
	for at := places - 1; at >= 0; at-- {
		if !slices.ContainsFunc(rules, func(r hostfn.Rule) bool { return r.Location == at }) {
			return uint64(at), true
		}
	}
	return 0, false
}

// ruleList is the value of the setting of rules.
func ruleList(rules []hostfn.Rule, more ...string) string {
	var list []string
	for _, r := range rules {
		list = append(list, fastlinq.FormatRule(r))
	}
	return cmp.Or(strings.Join(append(list, more...), ","), "none")
}

func deleteRule(c *call, operands []string) error {
	n, err := count(operands[0])
	if err != nil || len(operands) > 1 {
		return invalid("-N", strings.Join(operands, " "), "delete")
	}
	const failed = "rmgr: Cannot delete RX class rule"
	return c.changeRules(failed, func(rules []hostfn.Rule) (string, error) {
		left := slices.DeleteFunc(slices.Clone(rules), func(r hostfn.Rule) bool { return uint64(r.Location) == n })
		if len(left) == len(rules) {
			return "", fmt.Errorf("%s: there is no rule %d", failed, n)
		}
		return ruleList(left), nil
	})
}

// setFlowHash turns hashing of ports on or off. As with the driver qede only
// those of UDP are optional.
func setFlowHash(c *call, operands []string) error {
	const failed = "Cannot change RX network flow hashing options"
	if len(operands) != 2 {
		return usage.Errorf("ethtool (-N): rx-flow-hash takes a type and fields: "+
			"tapir ethtool -N %s rx-flow-hash udp4 sdfn", c.Name)
	}
	t, err := findHashed("-N", operands[0])
	if err != nil {
		return err
	}
	fields := []byte(operands[1])
	if strings.Trim(operands[1], "mvtsdfnr") != "" {
		return usage.Errorf("%w: fields are letters of mvtsdfnr", invalid("-N", operands[1], t.word))
	}
	slices.Sort(fields)
	was := fastlinq.HashTypes(c.nic.RSS.Hashes)
	have := was
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
	if have == was {
		return nil
	}
	return c.set(failed, ctl.Setting{Name: "rss_hash", Value: hashNames(have)})
}

// hashNames is the value of the setting of hash types.
func hashNames(h fastlinq.HashTypes) string {
	return enum.Bits([]string{"ipv4", "ipv6", "tcp4", "tcp6", "udp4", "udp6"}, h)
}
