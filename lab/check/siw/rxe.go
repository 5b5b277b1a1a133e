package siw

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
	"tapir/lab/tool/tshark"
	"tapir/lab/tool/verify"
	"tapir/wire/ether"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// The bridge has an address of its own in cells with rxe: programs exchange queue pair
// numbers over the sockets of the kernel, from which tapir run does not take them.
var (
	bridge4   = netip.MustParsePrefix("10.78.0.254/24")
	bridgeMAC = net.HardwareAddr{2, 0, 0, 78, 0, 254}
)

// In cells on a VLAN both sides have addresses there, of which the guest's has a GID of rxe0.
const vlan = "78"

var (
	nicVLAN   = netip.MustParsePrefix("10.79.0.1/24")
	guestVLAN = netip.MustParsePrefix("10.79.0.2/24")
)

// addVLAN makes the guest's interface on the VLAN, unless it is there.
func (w *World) addVLAN(ctx context.Context) error {
	const name = "eth0." + vlan
	command := fmt.Sprintf("ip link show %[1]s >/dev/null 2>&1 || { modprobe 8021q && "+
		"ip link add link eth0 name %[1]s type vlan id %[2]s && ip addr add %[3]v dev %[1]s && "+
		"ip link set %[1]s up; }", name, vlan, guestVLAN)
	var out bytes.Buffer
	if code, err := w.Guest.Run(ctx, time.Minute, command, &out); err != nil || code != 0 {
		return fmt.Errorf("guest: VLAN interface: exit code %d, %w: %s", code, err, out.String())
	}
	return nil
}

// Indices of IPv4 with RoCE v2 in the GID tables: rxe has v2 only, the NIC both.
const (
	guestGID = "1"
	nicGID   = "3"
)

// socketHost is where the server's sockets are reached.
func (c *Cell) socketHost() netip.Addr {
	server, _ := c.addresses()
	if c.NICServes {
		return bridge4.Addr()
	}
	return server
}

// loadDriver loads the driver that the cell wants.
func (w *World) loadDriver(ctx context.Context, c *Cell) error {
	if !c.RoCE {
		return w.Guest.LoadSiw(ctx, c.Siw...)
	}
	have, err := w.Net.Addrs(bridge)
	if err == nil && !slices.Contains(have, bridge4) {
		// With a MAC of its own: else that of one of its ports is the bridge's, and the NICs go.
		err = errors.Join(w.Net.SetMAC(bridge, bridgeMAC), w.Net.AddAddr(bridge, bridge4))
	}
	if err = errors.Join(err, w.Guest.LoadRXE(ctx)); err == nil && c.VLAN {
		err = w.addVLAN(ctx)
	}
	return err
}

// socketListens tells whether a program of the namespace listens at a TCP port.
func (w *World) socketListens(ctx context.Context, port uint16) bool {
	p, err := process.Start(ctx, w.NS, process.Options{Argv: []string{"ss", "-Hltn", "sport", fmt.Sprintf("= :%d",
		port)}})
	return err == nil && p.Wait(ctx) == nil && strings.Contains(p.Said(), "LISTEN")
}

// judgeRoCE counts the packets of a capture as FPDUs and compares each ICRC; tshark
// says which frames are malformed.
func judgeRoCE(ctx context.Context, file string) (v Verdict, err error) {
	o := tshark.Options{Disable: []string{"rpcordma"}, Filter: "_ws.malformed"}
	rows, err := tshark.Fields(ctx, file, o, "frame.number", "frame.protocols")
	if err != nil {
		return v, err
	}
	for _, r := range rows {
		if !strings.Contains(r[1], ":infiniband:") { // else tshark takes the data for a frame of Ethernet
			v.Malformed = append(v.Malformed, r[0])
		}
	}
	b, err := os.ReadFile(file)
	if err != nil || len(b) < 24 {
		return v, err
	}
	for b = b[24:]; len(b) > 16; {
		n := min(int(binary.LittleEndian.Uint32(b[8:])), len(b)-16)
		v.Frames++
		switch roce, right := icrc(b[16 : 16+n]); {
		case !roce:
		case right:
			v.FPDUs, v.GoodCRC = v.FPDUs+1, v.GoodCRC+1
		default:
			v.FPDUs, v.BadCRC = v.FPDUs+1, v.BadCRC+1
		}
		b = b[16+n:]
	}
	return v, nil
}

