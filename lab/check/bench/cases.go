package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/nic"
)

// bench is a run: the beds, and what is measured on them.
type bench struct {
	opt   options
	beds  map[bedKind]*bed
	rows  []*row
	cases []*testCase
}

// testCase is one thing that is measured, once per round.
type testCase struct {
	name    string
	on      bedKind
	run     func(ctx context.Context, m *measurement) (sample, error)
	samples []sample
	missing string // why it cannot be measured here
}

// measurement is a case that is being measured.
type measurement struct {
	*bed
	name     string // of the case
	duration time.Duration
	opt      *options
}

// errNotHere means that a machine lacks what a case needs; the others go on.
var errNotHere = errors.New("not here")

const (
	mtu    = 1500
	bigMTU = 9000
	mebi   = 1 << 20
)

// newBench chooses the rows that the options ask for, and the cases that these
// need.
func newBench(o options) *bench {
	b := &bench{opt: o, beds: map[bedKind]*bed{}, rows: chosen(o.sets)}
	for _, c := range allCases() {
		if slices.ContainsFunc(b.rows, func(r *row) bool { return r.name == c.name || r.ref == c.name }) {
			b.cases = append(b.cases, c)
		}
	}
	return b
}

func (b *bench) close() {
	for _, bd := range b.beds {
		bd.close()
	}
}

// pins says on which processor each end of a connection runs.
type pins uint8

const (
	free  pins = iota // wherever the scheduler puts them
	one               // both on the first: a ping-pong
	apart             // each on one of its own: a stream
)

// anywhere is the processor of whoever has none.
const anywhere = -1

// cpu is the processor of end i.
func (p pins) cpu(i int) int {
	switch {
	case p == free, p == apart && runtime.NumCPU() < 2:
		return anywhere
	case p == one:
		return 0
	}
	return i
}

