// Package main keeps the clause ledger: every requirement of the iWARP RFCs, and in our
// own words those of the InfiniBand Architecture for RoCE's transport and communication
// management and of iSCSI's RFC 7143 for what passes the wire, with the test that
// would fail if it were violated. It writes docs/evidence/ledger.md, and breaks the code
// on purpose to see whether the tests notice.
package main

import (
	"embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// rfcs are the documents whose requirements the ledger holds, with their
// titles in short.
var rfcs = []struct{ number, title string }{
	{"5040", "RDMAP"}, {"5041", "DDP"}, {"5044", "MPA"},
	{"6581", "enhanced connection establishment"}, {"7306", "RDMAP extensions"},
	{ibta, "RoCE transport and communication management"}, {iscsi, "iSCSI PDUs, login, numbers and data"},
}

// Documents whose clauses are in our own words: the InfiniBand Architecture, volume 1, and RFC 7143.
const (
	ibta  = "IBTA"
	iscsi = "7143"
)

//go:embed clauses/*.yaml mutations/*.yaml
var data embed.FS

// Clause is one sentence with a requirement. Exactly one of Test, Not and NA
// is set; a MUST has no Not.
type Clause struct {
	// ID is RFC, section, and the sentence's number among those of its section
	// that hold a requirement.
	ID string `yaml:"id"`
	// Level is MUST (MUST NOT, SHALL, REQUIRED) or SHOULD (SHOULD NOT,
	// RECOMMENDED).
	Level string `yaml:"level"`
	// Quote is the sentence or the part of it that matters.
	Quote string `yaml:"clause"`
	// What says how Tapir does it.
	What string `yaml:"what"`
	// Test names tests, divided by spaces: "room.TestName" or a wire script
	// such as "iwarp/5041-7.1/wrap.wire".
	Test string `yaml:"test"`
	// Not says why a SHOULD is not followed.
	Not string `yaml:"not"`
	// NA says why the clause does not apply to a NIC.
	NA string `yaml:"na"`
}

// Tests are the names in Test.
func (c *Clause) Tests() []string { return strings.Fields(c.Test) }

// RFC is the number of the clause's document.
func (c *Clause) RFC() string {
	rfc, _, _ := strings.Cut(c.ID, "-")
	return rfc
}

// clauses reads the whole ledger, in the order of the documents.
func clauses() ([]Clause, error) { return read[Clause]("clauses") }

// read reads a directory's tables, in the order of the documents.
func read[T any](dir string) (all []T, err error) {
	for _, r := range rfcs {
		name := dir + "/" + r.number + ".yaml"
		b, err := data.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var list []T
		if err := yaml.UnmarshalWithOptions(b, &list, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// tally counts the clauses of one kind.
type tally struct{ must, should, tested, not, na, mustNA int }

func (t *tally) add(c *Clause) {
	must := c.Level == "MUST"
	t.must += count(must)
	t.should += count(!must)
	t.tested += count(c.Test != "")
	t.not += count(c.Not != "")
	t.na += count(c.NA != "")
	t.mustNA += count(c.NA != "" && must)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// moduleRoot is the nearest folder upwards that holds go.mod.
func moduleRoot() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if root := filepath.Dir(string(file)); err != nil || filepath.IsAbs(root) && root != "/dev" {
		return root, err
	}
	return "", fmt.Errorf("no go.mod here or above: run this inside the module")
}

// byID finds a clause.
func byID(all []Clause, id string) *Clause {
	if i := slices.IndexFunc(all, func(c Clause) bool { return c.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}
