package programs

import (
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Cell is a server and a client that talk to each other.
type Cell struct {
	Name           string
	Server, Client string        // command lines; without a server the client is alone
	Want           string        // what a content client says
	Not            []string      // what it does not say
	Stays          bool          // the server serves until it is ended
	Kills          bool          // it has to be killed then
	Socket         bool          // it listens on a socket, not on its NIC, until the client comes
	Joins          bool          // it does not listen, but joins a multicast group
	Copies         int           // octets of the file "from", which the client copies to the server's "to"
	Known          []string      // what the programs say when an error of their own ended them: they are begun anew
	Within         time.Duration // how long it may take, if not as long as any
	Only           []Mode        // the modes that the programs bear, if not all
	Restarts       bool          // it takes a call that Linux restarts for no flag, interrupted, for an error
	Floods         bool          // it sends for seconds as fast as it can: too much to be captured
	Needs          string        // the programs that a cell of applications needs, if not its first words
	Prepare        string        // a shell script beside the server, at whose end it is ready
	Files          map[string]string
}

// In reports whether the cell's programs bear a mode.
func (c *Cell) In(m Mode) bool {
	return c.Only == nil || slices.ContainsFunc(c.Only, func(o Mode) bool { return o.Name == m.Name })
}

// Cells are all there are. Their iterations are few: what counts is that every
// operation passes, and that data arrive. copied is how large the file is that
// rcopy copies, in octets.
func Cells(copied int) (list []Cell) {
	list = []Cell{
		{Name: "ibv_devices", Client: "ibv_devices", Want: "rxe0"},
		{Name: "ibv_devinfo", Client: "ibv_devinfo -v", Want: "PORT_ACTIVE"},
		// It is a shell script that changes into /sys/class/infiniband.
		{Name: "ibstatus", Client: "ibstatus", Want: "4: ACTIVE", Only: []Mode{Auto, Preload}},
		{Name: "rping", Server: "rping -s -V -C 20", Client: "rping -c -V -C 20 -a " + IPv4},
		{Name: "rping v6", Server: "rping -s -V -C 20 -a ::", Client: "rping -c -V -C 20 -a " + IPv6},
		{Name: "rping 60000 octets", Server: "rping -s -V -C 20 -S 60000", Client: "rping -c -V -C 20 -S 60000 -a " +
			IPv4},
		{Name: "ucmatose", Server: "ucmatose -c 4", Client: "ucmatose -c 4 -s " + IPv4, Want: "return status 0"},
		{Name: "ucmatose migrates", Server: "ucmatose -c 4 -m", Client: "ucmatose -c 4 -m -s " + IPv4,
			Want: "return status 0"},
		{Name: "ucmatose v6", Server: "ucmatose -c 4 -f ip6 -b " + IPv6, Client: "ucmatose -c 4 -f ip6 -s " + IPv6,
			Want: "return status 0"},
		{Name: "rdma_client", Server: "rdma_server", Client: "rdma_client -s " + IPv4, Want: "end 0"},
		{Name: "rdma_client v6", Server: "rdma_server -s ::", Client: "rdma_client -s " + IPv6, Want: "end 0"},
		{Name: "cmtime", Server: "cmtime", Client: "cmtime -c 20 -s " + IPv4, Want: "connect", Stays: true},
		{Name: "cmtime v6", Server: "cmtime -b " + IPv6, Client: "cmtime -c 20 -s " + IPv6, Want: "connect",
			Stays: true},
	}
	return slices.Concat(list, rsockets(copied), libfabric(), perftest(), qperf())
}

// rsockets are the cells of librdmacm's sockets. It serves them by threads that
// end when a signal interrupts their first poll(2); who has started one then
// waits for it for ever.
func rsockets(copied int) (list []Cell) {
	list = []Cell{{Name: "rcopy", Server: "rcopy", Client: "rcopy from " + IPv4 + ":to", Want: "done", Stays: true,
		Copies: copied, Restarts: true}}
	for _, p := range []string{"rstream", "riostream"} {
		arg := p + " -I 5 -C 5 -S 4096 -T v"
		c := Cell{Name: p, Server: arg, Client: arg + " -s " + IPv4, Want: "custom", Restarts: true}
		list = append(list, c)
		c.Name, c.Server, c.Client = p+" v6", arg+" -f ipv6 -b "+IPv6, arg+" -f ipv6 -s "+IPv6
		list = append(list, c)
	}
	return list
}

// libfabric are the cells of its program.
func libfabric() (list []Cell) {
	for _, p := range []string{"-p verbs -e msg", "-p verbs;ofi_rxm -e rdm"} {
		arg := "fi_pingpong " + p + " -I 20 -S 4096 -c"
		c := Cell{Name: "fi_pingpong " + strings.Fields(p)[1], Server: arg, Client: arg + " " + IPv4, Want: "4k",
			Socket: true, Restarts: true}
		if strings.Contains(p, "rxm") {
			// When it closes a connection, it posts a receive to the endpoint that it
			// has closed, if a message has been there (libfabric issue 11828).
			c.Known = []string{"terminated with signal 11 at PC="}
		}
		list = append(list, c)
		c.Name, c.Server, c.Client = c.Name+" v6", arg+" -6", arg+" -6 "+IPv6
		list = append(list, c)
	}
	return list
}

// perftest are its programs, which have no IPv6: few octets and many, one queue
// pair and eight, by polling and, where the program has that, by events.
func perftest() (list []Cell) {
	// What the client says when its second connection, which is for the queue
	// pairs, comes before the server listens anew: it does not try again, on no
	// device, and its clean-up then ends by SIGSEGV. (A server that ends there, by
	// tapir run --kill-after-posts 5, shows that each time.)
	refused := []string{"RDMA_CM_EVENT_REJECTED; error: -111"}
	add := func(op string, variants ...string) {
		for _, v := range variants {
			cmd := strings.TrimSpace("ib_" + op + " -R -F " + v)
			list = append(list, Cell{Name: strings.TrimSpace(op + " " + v), Server: cmd, Client: cmd + " " + IPv4,
				Want: "#bytes", Known: refused})
		}
	}
	const few, many, eight = "-n 100 -s 2", "-n 5 -s 4194304", "-n 20 -s 65536 -q 8"
	add("write_bw", few, many, eight)
	add("read_bw", few, many, eight, "-e "+few, "-e "+many, "-e "+eight)
	add("send_bw", few, many, eight, "-n 100 --use-srq")
	add("atomic_bw", "-n 100", "-n 100 -q 8", "-e -n 100", "-e -n 100 -q 8")
	add("write_lat", few, many)
	add("read_lat", few, many, "-e "+few, "-e "+many)
	add("send_lat", few, many, "-e "+few, "-e "+many)
	add("atomic_lat", "-n 100", "-e -n 100")
	// The sender looks for credits, which the receiver writes into its memory, only
	// when a send of its own completes. If all have completed before the first
	// credit comes, it waits for ever, with one message less sent than it should.
	stuck := func(v, rcnt string) {
		add("send_bw", v)
		c := &list[len(list)-1]
		c.Known, c.Within = append([]string{"Failed status 5: wr_id 0 syndrom 0x0\n rcnt=" + rcnt}, refused...),
			30*time.Second
	}
	stuck("-e -n 1000 -r 1000 -Q 1 -t 16 -s 2", "999")
	stuck("-e -Q 1 "+many, "4")
	return list
}

// qperf are its tests of reliable connections, which have no IPv6 where the
// connection manager makes them. rc_bi_bw is not for iWARP: both sides send
// whether the other has posted a receive or not. rc_bw sends as many messages as
// have receives from the start.
func qperf() []Cell {
	// The server tells its port before it listens there.
	refused := []string{"unexpected event from RDMA CM: Event rejected"}
	cmd := "qperf " + IPv4 + " -cm 1 "
	return []Cell{
		{Name: "qperf rc_bw", Server: "qperf", Client: cmd + "-cp 1 -n 100 rc_bw", Want: "bw", Stays: true,
			Socket: true, Known: refused, Restarts: true},
		// Its alarm, which is without SA_RESTART, interrupts commands.
		{Name: "qperf waits", Server: "qperf", Client: cmd + "-t 1 rc_lat rc_rdma_write_lat rc_rdma_read_lat",
			Want: "rc_rdma_read_lat", Stays: true, Socket: true, Known: refused, Only: []Mode{Preload}},
		{Name: "qperf polls", Server: "qperf", Client: cmd +
			"-cp 1 -t 1 rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat" +
			" rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add",
			Want: "ver_rc_fetch_add", Stays: true, Socket: true, Known: refused, Floods: true, Restarts: true},
	}
}

// Missing names a program of the cells that is not installed, "" if all are.
func Missing() string {
	for _, c := range Cells(0) {
		name, _, _ := strings.Cut(c.Client, " ")
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	return ""
}

// pattern is a file to be copied.
func pattern(octets int) []byte {
	b := make([]byte, octets)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}
