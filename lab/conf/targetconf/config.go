// Package targetconf describes storage targets: the disks that they serve, and the settings of a
// target of a lab.
package targetconf

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"tapir/lab/conf"
	"tapir/nic/verbs"
	"tapir/wire/fc"
	"tapir/wire/iscsi"
	"tapir/wire/nvme"
)

// Protocols of targets.
const (
	ISCSI = "iscsi" // over TCP
	ISER  = "iser"  // iSCSI over RDMA
	NVMe  = "nvme"  // over RDMA
	FCoE  = "fcoe"
)

// Config is a target that a NIC serves.
type Config struct {
	Protocol   string // one of the above; empty: ISCSI
	Name       string // of the target: IQN, NQN or WWPN; empty: from the NIC's name or address
	LUNs       []LUN
	Initiators []string // that may log in; none: all
	Port       int      // of TCP, or of the RDMA connection manager; 0: that of the protocol
	FirstID    int      // of NVMe controllers; 0: 1
	Offload    bool     // the NIC's iSCSI function takes sessions over after the login
	VN2VN      bool     // FCoE without a fabric

	luns []string // as the file has them
}

// Fields are the settings as a file has them.
func (c *Config) Fields() []conf.Field {
	protocols := []string{ISCSI, ISER, NVMe, FCoE}
	return []conf.Field{
		{Name: "protocol", Expect: strings.Join(protocols, ", ") + ": how initiators reach the disks (default iscsi)",
			Schema: conf.Choice(protocols...), Set: conf.Word(&c.Protocol, protocols...)},
		{Name: "luns", Schema: conf.Schema{"anyOf": []conf.Schema{{"type": "string"},
			conf.ListOf(conf.Schema{"type": "string"})}}, Node: c.readLUNs},
		{Name: "target", Expect: "the target's IQN, NQN or WWPN (default from the NIC's name or address)",
			Set: conf.Text(&c.Name)},
		{Name: "initiators", Expect: "the name of an initiator that may log in, or a list (default all)", Many: true,
			Set: func(s string) error { c.Initiators = append(c.Initiators, s); return nil }},
		{Name: "port", Expect: "a port from 1 to 65535 (default 3260, of NVMe 4420)",
			Set: conf.Int(&c.Port, 1, 1<<16-1)},
		{Name: "first_id", Expect: "the number of NVMe's first controller, 1 to 65024 (default 1): targets of one " +
			"subsystem on several NICs have others", Set: conf.Int(&c.FirstID, 1, MaxFirstID)},
		conf.Truth("offload", "true: the NIC's iSCSI function takes sessions over after the login", &c.Offload),
		conf.Truth("vn2vn", "true: FCoE without a fabric", &c.VN2VN),
	}
}

// MaxFirstID bounds the number of a subsystem's first NVMe controller.
const MaxFirstID = 0xfe00

// Is tells whether a setting of a node is one of its target.
func Is(name string) bool {
	for _, f := range new(Config).Fields() {
		if f.Name == name {
			return true
		}
	}
	return false
}

// expectLUN is what a disk is.
const expectLUN = "a disk, mem:SIZE, file:PATH or sparse:PATH:SIZE with options such as ,block=4096, or a list"

func (c *Config) readLUNs(n conf.Node) error {
	list, ok := n.List()
	if !ok {
		list = []conf.Node{n}
	}
	for _, n := range list {
		text, ok := n.Text()
		if !ok {
			return n.Errorf("luns: expected %s; in a list, each in quotes", expectLUN)
		}
		l, err := ParseLUN(text)
		if err != nil {
			return n.Errorf("luns: %v", err)
		}
		c.LUNs, c.luns = append(c.LUNs, l), append(c.luns, text)
	}
	return nil
}

// Validate completes the target of a NIC of a personality, and says what does not go together.
func (c *Config) Validate(p verbs.Personality) error {
	c.Protocol = cmp.Or(c.Protocol, ISCSI)
	rdma := c.Protocol == ISER || c.Protocol == NVMe
	switch {
	case len(c.LUNs) == 0:
		return errors.New("luns: a target has disks, such as luns: mem:64M")
	case rdma && !p.RDMA():
		return fmt.Errorf("protocol %s is over RDMA: give personality iwarp or roce, not %v", c.Protocol, p)
	case c.Protocol == FCoE && p != verbs.FCoE:
		return fmt.Errorf("protocol fcoe: give personality fcoe, not %v", p)
	case c.Offload && (c.Protocol != ISCSI || p != verbs.ISCSI):
		return errors.New("offload: it takes protocol iscsi, personality iscsi and iscsi_is_target: 1")
	case c.VN2VN && c.Protocol != FCoE:
		return errors.New("vn2vn: it is of protocol fcoe")
	case c.FirstID != 0 && c.Protocol != NVMe:
		return errors.New("first_id: it is of protocol nvme")
	case c.Port != 0 && c.Protocol == FCoE:
		return errors.New("port: FCoE has none")
	}
	if c.Name != "" {
		if err := c.checkName(c.Name); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	for _, i := range c.Initiators {
		if err := c.checkName(i); err != nil {
			return fmt.Errorf("initiators: %w", err)
		}
	}
	return nil
}

// checkName says what is wrong with the name of a target or initiator.
func (c *Config) checkName(name string) error {
	rule := iscsi.NameRule
	switch c.Protocol {
	case FCoE:
		_, err := fc.ParseWWN(name)
		return err
	case NVMe:
		if rule = nvme.NQNRule; nvme.ValidNQN(name) {
			return nil
		}
	default:
		if iscsi.ValidName(name) {
			return nil
		}
	}
	return fmt.Errorf("%q: %s", name, rule)
}

// Argv is the command that has a running NIC serve; tapir is its program.
func (c *Config) Argv(tapir, nic string) []string {
	names := map[string][2]string{NVMe: {"--nqn", "--host"}, FCoE: {"--wwpn", "--host"}}
	flags, known := names[c.Protocol]
	area := c.Protocol
	if !known {
		flags, area = [2]string{"--target", "--initiator"}, ISCSI
	}
	argv := []string{tapir, area, "target", nic}
	add := func(is bool, flag string, value any) {
		if is {
			argv = append(argv, fmt.Sprintf("%s=%v", flag, value))
		}
	}
	add(c.Name != "", flags[0], c.Name) // of iSCSI, disks belong to the name before them
	for _, l := range c.luns {
		add(true, "--lun", l)
	}
	for _, i := range c.Initiators {
		add(true, flags[1], i)
	}
	add(c.Port != 0, "--port", c.Port)
	add(c.FirstID != 0, "--first-id", c.FirstID)
	add(c.Protocol == ISER, "--iser", true)
	add(c.Offload, "--offload", true)
	add(c.VN2VN, "--vn2vn", true)
	return argv
}
