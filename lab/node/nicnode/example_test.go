package nicnode_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

func Example_send() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	server.recv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{server.sge(0, 100)}})
	copy(client.mem, "hello")
	client.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.sge(0, 5)}})
	wc := server.wait()
	show("client", client.wait())
	show("server", wc)
	fmt.Printf("%s\n", server.mem[:wc.ByteLen])
	// Output:
	// client: WR 2 send: success
	// server: WR 1 recv: success
	// hello
}

// Inline data is copied when it is posted: no region, and the slice may change
// at once.
func Example_inline() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	server.recv(verbs.RecvWR{SGEs: []verbs.SGE{server.sge(0, 64)}})
	data := []byte("small")
	client.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: data})
	copy(data, "SMALL")
	fmt.Printf("%s\n", server.mem[:server.wait().ByteLen])
	// Output: small
}

// Address and STag of the server's memory usually come in a Send; here they
// are at hand.
func Example_write() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	copy(client.mem, "to the peer's memory")
	client.send(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{client.sge(0, 20)},
		RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr() + 1000})
	client.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.sge(100, 20)},
		RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr() + 1000})
	show("client", client.wait()) // the Write was not signalled
	fmt.Printf("%s\n", client.mem[100:120])
	// Output:
	// client: WR 2 read: success
	// to the peer's memory
}

// A Write with immediate data takes a receive at the peer, which thus learns
// that the data is there.
func Example_writeWithImmediate() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	server.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	copy(client.mem, "block 7")
	client.send(
		verbs.SendWR{Opcode: verbs.OpWriteImm, Imm: 7, SGEs: []verbs.SGE{client.sge(0, 7)},
			RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr()},
		verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 8}) // immediate data alone
	for range 2 {
		wc := server.wait()
		show("server", wc)
		fmt.Println("immediate data", wc.Imm)
	}
	fmt.Printf("%s\n", server.mem[:7])
	// Output:
	// server: WR 1 recv with immediate: success
	// immediate data 7
	// server: WR 2 recv: success
	// immediate data 8
	// block 7
}

// Atomic operations work on 64-bit values in host order and return the value
// they found.
func Example_atomic() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	counter := server.mem[8:16]
	binary.NativeEndian.PutUint64(counter, 41)
	for i, wr := range []verbs.SendWR{
		{Opcode: verbs.OpFetchAdd, Atomic: verbs.Operands{CompareAdd: 1}},
		{Opcode: verbs.OpCompSwap, Atomic: verbs.Operands{CompareAdd: 42, Swap: 7}},
		{Opcode: verbs.OpSwap, Atomic: verbs.Operands{Swap: 0x100}},
		// Two fields of 32 bits: the mask names the highest bit of each.
		{Opcode: verbs.OpMaskedFetchAdd, Atomic: verbs.Operands{CompareAdd: 0xffffffff, CompareAddMask: 1<<63 | 1<<31}},
		// Sets the lowest bit, if bit 8 is not set.
		{Opcode: verbs.OpMaskedCompSwap, Atomic: verbs.Operands{CompareAddMask: 0x100, Swap: 1, SwapMask: 1}},
	} {
		wr.ID, wr.Flags, wr.SGEs = uint64(i), verbs.Signaled, []verbs.SGE{client.sge(0, verbs.AtomicLen)}
		wr.RKey, wr.RemoteAddr = server.mr.RKey(), server.mr.Addr()+8
		client.send(wr)
		show("client", client.wait())
		fmt.Printf("found %#x, left %#x\n", binary.NativeEndian.Uint64(client.mem), binary.NativeEndian.Uint64(counter))
	}
	// Output:
	// client: WR 0 fetch-add: success
	// found 0x29, left 0x2a
	// client: WR 1 compare-swap: success
	// found 0x2a, left 0x7
	// client: WR 2 swap: success
	// found 0x7, left 0x100
	// client: WR 3 masked fetch-add: success
	// found 0x100, left 0xff
	// client: WR 4 masked compare-swap: success
	// found 0xff, left 0xff
}

