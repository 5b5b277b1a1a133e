package uapi_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/trap"
)

// TestToolsFindTheNIC: while two programs are connected, stock rdma shows the objects
// of one with its process, the other side's address and counters that are those of
// sysfs, and stock ip the NIC's address, route and neighbor.
func TestToolsFindTheNIC(t *testing.T) {
	for i, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		t.Run(via.String(), func(t *testing.T) {
			name := []string{"tools", "toolsp"}[i]
			a, b := newNICs(t, name, name+"far")
			server := a.start(uapi.Options{Argv: strings.Fields("rping -s"), Via: via})
			a.has(listening(a))
			r := b.start(uapi.Options{Via: via, Argv: []string{"sh", "-c", `rping -c -a 10.0.0.1 >/dev/null & p=$!
until rdma res show qp | grep -q RTS; do sleep 0.02; done
rdma res show qp | sed "s/pid $p/pid P/"
rdma res show cm_id | sed "s/pid $p/pid P/; s/:4[0-9]* /:port /"
rdma res | sed 's/mr [0-9]/mr N/'
cd / && test "$(rdma -j stat | grep -o '"tcp_active_opens":[0-9]*')" = "\"tcp_active_opens\":$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/tcp_active_opens)" && echo same
ip -o -4 addr show dev ` + name + `far | grep -o 'inet 10.0.0.2/24'
ip route get 10.0.0.1 | grep -o 'src 10.0.0.2'
ip neigh | grep -o '^10.0.0.1 .* lladdr'
kill $p`}})
			if code := r.end(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			server.end(t)
			want := `link rxe0/1 lqpn 1 rqpn 0 type RC state RTS rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn \d pid P comm rping 
link rxe0/1 cm-idn 1 lqpn 1 qp-type RC state CONNECT ps TCP pid P comm rping src-addr 10.0.0.2:port dst-addr 10.0.0.1:7174 
0: rxe0: pd \d cq 1 qp 1 cm_id 1 mr N ctx 1 srq 0 
same
inet 10.0.0.2/24
src 10.0.0.2
10.0.0.1 dev ` + name + `far lladdr
`
			if !regexp.MustCompile("^" + want + "$").MatchString(r.said()) {
				t.Errorf("%s\nwant\n%s", r.said(), want)
			}
		})
	}
}

// manyCommands is how many commands a program makes that posts and arms by them, in
// some hundred messages.
const manyCommands = 400

// TestClients: tapir show clients tells by which way each program posts, and why; one
// with doorbells posts and arms without a command.
func TestClients(t *testing.T) {
	a, b := newNICs(t, "clients", "clientsfar")
	a.steps.off, b.steps.off = true, true
	server := a.start(uapi.Options{Argv: strings.Fields("rping -s")})
	a.has(listening(a))
	stdin, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	client := b.start(uapi.Options{Path: "trap", NoDoorbells: true, Argv: []string{"sh", "-c", "rping -c -a 10.0.0.1 >/dev/null & read line; kill $!"},
		Stdin: stdin})
	commands := map[*nic]uint64{}
	until(t, func() string {
		for n, want := range map[*nic]string{a: "auto trap doorbell a dynamic program, with the library of doorbells",
			b: "trap trap command tapir run --via trap"} {
			var rows []relay.ClientInfo
			if err := n.ctl.Show(t.Context(), "clients", &rows); err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				if r.File == relay.Uverbs(n.Name()) && strings.Join([]string{r.Via, r.Calls, r.Posts, r.Why}, " ") == want && r.PID > 0 && r.Program == "rping" {
					want, commands[n] = "", r.Commands
				}
			}
			if want != "" {
				return fmt.Sprintf("%s has %+v, want %s", n.Name(), rows, want)
			}
		}
		if commands[b] < manyCommands {
			return fmt.Sprintf("the client has made %d commands, want %d", commands[b], manyCommands)
		}
		return ""
	})
	if commands[a] > manyCommands/4 {
		t.Errorf("a server with doorbells has made %d commands, its client without %d", commands[a], commands[b])
	}
	end.Close()
	client.end(t)
	server.end(t)
}

// listening are the objects of a NIC at which rping waits for a client.
func listening(n *nic) map[string]int {
	want := map[string]int{}
	for k, v := range n.empty {
		want[k] = v
	}
	want["cep_listening"], want["tcp_socket"] = 1, n.empty["tcp_socket"]
	return want
}
