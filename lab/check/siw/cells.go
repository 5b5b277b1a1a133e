package siw

import (
	"fmt"
	"strings"

	"tapir/lab/tool/verify"
)

// Smoke is the short list: both roles, rping and verify, rping under tapir run, a
// CRC and none, one connection and eight, up to 4 MiB, and an error.
func Smoke() (cells []Cell) {
	cells = append(cells, bothRoles(Cell{Topic: "smoke", Name: "all operations", CRC: true, Job: steps(everyStep)})...)
	cells = append(cells, bothRoles(Cell{Topic: "smoke", Name: "rping", CRC: true, Rping: true,
		Job: verify.Job{Conns: 5, Receives: 3000}})...)
	many := Cell{Topic: "smoke", Name: "8 connections", NIC: noCRC, IPv6: true, Job: steps(shortStep)}
	many.Job.Conns = 8
	cells = append(cells, bothRoles(many)...)
	cells = append(cells, bothRoles(Cell{Topic: "smoke", Name: "4 MiB", CRC: true,
		Job: steps("write:4194304 read:4194304")})...)
	for _, c := range rpings(false, 3000) {
		c.Topic = "smoke"
		cells = append(cells, c)
	}
	bad := Cell{Topic: "smoke", Name: "Terminate", CRC: true, Job: steps("write:64 rbounds:64")}
	bad.NICSays, bad.GuestSays = "base or bounds", anything
	return append(cells, bothRoles(bad)...)
}

// Settings that several cells use.
var (
	noCRC = []string{"mpa_crc_required=0"}
	v1    = []string{"mpa_version=1"}
)

// All is the whole matrix. Cells with the same driver parameters stand
// together: loading it anew takes time.
func All() (cells []Cell) {
	for _, part := range [][]Cell{operations(), largeMessages(), pings(), programs(), depths(), privateData(),
		rejects(), mistakes(), killed(), mpa(), revisions(), readyToReceive(), crcs()} {
		cells = append(cells, part...)
	}
	return cells
}

// operations is the product of the circumstances, each with every operation;
// many connections take the short way.
func operations() (cells []Cell) {
	for _, mtu := range []int{576, 1500, 9000} {
		for _, v6 := range []bool{false, true} {
			if v6 && mtu < 1280 {
				mtu = 1280 // the least that IPv6 knows
			}
			for _, crc := range []bool{true, false} {
				for _, version := range []int{2, 1} {
					for _, conns := range []int{1, 8} {
						cells = append(cells, operation(mtu, v6, crc, version, conns)...)
					}
				}
			}
		}
	}
	return cells
}

func operation(mtu int, v6, crc bool, version, conns int) []Cell {
	c := Cell{Topic: "operations", MTU: mtu, IPv6: v6, CRC: crc, Job: steps(everyStep)}
	if conns > 1 {
		c.Job = steps(shortStep)
	}
	c.Job.Conns = conns
	if !crc {
		c.NIC = append(c.NIC, noCRC...)
	}
	c.Name = fmt.Sprintf("MPA %d, %d connections, CRC %v", version, conns, crc)
	if version == 1 {
		// The NIC asks for revision 1; siw as client does so in revisions().
		c.NIC = append(c.NIC, "mpa_version=1")
		c.ServeIRD, c.ServeORD = verify.DefaultReads, verify.DefaultReads
		return []Cell{c}
	}
	return bothRoles(c)
}

func largeMessages() (cells []Cell) {
	for _, mtu := range []int{576, 1500, 9000} {
		for _, crc := range []bool{true, false} {
			c := Cell{Topic: "large", Name: fmt.Sprintf("1 and 4 MiB, CRC %v", crc), MTU: mtu, CRC: crc, Job: large()}
			if !crc {
				c.NIC = noCRC
			}
			cells = append(cells, bothRoles(c)...)
		}
	}
	return append(cells, bothRoles(Cell{Topic: "large", Name: "1 and 4 MiB, IPv6", IPv6: true, CRC: true,
		Job: large()})...)
}

func pings() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, size := range []int{64, 3000, 65000} {
			for _, crc := range []bool{true, false} {
				c := Cell{Topic: "rping", Name: fmt.Sprintf("%d octets, CRC %v", size, crc), Rping: true, IPv6: v6,
					CRC: crc, Job: verify.Job{Conns: 10, Receives: size}}
				if !crc {
					c.NIC = noCRC
				}
				cells = append(cells, bothRoles(c)...)
			}
		}
	}
	return cells
}