// The server registers pages by work request, hands the STag out, and the
// client gives it back with its last Send.
func Example_fastRegister() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	arena := make([]byte, 16*4096)
	var mr *verbs.MR
	server.do(func(frame.Time) { mr = must(server.pd.AllocMR(256)) })
	server.recv(verbs.RecvWR{ID: 1})
	server.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRegMR, Flags: verbs.Signaled, Reg: &verbs.FastReg{
		MR: mr, Key: 0x55, Access: verbs.LocalWrite | verbs.RemoteWrite, IOVA: 0x10000,
		Pages: verbs.PageList{Space: verbs.Bytes(arena), PageSize: 4096, Pages: []uint64{8 * 4096, 2 * 4096}, Length: 8192}}})
	show("server", server.wait())

	copy(client.mem, "across a page boundary")
	client.send(
		verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{client.sge(0, 22)}, RKey: mr.RKey(), RemoteAddr: 0x10000 + 4090},
		verbs.SendWR{Opcode: verbs.OpSendInv, Invalidate: mr.RKey()})
	wc := server.wait()
	show("server", wc)
	fmt.Printf("%q %q, STag invalidated: %v\n", arena[9*4096-6:9*4096], arena[2*4096:2*4096+16], wc.WithInv && wc.Invalidated == mr.RKey())

	// Invalid again, it may be registered again; a server that does not want to
	// wait for the client uses OpLocalInv.
	server.send(
		verbs.SendWR{ID: 3, Opcode: verbs.OpRegMR, Flags: verbs.Signaled, Reg: &verbs.FastReg{MR: mr, Key: 0x56,
			Pages: verbs.PageList{Space: verbs.Bytes(arena), PageSize: 4096, Pages: []uint64{0}, Length: 4096}}},
		verbs.SendWR{ID: 4, Opcode: verbs.OpLocalInv, Flags: verbs.Signaled | verbs.LocalFence, Invalidate: mr.RKey()&^0xff | 0x56})
	show("server", server.wait())
	show("server", server.wait())
	// Output:
	// server: WR 2 fast register: success
	// server: WR 1 recv: success
	// "across" " a page boundary", STag invalidated: true
	// server: WR 3 fast register: success
	// server: WR 4 local invalidate: success
}

// A window opens part of a region to the peer, here to this queue pair's
// (type 2B); the region itself need not be open.
func Example_memoryWindow() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	var w *verbs.MW
	server.do(func(frame.Time) { w = must(server.pd.AllocMW(verbs.MWType2B)) })
	server.send(verbs.SendWR{ID: 1, Opcode: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.Bind{
		MW: w, Key: 1, MR: server.mr, Addr: server.mr.Addr() + 256, Length: 16, Access: verbs.RemoteWrite | verbs.ZeroBased}})
	show("server", server.wait())
	server.do(func(frame.Time) { fmt.Println("region can go:", !errors.Is(server.mr.Dereg(), verbs.ErrBusy)) })

	copy(client.mem, "through a window")
	write := verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.sge(0, 16)}, RKey: w.RKey()}
	client.send(write)
	show("client", client.wait())
	server.recv(verbs.RecvWR{ID: 3})
	client.send(verbs.SendWR{Opcode: verbs.OpSendInv, Invalidate: w.RKey()}) // closes it
	show("server", server.wait())
	fmt.Printf("%s\n", server.mem[256:272])
	// Output:
	// server: WR 1 bind MW: success
	// region can go: false
	// client: WR 2 write: success
	// server: WR 3 recv: success
	// through a window
}

// A type 1 window is bound by a call of its own, which returns the new STag,
// and is open to every queue pair of the domain.
func Example_memoryWindowType1() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	var stag uint32
	server.do(func(frame.Time) {
		w := must(server.pd.AllocMW(verbs.MWType1))
		stag = must(server.qp.BindMW(1, verbs.Signaled, verbs.Bind{
			MW: w, MR: server.mr, Addr: server.mr.Addr(), Length: 64, Access: verbs.RemoteRead}))
	})
	show("server", server.wait())
	copy(server.mem, "look")
	client.send(verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.sge(0, 4)},
		RKey: stag, RemoteAddr: server.mr.Addr()})
	show("client", client.wait())
	fmt.Printf("%s\n", client.mem[:4])
	// Output:
	// server: WR 1 bind MW: success
	// client: WR 2 read: success
	// look
}

