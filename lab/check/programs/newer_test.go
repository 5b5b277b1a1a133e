//go:build newer

package programs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestNewer runs programs of the root directory NEWER_ROOT, which has a newer
// rdma-core, against those outside, and among themselves.
func TestNewer(t *testing.T) {
	dir := os.Getenv("NEWER_ROOT")
	if dir == "" {
		t.Fatal("NEWER_ROOT names no root directory: use make newer")
	}
	write(t, dir+"/tapir", content(t, tapir))
	l := newLab(t)
	names := []string{"rping", "rping v6", "ucmatose", "rstream", "write_bw -n 100 -s 2", "write_bw -n 20 -s 65536 -q 8",
		"send_bw -n 100 -s 2", "send_lat -n 100 -s 2", "send_lat -e -n 100 -s 2", "read_bw -n 20 -s 65536 -q 8", "atomic_bw -n 100"}
	ipv6 := strings.Contains(content(t, dir+"/usr/bin/ib_write_bw"), strings.Trim(ipv6Option, " -"))
	found := 0
	for _, c := range Cells(0) {
		if !slices.Contains(names, c.Name) {
			continue
		}
		found++
		for _, how := range []string{"auto", "preload"} {
			for _, newer := range [][]string{{server}, {client}, both} {
				runNewer(t, l, c, how, newer, ways(dir)[how])
			}
			if ipv6 && strings.HasPrefix(c.Server, "ib_") {
				runNewer(t, l, overIPv6(c), how, both, ways(dir)[how])
			}
		}
	}
	if found != len(names) {
		t.Errorf("%d of %d", found, len(names))
	}
}

var both = []string{server, client}

// ipv6Option is what newer ones of perftest have for IPv6.
const ipv6Option = " --ipv6-addr"

// overIPv6 is a cell of perftest over IPv6.
func overIPv6(c Cell) Cell {
	c.Name += " v6"
	c.Server += ipv6Option
	c.Client = strings.TrimSuffix(c.Client, IPv4) + IPv6 + ipv6Option
	return c
}

func runNewer(t *testing.T, l *Lab, c Cell, how string, newer []string, under func(string, []string) []string) {
	m := Mode{Name: how, Under: func(nic string, argv []string) []string {
		if slices.Contains(newer, nic) {
			return under(nic, argv)
		}
		return l.under(nic, Mode{Flags: []string{"--via", how}}, argv)
	}}
	t.Run(c.Name+", "+how+", newer "+newer[0]+map[int]string{1: "", 2: " and client"}[len(newer)], func(t *testing.T) { runCell(t, l, c, m) })
}
