package swconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/lab/conf"
)

// Hash is how a router chooses among the ports of a route.
type Hash uint8

// Hashes of addresses, protocol and ports.
const (
	CRC32 Hash = iota
	XOR        // of all 16-bit words
)

// Routing makes a switch a router, too, for what is sent to its router MAC.
type Routing struct {
	// Gateways are addresses for which the switch answers ARP and neighbor solicitations.
	Gateways []netip.Addr
	Routes   []Route // the longest prefix counts
	// ECMPHash and ECMPSeed choose the port of a flow, if a route has several.
	ECMPHash Hash
	ECMPSeed uint32
}

// Route says by which ports a prefix is reached. Without any, its stations are at the ports of
// the switch that no route names.
type Route struct {
	Prefix netip.Prefix
	Ports  []string
}

// ParseRoute reads "10.0.1.0/24", whose stations are at ports of the switch, or
// "10.0.2.0/24=p2|p3".
func ParseRoute(s string) (r Route, err error) {
	prefix, ports, via := strings.Cut(s, "=")
	r.Prefix, err = netip.ParsePrefix(prefix)
	if via {
		r.Ports = strings.Split(ports, "|")
	}
	if err != nil || slices.Contains(r.Ports, "") {
		return r, conf.ErrValue
	}
	r.Prefix = r.Prefix.Masked()
	return r, nil
}

// Fields are the settings of routing, bound to r.
func (r *Routing) Fields() []conf.Field {
	return []conf.Field{
		{Name: "gateway", Many: true, Expect: "an IP address such as 10.0.1.254 or fd00:1::fe",
			Set: conf.Append(&r.Gateways, netip.ParseAddr)},
		{Name: "routes", Many: true, Expect: "PREFIX of stations at the switch's ports, or PREFIX=PORT|PORT, such as " +
			"`10.0.2.0/24=p2|p3`", Set: conf.Append(&r.Routes, ParseRoute)},
		{Name: "ecmp_hash", Expect: "crc32 or xor", Set: conf.Choose(&r.ECMPHash,
			map[string]Hash{"crc32": CRC32, "xor": XOR})},
		{Name: "ecmp_seed", Expect: "a number from 0 to 4294967295", Set: conf.Number(&r.ECMPSeed, 0, 1<<32-1)},
	}
}

// problem tells the first thing that is wrong with the routes of c, whose ports have names;
// empty: nothing.
func (r *Routing) problem(c *Config) string {
	several := false
	for i, route := range r.Routes {
		if slices.ContainsFunc(r.Routes[:i], func(o Route) bool { return o.Prefix == route.Prefix }) {
			return fmt.Sprintf("routes: %v is there twice", route.Prefix)
		}
		several = several || len(route.Ports) > 1
		for _, name := range route.Ports {
			if c.PortNamed(name) < 0 {
				return fmt.Sprintf("routes: %v: there is no port %s", route.Prefix, name)
			}
		}
	}
	switch {
	case len(r.Gateways) > 0 && len(r.Routes) == 0:
		return "gateway: without routes it leads nowhere: say routes, such as 10.0.1.0/24"
	case !several && (r.ECMPHash != CRC32 || r.ECMPSeed != 0):
		return "ecmp_hash and ecmp_seed choose among the ports of a route: none has several"
	}
	return ""
}

// PortNamed is the number of a port; negative: there is none of that name.
func (c *Config) PortNamed(name string) int {
	return slices.IndexFunc(c.Ports, func(p PortConfig) bool { return p.Name == name })
}
