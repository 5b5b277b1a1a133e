package siw

import (
	"fmt"
	"time"

	"tapir/lab/siwt"
)

// Smoke is the short list: both roles, both programs, a CRC and none.
func Smoke() (cells []Cell) {
	cells = append(cells, bothRoles(Cell{Topic: "smoke", Name: "all operations", CRC: true, Job: steps(everyStep)})...)
	cells = append(cells, bothRoles(Cell{Topic: "smoke", Name: "rping", CRC: true, Rping: true, Job: siwt.Job{Conns: 5, Receives: 3000}})...)
	noCRC := Cell{Topic: "smoke", Name: "without CRC", NIC: []string{"mpa_crc_required=0"}, IPv6: true, Job: steps(shortStep)}
	cells = append(cells, bothRoles(noCRC)...)
	bad := Cell{Topic: "smoke", Name: "Terminate", CRC: true, Job: steps("write:64 rbounds:64")}
	bad.NICSays, bad.GuestSays = "base or bounds", "*"
	return append(cells, bothRoles(bad)...)
}

// All is the whole matrix. Cells with the same driver parameters stand
// together: loading it anew takes time.
func All() (cells []Cell) {
	for _, part := range [][]Cell{operations(), largeMessages(), pings(), depths(), privateData(), rejects(), mistakes(), killed(), revisions(), readyToReceive(), crcs()} {
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
		c.NIC = append(c.NIC, "mpa_crc_required=0")
	}
	c.Name = fmt.Sprintf("MPA %d, %d connections, CRC %v", version, conns, crc)
	if version == 1 {
		// The NIC asks for revision 1; siw as client does so in revisions().
		c.NIC = append(c.NIC, "mpa_version=1")
		c.ServeIRD, c.ServeORD = siwt.DefaultReads, siwt.DefaultReads
		return []Cell{c}
	}
	return bothRoles(c)
}

func largeMessages() (cells []Cell) {
	for _, mtu := range []int{576, 1500, 9000} {
		for _, crc := range []bool{true, false} {
			c := Cell{Topic: "large", Name: fmt.Sprintf("1 and 4 MiB, CRC %v", crc), MTU: mtu, CRC: crc, Job: large()}
			if !crc {
				c.NIC = []string{"mpa_crc_required=0"}
			}
			cells = append(cells, bothRoles(c)...)
		}
	}
	return append(cells, bothRoles(Cell{Topic: "large", Name: "1 and 4 MiB, IPv6", IPv6: true, CRC: true, Job: large()})...)
}

func pings() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, size := range []int{64, 3000, 65000} {
			for _, crc := range []bool{true, false} {
				c := Cell{Topic: "rping", Name: fmt.Sprintf("%d octets, CRC %v", size, crc), Rping: true, IPv6: v6, CRC: crc, Job: siwt.Job{Conns: 10, Receives: size}}
				if !crc {
					c.NIC = []string{"mpa_crc_required=0"}
				}
				cells = append(cells, bothRoles(c)...)
			}
		}
	}
	return cells
}