// Names of the cases.
const (
	kernelStream   = "kernel stream"
	kernelAgain    = "kernel stream, beside jumbo"
	kernelOff1500  = "kernel wire 1500"
	kernelOff9000  = "kernel wire 9000"
	kernelDrop     = "kernel wire 1500, 1 % loss"
	kernelPing     = "kernel 64 B ping-pong"
	tcpGSO         = "TCP gso"
	tcpJumbo       = "TCP jumbo"
	tcpWire1500    = "TCP wire 1500"
	tcpWire9000    = "TCP wire 9000"
	tcpDrop        = "TCP wire 1500, 1 % loss"
	tcpGSODrop     = "TCP gso, 1 % loss"
	tcpPing        = "TCP 64 B ping-pong"
	gvisorGSO      = "gVisor gso"
	gsoWrite       = "Write 1 MiB gso"
	gsoUncaptured  = "Write 1 MiB gso, beside captures"
	gsoCaptured    = "Write 1 MiB gso captured"
	gsoCapturedRaw = "Write 1 MiB gso captured whole"
	dropWrite      = "Write 1 MiB wire 1500, 1 % loss"
	dropWriteOrder = "Write 1 MiB wire 1500, 1 % loss, in order"
	jumboWrite     = "Write 1 MiB jumbo"
	gsoWrite64     = "Write 64 KiB gso"
	gsoRead        = "Read 1 MiB gso"
	wire1500       = "Write 1 MiB wire 1500"
	wire9000       = "Write 1 MiB wire 9000"
	sendPing       = "Send 64 B ping-pong"
	writePing      = "Write 8 B ping-pong"
	writePolled    = "Write 8 B polled"
	writeRate      = "Write 8 B rate"
	idleQP         = "idle queue pair"
	engineAlone    = "TCP engine alone, segments"
	bareFrames     = "bare forwarder, frames of 1514 octets"
	vnicFrames     = "VNIC, frames of 1514 octets"
	hostFrames     = "NIC with a host TAP, frames of 1514 octets"
	bareSupers     = "bare forwarder, super-frames"
	hostSupers     = "NIC with a host TAP, super-frames"
	bareBack       = "bare forwarder, frames of 1514 octets, to the host"
	hostBack       = "NIC with a host TAP, frames of 1514 octets, to the host"
	hostFilters    = "NIC with a host TAP and all filters, frames of 1514 octets, to the host"
	bareSupersBack = "bare forwarder, super-frames, to the host"
	hostSupersBack = "NIC with a host TAP, super-frames, to the host"
	hostVFs        = "NIC with a host TAP and 16 idle VFs, frames of 1514 octets"
	hostVFsBack    = "NIC with a host TAP and 16 idle VFs, frames of 1514 octets, to the host"
	hostVFsSupers  = "NIC with a host TAP and 16 idle VFs, super-frames"
	vfFrames       = "VF to VF of a NIC, frames of 1514 octets"
	cableFrames    = "NIC to NIC by cable, frames of 1514 octets"
	vfSupers       = "VF to VF of a NIC, super-frames"
	cableSupers    = "NIC to NIC by cable, super-frames"
	vfMany         = "120 VFs with host TAPs"
	tapFlood       = "frames of 1514 octets, TAP to TAP by a bridge"
	shmFlood       = "frames of 1514 octets, shm"
	shmWrite       = "Write 1 MiB gso, shm"
	shmPolled      = "Write 8 B polled, shm"
	vxlanWrite     = "Write 1 MiB wire, vxlan"
	devWrite       = "Write 1 MiB wire, dev on veth"
	devWriteGSO    = "Write 1 MiB gso, dev on veth"
	tapWriteGSO    = "Write 1 MiB gso, beside other wires"
	tapWrite       = "Write 1 MiB wire 1500, beside other wires"
	packetCRC      = "CRC-32 of 1514 octets"
	packetBuild    = "16B packet built around 1514 octets"
	packetCheck    = "16B packet of 1514 octets checked"
	minimalCall    = "trapped call, minimal"
	controlCall    = "trapped call, QUERY_PORT"
	umodePing      = "Write 8 B with immediate, program to program"
	chainPing      = "wake-ups and frames alone, program to program"
	kernelPingRun  = "kernel 64 B ping-pong, beside programs"
	ibWriteGSO     = "ib_write_bw 64 KiB gso"
	runWriteGSO    = "Write 64 KiB gso, beside programs"
	ibWriteGSO1M   = "ib_write_bw 1 MiB gso"
	runWriteGSO1M  = "Write 1 MiB gso, beside programs"
	ibSendGSO      = "ib_send_bw -e 64 KiB gso"
	runSendGSO     = "Send 64 KiB gso, beside programs"
	ibSendGSO1M    = "ib_send_bw -e 1 MiB gso"
	runSendGSO1M   = "Send 1 MiB gso, beside programs"
	ibReadGSO      = "ib_read_bw 64 KiB gso"
	runReadGSO     = "Read 64 KiB gso, beside programs"
	ibWriteWire    = "ib_write_bw 64 KiB wire 1500"
	runWriteWire   = "Write 64 KiB wire 1500, beside programs"
	ibSendWire     = "ib_send_bw -e 64 KiB wire 1500"
	runSendWire    = "Send 64 KiB wire 1500, beside programs"
	ibReadWire     = "ib_read_bw 64 KiB wire 1500"
	runReadWire    = "Read 64 KiB wire 1500, beside programs"
	ibSendLat      = "ib_send_lat -e 8 B"
	sendPingRun    = "Send 8 B ping-pong, beside programs"
	ibWriteLat     = "ib_write_lat 8 B"
	writePingRun   = "Write 8 B ping-pong, beside programs"
	ibWriteRate    = "ib_write_bw 8 B -q 4 gso"
	runWriteRate   = "Write 8 B by 4 queue pairs gso, beside programs"
	fabricPing     = "fi_pingpong -p tcp 64 B"
	ucxTag         = "UCX tag 64 B latency"
	ucxPutRun      = "UCX put 64 KiB, beside programs"
	ucxPut64       = "UCX put 64 KiB"
	ucxPut         = "UCX put 1 MiB"
	ucxGet         = "UCX get 1 MiB"
	ucxLat         = "UCX put 8 B latency"
	ucxRate        = "UCX put 8 B rate"
)

