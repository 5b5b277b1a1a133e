package nicconf

import (
	"cmp"
	"fmt"
	"net/netip"

	"tapir/lab/conf"
	"tapir/nic/fastlinq"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// SRIOV are the virtual functions of a NIC.
type SRIOV struct {
	Total  int    `json:"totalvfs,omitempty" yaml:"totalvfs,omitempty"` // default 16, or NumVFs
	NumVFs int    `json:"numvfs,omitempty" yaml:"numvfs,omitempty"`     // at the start; default the length of VFs
	Queues int    `json:"queues,omitempty" yaml:"queues,omitempty"`     // pairs of each VF; default 1
	Mode   string `json:"mode,omitempty" yaml:"mode,omitempty"`         // veb (default) or vepa
	// Storm limits frames to groups and to all, for each VF, the PF and the port; nil:
	// stormLimit.
	Storm *frame.Rate `json:"storm,omitempty" yaml:"storm,omitempty"`
	// Channel is how messages of VFs come to the PF: software (default) or hardware.
	Channel   string `json:"channel,omitempty" yaml:"channel,omitempty"`
	UniqueMAC bool   `json:"unique_mac,omitempty" yaml:"unique_mac,omitempty"` // VFs may not use others' addresses
	VFTunnels bool   `json:"vf_tunnels,omitempty" yaml:"vf_tunnels,omitempty"` // VFs may change the device's tunnels
	VFs       []VF   `json:"vfs,omitempty" yaml:"vfs,omitempty"`
}

// VF is a virtual function.
type VF struct {
	HostTAP string         `json:"host_tap,omitempty" yaml:"host_tap,omitempty"` // default NICvN
	NetNS   string         `json:"netns,omitempty" yaml:"netns,omitempty"`       // a name or path; empty: the NIC's
	IP      []netip.Prefix `json:"ip,omitempty" yaml:"ip,omitempty"`             // of the host TAP
	// Policies are the words of ip link set NIC vf N, in order.
	Policies []string `json:"set,omitempty" yaml:"set,omitempty"`
}

// defaultVFs is how many VFs a NIC with sriov can have unless totalvfs says it.
const defaultVFs = 16

// stormLimit is far from what stations send, and ends loops.
var stormLimit = frame.Rate{PerSecond: 100_000, Burst: 10_000}

// Names of how frames go between VFs.
const (
	modeVEB  = "veb"
	modeVEPA = "vepa"
)

// Names of the channels between VFs and PF.
const (
	channelSoftware = "software"
	channelHardware = "hardware"
)

// HWChannel reports whether messages of VFs come by the hardware's channel.
func (s *SRIOV) HWChannel() bool { return s.Channel == channelHardware }

// VEPA reports whether frames between VFs take the way by the switch at the port.
func (s *SRIOV) VEPA() bool { return s.Mode == modeVEPA }

// withDefaults fills in what was left zero.
func (s SRIOV) withDefaults() SRIOV {
	s.NumVFs = cmp.Or(s.NumVFs, len(s.VFs))
	s.Total, s.Queues = cmp.Or(s.Total, max(defaultVFs, s.NumVFs)), cmp.Or(s.Queues, 1)
	if s.Storm == nil {
		s.Storm = &stormLimit
	}
	return s
}

// VF is what the configuration says of a VF of a NIC of that name.
func (s *SRIOV) VF(nic string, n int) (v VF) {
	if n < len(s.VFs) {
		v = s.VFs[n]
	}
	v.HostTAP = cmp.Or(v.HostTAP, fmt.Sprintf("%.10sv%d", nic, n))
	return v
}

// fields are the settings of sriov.
func (s *SRIOV) fields() []conf.Field {
	return []conf.Field{
		{Name: "totalvfs", Expect: "how many VFs there can be, from 1 to 120",
			Set: conf.Int(&s.Total, 1, fastlinq.MaxVFs)},
		{Name: "numvfs", Expect: "how many VFs there are at the start, from 0 to 120",
			Set: conf.Int(&s.NumVFs, 0, fastlinq.MaxVFs)},
		{Name: "queues", Expect: "queue pairs of each VF, from 1 to 16", Set: conf.Int(&s.Queues, 1, 16)},
		{Name: "mode", Expect: "veb or vepa", Schema: conf.Choice(modeVEB, modeVEPA),
			Set: conf.Word(&s.Mode, modeVEB, modeVEPA)},
		{Name: "storm", Expect: conf.Frames + ", or none", Set: func(text string) error {
			if s.Storm = new(frame.Rate); text == "none" {
				return nil
			}
			return conf.FrameRate(s.Storm)(text)
		}},
		{Name: "channel", Expect: "software or hardware", Schema: conf.Choice(channelSoftware, channelHardware),
			Set: conf.Word(&s.Channel, channelSoftware, channelHardware)},
		{Name: "unique_mac", Expect: "true or false", Set: conf.Bool(&s.UniqueMAC)},
		{Name: "vf_tunnels", Expect: "true or false", Set: conf.Bool(&s.VFTunnels)},
		{Name: "vfs", Schema: conf.ListOf(conf.Object(new(VF).fields())), Node: func(n conf.Node) error {
			return n.Each(0, "vfs: expected a list of VFs: [{host_tap: vf0}]", func(n conf.Node, _ int) error {
				var v VF
				err := conf.Decode(n, "the settings of a VF", v.fields())
				s.VFs = append(s.VFs, v)
				return err
			})
		}},
	}
}

// SetSRIOV reads the virtual functions from one text, as --sriov has it.
func (c *Config) SetSRIOV(text string) error {
	n, err := conf.Read("--sriov", []byte(text), sriovIs)
	if err != nil {
		return err
	}
	return c.setSRIOV(n)
}

const sriovIs = "the virtual functions, such as {numvfs: 4}"

func (c *Config) setSRIOV(n conf.Node) error {
	c.SRIOV = new(SRIOV)
	return conf.Decode(n, sriovIs, c.SRIOV.fields())
}

// vfPolicies are the settings of a VF that the administrator has, with what they expect.
var vfPolicies = []struct{ name, expect string }{
	{"mac", "a unicast MAC address such as 02:00:00:00:00:01"},
	{"vlan", "a VLAN id from 0 to 4095"},
	{"qos", "a priority from 0 to 7"}, {"max_tx_rate", "a rate in Mb/s"}, {"min_tx_rate", "a rate in Mb/s"},
	{"spoofchk", "on or off"}, {"trust", "on or off"}, {"state", "auto, enable or disable"},
	{"query_rss", "on or off"},
}

// fields are the settings of a VF.
func (v *VF) fields() []conf.Field {
	list := []conf.Field{
		{Name: "host_tap", Expect: "an interface name such as vf0, at most 15 characters",
			Set: conf.Checked(&v.HostTAP, tap.CheckName)},
		{Name: "netns", Expect: "the name of a network namespace, as `ip netns` lists it, or a path",
			Set: conf.Text(&v.NetNS)},
		{Name: "ip", Expect: "an address with prefix length, such as 10.0.0.1/24 or fd00::1/64", Many: true,
			Set: conf.Append(&v.IP, conf.Prefixes(netip.Addr.IsValid))},
	}
	for _, p := range vfPolicies {
		list = append(list, conf.Field{Name: p.name, Expect: p.expect, Set: func(s string) error {
			words := []string{p.name, onOff(s)}
			check := words
			if p.name == "qos" { // which may come before vlan
				check = append([]string{"vlan", "1"}, words...)
			}
			if _, err := fastlinq.ParseVFSet(check); err != nil {
				return conf.Refusal(err.Error())
			}
			v.Policies = append(v.Policies, words...)
			return nil
		}})
	}
	return list
}

// onOff is the word for what YAML may take for a truth value.
func onOff(s string) string {
	switch s {
	case "true":
		return "on"
	case "false":
		return "off"
	}
	return s
}

// checkSRIOV says what does not go together.
func (c *Config) checkSRIOV() string {
	s := c.SRIOV
	if s == nil {
		return ""
	}
	all := s.withDefaults()
	return cmp.Or(
		conf.Problem(c.ideal(), "sriov: hardware ideal has no VFs: use hardware fastlinq"),
		conf.Problem(c.Loopback(), "sriov: tap lo is the loopback interface"),
		conf.Problem(all.NumVFs > all.Total, "sriov: numvfs %d is more than totalvfs %d", all.NumVFs, all.Total),
		conf.Problem(len(s.VFs) > all.Total, "sriov: %d vfs are more than totalvfs %d", len(s.VFs), all.Total))
}
