package umode_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	"tapir/lab/check/testenv/nics"
	"tapir/nic/umode"
	"tapir/nic/verbs"
)

// must ends the program: enough for an example.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// side is a NIC that runs elsewhere, with a queue pair and some memory.
type side struct {
	nic *umode.Context
	cq  *umode.CQ
	qp  *umode.QP
	mr  *umode.MR
}

func open(name string) *side {
	nic := must(umode.Open(name, umode.Options{}))
	pd := must(nic.AllocPD())
	mr := must(pd.RegMR(must(nic.Alloc(4096)), verbs.LocalWrite))
	cq := must(nic.CreateCQ(16, must(nic.CreateCompChannel())))
	qp := must(pd.CreateQP(umode.QPConfig{SendCQ: cq, RecvCQ: cq}))
	return &side{nic, cq, qp, mr}
}

func Example() {
	defer running()()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client, server := open("nic0"), open("nic1")
	defer client.nic.Close()
	defer server.nic.Close()

	at := netip.MustParseAddrPort("10.0.0.2:7471")
	listener := must(server.nic.Listen(at, 1))
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		peer := must(listener.Request(ctx))
		must(0, peer.Accept(ctx, umode.Params{QP: server.qp}))
	}()
	id := must(client.nic.NewID())
	must(0, id.Connect(ctx, at, umode.Params{QP: client.qp}))
	<-accepted

	must(server.qp.PostRecv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{server.mr.SGE(0, 100)}}))
	copy(client.mr.Bytes(), "hello")
	must(client.qp.PostSend(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.mr.SGE(0, 5)}}))

	wc := must(client.cq.Next(ctx))
	fmt.Printf("client: WR %d %v: %v\n", wc.ID, wc.Opcode, wc.Status)
	wc = must(server.cq.Next(ctx))
	fmt.Printf("server: WR %d %v: %v\n", wc.ID, wc.Opcode, wc.Status)
	fmt.Printf("%s\n", server.mr.Bytes()[:wc.ByteLen])
	// Output:
	// client: WR 2 send: success
	// server: WR 1 recv: success
	// hello
}

// running starts nic0 and nic1.
func running() (stop func()) {
	dir := must(os.MkdirTemp("", "umode"))
	before := os.Getenv("XDG_RUNTIME_DIR")
	must(0, os.Setenv("XDG_RUNTIME_DIR", dir))
	_, _, end, err := nics.Pair(context.Background())
	must(0, err)
	return func() {
		end()
		must(0, os.Setenv("XDG_RUNTIME_DIR", before))
		must(0, os.RemoveAll(dir))
	}
}
