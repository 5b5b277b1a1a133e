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

func gbps(s sample) float64      { return s.gbps }
func rate(s sample) float64      { return s.rate / 1e6 }
func latency(s sample) float64   { return s.latency }
func cpu(s sample) float64       { return s.cpu }
func memory(s sample) float64    { return s.memory }
func setup(s sample) float64     { return s.setup }
func perSecond(s sample) float64 { return s.connects }
func fairness(s sample) float64  { return s.fairness }
func inRatio(s sample) float64   { return s.ratio }
func heldKiB(s sample) float64   { return s.held }
func allocs(s sample) float64    { return math.Round(s.allocs*1000) / 1000 }

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
	{"run", "`ib_write_bw` 64 KiB, `gso` : `tapir perf write-bw`",
		ibWriteGSO, runWriteGSO, gbps, "Gb/s", 0.6, 0.85, false},
	{"run", "`ib_send_bw -e` 64 KiB, `gso` : `tapir perf send-bw`",
		ibSendGSO, runSendGSO, gbps, "Gb/s", 0.6, 0.85, false},
	{"run", "`ib_write_bw` 1 MiB, `gso` : `tapir perf write-bw`",
		ibWriteGSO1M, runWriteGSO1M, gbps, "Gb/s", 0.6, 0.85, false},
	{"run", "`ib_send_bw -e` 1 MiB, `gso` : `tapir perf send-bw`",
		ibSendGSO1M, runSendGSO1M, gbps, "Gb/s", 0.6, 0.85, false},
	{"run", "`ib_read_bw` 64 KiB, `gso` : `tapir perf read-bw`",
		ibReadGSO, runReadGSO, gbps, "Gb/s", 0.6, 0.85, false},
	{"run", "`ib_write_bw` 64 KiB, `wire` : `tapir perf write-bw`",
		ibWriteWire, runWriteWire, gbps, "Gb/s", 0.85, 0.95, false},
	{"run", "`ib_send_bw -e` 64 KiB, `wire` : `tapir perf send-bw`",
		ibSendWire, runSendWire, gbps, "Gb/s", 0.85, 0.95, false},
	{"run", "`ib_read_bw` 64 KiB, `wire` : `tapir perf read-bw`",
		ibReadWire, runReadWire, gbps, "Gb/s", 0.85, 0.95, false},
	{"run", "`ib_send_lat -e` 8 B, one CPU : `tapir perf send-lat`",
		ibSendLat, sendPingRun, latency, "µs", 2.5, 2, true},
	{"run", "`ib_send_lat -e` 8 B, one CPU : `fi_pingpong -p tcp` 64 B, which polls",
		ibSendLat, fabricPing, latency, "µs", noLimit, noLimit, true},
	{"run", "`ib_send_lat -e` 8 B, one CPU : UCX tag 64 B, which polls",
		ibSendLat, ucxTag, latency, "µs", noLimit, noLimit, true},
	{"run", "`ib_write_lat` 8 B, which spins on memory, two CPUs : `tapir perf write-lat`",
		ibWriteLat, writePingRun, latency, "µs", 3, 1.8, true},
	{"run", "`ib_write_bw` 8 B, `-q 4`, messages per second, `gso` : `tapir perf write-bw`",
		ibWriteRate, runWriteRate, rate, "M/s", 0.5, 0.8, false},
	{"run", "`ib_write_bw` 64 KiB, `gso` : UCX put over TCP",
		ibWriteGSO, ucxPutRun, gbps, "Gb/s", 1.6, 2.4, false},
	{"run", "`tapir perf read-bw` 64 KiB, `gso` : `tapir perf write-bw`",
		runReadGSO, runWriteGSO, gbps, "Gb/s", 0.8, 0.95, false},
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
	{"vf", "frames per second of the loop's CPU time " +
		"from host TAP to wire TAP, `wire`, through a NIC with 16 idle VFs : " +
		"without, in turns",
		hostVFs, "", inRatio, "", 0.98, 1, false},
	{"vf", "the same through two NICs without VFs, which are alike",
		hostVFs + control, "", inRatio, "", noLimit, noLimit, false},
	{"vf", "frames per second of the loop's CPU time " +
		"from wire TAP to host TAP, `wire`, through a NIC with 16 idle VFs : " +
		"without, in turns",
		hostVFsBack, "", inRatio, "", 0.98, 1, false},
	{"vf", "the same through two NICs without VFs, which are alike",
		hostVFsBack + control, "", inRatio, "", noLimit, noLimit, false},
	{"vf", "super-frames per second of the loop's CPU time " +
		"from host TAP to wire TAP, `gso`, through a NIC with 16 idle VFs : " +
		"without, in turns",
		hostVFsSupers, "", inRatio, "", 0.98, 1, false},
	{"vf", "the same through two NICs without VFs, which are alike",
		hostVFsSupers + control, "", inRatio, "", noLimit, noLimit, false},
	{"vf", "time to make 120 VFs with their host TAPs",
		vfMany, "", setup, "s", 2, 1, true},
	{"vf", "resident memory of an idle VF with its host TAP",
		vfMany, "", memory, "KiB", 512, 64, true},
	{"wires", "frames of 1,514 octets per second, `shm` : from TAP to TAP by a bridge",
		shmFlood, tapFlood, rate, "M/s", 2, 4, false},
	{"wires", "RDMA Write 1 MiB, `gso`, `shm` : TAPs",
		shmWrite, tapWriteGSO, gbps, "Gb/s", 1.1, 1.5, false},
	{"wires", "Write 8 B ping-pong, polled, `shm`",
		shmPolled, "", latency, "µs", 3, 2, true},
	{"wires", "RDMA Write 1 MiB, `wire`, `vxlan` in the process, between hosts on a bridge : TAPs",
		vxlanWrite, tapWrite, gbps, "Gb/s", 0.5, 0.8, false},
	{"wires", "RDMA Write 1 MiB, `wire`, `dev` on a veth : TAPs",
		devWrite, tapWrite, gbps, "Gb/s", 0.9, 1, false},
	{"wires", "RDMA Write 1 MiB, `gso`, `dev` on a veth : TAPs",
		devWriteGSO, tapWriteGSO, gbps, "Gb/s", 0.9, 1, false},
	{"memory", "memory of an idle connected queue pair",
		idleQP, "", memory, "KiB", 64, 16, true},
}, slices.Concat(roceRows(), coalesceRows(), losslessRows(), storageRows())...)

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