// allCases is everything that can be measured, in the order of a round: what
// is compared is measured one after the other.
func allCases() []*testCase {
	gso, wire := nicSetup{mtu: mtu, frames: "gso", pins: apart}, nicSetup{mtu: mtu, frames: "wire"}
	jumbo, wireBig := nicSetup{mtu: bigMTU, frames: "jumbo", pins: apart}, nicSetup{mtu: bigMTU, frames: "wire"}
	stream := kernelSetup{mtu: mtu, kind: "on", pins: apart}
	writes := perfconf.Job{Op: perfconf.WriteBW, Size: mebi}
	cases := append(programCases(gso, wire), []*testCase{
		gvisorCase(gvisorGSO),
		streamCase(tcpGSO, gso, false),
		kernelCase(kernelStream, stream),
		nicCase(gsoWrite, gso, writes),
		ucxCase(ucxPut, "ucp_put_bw", mebi, 200),
		nicCase(gsoCaptured, gso.with(func(s *nicSetup) { s.capture, s.pins = "default", free }), writes),
		nicCase(gsoUncaptured, gso.with(func(s *nicSetup) { s.pins = free }), writes),
		nicCase(gsoCapturedRaw, gso.with(func(s *nicSetup) { s.capture, s.pins = "raw", free }), writes),
		streamCase(tcpJumbo, jumbo, false),
		kernelCase(kernelAgain, stream),
		nicCase(jumboWrite, jumbo, writes),
		nicCase(gsoWrite64, gso, perfconf.Job{Op: perfconf.WriteBW, Size: 64 << 10}),
		ucxCase(ucxPut64, "ucp_put_bw", 64<<10, 10000),
		nicCase(gsoRead, gso, perfconf.Job{Op: perfconf.ReadBW, Size: mebi, Depth: 16}),
		ucxCase(ucxGet, "ucp_get", mebi, 400),
		streamCase(tcpWire1500, wire, false),
		kernelCase(kernelOff1500, kernelSetup{mtu: mtu, kind: "off"}),
		nicCase(wire1500, wire, writes),
		streamCase(tcpWire9000, wireBig, false),
		kernelCase(kernelOff9000, kernelSetup{mtu: bigMTU, kind: "off"}),
		nicCase(wire9000, wireBig, writes),
		kernelCase(kernelDrop, kernelSetup{mtu: mtu, kind: "off", lossy: true}),
		streamCase(tcpDrop, wire.with(func(s *nicSetup) { s.lossy = true }), false),
		streamCase(tcpGSODrop, gso.with(func(s *nicSetup) { s.loss, s.pins = lossPPM, free }), false),
		nicCase(dropWrite, wire.with(func(s *nicSetup) { s.lossy = true }), writes),
		nicCase(dropWriteOrder, wire.with(func(s *nicSetup) { s.lossy, s.inOrder = true, true }), writes),
		streamCase(tcpPing, wire.with(func(s *nicSetup) { s.pins = one }), true),
		kernelCase(kernelPing, kernelSetup{mtu: mtu, kind: "on", ping: true, pins: one}),
		nicCase(sendPing, wire.with(func(s *nicSetup) {
			s.pins = one
		}), perfconf.Job{Op: perfconf.SendLat, Size: pingSize}),
		nicCase(writePing, wire.with(func(s *nicSetup) { s.pins = one }), perfconf.Job{Op: perfconf.WriteLat, Size: 8}),
		nicCase(writePolled, wire, perfconf.Job{Op: perfconf.WriteLat, Size: 8}),
		ucxCase(ucxLat, "ucp_put_lat", 8, 20000),
		nicCase(writeRate, gso.with(func(s *nicSetup) {
			s.pins = free
		}), perfconf.Job{Op: perfconf.WriteBW, Size: 8, Depth: 1024}),
		ucxCase(ucxRate, "ucp_put_bw", 8, 100000),
		idleCase(idleQP, idleSpec{Pairs: 500}),
		engineCase(engineAlone),
		forwardCase(bareFrames, way{}, startBare),
		forwardCase(vnicFrames, way{}, startVNIC),
		forwardCase(hostFrames, way{}, throughNICOf(nic.Config{}, 0)),
		forwardCase(bareBack, way{back: true}, startBare),
		forwardCase(hostBack, way{back: true}, throughNICOf(nic.Config{}, 0)),
		forwardCase(hostFilters, way{back: true}, throughNICOf(filtered(), 0)),
		forwardCase(bareSupers, way{vnet: true}, startBare),
		forwardCase(hostSupers, way{vnet: true}, throughNICOf(nic.Config{}, 0)),
		forwardCase(bareSupersBack, way{vnet: true, back: true}, startBare),
		forwardCase(hostSupersBack, way{vnet: true, back: true}, throughNICOf(nic.Config{}, 0)),
		forwardCase(vfFrames, way{}, startVFs),
		forwardCase(cableFrames, way{}, startCable),
		forwardCase(vfSupers, way{vnet: true}, startVFs),
		forwardCase(cableSupers, way{vnet: true}, startCable),
		{name: vfMany, run: manyVFs},
	}...)
	cases = append(cases, wireCases(gso, wire)...)
	cases = slices.Concat(cases, roceCases(gso, wire), losslessCases(), storageCases())
	cases = append(cases, idleVFCases(hostVFs, way{})...)
	cases = append(cases, idleVFCases(hostVFsBack, way{back: true})...)
	cases = append(cases, idleVFCases(hostVFsSupers, way{vnet: true})...)
	cases = append(cases, []*testCase{
		codecCase(packetCRC, (*packetCodec).crc),
		codecCase(packetBuild, (*packetCodec).encapsulate),
		codecCase(packetCheck, (*packetCodec).check),
	}...)
	for _, s := range coalesceSettings {
		cases = append(cases, coalesceCase(s))
	}
	return cases
}

