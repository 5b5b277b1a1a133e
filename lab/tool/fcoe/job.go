// Package fcoe runs end nodes of Fibre Channel over Ethernet inside running NICs: targets that
// serve disks, and initiators that use them, and is the subcommand that asks for them.
package fcoe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/tool/disk"
	"tapir/nic/fcoe"
	"tapir/wire/fc"
)

// Kinds of jobs.
const (
	TargetOp    = "fcoe-target"
	InitiatorOp = "fcoe-initiator"
)

// Job is a node that serves disks.
type Job struct {
	Op    string
	VN2VN bool
	Ports []Port // the first is the NIC's own, the others are virtual ones of a fabric (NPIV)
}

// Port is a port that serves disks.
type Port struct {
	Name  fc.WWN     `json:"name"` // 0: from the NIC's address
	LUNs  []disk.LUN `json:"luns"`
	Hosts []fc.WWN   `json:"hosts,omitempty"` // ports that may log in; none: all
}

// maxLUNs is how many LUNs a port has at most.
const maxLUNs = 256

// validate checks a job.
func (j *Job) validate() error {
	seen := map[fc.WWN]bool{}
	for i := range j.Ports {
		p := &j.Ports[i]
		switch {
		case len(p.LUNs) > maxLUNs:
			return fmt.Errorf("port %d has more than %d LUNs", i, maxLUNs)
		case len(p.LUNs) == 0 && i > 0:
			return fmt.Errorf("port %d has no LUN: give one with --lun behind its --npiv", i)
		case p.Name != 0 && seen[p.Name]:
			return fmt.Errorf("two ports have the name %v", p.Name)
		}
		seen[p.Name] = true
	}
	switch {
	case len(j.Ports) == 0 || len(j.Ports[0].LUNs) == 0 && len(j.Ports) == 1:
		return errors.New("no LUN: give one with --lun, such as --lun mem:64M")
	case len(j.Ports) > fcoe.MaxPorts:
		return fmt.Errorf("%d ports: a node has %d at most", len(j.Ports), fcoe.MaxPorts)
	case j.VN2VN && len(j.Ports) > 1:
		return errNPIV
	}
	return nil
}

// errNPIV refuses virtual ports without a fabric.
var errNPIV = errors.New("--npiv needs a fabric, which gives virtual ports their addresses: leave out --vn2vn")

// Task is what an initiator is to do.
type Task struct {
	Op     string
	VN2VN  bool
	Name   fc.WWN   // of the NIC's own port; 0: from its address
	NPIV   fc.WWN   // the name of a virtual port that does it; 0: the NIC's own does
	Target fc.WWN   // 0: the first that is found
	Paths  []fc.WWN // further ports of the same disk
	LUN    int
	disk.Work
}

// maxPaths is how many ports of a disk there are at most.
const maxPaths = 8

func (k *Task) validate() error {
	switch {
	case k.VN2VN && k.NPIV != 0:
		return errNPIV
	case k.NPIV != 0 && k.NPIV == k.Name:
		return errors.New("--npiv and --wwpn are the same name")
	case k.LUN < 0 || k.LUN >= maxLUNs:
		return fmt.Errorf("LUN %d: 0 to %d", k.LUN, maxLUNs-1)
	case len(k.Paths) > 0 && k.Verb == disk.Discover:
		return errors.New("--path: discover asks the fabric")
	case len(k.Paths) > 0 && k.Target == 0:
		return errors.New("--path: name the first port too, not any")
	case len(k.Paths) >= maxPaths:
		return fmt.Errorf("--path: a disk has at most %d paths", maxPaths)
	}
	for i, p := range k.Paths {
		if p == k.Target || slices.Contains(k.Paths[:i], p) {
			return fmt.Errorf("--path %v: two paths are the same", p)
		}
	}
	return k.Work.Validate()
}

// wants tells whether a port is one that the disk is reached by.
func (k *Task) wants(w fc.WWN) bool {
	return k.Target == 0 || w == k.Target || slices.Contains(k.Paths, w)
}

// ParseURL reads fcoe://WWPN/LUN, or fcoe://any/LUN, for which the name is 0.
func ParseURL(text string) (port fc.WWN, lun int, err error) {
	bad := fmt.Errorf("%q: expected fcoe://WWPN/LUN, or fcoe://any/LUN for the first target that is found", text)
	rest, ok := strings.CutPrefix(text, "fcoe://")
	name, number, slash := strings.Cut(rest, "/")
	if !ok || !slash {
		return 0, 0, bad
	}
	if name != "any" {
		if port, err = fc.ParseWWN(name); err != nil || port == 0 {
			return 0, 0, bad
		}
	}
	if lun, err = strconv.Atoi(number); err != nil || lun < 0 {
		return 0, 0, bad
	}
	return port, lun, nil
}