// A Read may scatter over several regions; with OpReadInv it invalidates the
// STag of its one element when the data is there.
func Example_scatterGather() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	copy(server.mem, "gather and scatter")
	server.recv(verbs.RecvWR{SGEs: []verbs.SGE{server.sge(1000, 4), server.sge(2000, 100)}})
	client.send(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr(),
		SGEs: []verbs.SGE{client.sge(500, 6), client.sge(0, 5), client.sge(700, 7)}})
	show("client", client.wait())
	client.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGEs: []verbs.SGE{client.sge(700, 7), client.sge(0, 5), client.sge(500, 6)}})
	server.wait()
	fmt.Printf("%q %q\n", server.mem[1000:1004], server.mem[2000:2014])

	sink := make([]byte, 6)
	var mr *verbs.MR
	client.do(func(frame.Time) { mr = must(client.pd.RegMR(sink, verbs.LocalWrite)) })
	client.send(verbs.SendWR{ID: 3, Opcode: verbs.OpReadInv, Flags: verbs.Signaled, RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 6, LKey: mr.LKey()}}})
	show("client", client.wait())
	client.do(func(frame.Time) { fmt.Printf("%s, STag valid: %v\n", sink, mr.Valid()) })
	// Output:
	// client: WR 1 read: success
	// "scat" "ter and gather"
	// client: WR 3 read: success
	// gather, STag valid: false
}

// A batch is posted up to its first bad request, whose index comes back. Of
// unsignalled requests only failures complete.
func Example_batch() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	write := verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{client.sge(0, 8)}, RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr()}
	last, bad := write, write
	last.ID, last.Flags = 3, verbs.Signaled
	bad.ID, bad.SGEs = 4, make([]verbs.SGE, 9)
	client.do(func(frame.Time) {
		n, err := client.qp.PostSend(write, write, last, bad, write)
		fmt.Println("posted", n)
		fmt.Println(err)
	})
	show("client", client.wait())
	// Output:
	// posted 3
	// post send to QP 1, WR 4: more scatter/gather elements than the queue pair allows
	// client: WR 3 write: success
}

// The second Write waits for the Read in front of it.
func Example_fence() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	copy(server.mem, "old")
	copy(client.mem[100:], "new")
	client.send(
		verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: []verbs.SGE{client.sge(0, 3)},
			RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr()},
		verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.Signaled | verbs.Fence, SGEs: []verbs.SGE{client.sge(100, 3)},
			RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr()})
	show("client", client.wait())
	show("client", client.wait())
	fmt.Printf("%s\n", client.mem[:3])
	// Output:
	// client: WR 1 read: success
	// client: WR 2 write: success
	// old
}

// A queue armed for solicited completions says nothing of others.
func Example_completionChannel() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	server.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	server.do(func(frame.Time) { server.cq.ReqNotify(true) })
	client.send(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.Signaled})
	client.wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := server.channel.Wait(ctx)
	fmt.Println(err)

	client.send(verbs.SendWR{ID: 4, Opcode: verbs.OpSend, Flags: verbs.Solicited})
	cq := must(server.channel.Wait(context.Background()))
	server.do(func(frame.Time) { fmt.Println(cq == server.cq, cq.Len(), "completions") })
	fmt.Println(server.channel.Ack(cq, 1))
	// Output:
	// completion channel: context deadline exceeded
	// true 2 completions
	// <nil>
}

// Several queue pairs may take their receives from one queue, which says when
// it runs low.
func Example_sharedReceiveQueue() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	server.do(func(frame.Time) {
		srq := must(server.pd.CreateSRQ(16, 1))
		must(srq.PostRecv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}))
		fmt.Println(srq.SetLimit(2))
		qp := must(server.pd.CreateQP(verbs.QPConfig{SendCQ: server.cq, RecvCQ: server.cq, SRQ: srq}))
		fmt.Printf("%+v, %d of the queue pair's own\n", srq.Query(), qp.Query().MaxRecv)
	})
	// Output:
	// <nil>
	// {MaxWR:16 MaxSGE:1 Limit:2 Waiting:2}, 0 of the queue pair's own
}