// programCases are unmodified and Go programs on NICs in other processes.
func programCases(gso, wire nicSetup) []*testCase {
	one := func(s *nicSetup) { s.pins = one }
	oneCPU, wire := wire.with(one), wire.with(func(s *nicSetup) { s.pins = apart })
	const kib64 = 64 << 10
	job := func(op perfconf.Op, size int) perfconf.Job { return perfconf.Job{Op: op, Size: size} }
	return []*testCase{
		minimalCase(minimalCall, oneCPU),
		callCase(controlCall, oneCPU),
		umodeCase(umodePing, oneCPU),
		chainCase(chainPing, oneCPU),
		kernelCase(kernelPingRun, kernelSetup{mtu: mtu, kind: "on", ping: true, pins: oneCPU.pins}),
		nicCase(runReadGSO, gso, job(perfconf.ReadBW, kib64)),
		perftestCase(ibReadGSO, gso, perftest{args: "ib_read_bw -s 65536", iters: 8000}),
		nicCase(runWriteGSO, gso, job(perfconf.WriteBW, kib64)),
		perftestCase(ibWriteGSO, gso, perftest{args: "ib_write_bw -s 65536", iters: 8000}),
		ucxCase(ucxPutRun, "ucp_put_bw", kib64, 2000),
		perftestCase(ibSendGSO, gso, perftest{args: "ib_send_bw -e -s 65536", iters: 8000}),
		nicCase(runSendGSO, gso, job(perfconf.SendBW, kib64)),
		perftestCase(ibWriteGSO1M, gso, perftest{args: "ib_write_bw -s 1048576", iters: 500}),
		nicCase(runWriteGSO1M, gso, job(perfconf.WriteBW, mebi)),
		perftestCase(ibSendGSO1M, gso, perftest{args: "ib_send_bw -e -s 1048576", iters: 500}),
		nicCase(runSendGSO1M, gso, job(perfconf.SendBW, mebi)),
		perftestCase(ibWriteWire, wire, perftest{args: "ib_write_bw -s 65536", iters: 2000}),
		nicCase(runWriteWire, wire, job(perfconf.WriteBW, kib64)),
		perftestCase(ibSendWire, wire, perftest{args: "ib_send_bw -e -s 65536", iters: 2000}),
		nicCase(runSendWire, wire, job(perfconf.SendBW, kib64)),
		perftestCase(ibReadWire, wire, perftest{args: "ib_read_bw -s 65536", iters: 2000}),
		nicCase(runReadWire, wire, job(perfconf.ReadBW, kib64)),
		perftestCase(ibSendLat, oneCPU, perftest{args: "ib_send_lat -e -s 8", iters: 6000, lat: true}),
		nicCase(sendPingRun, oneCPU, job(perfconf.SendLat, 8)),
		fabricCase(fabricPing, pingSize, 20000),
		ucxCase(ucxTag, "tag_lat", pingSize, 10000),
		perftestCase(ibWriteLat, wire, perftest{args: "ib_write_lat -s 8", iters: 6000, lat: true}),
		nicCase(writePingRun, wire, job(perfconf.WriteLat, 8)),
		perftestCase(ibWriteRate, gso, perftest{args: "ib_write_bw -s 8 -q 4", iters: 50000}),
		nicCase(runWriteRate, gso, perfconf.Job{Op: perfconf.WriteBW, Size: 8, QPs: 4}),
	}
}