// depths are the corners of IRD and ORD, with what the NIC must report. Both
// serve 128 Reads where nothing else is said.
func depths() (cells []Cell) {
	nic := []string{"max_ird=128", "max_ord=128"}
	for _, d := range []struct{ ird, ord int }{{1, 1}, {1, 128}, {128, 1}, {4, 4}, {128, 128}, {verify.None, 4}} {
		c := Cell{Topic: "IRD and ORD", Name: fmt.Sprintf("client asks for %d and %d", max(0, d.ird), d.ord), NIC: nic,
			CRC: true,
			Job: steps("readn:3000:200 write:3000 readn:3000:30"), Reads: &Reads{uint16(max(0, d.ird)), uint16(d.ord)}}
		c.Job.IRD, c.Job.ORD = d.ird, d.ord
		serves := c
		serves.NICServes, serves.ServeIRD, serves.ServeORD = true, 128, 128
		serves.Reads = &Reads{c.Reads.ORD, c.Reads.IRD}
		cells = append(cells, c, serves)
	}
	for _, grant := range []int{1, 8} {
		c := Cell{Topic: "IRD and ORD", Name: fmt.Sprintf("server grants %d of 128", grant), NIC: nic, CRC: true,
			Job: steps("readn:3000:200"), ServeIRD: grant, ServeORD: grant, Reads: &Reads{uint16(grant), 128},
			Differs: "serves 128: it raises what its application grants to what the client asks for",
			Clause:  "RFC 6581 section 9.1"}
		c.Job.IRD, c.Job.ORD = 128, 128
		serves := c
		serves.NICServes, serves.Reads, serves.Differs, serves.Clause = true, &Reads{uint16(grant), uint16(grant)}, "",
			""
		cells = append(cells, c, serves)
	}
	more := Cell{Topic: "IRD and ORD", Name: "server grants 7 of 128", NIC: nic, NICServes: true, CRC: true,
		Job: steps("readn:3000:200"), ServeIRD: 7, ServeORD: 7,
		NICSays: anything, GuestSays: anything, Reads: &Reads{7, 7},
		Differs: "may issue 8 Reads where 7 were agreed on, for it rounds up to powers of two; the NIC then ends " +
			"the connection", Clause: "RFC 5040 section 6.1"}
	more.Job.IRD, more.Job.ORD = 128, 128
	cells = append(cells, more)
	for _, ird := range []int{4, verify.None} {
		c := Cell{Topic: "IRD and ORD", Name: fmt.Sprintf("no Reads: client asks for %d and 0", max(0, ird)), CRC: true,
			Job: steps("write:5000 send:64 echo:64"), Reads: &Reads{uint16(max(0, ird)), 0}}
		c.Job.IRD, c.Job.ORD = ird, verify.None
		serves := c
		serves.NICServes, serves.Reads = true, &Reads{0, c.Reads.IRD}
		cells = append(cells, c, serves)
	}
	return cells
}

func privateData() (cells []Cell) {
	for _, n := range []int{8, 9, 100, 251} {
		c := Cell{Topic: "private data", Name: fmt.Sprintf("%d octets", n), CRC: true, Job: steps("write:64 read:64")}
		c.Job.Private = n
		cells = append(cells, bothRoles(c)...)
	}
	most := Cell{Topic: "private data", Name: "252 octets", CRC: true, Job: steps("write:64 read:64")}
	most.Job.Private = 252
	cells = append(cells, most)
	more := Cell{Topic: "private data", Name: "508 octets", None: true, Job: steps("write:64"), NICSays: "reset|closed",
		GuestSays: anything,
		Differs:   "resets the connection: it takes 256 of 512 octets, the words of IRD and ORD included",
		Clause:    "RFC 5044 section 7.1.1"}
	more.Job.Private = 508
	wrapped := Cell{Topic: "private data", Name: "252 octets", NICServes: true, None: true, Job: steps("write:64"),
		NICSays: anything, GuestSays: "event RDMA_CM_EVENT_|connect:",
		Differs: "sends 256 octets behind a length of 0; the NIC drops the connection",
		Clause:  "RFC 5044 section 7.1.1"}
	wrapped.Job.Private = 252
	return append(cells, more, wrapped)
}

