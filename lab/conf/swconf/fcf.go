package swconf

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	wire "tapir/wire/lldp"
)

// FCF is the FCoE forwarder of a switch: a fabric of Fibre Channel (FC-BB-6) that end nodes
// log in to. The zero value has none; with On, zero is the default of each field.
type FCF struct {
	On       bool
	Map      fip.Map       // FC-MAP; default 0x0efc00
	Fabric   fc.WWN        // fabric name; default the name of the switch
	Priority uint8         // in advertisements; end nodes choose the lowest. Default 128
	DomainID uint8         // upper octet of FC_IDs; default 1
	Period   time.Duration // FKA_ADV_PERIOD; default 8 s
	VLAN     uint16        // of FIP and FCoE frames; 0: they are untagged
	Logins   int           // N_Ports at most; default 1024
	NPIV     int           // further N_Ports of an end node at most, by FDISC; default 64
	Zones    []Zone        // none: all N_Ports see each other
}

// Zone is a set of port names that see each other.
type Zone []fc.WWN

// Has tells that a port name is in the zone.
func (z Zone) Has(name fc.WWN) bool { return slices.Contains(z, name) }

// Defaults and bounds of an FCF.
const (
	defaultFCFPriority = 128 // FC-BB-6 table 44
	defaultPeriod      = 8 * time.Second
	defaultLogins      = 1024
	defaultNPIV        = 64

	mostLogins  = 4096
	mostNPIV    = 254
	mostDomain  = 239 // FC-SW-6: domain identifiers are 1 to 239
	mapBits     = 0xff
	leastPeriod = 500 * time.Millisecond
	mostPeriod  = 90 * time.Second
)

func (f FCF) withDefaults(mac ether.Addr) FCF {
	if !f.On {
		return f
	}
	f.Map, f.Priority = cmp.Or(f.Map, fip.DefaultMap), cmp.Or(f.Priority, defaultFCFPriority)
	f.DomainID, f.Period = cmp.Or(f.DomainID, 1), cmp.Or(f.Period, defaultPeriod)
	f.Logins, f.NPIV = cmp.Or(f.Logins, defaultLogins), cmp.Or(f.NPIV, defaultNPIV)
	f.Fabric = cmp.Or(f.Fabric, SwitchName(mac))
	return f
}

// SwitchName is the world-wide name of a switch whose FCF has this MAC address.
func SwitchName(mac ether.Addr) fc.WWN { return fc.FromMAC(0x1000, mac) }

// FCFMAC is the address of the switch's FCF.
func (c *Config) FCFMAC() ether.Addr {
	a := c.MAC(0)
	a[1] = 0xfc
	return a
}

// fcoeTypes have the priority of FCoE.
var fcoeTypes = []uint16{fcoe.EtherType, fip.EtherType}

// Applications are those of dcb_app and, of a switch with an FCF, FCoE and FIP: in the lowest
// priority with PFC unless dcb_app says another.
func (c *Config) Applications() []wire.AppEntry {
	apps := slices.Clone(c.LLDP.Apps)
	if !c.FCF.On || c.DCB.PFC == 0 {
		return apps
	}
	lossless := uint8(bits.TrailingZeros8(c.DCB.PFC))
	for _, t := range fcoeTypes {
		if _, there := priorityOf(apps, t); !there {
			apps = append(apps, wire.AppEntry{Selector: wire.SelEtherType, Protocol: t, Priority: lossless})
		}
	}
	return apps
}

// FCoEPriority is the priority of frames of an EtherType by the application table; 0 if it
// has none.
func (c *Config) FCoEPriority(t uint16) uint8 {
	p, _ := priorityOf(c.Applications(), t)
	return p
}

func priorityOf(apps []wire.AppEntry, t uint16) (prio uint8, there bool) {
	i := slices.IndexFunc(apps, func(a wire.AppEntry) bool {
		return a.Selector == wire.SelEtherType && a.Protocol == t
	})
	if i < 0 {
		return 0, false
	}
	return apps[i].Priority, true
}

// problem tells the first thing that is wrong with the FCF of c; empty: nothing.
func (f *FCF) problem(c *Config) string {
	if !f.On {
		return ""
	}
	prio, there := priorityOf(c.LLDP.Apps, fcoe.EtherType)
	return conf.Problem(there && c.DCB.PFC>>prio&1 == 0, "dcb_app: FCoE has priority %d, which may lose frames: "+
		"say prio_pfc %d:on", prio, prio)
}