// wireCases are NICs on other wires than TAPs, each beside its reference.
func wireCases(gso, wire nicSetup) []*testCase {
	write := perfconf.Job{Op: perfconf.WriteBW, Size: mebi}
	twoCPU := wire.with(func(s *nicSetup) { s.pins = apart })
	return []*testCase{
		floodCase(tapFlood, wireSetup{twoCPU, ""}),
		floodCase(shmFlood, wireSetup{twoCPU, "shm"}),
		nicCase(tapWriteGSO, gso, write),
		wireCase(shmWrite, wireSetup{gso, "shm"}, write),
		wireCase(devWriteGSO, wireSetup{gso, "dev"}, write),
		wireCase(shmPolled, wireSetup{twoCPU, "shm"}, perfconf.Job{Op: perfconf.WriteLat, Size: 8}),
		nicCase(tapWrite, wire, write),
		wireCase(vxlanWrite, wireSetup{wire, "vxlan"}, write),
		wireCase(devWrite, wireSetup{wire, "dev"}, write),
	}
}

// kernelSetup says between which hosts a connection of the kernel runs.
type kernelSetup struct {
	mtu         int
	kind        string // of the hosts' links: on or off
	lossy, ping bool
	pins        pins
}

// kernelCase is a connection between the kernels of two hosts.
func kernelCase(name string, set kernelSetup) *testCase {
	return &testCase{name: name, on: bedKind{set.mtu, set.lossy},
		run: func(ctx context.Context, m *measurement) (sample, error) {
			cr, sr, err := both(m.duration, func(i int) (*child, error) {
				spec := tcpSpec{Server: i == 1, Address: addresses[set.kind+"1"], Ping: set.ping, Duration: m.duration}
				return start(ctx, m.hosts[fmt.Sprint(set.kind, i)].NS, set.pins.cpu(i), nil, command("tcp", spec)...)
			})
			if set.ping {
				return combine(cr, sr), err
			}
			return combine(sr, cr), err // the receiver's time counts
		}}
}

