package siw

import (
	"fmt"
)

// stock is a cell with a stock program, in both roles.
func stock(name string, v6 bool, p Program) (cells []Cell) {
	cells = bothRoles(Cell{Topic: "stock programs", Name: name, Program: &p, IPv6: v6, CRC: true})
	if p.Stays { // how it ends says nothing
		cells[0].GuestSays, cells[1].NICSays = anything, anything
	}
	return cells
}

// rpings are the stock rping.
func rpings(v6 bool, size int) []Cell {
	line := fmt.Sprintf("rping -V -C 10 -S %d", size)
	return stock(line, v6, Program{Server: line + " -s -a ADDR -p PORT", Client: line + " -c -a ADDR -p PORT"})
}

// programs are stock programs. Those of perftest that are missing cannot be: siw
// has no atomic operations, and with -R perftest resolves no IPv6 address.
func programs() (cells []Cell) {
	for _, v6 := range []bool{false, true} {
		for _, size := range []int{64, 60000} {
			cells = append(cells, rpings(v6, size)...)
		}
		cells = append(cells, addressed(v6)...)
	}
	cells = append(cells, perftest()...)
	for _, p := range []struct {
		name string
		Program
	}{
		{"rdma_client", Program{Server: "rdma_server -p PORT", Client: "rdma_client -s ADDR -p PORT", Want: "end 0"}},
		{"rdma_xclient -c r", Program{Server: "rdma_xserver -c r -p PORT", Client: "rdma_xclient -c r -s ADDR -p PORT",
			Want: "end 0"}},
		{"rcopy", Program{Server: "rcopy -p PORT", Client: "rcopy from ADDR:to -p PORT", Want: "done", Stays: true,
			Copies: true}},
	} {
		cells = append(cells, stock(p.name, false, p.Program)...)
	}
	times := stock("cmtime -c 10", false, Program{Server: "cmtime -p PORT", Client: "cmtime -c 10 -s ADDR -p PORT",
		Want: "connect", Stays: true})
	times[1].None = true // it only connects, and siw sends no ready-to-receive indication
	return append(cells, times...)
}

// addressed are the programs that have to be told the kind of address.
func addressed(v6 bool) (cells []Cell) {
	ucma, sockets := "", ""
	if v6 {
		ucma, sockets = " -f ip6", " -f ipv6"
	}
	for _, p := range []struct{ line, kind, want string }{
		{"ucmatose -c 4", ucma, "return status 0"},
		{"rstream -I 5 -C 5 -S 4096 -T v", sockets, "custom"},
		{"riostream -I 5 -C 5 -S 4096 -T v", sockets, "custom"},
	} {
		line := p.line + p.kind
		cells = append(cells, stock(p.line, v6, Program{Server: line + " -b ADDR -p PORT",
			Client: line + " -s ADDR -p PORT", Want: p.want})...)
	}
	return cells
}

// perftest is every operation that siw has, polling or (-e) waiting for events.
func perftest() (cells []Cell) {
	add := func(line string) {
		cells = append(cells, stock(line, false, Program{Server: line + " -p PORT", Client: line + " -p PORT ADDR",
			Want: "#bytes"})...)
	}
	for _, op := range []string{"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat",
		"ib_send_lat"} {
		add(op + " -R -F -n 50 -s 8")
		switch op {
		case "ib_write_bw", "ib_read_bw", "ib_send_bw":
			add(op + " -R -F -n 50 -s 4096")
		case "ib_read_lat", "ib_send_lat":
			add(op + " -R -F -n 50 -s 8 -e")
		}
	}
	add("ib_write_bw -R -F -n 20 -s 65536 -q 8")
	return cells
}
