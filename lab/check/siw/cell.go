// Package siw holds the NIC's iWARP against the Linux siw driver, and its RoCE
// against rxe, in both roles: a guest of package peer and a NIC on one bridge, the
// stock rping and verify, and other stock programs, every exchange captured on the
// bridge and judged by tshark.
package siw

import (
	"fmt"
	"strings"

	"tapir/lab/host/link"
	"tapir/lab/tool/verify"
)

// Cell is one exchange under given circumstances.
type Cell struct {
	Topic string // what it is about
	Name  string // what is special

	NICServes bool // else the guest serves and the NIC connects
	Rping     bool // rping instead of verify
	// Program is a stock program instead of verify.
	Program *Program
	// RoCE: the NIC speaks RoCE, the guest has rxe instead of siw.
	RoCE bool
	IPv6 bool
	VLAN bool // of a cell with RoCE over IPv4: its addresses are on VLAN 78
	MTU  int  // octets of IP; 0: 1500
	// Cable is what happens to frames between the NIC's TAP and the bridge, both ways.
	Cable link.Impairment
	Siw   []string // parameters of siw; none: the stock driver
	NIC   []string // settings of the NIC, name=value

	// Job is what the client does, whichever side it is: steps, connections,
	// private data and so on. With Rping, Conns is the number of pings and
	// Receives the size of each.
	Job verify.Job
	// ServeIRD and ServeORD are the verify server's depths, as in verify.Job.
	ServeIRD, ServeORD int
	// KillGuest ends the guest's program when the client has finished a step,
	// StopNIC that of the NIC.
	KillGuest, StopNIC bool

	// NICSays and GuestSays must be in the report of the side (any of the
	// alternatives between |); empty: the side must succeed.
	NICSays, GuestSays string
	// Reads are the depths that the NIC must report; nil: any.
	Reads *Reads
	// CRC tells whether every FPDU carries a CRC. Terminated exchanges may
	// have none at all.
	CRC  bool
	None bool // no FPDU is exchanged
	// Differs is what siw does otherwise than the clause says.
	Differs, Clause string
}

// Reads are the depths of one side.
type Reads struct{ IRD, ORD uint16 }

// anything as NICSays or GuestSays: success or any failure.
const anything = "*"

func (c *Cell) mtu() int {
	if c.MTU == 0 {
		return 1500
	}
	return c.MTU
}

// circumstances are what is to be known beside the name and the role.
func (c *Cell) circumstances() string {
	s := "IPv4"
	if c.IPv6 {
		s = "IPv6"
	}
	if c.VLAN {
		s += ", VLAN"
	}
	if c.MTU != 0 {
		s += fmt.Sprintf(", MTU %d", c.MTU)
	}
	s += c.faults()
	for _, side := range []struct {
		name string
		set  []string
	}{{"siw", c.Siw}, {"NIC", c.NIC}} {
		if len(side.set) > 0 {
			s += fmt.Sprintf(", %s: %s", side.name, strings.Join(side.set, " "))
		}
	}
	return s
}

// faults are what the cable does, in percent.
func (c *Cell) faults() (s string) {
	for _, f := range []struct {
		what string
		ppm  int
	}{{"loss", c.Cable.Loss}, {"duplicates", c.Cable.Duplicate}, {"reordering", c.Cable.Reorder}} {
		if f.ppm > 0 {
			s += fmt.Sprintf(", %g %% %s", float64(f.ppm)/10_000, f.what)
		}
	}
	return s
}

// String names the cell.
func (c Cell) String() string {
	role := "NIC connects"
	if c.NICServes {
		role = "NIC serves"
	}
	return fmt.Sprintf("%s: %s, %s, %s", c.Topic, c.Name, role, c.circumstances())
}

// The steps that a cell takes. Operations go through all kinds, small ones
// around what alignment, padding and one segment make special. The pause is for
// siw: it answers a Read of nothing with a message's worth of octets when it is
// still busy with that message.
const (
	everyStep = "write:0 write:1 write:3 write:64 write:1427 write:1429 read:1429 write:4096 read:4096 sleep:50 " +
		"read:0 read:1 " +
		"write:65536 read:65536 burst:5000:10 read:5000 readn:3000:16 writei:80 read:80 " +
		"send:0 send:1 send:64 send:1424 send:1425 send:4096 send:65536 send:100:8 sendi:80 sendse:0 sendse:7 " +
		"sendse:20000 " +
		"echo:4 echo:9999 sendseinv:9"
	largeStep = "write:4194304 write:1048576 read:4194304 read:1048576 sendse:1048576 send:4194304"
	shortStep = "write:5000 read:5000 send:3000 sendse:64 echo:100 sendinv:8"
)

func steps(s string) verify.Job { return verify.Job{Steps: strings.Fields(s)} }

func large() verify.Job {
	j := steps(largeStep)
	j.Receives, j.RecvKiB = 2, 4096
	return j
}

// bothRoles is the cell with either side as the server.
func bothRoles(c Cell) []Cell {
	d := c
	d.NICServes = !c.NICServes
	return []Cell{c, d}
}