// icrc tells whether an Ethernet frame is one of RoCE v2, and its ICRC right.
func icrc(f []byte) (roce, right bool) {
	_, n, err := ether.Parse(f)
	if err != nil {
		return false, false
	}
	f = f[n:]
	h, body, err := ip.Parse(f)
	if err != nil || h.Proto != ip.ProtoUDP {
		return false, false
	}
	u, payload, err := udp.Parse(body)
	if err != nil || u.Dst != ib.UDPPort {
		return false, false
	}
	if h.Version == 4 {
		return true, ib.ICRCIPv4(f).Check(payload)
	}
	return true, ib.ICRCIPv6(f).Check(payload)
}

// rxe is a cell with a stock program over RoCE, in both roles.
func rxe(topic, name string, p Program, change func(*Cell)) []Cell {
	c := Cell{Topic: topic, Name: name, RoCE: true, CRC: true, Program: &p}
	if change != nil {
		change(&c)
	}
	cells := bothRoles(c)
	if p.Stays { // how it ends says nothing
		cells[0].GuestSays, cells[1].NICSays = anything, anything
	}
	return cells
}

func rxePing(topic string, size, mtu int, v6 bool) []Cell {
	line := fmt.Sprintf("rping -V -C 10 -S %d", size)
	return rxe(topic, line, Program{Server: line + " -s -a ADDR -p PORT", Client: line + " -c -a ADDR -p PORT"},
		func(c *Cell) { c.MTU, c.IPv6 = mtu, v6 })
}

// rxePerf is a program of perftest: connected by rdma_cm with -R, else by hand. Then a
// client asks for as many Reads as the server's device can take: rxe can take 128.
func rxePerf(topic, line string, mtu int) []Cell {
	name := line
	if !strings.Contains(line, " -R") {
		if reads := strings.HasPrefix(line, "ib_read") || strings.HasPrefix(line, "ib_atomic"); reads &&
			!strings.Contains(line, " -o") {
			line += " -o 16"
		}
		line += " -x GID -u 18" // an ACK timeout of 1.1 s: the guest may stand still for longer than the usual 67 ms
	}
	line += " -F -p PORT"
	client := line + " HOST"
	if strings.Contains(line, " -R") {
		client = line + " ADDR"
	}
	return rxe(topic, name, Program{Server: line, Client: client, Sockets: !strings.Contains(line, " -R"),
		Want: "#bytes"},
		func(c *Cell) { c.MTU = mtu })
}

func rxePong(program, more string, mtu int) []Cell {
	line := "ibv_" + program + "_pingpong -g GID -n 50 -p PORT" + more
	return rxe("pingpong", strings.Fields(line)[0]+more, Program{Server: line, Client: line + " HOST",
		Sockets: true, Want: "iters in"},
		func(c *Cell) { c.MTU = mtu })
}

// SmokeRoCE is the short list against rxe.
func SmokeRoCE() (cells []Cell) {
	cells = append(cells, rxePing("smoke", 3000, 0, false)...)
	cells = append(cells, rxePerf("smoke", "ib_write_bw -s 4096 -n 50", 0)...)
	return cells
}