// set takes true, false or NAME=VALUE,NAME=VALUE.
func (f *FCF) set(text string) error {
	if !strings.Contains(text, "=") {
		return conf.Bool(&f.On)(text)
	}
	f.On = true
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(word, "=")
		if err := conf.Set(f.Fields(), name, value); err != nil {
			return conf.Refusal(err.Error())
		}
	}
	return nil
}

// field is the FCF as a setting: true, or a mapping.
func (f *FCF) field() conf.Field {
	return conf.Field{Name: "fcf", Expect: "true or false, or settings such as `vlan=100`", Set: f.set,
		Schema: conf.Schema{"anyOf": []conf.Schema{conf.Choice("true", "false"), {"type": "boolean"},
			conf.Object(f.Fields())}},
		Node: func(n conf.Node) error {
			if text, scalar := n.Text(); scalar {
				if err := conf.Bool(&f.On)(text); err != nil {
					return fmt.Errorf("expected true, false or the settings of an FCF")
				}
				return nil
			}
			f.On = true
			return conf.Decode(n, "the settings of an FCF", f.Fields())
		}}
}

// Fields are the settings of an FCF, bound to f.
func (f *FCF) Fields() []conf.Field {
	return []conf.Field{
		{Name: "fc_map", Expect: "a number of 24 bits from 0x0efc00 to 0x0efcff", Set: func(s string) error {
			v, err := strconv.ParseUint(s, 0, 24)
			if err != nil || fip.Map(v)&^mapBits != fip.DefaultMap {
				return conf.ErrValue
			}
			f.Map = fip.Map(v)
			return nil
		}},
		{Name: "fabric", Expect: wwnExpect, Set: conf.Parsed(&f.Fabric, parseWWN)},
		{Name: "priority", Expect: "a number from 1 (chosen first) to 255", Set: conf.Number(&f.Priority, 1, 255)},
		{Name: "domain_id", Expect: "a number from 1 to 239", Set: conf.Number(&f.DomainID, 1, mostDomain)},
		{Name: "fka_adv_period", Expect: "a time from 500ms to 90s such as 8s",
			Set: conf.Time(&f.Period, leastPeriod, mostPeriod)},
		{Name: "vlan", Expect: "a VLAN from 1 to 4094", Set: conf.Number(&f.VLAN, 1, 4094)},
		{Name: "logins", Expect: "a number of N_Ports from 1 to 4096", Set: conf.Number(&f.Logins, 1, mostLogins)},
		{Name: "npiv", Expect: "a number of N_Ports from 1 to 254", Set: conf.Number(&f.NPIV, 1, mostNPIV)},
		{Name: "zones", Expect: "a list of zones, each a list of port names",
			Schema: conf.ListOf(conf.ListOf(conf.Schema{"type": "string"})), Node: f.zones,
			Set: func(s string) error { return f.zone(strings.Split(s, "|")) }},
	}
}

const wwnExpect = "a world-wide name such as 20:00:02:00:00:00:00:01"

func parseWWN(s string) (fc.WWN, error) {
	w, err := fc.ParseWWN(s)
	if err == nil && w == 0 {
		err = conf.ErrValue
	}
	return w, err
}

// zones takes a list of lists.
func (f *FCF) zones(n conf.Node) error {
	return n.Each(1, "expected a list of zones", func(n conf.Node, _ int) error {
		var names []string
		if err := n.Each(1, "zones: expected a list of port names", func(n conf.Node, _ int) error {
			name, _ := n.Text()
			if _, err := parseWWN(name); err != nil {
				return n.Errorf("zones: expected %s", wwnExpect)
			}
			names = append(names, name)
			return nil
		}); err != nil {
			return err
		}
		return f.zone(names)
	})
}

// zone adds one.
func (f *FCF) zone(names []string) error {
	var z Zone
	for _, name := range names {
		w, err := parseWWN(name)
		if err != nil {
			return conf.ErrValue
		}
		z = append(z, w)
	}
	f.Zones = append(f.Zones, z)
	return nil
}
