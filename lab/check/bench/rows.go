package main

import (
	"fmt"
	"math"
	"slices"
)

// row is one line of the document's table: a case against its reference, or
// alone if it has none.
type row struct {
	set       string // the part of the benchmark that it belongs to
	what      string // empty: the case is measured for another table
	name, ref string
	value     func(sample) float64
	unit      string
	must, aim float64
	less      bool // a smaller ratio is better
}

// noLimit stands for must and aim of a row that has none.
const noLimit = -1

// mark is must or aim as the table has it.
func (r *row) mark(v float64) string {
	if v == noLimit {
		return ""
	}
	return fmt.Sprintf("%g", v)
}

func gbps(s sample) float64    { return s.gbps }
func rate(s sample) float64    { return s.rate / 1e6 }
func latency(s sample) float64 { return s.latency }
func cpu(s sample) float64     { return s.cpu }
func memory(s sample) float64  { return s.memory }
func setup(s sample) float64   { return s.setup }
func heldKiB(s sample) float64 { return s.held }
func allocs(s sample) float64  { return math.Round(s.allocs*1000) / 1000 }

var allRows = append([]*row{
	{"gso", "TCP stream, `gso` : kernel TCP",
		tcpGSO, kernelStream, gbps, "Gb/s", 0.65, 0.95, false},
	{"gso", "TCP stream, `gso` : gVisor netstack with GSO",
		tcpGSO, gvisorGSO, gbps, "Gb/s", 1.0, 1.4, false},
	{"gso", "CPU time per KiB, both ends, TCP stream, `gso` : kernel TCP",
		tcpGSO, kernelStream, cpu, "ns", 2.5, 1.5, true},
	{"gso", "RDMA Write 1 MiB, `gso` : kernel TCP",
		gsoWrite, kernelStream, gbps, "Gb/s", 0.60, 0.90, false},
	{"gso", "CPU time per KiB, both ends, RDMA Write, `gso` : kernel TCP",
		gsoWrite, kernelStream, cpu, "ns", 2.5, 1.5, true},
	{"jumbo", "TCP stream, `jumbo` : kernel TCP",
		tcpJumbo, kernelAgain, gbps, "Gb/s", 0.65, 1.0, false},
	{"jumbo", "RDMA Write 1 MiB, `jumbo` : kernel TCP",
		jumboWrite, kernelAgain, gbps, "Gb/s", 0.65, 1.0, false},
	{"wire", "TCP stream, `wire` 1500 : kernel TCP, offloads off",
		tcpWire1500, kernelOff1500, gbps, "Gb/s", 0.50, 0.80, false},
	{"wire", "TCP stream, `wire` 9000 : kernel TCP, offloads off",
		tcpWire9000, kernelOff9000, gbps, "Gb/s", 0.55, 0.90, false},
	{"wire", "RDMA Write 1 MiB, `wire` 1500 : kernel TCP, offloads off",
		wire1500, kernelOff1500, gbps, "Gb/s", 0.45, 0.75, false},
	{"wire", "RDMA Write 1 MiB, `wire` 9000 : kernel TCP, offloads off",
		wire9000, kernelOff9000, gbps, "Gb/s", 0.50, 0.85, false},
	{"drop", "TCP stream, `wire` 1500, 1 % loss : kernel TCP, the same loss",
		tcpDrop, kernelDrop, gbps, "Gb/s", 0.40, 0.75, false},
	{"drop", "TCP stream, `gso`, 1 % loss : `wire` 1500, 1 % loss",
		tcpGSODrop, tcpDrop, gbps, "Gb/s", 0.50, 0.90, false},
	{"drop", "RDMA Write 1 MiB, `wire` 1500, 1 % loss, segments placed out of order : in order only",
		dropWrite, dropWriteOrder, gbps, "Gb/s", 0.9, 1, false},
	{"drop", "copied aside per MiB, 1 % loss, segments placed out of order : in order only",
		dropWrite, dropWriteOrder, heldKiB, "KiB", 0.5, 0.1, true},
	{"ping", "TCP 64 B ping-pong, one CPU : kernel TCP",
		tcpPing, kernelPing, latency, "µs", 1.3, 0.8, true},
	{"ping", "Send 64 B ping-pong, one CPU : kernel TCP 64 B",
		sendPing, kernelPing, latency, "µs", 1.3, 0.8, true},
	{"ping", "Write 8 B ping-pong, one CPU : kernel TCP 64 B",
		writePing, kernelPing, latency, "µs", 1.3, 0.8, true},
	{"ping", "Write 8 B ping-pong, polled : UCX put",
		writePolled, ucxLat, latency, "µs", 0.6, 0.3, true},
	{"capture", "RDMA Write 1 MiB, `gso`, capture of whole super-frames (256 octets) : none",
		gsoCapturedRaw, gsoUncaptured, gbps, "Gb/s", 0.85, 0.95, false},
	{"capture", "RDMA Write 1 MiB, `gso`, capture of true segments (as by default) : none",
		gsoCaptured, gsoUncaptured, gbps, "Gb/s", 0.85, 0.95, false},
	{"ucx", "RDMA Write 64 KiB : UCX put",
		gsoWrite64, ucxPut64, gbps, "Gb/s", 2, 4.5, false},
	{"ucx", "RDMA Write 1 MiB : UCX put",
		gsoWrite, ucxPut, gbps, "Gb/s", 5, 15, false},
	{"ucx", "RDMA Read 1 MiB : UCX get",
		gsoRead, ucxGet, gbps, "Gb/s", 3, 6, false},
	{"ucx", "8 B Writes per second : UCX put",
		writeRate, ucxRate, rate, "M/s", 2, 6, false},
	{"run", "command of a program that asks (QUERY_PORT) : trapped call that the same loop answers unseen, one CPU",
		controlCall, minimalCall, latency, "µs", 2, 2, true},
	{"run", "Write 8 B with immediate data, from program to program by events, one CPU : kernel TCP 64 B",
		umodePing, kernelPingRun, latency, "µs", 2.5, 1.5, true},
	{"run", "the same wake-ups and frames with nothing done in between, one CPU : kernel TCP 64 B",
		chainPing, kernelPingRun, latency, "µs", noLimit, noLimit, true},
	{"run", "`ib_send_bw -e` 64 KiB, `wire` : `tapir perf write-bw`",
		ibSendWire, runWire, gbps, "Gb/s", 0.7, 0.7, false},
	{"run", "`ib_read_bw -e` 64 KiB, `wire` : `tapir perf write-bw`",
		ibReadWire, runWire, gbps, "Gb/s", noLimit, noLimit, false},
	{"run", "`ib_send_bw -e` 64 KiB, `gso` : `tapir perf write-bw`",
		ibSendGSO, runGSO, gbps, "Gb/s", 0.25, 0.45, false},
	{"run", "`ib_read_bw -e` 64 KiB, `gso` : `tapir perf write-bw`",
		ibReadGSO, runGSO, gbps, "Gb/s", noLimit, noLimit, false},
	{"run", "`ib_write_bw` 64 KiB, which polls, `gso` : `tapir perf write-bw`",
		ibWriteGSO, runGSO, gbps, "Gb/s", noLimit, noLimit, false},
	{"run", "`ib_send_bw -e` 64 KiB, `gso` : UCX put",
		ibSendGSO, ucxPutRun, gbps, "Gb/s", noLimit, noLimit, false},
	{"run", "`ib_send_lat -e` 64 B, one CPU : `tapir perf send-lat`",
		ibSendLat, sendPingRun, latency, "µs", 3, 3, true},
	{"run", "the same trapped calls, wake-ups and frames with nothing done in between, one CPU : " +
		"`tapir perf send-lat`",
		trapChainPing, sendPingRun, latency, "µs", noLimit, noLimit, true},
	{"run", "`ib_send_lat -e` 64 B, one CPU : `fi_pingpong -p tcp`, which polls",
		ibSendLat, fabricPing, latency, "µs", noLimit, noLimit, true},
	{"run", "`ib_send_lat -e` 64 B, one CPU : UCX tag, which polls",
		ibSendLat, ucxTag, latency, "µs", noLimit, noLimit, true},
	{"engine", "TCP segments per second of CPU time, both engines in virtual time",
		engineAlone, "", rate, "M/s", 1, 1, false},
	{"engine", "allocations per segment",
		engineAlone, "", allocs, "", 0, 0, true},
	{"opa", "frames per second through a VNIC, MAC table, 16B packet and ICRC : bare forwarder between the same TAPs",
		vnicFrames, bareFrames, rate, "M/s", 0.8, 0.9, false},
	{"opa", "16B packets built per second of CPU time, with ICRC : CRC-32 of their 1,514 octets",
		packetBuild, packetCRC, rate, "M/s", 0.7, 0.8, false},
	{"opa", "16B packets checked per second of CPU time, with ICRC : CRC-32 of their 1,514 octets",
		packetCheck, packetCRC, rate, "M/s", 0.7, 0.8, false},
	{"host", "frames per second from host TAP to wire TAP, `wire`, through a NIC : " +
		"bare forwarder between the same TAPs",
		hostFrames, bareFrames, rate, "M/s", 0.8, 0.9, false},
	{"host", "frames per second from wire TAP to host TAP, `wire`, through a NIC : " +
		"bare forwarder between the same TAPs",
		hostBack, bareBack, rate, "M/s", 0.8, 0.9, false},
	{"host", "super-frames per second from host TAP to wire TAP, `gso`, through a NIC : " +
		"bare forwarder between the same TAPs",
		hostSupers, bareSupers, rate, "M/s", 0.8, 0.9, false},
	{"host", "super-frames per second from wire TAP to host TAP, `gso`, through a NIC : " +
		"bare forwarder between the same TAPs",
		hostSupersBack, bareSupersBack, rate, "M/s", 0.8, 0.9, false},
	{"host", "CPU time per KiB of frames from wire TAP to host TAP with 63 unicast, 64 multicast, 64 VLAN filters " +
		"and 256 n-tuple rules : " +
		"with none",
		hostFilters, hostBack, cpu, "ns", 1.05, 1.02, true},
	{"vf", "frames per second from VF to VF of a NIC, `wire` : NIC to NIC by cable",
		vfFrames, cableFrames, rate, "M/s", 0.9, 1.3, false},
	{"vf", "super-frames per second from VF to VF of a NIC, `gso` : NIC to NIC by cable",
		vfSupers, cableSupers, rate, "M/s", 0.9, 1.3, false},
	{"vf", "frames per second from host TAP to wire TAP, `wire`, through a NIC with 16 idle VFs : without",
		hostVFs, hostFrames, rate, "M/s", 0.98, 1, false},
	{"vf", "frames per second from wire TAP to host TAP, `wire`, through a NIC with 16 idle VFs : without",
		hostVFsBack, hostBack, rate, "M/s", 0.98, 1, false},
	{"vf", "super-frames per second from host TAP to wire TAP, `gso`, through a NIC with 16 idle VFs : without",
		hostVFsSupers, hostSupers, rate, "M/s", 0.98, 1, false},
	{"vf", "time to make 120 VFs with their host TAPs",
		vfMany, "", setup, "s", 2, 1, true},
	{"vf", "resident memory of an idle VF with its host TAP",
		vfMany, "", memory, "KiB", 512, 64, true},
	{"memory", "memory of an idle connected queue pair",
		idleQP, "", memory, "KiB", 64, 16, true},
}, coalesceRows()...)

// setNames are the parts of the benchmark, in order.
func setNames() (names []string) {
	for _, r := range allRows {
		if !slices.Contains(names, r.set) {
			names = append(names, r.set)
		}
	}
	return names
}

// chosen are the rows of the sets given, all if none is.
func chosen(sets []string) (rows []*row) {
	for _, r := range allRows {
		if len(sets) == 0 || slices.Contains(sets, r.set) {
			rows = append(rows, r)
		}
	}
	return rows
}

// verdict says which of the two marks a ratio reaches.
func (r *row) verdict(ratio float64) string {
	reaches := func(mark float64) bool { return r.less == (ratio <= mark) || ratio == mark }
	switch {
	case r.must == noLimit:
		return ""
	case reaches(r.aim):
		return "aim"
	case reaches(r.must):
		return "must"
	}
	return "**missed**"
}