// Regions may begin at any address, be made of scattered pages, share their
// memory or change it.
func Example_regions() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	buf := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	client.do(func(frame.Time) {
		pd := client.pd
		virtual := must(pd.RegMemory(verbs.Bytes(buf), 0x7f0000, verbs.LocalWrite))
		zero := must(pd.RegMR(buf, verbs.RemoteRead|verbs.ZeroBased))
		pages := must(pd.RegPages(verbs.PageList{Space: verbs.Bytes(buf), PageSize: 4096,
			Pages: []uint64{4096, 0}, Offset: 100, Length: 5000}, 0x1000, verbs.RemoteRead))
		shared := must(pd.RegShared(virtual, 0x9000, verbs.RemoteRead))
		for _, mr := range []*verbs.MR{virtual, zero, pages, shared} {
			fmt.Printf("%#x+%d %v\n", mr.Addr(), mr.Len(), mr.Access())
		}
		rights := verbs.LocalWrite | verbs.RemoteWrite
		fmt.Println(zero.Rereg(verbs.Rereg{Memory: verbs.Bytes(buf[:100]), IOVA: 0x2000, Access: &rights}))
		fmt.Printf("%#x+%d %v\n", zero.Addr(), zero.Len(), zero.Access())
	})
	// Output:
	// 0x7f0000+16384 lw
	// 0x0+16384 rr,zb
	// 0x1000+5000 rr
	// 0x9000+16384 rr
	// <nil>
	// 0x2000+100 lw,rw
}

// Whoever breaks the rules of the peer's memory loses the connection: what was
// not done is flushed, in order.
func Example_flush() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	read := verbs.SendWR{Opcode: verbs.OpRead, SGEs: []verbs.SGE{client.sge(0, 8)}, RKey: server.mr.RKey(), RemoteAddr: server.mr.Addr()}
	beyond, behind := read, read
	beyond.ID, beyond.RemoteAddr = 1, server.mr.Addr()+uint64(len(server.mem))
	behind.ID, behind.Flags = 2, verbs.Fence
	client.recv(verbs.RecvWR{ID: 3})
	client.send(beyond, behind)
	for range 3 {
		show("client", client.wait())
	}
	client.do(func(frame.Time) { fmt.Println(client.qp.State(), client.qp.State().IWARP()) })
	// Output:
	// client: WR 1 read: remote access error
	// client: WR 2 read: WR flushed
	// client: WR 3 recv: WR flushed
	// ERR ERROR
}

// A queue may grow while completions wait in it.
func Example_resizeCQ() {
	client, server := connect()
	defer client.Close()
	defer server.Close()

	client.do(func(frame.Time) {
		cq := client.cq
		fmt.Println(cq.Cap(), cq.Resize(1000), cq.Cap())
		fmt.Println(errors.Is(cq.Resize(0), verbs.ErrInvalid))
	})
	// Output:
	// 64 <nil> 1000
	// true
}

// Asynchronous events of a context wait until somebody asks for them.
func Example_events() {
	wire, _, err := link.NewWire("wire", "far", false)
	if err != nil {
		log.Fatal(err)
	}
	layer, events := node.NewLayer(), node.NewEvents()
	nic := must(nicnode.Start(context.Background(), nicnode.Config{Name: "nic0", IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}, node.Env{Wire: wire, Layer: layer}))
	defer nic.Close()
	device := must(layer.OpenName("nic0", events, nil))
	defer layer.CloseContext(device)

	nic.Do(func(now frame.Time) { _ = nic.Device.AddAddr(netip.MustParsePrefix("10.0.0.9/24"), now) })
	ev := must(events.Wait(context.Background()))
	fmt.Println(ev.Type, "port", ev.Port, ev.Context == device)
	// Output: GID_CHANGE port 1 true
}
