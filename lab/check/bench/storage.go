package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tapir/lab/run/result"
)

// Names of the cases of storage: labs by the real clock, in which a NIC's initiator uses a disk in memory, by iSCSI
// with header and data digests; or libiscsi's does, of tgt.
const (
	iscsiOurs64 = "iSCSI 64 KiB reads, tapir"
	iscsiTgt64  = "iSCSI 64 KiB reads, tgt"
	iscsiOurs4  = "iSCSI 4 KiB reads, tapir"
	iscsiTgt4   = "iSCSI 4 KiB reads, tgt"
	iserOurs64  = "iSER 64 KiB reads, tapir"
	iserOurs4   = "iSER 4 KiB reads, tapir"
	nvmeOurs64  = "NVMe 64 KiB reads, tapir"
	nvmeOurs4   = "NVMe 4 KiB reads, tapir"
	iserLib     = "iSER 4 KiB reads, tgt and libiscsi in tapir run"
	iscsiLib    = "iSCSI 4 KiB reads, tgt and libiscsi by kernel TCP"
)

// oursLab and the labs that follow have a disk; SIZE stands for the octets of a command.
const oursLab = `
nodes: {a: {kind: nic, ip: 10.0.0.1/24, frames: gso}, b: {kind: nic, ip: 10.0.0.2/24, frames: gso}}
links: [{between: [a, b], capture: false}]
steps:
  - {run: tapir iscsi target a --lun mem:64M, on: a, name: target, background: true}
  - {wait: {step: target, output: serves}}
  - {run: tapir iscsi initiator write b iscsi://10.0.0.1/iqn.2026-11.tapir:a/0, on: b}
  - run: tapir iscsi initiator bench b iscsi://10.0.0.1/iqn.2026-11.tapir:a/0 --digests -s SIZE -t 32 -D 1s
    on: b
`

// iserLab and nvmeLab are oursLab by RDMA.
var (
	iserLab = strings.NewReplacer("iscsi://", "iser://", "mem:64M", "mem:64M --iser", " --digests", "").Replace(oursLab)
	nvmeLab = strings.NewReplacer("tapir iscsi", "tapir nvme", "iscsi://10.0.0.1/iqn.2026-11.tapir:a/0",
		"nvme://10.0.0.1/nqn.2026-11.tapir:a/1", " --digests", "").Replace(oursLab)
)

const tgtLab = `
nodes: {a: {kind: host, ip: 10.0.0.1/24}, b: {kind: nic, ip: 10.0.0.2/24, frames: gso}}
links: [{between: [a, b], capture: false}]
steps:
  - run: [sh, -c, "d=$(mktemp -d /dev/shm/bench-tgt.XXXXXX); trap 'kill -9 $!; rm -rf $d' EXIT; trap exit INT TERM;
      export TGT_IPC_SOCKET=$d/sock; truncate -s 64M $d/disk;
      setpriv --pdeathsig KILL tgtd -f -C 0 >/dev/null 2>&1 & adm() { tgtadm -C 0 --lld iscsi --mode \"$@\"; };
      until adm target --op new --tid 1 -T iqn.2026-11.tgt:disk 2>/dev/null; do sleep 0.05; done;
      adm logicalunit --op new --tid 1 --lun 1 -b $d/disk; adm target --op bind --tid 1 -I ALL; echo serves; wait"]
    on: a
    name: target
    background: true
  - {wait: {step: target, output: serves}}
  - {run: tapir iscsi initiator write b iscsi://10.0.0.1/iqn.2026-11.tgt:disk/1, on: b}
  - run: tapir iscsi initiator bench b iscsi://10.0.0.1/iqn.2026-11.tgt:disk/1 --digests -s SIZE -t 32 -D 1s
    on: b
`

// libLab has tgt and libiscsi, as iserLibLab on NICs and as iscsiLibLab on the kernel's TCP through the same bridge.
// tgt takes connections in iSER from initiators that it knows by name.
const libLab = `
nodes: {a: {kind: nic, ip: 10.0.0.1/24, frames: gso}, b: {kind: nic, ip: 10.0.0.2/24, frames: gso}}
links: [{between: [a, b], capture: false}]
steps:
  - run: [sh, -c, "d=$(mktemp -d /dev/shm/bench-tgt.XXXXXX); trap 'kill -9 $!; rm -rf $d' EXIT; trap exit INT TERM;
      export TGT_IPC_SOCKET=$d/sock; truncate -s 64M $d/disk;
      setpriv --pdeathsig KILL tgtd -f -C 0 PORTALS >/dev/null 2>&1 & adm() { tgtadm -C 0 --lld LLD --mode \"$@\"; };
      until adm target --op new --tid 1 -T iqn.2026-11.tgt:disk 2>/dev/null; do sleep 0.05; done;
      adm logicalunit --op new --tid 1 --lun 1 -b $d/disk; adm target --op bind --tid 1 -I ALL;
      adm target --op bind --tid 1 -Q iqn.2010-11.libiscsi:iscsi-perf; echo serves; wait"]
    on: a
    rdma: RDMA
    name: target
    background: true
  - {wait: {step: target, output: serves}}
  - {run: "iscsi-perf -t 2 -m 32 -b 8 SCHEME://10.0.0.1/iqn.2026-11.tgt:disk/1", on: b, rdma: RDMA}
`