// RoCE is the matrix against rxe.
func RoCE() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, size := range []int{64, 1025, 20000, 60000} {
			cells = append(cells, rxePing("rping", size, 0, v6)...)
		}
	}
	cells = append(cells, rxePrograms()...)
	for _, p := range []string{"rc", "uc", "srq"} {
		for _, size := range []string{"", " -s 1"} {
			cells = append(cells, rxePong(p, size, 0)...)
		}
	}
	cells = append(cells, rxePong("rc", " -s 60000", 0)...)
	for _, size := range []string{" -s 512", " -s 1000"} {
		cells = append(cells, rxePong("ud", size, 0)...)
	}
	for _, p := range []string{"ib_send", "ib_write", "ib_read", "ib_atomic"} {
		for _, how := range []string{"_bw", "_bw -R", "_lat", "_lat -R"} {
			cells = append(cells, rxePerf("perftest", p+how+" -n 100", 0)...)
		}
	}
	for _, p := range []string{"ib_send_lat -c UC", "ib_write_lat -c UC", "ib_send_lat -c UD -s 512",
		"ib_atomic_bw -A CMP_AND_SWAP", "ib_send_bw -b", "ib_send_bw -r 1 -R", "ib_send_bw --use-srq",
		"ib_write_bw -q 4", "ib_write_bw -q 4 -R"} {
		cells = append(cells, rxePerf("perftest modes", p+" -n 50", 0)...)
	}
	for _, p := range []string{"ib_send_bw", "ib_write_bw", "ib_read_bw"} {
		for _, size := range []int{1, 1023, 1 << 20} {
			cells = append(cells, rxePerf("sizes", fmt.Sprintf("%s -s %d -n 10", p, size), 0)...)
		}
	}
	for _, mtu := range []int{600, 1100, 2300, 4300} {
		cells = append(cells, rxePing("MTU", 5000, mtu, false)...)
		for _, p := range []string{"ib_write_bw", "ib_read_bw"} {
			cells = append(cells, rxePerf("MTU", p+" -s 30000 -n 20", mtu)...)
		}
	}
	cells = append(cells, rxeOperations()...)
	return append(append(cells, rxeOnVLAN()...), rxeBadCables()...)
}

// rxeOnVLAN are programs that connect by rdma_cm on a VLAN; some set a type of service.
func rxeOnVLAN() (cells []Cell) {
	set := func(c *Cell) { c.VLAN = true }
	for _, line := range []string{"rping -V -C 10 -S 20000", "rping -V -C 10 -S 64"} {
		cells = append(cells, rxe("VLAN", line, Program{Server: line + " -s -a ADDR -p PORT",
			Client: line + " -c -a ADDR -p PORT"}, set)...)
	}
	for _, line := range []string{"ib_write_bw -R -n 50", "ib_read_bw -R -T 72 -n 50", "ib_send_bw -R -n 50"} {
		all := line + " -F -p PORT"
		cells = append(cells, rxe("VLAN", line, Program{Server: all, Client: all + " ADDR", Want: "#bytes"}, set)...)
	}
	for _, p := range []string{"ucmatose -c 4", "udaddy -C 20 -S 500"} {
		port := " -p PORT"
		if strings.HasPrefix(p, "udaddy") { // has one of its own
			port = ""
		}
		cells = append(cells, rxe("VLAN", p, Program{Server: p + " -b ADDR" + port, Client: p + " -s ADDR" + port,
			Want: "return status 0"}, set)...)
	}
	return append(cells, rxe("VLAN", "mckey", Program{Server: "mckey -b HERE -m 239.1.2.3 -C 5",
		Client: "mckey -b HERE -m 239.1.2.3 -C 5 -s", Want: "return status 0", Silent: true}, set)...)
}

// rxeFaults are what bad cables do, both ways, in parts per million.
var rxeFaults = []link.Impairment{
	{Loss: 1_000, All: true}, {Loss: 10_000, All: true}, {Reorder: 20_000, Depth: 3, All: true},
	{Duplicate: 20_000, All: true},
}

// rxeBadCables are transfers over them.
func rxeBadCables() (cells []Cell) {
	for _, f := range rxeFaults {
		set := func(cells []Cell) []Cell {
			for i := range cells {
				cells[i].Cable = f
			}
			return cells
		}
		cells = append(cells, set(rxePing("bad cable", 20000, 0, false))...)
		for _, p := range []string{"ib_write_bw", "ib_read_bw"} {
			cells = append(cells, set(rxePerf("bad cable", p+" -s 30000 -n 30", 0))...)
		}
	}
	return cells
}

// The steps of verify over RoCE: rxe does not refuse that a region of the application is
// invalidated, but it does not do it.
const rxeStep = "write:0 write:1 write:3 write:64 write:1023 write:1025 read:1025 write:4096 read:4096 read:0 read:1 " +
	"write:65536 read:65536 burst:5000:10 read:5000 readn:3000:16 writei:80 read:80 send:0 send:1 send:64 send:1023 " +
	"send:1024 send:1025 send:65536 send:100:8 sendi:80 sendse:0 sendse:7 sendse:20000 echo:4 echo:9999"