// depths are the corners of IRD and ORD. The NIC serves 128 Reads as siw does.
func depths() (cells []Cell) {
	nic := []string{"max_ird=128", "max_ord=128"}
	for _, d := range []struct{ ird, ord int }{{1, 1}, {1, 128}, {128, 1}, {4, 4}, {128, 128}, {siwt.None, 4}, {4, 0}} {
		c := Cell{Topic: "IRD and ORD", Name: fmt.Sprintf("client asks for %d and %d", max(0, d.ird), d.ord), NIC: nic, CRC: true, Job: steps("readn:3000:200 write:3000 readn:3000:30")}
		c.Job.IRD, c.Job.ORD = d.ird, d.ord
		cells = append(cells, bothRoles(c)...)
	}
	for _, serve := range []int{1, 8} {
		c := Cell{Topic: "IRD and ORD", Name: fmt.Sprintf("server grants %d of 128", serve), NIC: nic, CRC: true, Job: steps("readn:3000:200"), ServeIRD: serve, ServeORD: serve}
		c.Job.IRD, c.Job.ORD = 128, 128
		d := bothRoles(c)
		d[0].Oddity = "raises what its application grants to what the client asks for"
		cells = append(cells, d...)
	}
	more := Cell{Topic: "IRD and ORD", Name: "server grants 7 of 128", NIC: nic, NICServes: true, CRC: true, Job: steps("readn:3000:200"), ServeIRD: 7, ServeORD: 7,
		NICSays: "*", GuestSays: "*", Oddity: "may issue 8 Reads where 7 were agreed on: it rounds up to powers of two; the NIC then ends the connection"}
	more.Job.IRD, more.Job.ORD = 128, 128
	cells = append(cells, more)
	// Without Reads the writes still work.
	c := Cell{Topic: "IRD and ORD", Name: "0 and 0", CRC: true, Job: steps("write:5000 send:64 echo:64")}
	c.Job.IRD, c.Job.ORD = siwt.None, siwt.None
	return append(cells, bothRoles(c)...)
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
	more := Cell{Topic: "private data", Name: "508 octets", None: true, Job: steps("write:64"), NICSays: "reset|closed", GuestSays: "*",
		Oddity: "resets the connection: it takes 256 of the 512 octets that RFC 5044 allows"}
	more.Job.Private = 508
	wrapped := Cell{Topic: "private data", Name: "252 octets", NICServes: true, None: true, Job: steps("write:64"), NICSays: "*", GuestSays: "event RDMA_CM_EVENT_|connect:",
		Oddity: "sends 256 octets behind a length of 0; the NIC drops the garbage"}
	wrapped.Job.Private = 252
	return append(cells, more, wrapped)
}

func rejects() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, n := range []int{8, 200} {
			c := Cell{Topic: "rejects", Name: fmt.Sprintf("with private data, request of %d octets", n), IPv6: v6, None: true, Job: siwt.Job{Reject: true, Private: n},
				NICSays: "rejected as requested", GuestSays: `rejected "siwt: rejected as requested|request private`}
			cells = append(cells, bothRoles(c)...)
		}
	}
	return cells
}

// mistakes are requests that the peer must refuse, with what each side says.
func mistakes() (cells []Cell) {
	for _, m := range []struct{ step, nic, siw, oddity string }{
		{"wbad", "invalid STag", "invalid STag", ""},
		{"wkey", "invalid STag", "invalid STag", ""},
		{"wbounds", "base or bounds", "base or bounds", ""},
		{"wlow", "base or bounds", "base or bounds", ""},
		{"wro", "access rights", "invalid STag", "calls a missing right an invalid STag"},
		{"wpd", "not associated", "not associated", ""},
		{"wwrap", "wrap", "catastrophic|base or bounds", "reports the wrap as a local catastrophic error"},
		{"rbad", "invalid STag", "invalid STag", ""},
		{"rkey", "invalid STag", "invalid STag", ""},
		{"rbounds", "base or bounds", "base or bounds", ""},
		{"rlow", "base or bounds", "base or bounds", ""},
		{"rpd", "not associated", "not associated", ""},
	} {
		c := Cell{Topic: "errors", Name: m.step, CRC: true, Job: steps("write:64 " + m.step + ":64 gone:3000"), NICServes: true, NICSays: m.nic, GuestSays: "*"}
		d := bothRoles(c)
		d[1].NICSays, d[1].Oddity = m.siw, m.oddity
		cells = append(cells, d...)
	}
	rwo := Cell{Topic: "errors", Name: "rwo", CRC: true, Job: steps("rwo:64"), Oddity: "lets peers read memory that is not theirs to read"}
	mine := Cell{Topic: "errors", Name: "rwo", CRC: true, NICServes: true, Job: steps("rwo:64"), NICSays: "access rights", GuestSays: "*"}
	dead := Cell{Topic: "errors", Name: "invalidated STag", CRC: true, Job: steps("sendinv:8 wwo:64 gone:3000"), NICServes: true, NICSays: "invalid STag|access rights", GuestSays: "*"}
	return append(append(cells, rwo, mine), bothRoles(dead)...)
}