var (
	iserLibLab = strings.NewReplacer("PORTALS", "--iser pool_sz_mb=64 --iscsi portal=127.0.0.1:3262", "LLD", "iser",
		"RDMA", "true", "SCHEME", "iser").Replace(libLab)
	iscsiLibLab = strings.NewReplacer("PORTALS", "", "LLD", "iscsi", "RDMA", "false", "SCHEME", "iscsi",
		"kind: nic", "kind: host", ", frames: gso", "").Replace(libLab)
)

// storageCases are those of the set storage.
func storageCases() (all []*testCase) {
	for _, c := range []struct {
		name, lab, size, program string
		judge                    func(*result.Result, string) (sample, error)
	}{
		{iscsiTgt64, tgtLab, "64K", "tgtd", commandsOf}, {iscsiOurs64, oursLab, "64K", "", commandsOf},
		{iserOurs64, iserLab, "64K", "", commandsOf}, {nvmeOurs64, nvmeLab, "64K", "", commandsOf},
		{iscsiTgt4, tgtLab, "4K", "tgtd", commandsOf}, {iscsiOurs4, oursLab, "4K", "", commandsOf},
		{iserOurs4, iserLab, "4K", "", commandsOf}, {nvmeOurs4, nvmeLab, "4K", "", commandsOf},
		{iserLib, iserLibLab, "", "iscsi-perf", ofPerf}, {iscsiLib, iscsiLibLab, "", "iscsi-perf", ofPerf},
	} {
		runs := labCase(c.name, strings.ReplaceAll(c.lab, "SIZE", c.size), c.judge)
		all = append(all, &testCase{name: c.name, run: func(ctx context.Context, m *measurement) (s sample, err error) {
			if c.program != "" {
				if err := installed(c.program); err != nil {
					return s, err
				}
			}
			return runs.run(ctx, m)
		}})
	}
	return all
}

func storageRows() []*row {
	return []*row{
		{"storage", "iSCSI, digests, 64 KiB reads, depth 32, our target : tgt",
			iscsiOurs64, iscsiTgt64, gbps, "Gb/s", 1, 2, false},
		{"storage", "iSCSI, digests, 4 KiB reads, depth 32, our target : tgt",
			iscsiOurs4, iscsiTgt4, rate, "M/s", 1, 2, false},
		{"storage", "iSER, 64 KiB reads, depth 32 : our iSCSI, digests",
			iserOurs64, iscsiOurs64, gbps, "Gb/s", noLimit, noLimit, false},
		{"storage", "iSER, 4 KiB reads, depth 32 : our iSCSI, digests",
			iserOurs4, iscsiOurs4, rate, "M/s", noLimit, noLimit, false},
		{"storage", "NVMe over RDMA, 64 KiB reads, depth 32 : our iSCSI, digests",
			nvmeOurs64, iscsiOurs64, gbps, "Gb/s", noLimit, noLimit, false},
		{"storage", "NVMe over RDMA, 4 KiB reads, depth 32 : our iSCSI, digests",
			nvmeOurs4, iscsiOurs4, rate, "M/s", noLimit, noLimit, false},
		{"storage", "iSER, 4 KiB reads, depth 32, tgt and `iscsi-perf` : the same two by iSCSI on kernel TCP",
			iserLib, iscsiLib, rate, "M/s", 0.75, 1, false},
	}
}

var benchResult = regexp.MustCompile(`bench: \d+ octets in \d+ commands, (\d+) commands/s, ([0-9.]+) MB/s`)

// commandsOf reads what the last step, a bench, has printed.
func commandsOf(r *result.Result, _ string) (s sample, err error) {
	out := r.Steps[len(r.Steps)-1].Output
	m := benchResult.FindStringSubmatch(out)
	if m == nil {
		return s, fmt.Errorf("the initiator has printed %q", out)
	}
	if s.rate, err = strconv.ParseFloat(m[1], 64); err != nil {
		return s, err
	}
	s.gbps, err = strconv.ParseFloat(m[2], 64)
	s.gbps *= 8e-3
	return s, err
}

var perfResult = regexp.MustCompile(`iops average (\d+)`)

// ofPerf reads what the last step, iscsi-perf, has printed.
func ofPerf(r *result.Result, _ string) (s sample, err error) {
	out := r.Steps[len(r.Steps)-1].Output
	m := perfResult.FindStringSubmatch(out)
	if m == nil {
		return s, fmt.Errorf("iscsi-perf has printed %q", out)
	}
	s.rate, err = strconv.ParseFloat(m[1], 64)
	return s, err
}