func rejects() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, n := range []int{8, 200} {
			c := Cell{Topic: "rejects", Name: fmt.Sprintf("with private data, request of %d octets", n), IPv6: v6,
				None: true, Job: verify.Job{Reject: true, Private: n},
				NICSays: "rejected as requested", GuestSays: "verify: rejected as requested|request private"}
			cells = append(cells, bothRoles(c)...)
		}
	}
	return cells
}

// mistakes are requests that the peer must refuse, with what each side says.
func mistakes() (cells []Cell) {
	for _, m := range []struct{ step, what, nic, siw, differs, clause string }{
		{"wbad", "Write, unknown STag", "invalid STag", "invalid STag", "", ""},
		{"wkey", "Write, wrong key", "invalid STag", "invalid STag", "", ""},
		{"wbounds", "Write, past the end", "base or bounds", "base or bounds", "", ""},
		{"wlow", "Write, below the start", "base or bounds", "base or bounds", "", ""},
		{"wro", "Write, no right", "access rights", "invalid STag", "calls a missing right an invalid STag",
			"RFC 5040 section 4.8"},
		{"wpd", "Write, other protection domain", "not associated", "not associated", "", ""},
		{"wwrap", "Write, past 2^64", "wrap", "catastrophic|base or bounds",
			"reports the wrap as a local catastrophic error", "RFC 5041 section 7.2"},
		{"rbad", "Read, unknown STag", "invalid STag", "invalid STag", "", ""},
		{"rkey", "Read, wrong key", "invalid STag", "invalid STag", "", ""},
		{"rbounds", "Read, past the end", "base or bounds", "base or bounds", "", ""},
		{"rlow", "Read, below the start", "base or bounds", "base or bounds", "", ""},
		{"rpd", "Read, other protection domain", "not associated", "not associated", "", ""},
	} {
		c := Cell{Topic: "errors", Name: m.what, CRC: true, Job: steps("write:64 " + m.step + ":64 gone:60000"),
			NICServes: true, NICSays: m.nic, GuestSays: anything}
		d := bothRoles(c)
		d[1].NICSays, d[1].Differs, d[1].Clause = m.siw, m.differs, m.clause
		cells = append(cells, d...)
	}
	rwo := Cell{Topic: "errors", Name: "Read, no right", CRC: true, Job: steps("rwo:64"),
		Differs: "lets peers read memory that they have no right to read", Clause: "RFC 5040 section 4.8"}
	mine := Cell{Topic: "errors", Name: "Read, no right", CRC: true, NICServes: true, Job: steps("rwo:64"),
		NICSays: "access rights", GuestSays: anything}
	dead := Cell{Topic: "errors", Name: "Write, invalidated STag", CRC: true, Job: steps("sendinv:8 wwo:64 gone:60000"),
		NICServes: true, NICSays: "invalid STag|access rights", GuestSays: anything}
	return append(append(cells, rwo, mine), bothRoles(dead)...)
}

// killed are peers that go without a word.
func killed() []Cell {
	wait := steps("write:5000 gone:60000")
	stay := steps("write:5000 sleep:60000")
	c := func(name string, serves bool, job verify.Job) Cell {
		return Cell{Topic: "killed", Name: name, NICServes: serves, CRC: true, Job: job, NICSays: anything,
			GuestSays: anything}
	}
	server := c("the guest's server", false, wait)
	server.KillGuest, server.NICSays = true, ""
	client := c("the guest's client", true, stay)
	client.KillGuest = true
	nicServer := c("the NIC's server", true, wait)
	nicServer.StopNIC, nicServer.GuestSays = true, "step gone:60000 ok"
	nicClient := c("the NIC's client", false, steps("write:5000 abort"))
	nicClient.GuestSays = "RDMA_CM_EVENT_DISCONNECTED"
	busy := c("the guest's server under traffic", false, steps(strings.Repeat("burst:60000:400 ", 8)))
	busy.KillGuest, busy.NICSays = true, "disconnected|flushed|reset|closed|post"
	return []Cell{server, client, nicServer, nicClient, busy}
}

