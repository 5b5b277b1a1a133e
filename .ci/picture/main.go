// Command picture draws the packages of this module and who imports whom, as
// docs/concepts/architecture.svg: go run ./.ci/picture >docs/concepts/architecture.svg
package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// group is one box: the packages of some directories.
type group struct {
	title, about string
	dirs         []string // "nic" alone; "nic/toe/..." with all below it
	packages     []string
	imports      map[*group]bool
	row          int
	x, y, w, h   int
}

// floors are the rows of boxes, from top to bottom.
func floors() [][]*group {
	box := func(title, about string, dirs ...string) *group {
		return &group{title: title, about: about, dirs: dirs, imports: map[*group]bool{}}
	}
	return [][]*group{
		{box("cmd/tapir", "flags and printing", "cmd/tapir"), box("examples", "programs of users", "examples/..."),
			box("lab/labtest", "labs in users' tests", "lab/labtest"),
			box("lab/check", "rigs and benchmarks; only tests use it", "lab/check/...")},
		{box("lab/run", "steps in real and virtual time, verdicts", "lab/run/..."),
			box("lab/tool", "what subcommands do", "lab/tool/...")},
		{box("lab/topo", "the file of a lab", "lab/topo/..."),
			box("lab/node", "one life cycle for all nodes", "lab/node/..."),
			box("lab/host", "namespaces, cables, processes", "lab/host/...")},
		{box("lab/conf", "configuration of nodes", "lab/conf/..."),
			box("nic/uapi, umode, ring", "doors for programs", "nic/uapi/...", "nic/umode/...", "nic/ring/...")},
		{box("nic", "the device: composition in packet order", "nic"),
			box("nic/loop, tap", "real time: one thread, TAPs and wires", "nic/loop", "nic/tap", "nic/tap/meet",
				"nic/tap/packet", "nic/tap/shm", "nic/tap/stream", "nic/tap/tunnel", "nic/tap/wires",
				"nic/sched", "nic/timer", "nic/buf")},
		{box("nic/fastlinq, ideal", "the hardware below a NIC", "nic/fastlinq/...", "nic/ideal", "nic/npar"),
			box("nic/iwarp, roce, toe", "transports of RDMA; TCP", "nic/iwarp/...", "nic/roce/...", "nic/toe/...",
				"nic/transport"),
			box("nic/iscsi, iser, fcoe, nvme, scsi", "storage", "nic/iscsi/...", "nic/iser", "nic/fcoe", "nic/nvme",
				"nic/scsi"),
			box("nic/port, ip, hostfn, ptp", "frames in and out", "nic/port/...", "nic/ip/...", "nic/hostfn/...",
				"nic/ptp/...", "nic/lldp", "nic/dcbx")},
		{box("nic/verbs, cm, al", "objects and connections; no transport", "nic/verbs/...", "nic/cm/...", "nic/al/..."),
			box("nic/hardware, param, view", "the seam to the hardware; settings, snapshots", "nic/param/...",
				"nic/view/...", "nic/nicdrop", "nic/msglog", "nic/pacing", "nic/linkmode", "nic/dcb",
				"nic/secret", "nic/hardware/...", "nic/show/...",
				"nic/settings/..."),
			box("vnic", "virtual NICs of Omni-Path", "vnic/...")},
		{box("mpa, ddp, rdmap", "iWARP's protocols", "mpa", "ddp", "rdmap"), box("opa", "Omni-Path", "opa/..."),
			box("ptp", "IEEE 1588", "ptp/...")},
		{box("wire", "bytes only", "wire/...")},
	}
}

func main() {
	rows := floors()
	if err := read(rows); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
	fmt.Print(draw(rows))
}

// read asks the go command for the packages and their imports.
func read(rows [][]*group) error {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		path := strings.TrimPrefix(strings.Fields(line)[0], "tapir/")
		g := find(rows, path)
		if g == nil && path != "docs" && path != "tapir" { // which have no code of the product
			return fmt.Errorf("%s is in no box", path)
		}
		if g != nil {
			g.packages = append(g.packages, path)
		}
	}
	for _, line := range lines {
		f := strings.Fields(line)
		from := find(rows, strings.TrimPrefix(f[0], "tapir/"))
		for _, imp := range f[1:] {
			sub, own := strings.CutPrefix(imp, "tapir/")
			if to := find(rows, sub); own && to != nil && from != nil && to != from {
				from.imports[to] = true
			}
		}
	}
	return nil
}

// find is the box of a package.
func find(rows [][]*group, path string) *group {
	for _, g := range slices.Concat(rows...) {
		for _, d := range g.dirs {
			dir, below := strings.CutSuffix(d, "/...")
			if path == dir || below && strings.HasPrefix(path, dir+"/") {
				return g
			}
		}
	}
	return nil
}
