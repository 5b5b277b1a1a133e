package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
)

// firstPort is that of the first of many servers.
const firstPort = 7200

// TestMany: programs at once, and programs in a row, whose server has a thread for each,
// leave nothing in the NICs.
func TestMany(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*within)
	defer cancel()
	atOnce, inRow := 6, 3
	if *interop {
		atOnce, inRow = 20, 200
	}
	start := func(nic, argv string) *process.Process {
		p, err := process.Start(ctx, l.side(nic).NS, process.Options{Dir: l.dir, Argv: l.under(nic, Auto, strings.Fields(argv))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	type pair struct{ server, client *process.Process }
	all := make([]pair, atOnce)
	for i := range all {
		all[i].server = start(server, fmt.Sprint("rping -s -V -S 4096 -C 50 -p ", firstPort+i))
		if err := l.listens(ctx, all[i].server, i+1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all {
		all[i].client = start(client, fmt.Sprint("rping -c -V -S 4096 -C 50 -a "+IPv4+" -p ", firstPort+i))
	}
	for i, p := range all {
		if err := errors.Join(p.client.Wait(ctx), p.server.Wait(ctx)); err != nil {
			t.Errorf("pair %d of %d at once: %v: %s%s%s", i, atOnce, err, p.client.Tail(), p.server.Tail(), l.state())
		}
	}
	// A server with threads takes one client after the other: it keeps one request at a time.
	srv := start(server, "rping -s -P -V")
	if err := l.listens(ctx, srv, 1); err != nil {
		t.Fatal(err)
	}
	for i := range inRow {
		if p := start(client, "rping -c -V -C 2 -a "+IPv4); p.Wait(ctx) != nil {
			t.Fatalf("program %d in a row: %v: %s%s", i, p.Err(), p.Tail(), l.state())
		}
	}
	srv.Stop()
	if err := l.empty(ctx); err != nil {
		t.Error(err)
	}
}

// TestForks: a program's child, which has a copy of its registered memory and its open
// device, overwrites the copy and ends; the program's own transfers go on.
func TestForks(t *testing.T) {
	l := newLab(t)
	file := compiled(t, "cc", "-DFORKS", "testdata/ping.c", "-lrdmacm", "-libverbs")
	for _, m := range Modes[:3] {
		runCell(t, l, Cell{Name: "forks", Server: file + " -s " + IPv4, Client: file + " " + IPv4, Want: "ping 2 back"}, m)
	}
}

// TestLargeMessages: messages of 16 MiB, in the long form of 1 GiB, arrive. The server
// fills twice as much memory between the request and its acceptance, for which the client's
// NIC waits as long as its setting says.
func TestLargeMessages(t *testing.T) {
	l := newLab(t)
	if err := l.ctls[1].Set(t.Context(), []ctl.Setting{{Name: "mpa_reply_timeout", Value: "10m"}}, nil); err != nil {
		t.Fatal(err)
	}
	size, patience := 16<<20, within
	if *interop {
		size, patience = 1<<30, 10*time.Minute
	}
	for _, op := range []string{"ib_write_bw", "ib_read_bw", "ib_send_bw"} {
		t.Run(op, func(t *testing.T) {
			run := fmt.Sprintf("%s -R -F -n 5 -s %d", op, size)
			runCell(t, l, Cell{Name: op, Server: run, Client: run + " " + IPv4, Want: fmt.Sprint(size, " "),
				Known: []string{"RDMA_CM_EVENT_REJECTED; error: -111"}, Within: patience}, Auto)
		})
	}
}
