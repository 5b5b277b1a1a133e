package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"tapir/lab/process"
)

// Cell is a server and a client that talk to each other.
type Cell struct {
	Name           string
	Server, Client string // command lines
	Want           string // what a content client says
	Stays          bool   // the server serves until it is ended
	Socket         bool   // it listens on a socket, not on its NIC, until the client comes
	Twice          bool   // it listens, connects, and listens anew for a second connection
	Copies         bool   // the client copies the file "from" to the server's "to"
}

// Cells are all there are. Their iterations are few: what counts is that every
// operation passes, and that data arrive.
func Cells() (list []Cell) {
	list = []Cell{
		{Name: "rping", Server: "rping -s -V -C 20", Client: "rping -c -V -C 20 -a " + IPv4},
		{Name: "rping v6", Server: "rping -s -V -C 20 -a ::", Client: "rping -c -V -C 20 -a " + IPv6},
		{Name: "rping 60000 octets", Server: "rping -s -V -C 20 -S 60000", Client: "rping -c -V -C 20 -S 60000 -a " + IPv4},
		{Name: "ucmatose", Server: "ucmatose -c 4", Client: "ucmatose -c 4 -s " + IPv4, Want: "return status 0"},
		{Name: "ucmatose migrates", Server: "ucmatose -c 4 -m", Client: "ucmatose -c 4 -m -s " + IPv4, Want: "return status 0"},
		{Name: "ucmatose v6", Server: "ucmatose -c 4 -f ip6 -b " + IPv6, Client: "ucmatose -c 4 -f ip6 -s " + IPv6, Want: "return status 0"},
		{Name: "rdma_client", Server: "rdma_server", Client: "rdma_client -s " + IPv4, Want: "end 0"},
		{Name: "cmtime", Server: "cmtime", Client: "cmtime -c 20 -s " + IPv4, Want: "connect", Stays: true},
		{Name: "rcopy", Server: "rcopy", Client: "rcopy from " + IPv4 + ":to", Want: "done", Stays: true, Copies: true},
		{Name: "fi_pingpong", Server: "fi_pingpong -p verbs -e msg -I 20 -S 4096 -c", Client: "fi_pingpong -p verbs -e msg -I 20 -S 4096 -c " + IPv4, Want: "4k", Socket: true},
	}
	for _, p := range []string{"rstream", "riostream"} {
		arg := p + " -I 5 -C 5 -S 4096 -T v"
		list = append(list, Cell{Name: p, Server: arg, Client: arg + " -s " + IPv4, Want: "custom"},
			Cell{Name: p + " v6", Server: arg + " -f ipv6 -b " + IPv6, Client: arg + " -f ipv6 -s " + IPv6, Want: "custom"})
	}
	for _, op := range []string{"write_bw", "read_bw", "send_bw", "atomic_bw", "write_lat", "read_lat", "send_lat", "atomic_lat"} {
		for _, wait := range []string{"", " -e"} {
			if wait != "" && (strings.HasPrefix(op, "write") || op == "send_bw") {
				continue // perftest has no events there, or waits for its own credits for ever
			}
			cmd := "ib_" + op + " -R -F -n 100" + wait
			if strings.HasSuffix(op, "bw") && op != "atomic_bw" {
				cmd += " -s 16384"
			}
			list = append(list, Cell{Name: op + wait, Server: cmd, Client: cmd + " " + IPv4, Want: "#bytes", Twice: true})
		}
	}
	return append(list, Cell{Name: "send_bw with an SRQ", Server: "ib_send_bw -R -F -n 100 --use-srq", Client: "ib_send_bw -R -F -n 100 --use-srq " + IPv4, Want: "#bytes", Twice: true})
}

// Missing names a program of the cells that is not installed, "" if all are.
func Missing() string {
	for _, c := range Cells() {
		name, _, _ := strings.Cut(c.Client, " ")
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	return ""
}

// within bounds a cell.
const within = 40 * time.Second

// refused is what perftest's client says when its second connection comes before
// the server listens anew: it does not try again, on no device.
const refused = "RDMA_CM_EVENT_REJECTED; error: -111"

// attempts bounds how often a cell is begun when the programs have missed each
// other.
const attempts = 5

// Run runs a cell. Error: what was not as it should be, with the end of what
// both programs said.
func (l *Lab) Run(ctx context.Context, c Cell) (err error) {
	for range attempts {
		err = l.run(ctx, c)
		if err == nil || !c.Twice || !strings.Contains(err.Error(), refused) {
			return err
		}
		if left := l.empty(ctx); left != nil {
			return errors.Join(err, left)
		}
	}
	return err
}

func (l *Lab) run(ctx context.Context, c Cell) (err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if c.Copies {
		if err := os.WriteFile(filepath.Join(l.dir, "from"), pattern(), 0o600); err != nil {
			return err
		}
	}
	srv, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: l.dir, Argv: l.under(server, strings.Fields(c.Server))})
	if err != nil {
		return err
	}
	var cli *process.Process
	defer func() {
		srv.Stop()
		if err != nil && cli != nil {
			err = fmt.Errorf("%s: %w\nserver: %s\nclient: %s", c.Name, err, srv.Tail(), cli.Tail())
		} else if err != nil {
			err = fmt.Errorf("%s: %w\nserver: %s", c.Name, err, srv.Tail())
		}
	}()
	if err := l.ready(ctx, c, srv); err != nil {
		return err
	}
	if cli, err = process.Start(ctx, l.pair.B.NS, process.Options{Dir: l.dir, Argv: l.under(client, strings.Fields(c.Client))}); err != nil {
		return err
	}
	defer cli.Stop()
	if err := cli.Wait(ctx); err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	if cli.Line(c.Want) == "" {
		return fmt.Errorf("the client does not say %q", c.Want)
	}
	if c.Stays {
		srv.Stop()
	} else if err := srv.Wait(ctx); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	if c.Copies {
		if got, err := os.ReadFile(filepath.Join(l.dir, "to")); err != nil || !bytes.Equal(got, pattern()) {
			return errors.Join(errors.New("the copy differs"), err)
		}
	}
	return l.empty(ctx)
}

// ready waits until the client may come.
func (l *Lab) ready(ctx context.Context, c Cell, srv *process.Process) error {
	if !c.Socket {
		return l.listens(ctx, srv)
	}
	return process.Until(ctx, func() (bool, error) { return listening(srv.PID()) })
}

// listening reports whether a socket of TCP listens in the namespace of a
// process.
func listening(pid int) (bool, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return false, err
		}
		for l := range strings.Lines(string(text)) {
			if f := strings.Fields(l); len(f) > 3 && f[3] == "0A" { // the state LISTEN
				return true, nil
			}
		}
	}
	return false, nil
}

// pattern is the file to be copied.
func pattern() []byte {
	b := make([]byte, 300_001)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}
