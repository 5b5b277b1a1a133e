package dcb

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tapir/nic/dcb"
	"tapir/nic/uapi/dcbnl"
	"tapir/wire/lldp"
)

// item is one value, or an array of them.
type item struct {
	name   string
	text   string // without the name
	json   any    // a bool, a number, a string, or a list of them
	line   bool   // it begins a line; else it is in that of the first one
	hidden bool   // it is printed only if it is named
	empty  bool   // there is nothing to print
}

type items []item

// print prints those that are named, each on a line, or all.
func (all items) print(names []string, f Format) (string, error) {
	var chosen items
	for _, name := range names {
		i := slices.IndexFunc(all, func(i item) bool { return strings.HasPrefix(i.name, name) })
		if i < 0 {
			return "", fmt.Errorf("what is %q?", name)
		}
		chosen = append(chosen, all[i])
		chosen[len(chosen)-1].line = true
	}
	for _, i := range all {
		if len(names) == 0 && !i.hidden {
			chosen = append(chosen, i)
		}
	}
	chosen = slices.DeleteFunc(chosen, func(i item) bool { return i.empty })
	if f.JSON {
		return chosen.object(f.Pretty) + "\n", nil
	}
	var b strings.Builder
	for n, i := range chosen {
		if n > 0 && i.line {
			b.WriteByte('\n')
		}
		b.WriteString(i.name + " ")
		if i.text != "" {
			b.WriteString(i.text + " ")
		}
	}
	if len(chosen) > 0 {
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// object is JSON as iproute2 writes it.
func (all items) object(pretty bool) string {
	members := make([]string, len(all))
	for n, i := range all {
		members[n] = fmt.Sprintf("%q:", strings.ReplaceAll(i.name, "-", "_"))
		if pretty {
			members[n] = "\n    " + members[n] + " "
		}
		members[n] += literal(i.json, pretty)
	}
	end := ""
	if pretty && len(all) > 0 {
		end = "\n"
	}
	return "{" + strings.Join(members, ",") + end + "}"
}

func literal(v any, pretty bool) string {
	list, ok := v.([]any)
	if !ok {
		if s, ok := v.(string); ok {
			return strconv.Quote(s)
		}
		return fmt.Sprint(v)
	}
	elements := make([]string, len(list))
	for i, e := range list {
		elements[i] = literal(e, pretty)
	}
	if pretty {
		return "[ " + strings.Join(elements, ",") + " ]"
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// flag is on or off.
func flag(name string, on bool) item {
	return item{name: name, text: map[bool]string{true: "on", false: "off"}[on], json: on}
}

func number[T uint8 | uint16](name string, n T) item {
	return item{name: name, text: fmt.Sprint(n), json: n}
}

// array has an element for each class or priority.
func array(name string, element func(at int) (text string, json any)) item {
	i := item{name: name, line: true}
	var words []string
	var list []any
	for at := range dcb.Classes {
		text, v := element(at)
		words, list = append(words, fmt.Sprintf("%d:%s", at, text)), append(list, v)
	}
	i.text, i.json = strings.Join(words, " "), list
	return i
}

func numbers[T uint8 | uint64](name string, list [dcb.Classes]T) item {
	return array(name, func(at int) (string, any) { return fmt.Sprint(list[at]), list[at] })
}

// errCEE is what a NIC without values of IEEE says.
var errCEE = errors.New("the NIC has no values of IEEE, as while DCBX is CEE: see: tapir dcb dcbx show")

func showETS(c *dcbnl.Client, _ Format) (items, error) {
	e, err := get(c, func(i dcbnl.IEEE) *dcbnl.ETS { return i.ETS })
	if err != nil {
		return nil, err
	}
	tsa := func(name string, list [dcb.Classes]uint8) item {
		return array(name, func(at int) (string, any) { s := dcb.TSA(list[at]).String(); return s, s })
	}
	return items{flag("willing", e.Willing != 0), number("ets-cap", e.Cap), flag("cbs", e.CBS != 0),
		numbers("tc-bw", e.TxBW), numbers("pg-bw", e.RxBW), tsa("tc-tsa", e.TSA), numbers("prio-tc", e.PrioTC),
		numbers("reco-tc-bw", e.RecoBW), tsa("reco-tc-tsa", e.RecoTSA), numbers("reco-prio-tc", e.RecoPrioTC)}, nil
}

// get asks for a part.
func get[T any](c *dcbnl.Client, part func(dcbnl.IEEE) *T) (*T, error) {
	i, err := c.Get()
	if err != nil {
		return nil, err
	}
	v := part(i)
	if v == nil {
		return nil, errCEE
	}
	return v, nil
}

func showPFC(c *dcbnl.Client, f Format) (items, error) {
	p, err := get(c, func(i dcbnl.IEEE) *dcbnl.PFC { return i.PFC })
	if err != nil {
		return nil, err
	}
	all := items{number("pfc-cap", p.Cap), flag("macsec-bypass", p.MBC != 0), number("delay", p.Delay),
		array("prio-pfc", func(at int) (string, any) {
			i := flag("", p.Enabled>>at&1 != 0)
			return i.text, i.json
		}), numbers("requests", p.Requests), numbers("indications", p.Indications)}
	all[4].hidden, all[5].hidden = !f.Statistics, !f.Statistics
	return all, nil
}

func showMaxRate(c *dcbnl.Client, f Format) (items, error) {
	m, err := get(c, func(i dcbnl.IEEE) *dcbnl.MaxRate { return i.MaxRate })
	if err != nil {
		return nil, err
	}
	return items{array("tc-maxrate", func(at int) (string, any) {
		return rate(m[at]*1000, f.IEC), m[at] * octetsPerKilobit
	})}, nil
}

func showBuffers(c *dcbnl.Client, _ Format) (items, error) {
	b, err := get(c, func(i dcbnl.IEEE) *dcbnl.Buffer { return i.Buffer })
	if err != nil {
		return nil, err
	}
	return items{numbers("prio-buffer", b.Prio),
		array("buffer-size", func(at int) (string, any) { return size(b.Size[at]), b.Size[at] }),
		{name: "total-size", text: size(b.Total), json: b.Total, line: true}}, nil
}

// size writes octets, as tc(8) does.
func size(octets uint32) string {
	n := float64(octets)
	for i, unit := range []float64{1 << 20, 1 << 10} {
		if within := []float64{1024, 16}[i]; n >= unit && math.Abs(unit*math.RoundToEven(n/unit)-n) < within {
			return fmt.Sprintf("%g%sb", math.RoundToEven(n/unit), []string{"M", "K"}[i])
		}
	}
	return fmt.Sprintf("%db", octets)
}

// octetsPerKilobit are those that JSON has for a kb/s.
const octetsPerKilobit = 125

// rate writes bits per second, as tc(8) does.
func rate(bits uint64, iec bool) string {
	kilo, suffix := uint64(1000), ""
	if iec {
		kilo, suffix = 1024, "i"
	}
	i := 0
	for ; i < 4 && bits >= kilo && (bits%kilo == 0 || bits >= 1000*kilo); i++ {
		bits /= kilo
	}
	if i == 0 {
		suffix = ""
	}
	return fmt.Sprintf("%d%s%sbit", bits, []string{"", "K", "M", "G", "T"}[i], suffix)
}

func showMode(c *dcbnl.Client, _ Format) (all items, err error) {
	mode, err := c.Mode()
	for bit, word := range dcbnl.Modes {
		if mode>>bit&1 != 0 {
			all = append(all, item{name: word, json: true})
		}
	}
	return all, err
}

// table is a kind of applications.
type table struct {
	name     string
	selector uint8
	isPrio   bool // applications have no number, but a priority alone
	text     func(protocol uint16, f Format) string
}

func decimal(n uint16, _ Format) string { return fmt.Sprint(n) }

var tables = []table{
	{"ethtype-prio", lldp.SelEtherType, false, func(n uint16, _ Format) string { return fmt.Sprintf("%x", n) }},
	{"default-prio", lldp.SelEtherType, true, nil},
	{"dscp-prio", lldp.SelDSCP, false, func(n uint16, f Format) string {
		if i := slices.IndexFunc(dscps[:], func(d namedDSCP) bool { return d.dscp == n }); i >= 0 && !f.Numeric {
			return dscps[i].name
		}
		return fmt.Sprint(n)
	}},
	{"stream-port-prio", lldp.SelTCP, false, decimal},
	{"dgram-port-prio", lldp.SelUDP, false, decimal},
	{"port-prio", lldp.SelPort, false, decimal},
}

// has tells whether an application is of the kind.
func (t *table) has(a dcbnl.App) bool {
	return a.Selector == t.selector && (t.selector != lldp.SelEtherType || t.isPrio == (a.Protocol == 0))
}

type namedDSCP struct {
	name string
	dscp uint16
}

// dscps are those with names (RFC 2474, RFC 2597, RFC 3246).
var dscps = [...]namedDSCP{{"AF11", 10}, {"AF12", 12}, {"AF13", 14}, {"AF21", 18}, {"AF22", 20}, {"AF23", 22},
	{"AF31", 26}, {"AF32", 28}, {"AF33", 30}, {"AF41", 34}, {"AF42", 36}, {"AF43", 38}, {"CS1", 8}, {"CS2", 16},
	{"CS3", 24}, {"CS4", 32}, {"CS5", 40}, {"CS6", 48}, {"CS7", 56}, {"EF", 46}}

func showApps(c *dcbnl.Client, f Format) (all items, err error) {
	i, err := c.Get()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(i.Apps, func(a, b dcbnl.App) int {
		return cmp.Or(cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Priority, b.Priority))
	})
	for _, t := range tables {
		var words []string
		var list []any
		for _, a := range i.Apps {
			switch {
			case !t.has(a):
			case t.isPrio:
				words, list = append(words, fmt.Sprint(a.Priority)), append(list, a.Priority)
			default:
				words = append(words, fmt.Sprintf("%s:%d", t.text(a.Protocol, f), a.Priority))
				list = append(list, []any{a.Protocol, a.Priority})
			}
		}
		all = append(all, item{name: t.name, text: strings.Join(words, " "), json: list, line: true,
			empty: list == nil})
	}
	return all, nil
}
