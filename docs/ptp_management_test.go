package docs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
)

type silent struct{}

func (silent) Send(int, ptp.Outgoing) {}

type lastReply struct {
	c mgmt.Client
	r mgmt.Reply
}

func (l *lastReply) Send(_ string, b []byte) { l.r, _ = l.c.Receive(b) }

// TestManagementTable holds the table of docs/reference/ptp-management.md against what
// an instance answers.
func TestManagementTable(t *testing.T) {
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := ptp.New(ptp.NewConfig(ptp.DefaultE2E, msg.IdentityOf([6]byte{2, 0, 0, 0, 0, 1}), 1), phc, silent{})
	if err != nil {
		t.Fatal(err)
	}
	srv := mgmt.New(mgmt.Config{Ports: []mgmt.PortInfo{{Interface: "nic0"}}}, inst)
	last := &lastReply{c: mgmt.Client{Identity: msg.PortIdentity{Port: 1}}}
	srv.SetLocal(last)
	ask := func(r mgmt.Request) mgmt.Reply {
		srv.Local("docs", last.c.Append(nil, r, 0), 0)
		return last.r
	}
	var want []string
	for _, id := range msg.ManagementIDs() {
		whose, can := "clock", []string{}
		if id.OfPort() {
			whose = "port"
		}
		got := ask(mgmt.Request{ID: id})
		if got.Error == 0 {
			can = append(can, "GET")
		}
		if r := ask(mgmt.Request{Action: msg.Set, ID: id, Data: got.Data}); r.Error == 0 {
			can = append(can, "SET")
		}
		if r := ask(mgmt.Request{Action: msg.Command, ID: id}); r.Error == 0 {
			can = append(can, "COMMAND")
		}
		want = append(want, fmt.Sprintf("| `%v` | %s | %s |", id, whose, strings.Join(can, " ")))
	}
	text, err := os.ReadFile("reference/ptp-management.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the table must be\n%s", strings.Join(want, "\n"))
	}
}
