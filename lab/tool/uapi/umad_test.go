package uapi_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/trap"
)

// Stock libibumad on a NIC: the port's agent answers on the directed route and by
// LID, gives the port the LID that a manager sets, and nobody has another LID. An
// unregistered agent sends nothing.
func TestUMAD(t *testing.T) {
	program := filepath.Join(t.TempDir(), "umad")
	out, err := exec.Command("cc", "-o", program, "testdata/umad.c", "-l:libibumad.so.3").CombinedOutput()
	if err != nil {
		t.Fatalf("cannot build the program (apt install gcc libc6-dev libibumad3): %v\n%s", err, out)
	}
	for i, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		t.Run(via.String(), func(t *testing.T) {
			name := fmt.Sprintf("umad%d", i)
			n, _ := newNICs(t, name, name+"far") // the other one announces itself
			until(t, func() string { return map[bool]string{true: "nothing is received"}[n.received() == 0] })
			guid := n.attribute("node_guid")
			r := n.start(uapi.Options{Argv: []string{program, "rxe0"}, Via: via})
			code := r.end(t)
			want := "rxe0 port 1: lid 0 state 4 phys 5 Ethernet, header 64\n" +
				"agents 0 1, rmpp refused\n" +
				"node guid " + strings.ReplaceAll(guid, ":", "") + "\n" +
				"lid is now 18\n" +
				"lid 0x12 is tapir " + name + "\n" +
				fmt.Sprintf("words received: %d\n", n.received()/4) +
				"lid 0x13: Connection timed out after 24 octets\n" +
				"unregistered: 0, then send: Invalid argument\n"
			if code != 0 || r.said() != want {
				t.Errorf("exit code %d\n%s\nwant\n%s", code, r.said(), want)
			}
			const counter = "/sys/class/infiniband/rxe0/ports/1/counters/port_rcv_data"
			if r := n.start(uapi.Options{Argv: []string{"cat", counter}, Via: via}); r.end(t) != 0 || r.said() != fmt.Sprintln(n.received()/4) {
				t.Errorf("%s says %s, received were %d octets", counter, r.said(), n.received())
			}
			if lid, events := n.attribute("port_lid"), n.ever("LID change"); lid != "18" || events != "1" {
				t.Errorf("the port has LID %s after %s changes", lid, events)
			}
		})
	}
}

// received are the octets that the NIC's port has received.
func (n *nic) received() (octets uint64) {
	n.t.Helper()
	var rows []struct {
		Name  string
		Value uint64
	}
	if err := n.ctl.Show(n.t.Context(), "counters", &rows); err != nil {
		n.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Name == "rx_bytes" {
			octets = r.Value
		}
	}
	return octets
}

// attribute is the value of a row of tapir show device.
func (n *nic) attribute(name string) string {
	n.t.Helper()
	var rows []struct{ Attribute, Value string }
	if err := n.ctl.Show(n.t.Context(), "device", &rows); err != nil {
		n.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Attribute == name {
			return r.Value
		}
	}
	return ""
}

// ever is how often an event was raised, as tapir show device has it.
func (n *nic) ever(event string) string {
	n.t.Helper()
	var rows []struct {
		Attribute, Value string
		Ever             *uint64
	}
	if err := n.ctl.Show(n.t.Context(), "device", &rows); err != nil {
		n.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Attribute == "event" && r.Value == event && r.Ever != nil {
			return fmt.Sprint(*r.Ever)
		}
	}
	return "no"
}