// killed are peers that go without a word.
func killed() []Cell {
	wait := steps("write:5000 gone:10000")
	stay := steps("write:5000 sleep:10000")
	c := func(name string, serves bool, job siwt.Job) Cell {
		return Cell{Topic: "killed", Name: name, NICServes: serves, CRC: true, Job: job, NICSays: "*", GuestSays: "*"}
	}
	server := c("the guest's server", false, wait)
	server.KillGuest, server.NICSays = 2*time.Second, ""
	client := c("the guest's client", true, stay)
	client.KillGuest = 2 * time.Second
	nicServer := c("the NIC's server", true, wait)
	nicServer.StopNIC, nicServer.GuestSays = 2*time.Second, "step gone:10000 ok"
	nicClient := c("the NIC's client", false, steps("write:5000 abort"))
	nicClient.GuestSays = "RDMA_CM_EVENT_DISCONNECTED"
	busy := c("the guest's server under traffic", false, steps("burst:60000:400 burst:60000:400 burst:60000:400 burst:60000:400"))
	busy.KillGuest, busy.NICSays = time.Second, "disconnected|flushed|reset|closed|post"
	return []Cell{server, client, nicServer, nicClient, busy}
}

// revisions has siw ask for MPA revision 1.
func revisions() (cells []Cell) {
	v1 := []string{"mpa_version=1"}
	for _, crc := range []bool{true, false} {
		for _, v6 := range []bool{false, true} {
			for _, conns := range []int{1, 8} {
				c := Cell{Topic: "MPA 1", Name: fmt.Sprintf("siw asks, %d connections, CRC %v", conns, crc), NICServes: true, Siw: v1, IPv6: v6, CRC: crc, Job: steps(shortStep)}
				c.Job.Conns = conns
				if !crc {
					c.NIC = []string{"mpa_crc_required=0"}
				}
				cells = append(cells, c)
			}
		}
	}
	// Revision 1 exchanges no depths: a siw server that is given none serves no
	// Reads.
	none := Cell{Topic: "MPA 1", Name: "Read from a server without IRD", Siw: v1, NIC: v1, CRC: true, Job: steps("write:64 read:64"), NICSays: "operation error|reported by the peer|flushed", GuestSays: "*",
		Oddity: "serves no Reads unless its application names a depth"}
	reject := Cell{Topic: "MPA 1", Name: "reject", Siw: v1, NIC: v1, None: true, Job: siwt.Job{Reject: true}, NICSays: "rejected as requested", GuestSays: "*"}
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
				for _, job := range []siwt.Job{steps(everyStep), {Steps: steps(shortStep).Steps, Conns: 8}} {
					c := Cell{Topic: "peer to peer", Name: fmt.Sprintf("RTR %s, %d connections, CRC %v", t.nic, max(1, job.Conns), crc), NICServes: serves, Siw: asks, CRC: crc, Job: job}
					if !serves {
						c.NIC = []string{"peer_to_peer=1", "rtr_type=" + t.nic}
					}
					if !crc {
						c.NIC = append(c.NIC, "mpa_crc_required=0")
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
	demand, refuse, off := []string{"mpa_crc_required=1"}, []string{"mpa_crc_strict=1"}, []string{"mpa_crc_required=0"}
	none := func(c Cell) Cell {
		c.Topic, c.None, c.GuestSays = "CRC", true, "*"
		return c
	}
	return []Cell{
		{Topic: "CRC", Name: "siw demands it", NICServes: true, Siw: demand, NIC: off, CRC: true, Job: steps(shortStep)},
		{Topic: "CRC", Name: "both demand it", NICServes: true, Siw: demand, CRC: true, Job: steps(shortStep)},
		{Topic: "CRC", Name: "both demand it", Siw: demand, CRC: true, Job: steps(shortStep)},
		{Topic: "CRC", Name: "a server demands it of a client that does not ask", Siw: demand, NIC: off, Job: steps(shortStep), Oddity: "does without if the client does not ask, against RFC 5044 section 7.1"},
		none(Cell{Name: "siw refuses it", Siw: refuse, Job: steps(shortStep), NICSays: "no reason given"}),
		{Topic: "CRC", Name: "siw refuses it, the NIC does without", Siw: refuse, NIC: off, Job: steps(shortStep)},
	}
}