// mpa is what is left of MPA, and of receiving.
func mpa() (cells []Cell) {
	shared := Cell{Topic: "receives and framing", Name: "shared receive queue", CRC: true, Job: steps(everyStep)}
	shared.Job.SRQ = true
	cells = append(cells, bothRoles(shared)...)
	cells = append(cells,
		bothRoles(Cell{Topic: "receives and framing", Name: "Nagle: FPDUs share and straddle segments",
			Siw: []string{"siw_tcp_nagle=1"}, CRC: true, Job: steps(everyStep)})...)
	return append(cells, Cell{Topic: "receives and framing", Name: "the NIC asks for markers",
		NIC: []string{"mpa_markers=1"}, None: true, Job: steps("write:64"), NICSays: "no reason given",
		GuestSays: anything,
		Differs:   "rejects the connection: it knows no markers", Clause: "RFC 5044 section 4.3"})
}

// revisions has siw ask for MPA revision 1.
func revisions() (cells []Cell) {
	for _, crc := range []bool{true, false} {
		for _, v6 := range []bool{false, true} {
			for _, conns := range []int{1, 8} {
				c := Cell{Topic: "MPA 1", Name: fmt.Sprintf("siw asks, %d connections, CRC %v", conns, crc),
					NICServes: true, Siw: v1, IPv6: v6, CRC: crc, Job: steps(shortStep)}
				c.Job.Conns = conns
				if !crc {
					c.NIC = noCRC
				}
				cells = append(cells, c)
			}
		}
	}
	// Revision 1 exchanges no depths: a siw server that is given none serves no
	// Reads.
	none := Cell{Topic: "MPA 1", Name: "Read from a server without IRD", Siw: v1, NIC: v1, CRC: true,
		Job: steps("write:64 read:64"), NICSays: "operation error|reported by the peer|flushed", GuestSays: anything,
		Differs: "serves no Reads unless its application names a depth", Clause: "RFC 6581 section 4.1"}
	reject := Cell{Topic: "MPA 1", Name: "reject", Siw: v1, NIC: v1, None: true, Job: verify.Job{Reject: true},
		NICSays: "rejected as requested", GuestSays: anything}
	return append(append(cells, none), bothRoles(reject)...)
}

// readyToReceive is the peer-to-peer model with each indication.
func readyToReceive() (cells []Cell) {
	for _, t := range []struct {
		siw string
		nic string
	}{{"128", "write"}, {"64", "read"}, {"192", "send,write,read"}} {
		asks := []string{"peer_to_peer=1", "rtr_type=" + t.siw}
		for _, serves := range []bool{true, false} {
			for _, crc := range []bool{true, false} {
				for _, job := range []verify.Job{steps(everyStep), {Steps: steps(shortStep).Steps, Conns: 8}} {
					c := Cell{Topic: "peer to peer", Name: fmt.Sprintf("RTR %s, %d connections, CRC %v", t.nic,
						max(1, job.Conns), crc), NICServes: serves, Siw: asks, CRC: crc, Job: job}
					if !serves {
						c.NIC = []string{"peer_to_peer=1", "rtr_type=" + t.nic}
					}
					if !crc {
						c.NIC = append(c.NIC, noCRC...)
					}
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// crcs are siw's own switches for the CRC.
func crcs() []Cell {
	demand, refuse, off := []string{"mpa_crc_required=1"}, []string{"mpa_crc_strict=1"}, noCRC
	none := func(c Cell) Cell {
		c.Topic, c.None, c.GuestSays = "CRC", true, anything
		return c
	}
	return []Cell{
		{Topic: "CRC", Name: "siw demands it", NICServes: true, Siw: demand, NIC: off, CRC: true,
			Job: steps(shortStep)},
		{Topic: "CRC", Name: "both demand it", NICServes: true, Siw: demand, CRC: true, Job: steps(shortStep)},
		{Topic: "CRC", Name: "both demand it", Siw: demand, CRC: true, Job: steps(shortStep)},
		{Topic: "CRC", Name: "a server demands it of a client that does not ask", Siw: demand, NIC: off,
			Job: steps(shortStep), Differs: "does without if the client does not ask",
			Clause: "RFC 5044 section 7.1.1"},
		none(Cell{Name: "siw refuses it", Siw: refuse, Job: steps(shortStep), NICSays: "no reason given",
			Differs: "rejects a client that asks for CRCs", Clause: "RFC 5044 section 7.1.1"}),
		{Topic: "CRC", Name: "siw refuses it, the NIC does without", Siw: refuse, NIC: off, Job: steps(shortStep)},
	}
}