// nicSetup says how a pair of NICs is started.
type nicSetup struct {
	mtu     int
	frames  string
	capture string // which, of captures; empty for none
	inOrder bool   // nothing is placed out of order
	lossy   bool   // on the lossy bed
	loss    int    // of the segments that arrive at the server, parts per million
	roce    bool   // in place of iWARP
	pins    pins
}

func (s nicSetup) with(change func(*nicSetup)) nicSetup {
	change(&s)
	return s
}

// on is the case of that name between NICs that are started so.
func (s nicSetup) on(name string, run func(ctx context.Context, m *measurement) (sample, error)) *testCase {
	return &testCase{name: name, on: bedKind{s.mtu, s.lossy}, run: run}
}

// nicCase is a job between two NICs.
func nicCase(name string, set nicSetup, job perfconf.Job) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (sample, error) {
		client, server := job, perfconf.Job{Op: job.Op, Duration: m.duration}
		client.Duration, client.Remote = m.duration, netip.MustParseAddr(nicAddresses[1])
		cr, sr, err := m.pair(ctx, set.pins, "nic", func(i int) any {
			return &nicJob{m.spec(&set, i), []perfconf.Job{client, server}[i]}
		})
		return combine(cr, sr), err
	})
}

// streamCase is a plain TCP connection between two NICs.
func streamCase(name string, set nicSetup, ping bool) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (sample, error) {
		cr, sr, err := m.pair(ctx, set.pins, "stream", func(i int) any {
			return &streamSpec{m.spec(&set, i), i == 1, ping, m.duration}
		})
		if ping {
			return combine(cr, sr), err
		}
		return combine(sr, cr), err // the receiver's time counts
	})
}

// gvisorCase is a stream between two processes with gVisor's netstack, over
// the TAPs of the NICs.
func gvisorCase(name string) *testCase {
	return &testCase{name: name, on: bedKind{mtu: mtu}, run: func(ctx context.Context, m *measurement) (sample, error) {
		if _, err := os.Stat(m.opt.netstack); err != nil {
			return sample{}, fmt.Errorf("%w: gVisor: %w", errNotHere, err)
		}
		cr, sr, err := both(m.duration, func(i int) (*child, error) {
			return start(ctx, m.middle.NS, apart.cpu(i), nil, m.opt.netstack, "-tap", fmt.Sprint("gso", i),
				"-ip", nicAddresses[i]+"/24", "-duration", m.duration.String(),
				"-connect", []string{nicAddresses[1], ""}[i])
		})
		return combine(sr, cr), err
	}}
}

// idleCase is the memory of a queue pair at rest.
func idleCase(name string, spec idleSpec) *testCase {
	return &testCase{name: name, on: bedKind{mtu: mtu}, run: func(ctx context.Context, m *measurement) (s sample,
		err error) {
		c, err := ready(m.role(ctx, anywhere, "idle", spec))
		if err != nil {
			return s, err
		}
		r, err := c.result(m.duration)
		return sample{memory: float64(r.Memory) / 1024, connects: float64(r.Messages) / r.Elapsed.Seconds(),
			fairness: r.Fairness}, err
	}}
}

// spec is how NIC i is started.
func (m *measurement) spec(s *nicSetup, i int) nicSpec {
	spec := nicSpec{TAP: s.nicName(i), Frames: s.frames, MTU: s.mtu, IP: netip.MustParsePrefix(nicAddresses[i] + "/24"),
		Capture: s.capture, InOrder: s.inOrder, Loss: i * s.loss, RoCE: s.roce}
	if m.opt.profiles != "" {
		file := strings.NewReplacer(" ", "-", "%", "percent", ",", "").Replace(m.name)
		spec.Profile = filepath.Join(m.opt.profiles, fmt.Sprintf("%s.%d.pprof", file, i))
	}
	return spec
}
