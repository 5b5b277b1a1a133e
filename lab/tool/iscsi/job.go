// Package iscsi runs iSCSI targets inside running NICs, on their own TCP, and is the
// subcommand that asks for them.
package iscsi

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"tapir/lab/tool/disk"
	"tapir/wire/iscsi"
)

// Op is the kind of the job of a target.
const Op = "iscsi-target"

// Job is a target to serve.
type Job struct {
	Op      string
	Port    uint16
	ISER    bool // by RDMA, not by TCP
	Targets []Node
	Offload bool // the NIC's iSCSI function takes sessions over after the login
}

// Node is what a TargetName names.
type Node struct {
	Name       string     `json:"name"` // empty: from the NIC's name
	LUNs       []disk.LUN `json:"luns"`
	Initiators []string   `json:"initiators,omitempty"`
	// CHAP is user and secret of initiators, and of the target if there are four.
	CHAP []string `json:"chap,omitempty"`
}

// defaultName is the beginning of the name of a target that has none.
const defaultName = "iqn.2026-11.tapir:"

// ReadCHAP reads a file of user and secret, and behind them those of the target if
// initiators ask for them. White space separates them.
func ReadCHAP(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(b))
	if len(words) != 2 && len(words) != 4 {
		return nil, fmt.Errorf("--chap %s: expected USER SECRET, and the target's own two if initiators ask", path)
	}
	for _, secret := range []int{1, 3} {
		if secret < len(words) && (len(words[secret]) < 12 || len(words[secret]) > 255) {
			return nil, fmt.Errorf("--chap %s: a secret has 12 to 255 octets", path)
		}
	}
	if len(words) == 4 && words[1] == words[3] {
		return nil, fmt.Errorf("--chap %s: the two secrets must differ", path)
	}
	return words, nil
}

// validate checks a job.
func (j *Job) validate() error {
	if j.Port == 0 {
		j.Port = iscsi.Port
	}
	if j.ISER && j.Offload {
		return errISEROffload
	}
	seen := map[string]bool{}
	if len(j.Targets) == 0 {
		return errors.New("no LUN: give one with --lun, such as --lun mem:64M")
	}
	for i := range j.Targets {
		n := &j.Targets[i]
		switch {
		case !iscsi.ValidName(n.Name):
			return fmt.Errorf("target %q: %s", n.Name, iscsi.NameRule)
		case seen[n.Name]:
			return fmt.Errorf("target %s is named twice", n.Name)
		case len(n.LUNs) == 0:
			return fmt.Errorf("target %s has no LUN: give one with --lun behind it", n.Name)
		case len(n.LUNs) > 256:
			return fmt.Errorf("target %s has more than 256 LUNs", n.Name)
		case len(n.CHAP) != 0 && len(n.CHAP) != 2 && len(n.CHAP) != 4:
			return fmt.Errorf("target %s: CHAP needs user and secret", n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}
