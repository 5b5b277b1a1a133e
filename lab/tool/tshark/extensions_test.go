package tshark

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"tapir/lab/check/testenv/vpair"
	"tapir/lab/host/link"
	"tapir/lab/tool/capture"
	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// side is one of two NICs on a pipe in virtual time, with a queue pair.
type side struct {
	dev *nic.Device
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	up  bool
}

func newSide(t *testing.T, d *nic.Device) *side {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &side{dev: d}
	pd, err := d.Verbs.AllocPD()
	fail(err)
	s.cq, err = d.Verbs.CreateCQ(64, nil)
	fail(err)
	s.mr, err = pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteAtomic|verbs.RemoteWrite)
	fail(err)
	s.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq})
	fail(err)
	return s
}

func (s *side) handle(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ConnectRequest:
		if err := ev.ID.Accept(cm.Params{QP: s.qp}, now); err != nil {
			panic(err)
		}
	case cm.ActiveComplete, cm.PassiveComplete:
		s.up = true
	}
}

// record captures what two connected NICs do from act until done says that it
// is over.
func record(t *testing.T, act func(client, server *side), done func(client, server *side) bool) (file string) {
	t.Helper()
	var cfg [2]nic.Config
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		cfg[i] = nic.Config{Name: "nic" + addr, Addrs: []netip.Prefix{netip.MustParsePrefix(addr + "/24")}}
	}
	pair := vpair.New(t, cfg, link.Impairment{})
	client, server := newSide(t, pair.NICs[0]), newSide(t, pair.NICs[1])
	file = filepath.Join(t.TempDir(), "extensions.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	session := capture.New(f, capture.Info{Name: "nic0", MTU: 1500}, capture.Options{})
	client.dev.SetTracer(session)
	remote := netip.MustParseAddrPort("10.0.0.2:7471")
	if _, err := server.dev.CM.Listen(remote, 1, server.handle, nil); err != nil {
		t.Fatal(err)
	}
	acted := false
	if err := client.dev.CM.NewID(client.handle, nil).Connect(remote, cm.Params{QP: client.qp}, 0); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		next := pair.Step()
		if client.up && server.up && !acted {
			acted = true
			act(client, server)
			next = pair.Now
		}
		if acted && done(client, server) {
			break
		}
		pair.Now = max(next, pair.Now+1)
	}
	if !acted || !done(client, server) {
		t.Fatal("not done")
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// The stock dissector reads the messages of RFC 7306 as they were meant.
func TestDissectorReadsExtensions(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	file := record(t, func(c, s *side) {
		sink := []verbs.SGE{{Addr: c.mr.Addr(), Length: 8, LKey: c.mr.LKey()}}
		to := verbs.SendWR{Flags: verbs.Signaled, SGEs: sink, RKey: s.mr.RKey(), RemoteAddr: s.mr.Addr() + 64}
		add, cas, swap, write := to, to, to, to
		add.Opcode, add.Atomic = verbs.OpFetchAdd, verbs.Operands{CompareAdd: 7}
		cas.Opcode = verbs.OpMaskedCompSwap
		cas.Atomic = verbs.Operands{CompareAdd: 0x17, CompareAddMask: 0xf, Swap: 0x1234, SwapMask: 0xff00}
		swap.Opcode, swap.Atomic = verbs.OpSwap, verbs.Operands{Swap: 99}
		write.Opcode, write.Imm, write.Flags = verbs.OpWriteImm, 5, verbs.Signaled|verbs.Solicited
		if _, err := s.qp.PostRecv(verbs.RecvWR{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.qp.PostSend(add, cas, swap, write); err != nil {
			t.Fatal(err)
		}
	}, func(c, s *side) bool { return c.cq.Len() == 4 && s.cq.Len() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v, err := IWARP(ctx, file, Options{Disable: []string{"rpcordma"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Malformed) != 0 || len(v.Checksum) != 0 || v.BadCRC != 0 || v.GoodCRC != 8 {
		t.Errorf("%+v", v)
	}
	if want := [16]uint64{0: 1, 9: 1, 10: 3, 11: 3}; v.Messages != want {
		t.Errorf("messages by opcode %v, want %v", v.Messages, want)
	}
	rows, err := Fields(ctx, file, Options{Filter: "iwarp_rdma.opcode >= 10", Disable: []string{"rpcordma"}}, "iwarp_ddp.qn",
		"iwarp_rdma.atomic.opcode", "iwarp_rdma.atomic.request_identifier", "iwarp_rdma.atomic.add_data", "iwarp_rdma.atomic.swap_data", "iwarp_rdma.atomic.swap_mask",
		"iwarp_rdma.atomic.compare_data", "iwarp_rdma.atomic.compare_mask",
		"iwarp_rdma.atomic.original_request_identifier", "iwarp_rdma.atomic.original_remote_data_value")
	// Wireshark calls the operand of Swap compare data.
	want := [][]string{
		{"1,1,1,0", "0,2,1", "1,2,3", "7", "4660", "0x000000000000ff00", "0,23,99",
			"0xffffffffffffffff,0x000000000000000f,0xffffffffffffffff", "", ""},
		{"3,3,3", "", "", "", "", "", "", "", "1,2,3", "0,7,4615"},
	}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%v %q", err, rows)
	}
}
