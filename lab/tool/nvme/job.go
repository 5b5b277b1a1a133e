// Package nvme runs NVMe over RDMA inside running NICs: subsystems that serve disks, and hosts that
// use them, and is the subcommand that asks for them.
package nvme

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/disk"
	wire "tapir/wire/nvme"
)

// Kinds of jobs.
const (
	TargetOp    = "nvme-target"
	InitiatorOp = "nvme-initiator"
)

// Job is a subsystem to serve.
type Job struct {
	Op      string
	Port    uint16
	NQN     string     `json:"nqn"` // empty: from the NIC's name
	LUNs    []disk.LUN `json:"luns"`
	Hosts   []string   `json:"hosts,omitempty"` // that may connect; none: all
	FirstID uint16     // of its controllers
}

// defaultName is the beginning of the name of a subsystem or host that has none.
const defaultName = "nqn.2026-11.tapir:"

// maxLUNs is how many namespaces a subsystem has at most.
const maxLUNs = 256

// validate checks a job.
func (j *Job) validate() error {
	switch {
	case len(j.LUNs) == 0:
		return errors.New("no LUN: give one with --lun, such as --lun mem:64M")
	case len(j.LUNs) > maxLUNs:
		return fmt.Errorf("more than %d LUNs", maxLUNs)
	case !wire.ValidNQN(j.NQN):
		return fmt.Errorf("subsystem %q: %s", j.NQN, wire.NQNRule)
	case j.FirstID == 0 || j.FirstID > targetconf.MaxFirstID:
		return errors.New("--first-id: 1 to 65024")
	}
	for _, h := range j.Hosts {
		if !wire.ValidNQN(h) {
			return fmt.Errorf("host %q: %s", h, wire.NQNRule)
		}
	}
	if j.Port == 0 {
		j.Port = wire.Port
	}
	return nil
}

// derived gives octets that follow from a name.
func derived(name string) [32]byte { return sha256.Sum256([]byte(name)) }

// serial is the serial number of a subsystem.
func serial(nqn string) string {
	d := derived(nqn)
	return hex.EncodeToString(d[:10])
}

// Task is what an initiator is to do.
type Task struct {
	Op        string
	Portals   []netip.AddrPort // paths to the subsystem
	NQN       string
	NSID      uint32
	Name      string // of the host
	KeepAlive time.Duration
	disk.Work
}

func (k *Task) validate() error {
	if k.Verb == disk.Discover {
		k.NQN = wire.DiscoveryNQN
	}
	switch {
	case len(k.Portals) == 0 || len(k.Portals) > maxPaths:
		return fmt.Errorf("one address of the subsystem and at most %d paths", maxPaths)
	case k.Verb != disk.Discover && (k.NQN == "" || k.NSID == 0):
		return errors.New("the subsystem or its namespace is missing")
	case k.Name != "" && !wire.ValidNQN(k.Name):
		return fmt.Errorf("--name %q: %s", k.Name, wire.NQNRule)
	case k.KeepAlive != 0 && (k.KeepAlive < time.Second || k.KeepAlive > time.Hour):
		return errors.New("--keep-alive: 1s to 1h, or 0 for none")
	}
	for _, p := range k.Portals {
		if !p.IsValid() || p.Port() == 0 {
			return errors.New("the address of the subsystem is missing")
		}
	}
	return k.Work.Validate()
}

// ParseURL reads nvme://ADDRESS[:PORT] with /NQN/NSID behind it for a disk.
func ParseURL(text string) (portal netip.AddrPort, nqn string, nsid uint32, err error) {
	bad := fmt.Errorf("%q: expected nvme://ADDRESS[:PORT]/NQN/NSID", text)
	rest, ok := strings.CutPrefix(text, "nvme://")
	host, path, disk := strings.Cut(rest, "/")
	if portal, err = parsePortal(host); err != nil || !ok {
		return portal, "", 0, bad
	}
	if !disk {
		return portal, "", 0, nil
	}
	nqn, number, _ := strings.Cut(path, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || nqn == "" {
		return portal, "", 0, bad
	}
	return portal, nqn, uint32(n), nil
}

// parsePortal reads ADDRESS[:PORT].
func parsePortal(text string) (netip.AddrPort, error) {
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p, nil
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: expected ADDRESS[:PORT]", text)
	}
	return netip.AddrPortFrom(a, wire.Port), nil
}
