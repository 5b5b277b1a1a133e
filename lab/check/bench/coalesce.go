package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"

	"tapir/lab/check/figures"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/hostfn"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// setting is how a NIC with a host TAP interrupts.
type setting struct {
	mode  string
	usecs int
}

// coalesceSettings are measured; the first of a mode is what its others are held
// against.
var coalesceSettings = []setting{
	{"msix", 0}, {"msix", 8}, {"msix", 32}, {"msix", 128}, {"msix", 511},
	{"msi", 0}, {"msi", 32}, {"inta", 0}, {"inta", 32}, {"poll", 0},
}

func (s setting) String() string {
	return fmt.Sprintf("interrupts %s, rx-usecs %d", s.mode, s.usecs)
}

// coalesceRows have every setting measured; document has a table for them.
func coalesceRows() (rows []*row) {
	for _, s := range coalesceSettings {
		rows = append(rows, &row{set: "coalesce", name: s.String(), must: noLimit, aim: noLimit})
	}
	return rows
}

// pings of one measurement.
const pings = 60

var pingTime = regexp.MustCompile(`time=([0-9.]+) ms`)

// coalesceCase floods the wire of a NIC whose interrupts are set so, and has the kernel
// on its wire ping it.
func coalesceCase(set setting) *testCase {
	settings := nic.Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: set.mode,
		RxUsecs: set.usecs}}}
	flood := forwardCase(set.String(), way{back: true}, throughNICOf(settings, 0))
	return &testCase{name: set.String(), run: func(ctx context.Context, m *measurement) (sample, error) {
		got, err := flood.run(ctx, m)
		if err == nil {
			got.latency, err = ping(ctx, settings)
		}
		return got, err
	}}
}

// ping is half the round trip of a ping from a kernel to a NIC, in microseconds: the
// median.
func ping(ctx context.Context, settings nic.Config) (float64, error) {
	const tap, to = "ping0", "10.7.0.2"
	s, err := link.NewSpace(link.Quiet)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	n, err := nicnode.Start(ctx, nicconf.Config{Name: "pinged", TAP: tap,
		IP: []netip.Prefix{netip.MustParsePrefix(to + "/24")}, NIC: settings}, node.Env{NS: s.NS})
	if err != nil {
		return 0, err
	}
	defer n.Close()
	if err := errors.Join(s.Net.AddAddr(tap, netip.MustParsePrefix("10.7.0.1/24")), s.Net.Up(tap)); err != nil {
		return 0, err
	}
	c, err := start(ctx, s.NS, anywhere, nil, "ping", "-c", strconv.Itoa(pings), "-i", "0.004", "-W", "10", to)
	if err != nil {
		return 0, err
	}
	said, err := c.output(0)
	var times []float64
	for _, m := range pingTime.FindAllStringSubmatch(said, -1) {
		ms, _ := strconv.ParseFloat(m[1], 64) // the expression takes numbers only
		times = append(times, ms*1000/2)
	}
	return figures.Median(times), err
}

// interrupts is how many a NIC has made for frames and completions.
func interrupts(d *nic.Device) (n uint64) {
	vectors := map[int]bool{}
	for _, r := range fastlinq.Of(d.Hardware).ShowIRQ() {
		if r.SB != "sp" && r.Vector >= 0 && !vectors[r.Vector] {
			vectors[r.Vector] = true
			n += r.Interrupts
		}
	}
	return n
}

// coalesceTable is what interrupts and their delay cost, empty if it was not measured.
func (b *bench) coalesceTable() []byte {
	var out bytes.Buffer
	none := map[string]float64{}
	for _, set := range coalesceSettings {
		c := b.find(set.String())
		if c == nil {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("\n| interrupts | rx-usecs | interrupts per 1000 frames | CPU ns per frame | ping, µs | " +
				"more than without, µs |\n|---|---|---|---|---|---|\n")
		}
		const KiB = float64(opaMTU+ether.HeaderLen) / 1024
		ping := 2 * figures.Median(c.values(latency))
		if set.usecs == 0 {
			none[set.mode] = ping
		}
		fmt.Fprintf(&out, "| %s | %d | %.1f | %.0f | %.0f | %.0f |\n", set.mode, set.usecs,
			figures.Median(c.values(func(s sample) float64 {
				return s.interrupts
			})), figures.Median(c.values(cpu))*KiB, ping, ping-none[set.mode])
	}
	return out.Bytes()
}

// filtered are as many filters and rules as a driver may set, none of which the frames
// that are forwarded meet but those for all.
func filtered() nic.Config {
	e := fastlinq.Ethernet{RxMode: fastlinq.RxRegular}
	for i := range 63 { // and the NIC's own
		e.Ucast = append(e.Ucast, ether.Addr{2, 0, 0, 0, 1, byte(i)})
	}
	for i := range 64 {
		e.Mcast = append(e.Mcast, ether.Addr{1, 0, 0x5e, 0, 1, byte(i)})
		e.VLANs = append(e.VLANs, uint16(100+i))
	}
	for i := range 256 {
		e.Rules = append(e.Rules, hostfn.Rule{Location: i, Proto: ip.ProtoUDP,
			Src: netip.MustParseAddr("10.6.0.9"), Dst: netip.MustParseAddr("10.6.0.2"), SrcPort: uint16(1000 + i),
			DstPort: 9, Drop: true})
	}
	return nic.Config{Hardware: &fastlinq.Config{Ethernet: e}}
}