// rxeOperations are all operations, and mistakes that must be refused.
func rxeOperations() (cells []Cell) {
	add := func(c Cell) {
		c.RoCE, c.CRC = true, true
		cells = append(cells, bothRoles(c)...)
	}
	for _, mtu := range []int{1280, 1500, 4300} {
		for _, v6 := range []bool{false, true} {
			add(Cell{Topic: "operations", Name: "1 connection", MTU: mtu, IPv6: v6, Job: steps(rxeStep)})
			many := Cell{Topic: "operations", Name: "8 connections", MTU: mtu, IPv6: v6,
				Job: steps("write:5000 read:5000 send:3000 sendse:64 echo:100")}
			many.Job.Conns = 8
			add(many)
		}
	}
	add(Cell{Topic: "operations", Name: "1 MiB", Job: verify.Job{Steps: strings.Fields(
		"write:1048576 read:1048576 send:1048576 sendse:1048576"), Receives: 2, RecvKiB: 1024}})
	shared := Cell{Topic: "operations", Name: "shared receive queue", Job: steps(rxeStep)}
	shared.Job.SRQ = true
	add(shared)
	for _, n := range []int{8, 56} {
		c := Cell{Topic: "operations", Name: fmt.Sprintf("%d octets of private data", n),
			Job: steps("write:64 read:64")}
		c.Job.Private = n
		add(c)
	}
	add(Cell{Topic: "errors", Name: "rejected with private data", Job: verify.Job{Reject: true, Private: 8},
		NICSays: "rejected as requested", GuestSays: "verify: rejected as requested|request private"})
	for _, m := range [][2]string{{"wbad", "Write, unknown R_Key"}, {"wkey", "Write, wrong key"},
		{"wbounds", "Write, past the end"}, {"wlow", "Write, below the start"}, {"wro", "Write, no right"},
		{"wpd", "Write, other protection domain"}, {"rbad", "Read, unknown R_Key"}, {"rbounds", "Read, past the end"},
		{"rwo", "Read, no right"}, {"rpd", "Read, other protection domain"}} {
		for _, c := range bothRoles(Cell{Topic: "errors", Name: m[1], RoCE: true, CRC: true,
			Job: steps("write:64 " + m[0] + ":64")}) {
			c.NICSays, c.GuestSays = refusedAccess, anything
			if c.NICServes {
				c.NICSays, c.GuestSays = anything, refusedAccess
			}
			cells = append(cells, c)
		}
	}
	return cells
}

// refusedAccess is status 10 of a completion.
const refusedAccess = "remote access error"

// rxePrograms are those of rdmacm-utils.
func rxePrograms() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		family := ""
		if v6 {
			family = " -f ip6"
		}
		set := func(c *Cell) { c.IPv6 = v6 }
		for _, p := range []string{"ucmatose -c 4", "ucmatose -C 20 -S 5000", "ucmatose -P ib", "udaddy -c 4",
			"udaddy -C 20 -S 500"} {
			port := " -p PORT"
			if strings.HasPrefix(p, "udaddy") { // has one of its own
				port = ""
			}
			cells = append(cells, rxe("rdmacm-utils", p, Program{Server: p + family + " -b ADDR" + port,
				Client: p + family + " -s ADDR" + port, Want: "return status 0"}, set)...)
		}
	}
	for _, n := range []int{10, 1000} {
		line := fmt.Sprintf("cmtime -c %d", n)
		cells = append(cells, rxe("rdmacm-utils", line, Program{Server: "cmtime -p PORT",
			Client: line + " -s ADDR -p PORT", Want: "connect", Stays: true}, nil)...)
	}
	cells = append(cells, rxe("rdmacm-utils", "rdma_client", Program{Server: "rdma_server -p PORT",
		Client: "rdma_client -s ADDR -p PORT", Want: "end 0"}, nil)...)
	return append(cells, rxe("rdmacm-utils", "mckey", Program{Server: "mckey -b HERE -m 239.1.2.3 -C 5",
		Client: "mckey -b HERE -m 239.1.2.3 -C 5 -s", Want: "return status 0", Silent: true}, nil)...)
}
