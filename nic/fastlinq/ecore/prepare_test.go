package ecore

import (
	"errors"
	"fmt"
	"testing"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/status"
)

func (x *bed) prepare(p PrepareParams) error {
	return x.wait(func(done Done) { x.d.HWPrepare(p, x.now, done) })
}

// IN-28. D: the shares of BB with 8 functions and of AH with 16.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		kind      Kind
		functions int
		want      map[Resource]int
	}{
		{BB, 8, map[Resource]int{VPort: 20, L2Queue: 32, MAC: 64, VLAN: 64, SB: 36, RSSEng: 15, PQ: 56, ILT: 950, BDQ: 0}},
		{AH, 16, map[Resource]int{VPort: 13, L2Queue: 20, MAC: 32, VLAN: 32, SB: 23, RSSEng: 12, PQ: 32, ILT: 687, BDQ: 0}},
	} {
		chip, b := newChip(t, c.kind, 1, 1, c.functions), new(board)
		for pf := range c.functions {
			h := newBed(t, chip, b, pf).to("hw_prepare").d.Lead()
			for r, num := range c.want {
				if got := h.Share(r); got != (Share{num * pf, num}) && num > 0 || got.Num != num {
					t.Errorf("%v of %d, function %d: %v is %+v, want %d", c.kind, c.functions, pf, r, got, num)
				}
			}
			for r := range NumResources {
				if !h.Share(r).fits(c.kind, r) {
					t.Errorf("%v %+v is beyond the engine", r, h.Share(r))
				}
			}
		}
	}
	if s := defaultShare(BB, BDQ, 8, 3, ISCSI); s != (Share{3, 1}) {
		t.Errorf("BDQ of iSCSI: %+v", s)
	}
}

// IN-28
func TestMFWShares(t *testing.T) {
	x := single(t)
	x.mfw[0].shares = map[Resource]Share{VPort: {100, 7}}
	h := x.to("hw_prepare").d.Lead()
	if h.Share(VPort) != (Share{100, 7}) || h.Share(MAC) != (Share{0, 128}) {
		t.Errorf("%+v, %+v", h.Share(VPort), h.Share(MAC))
	}
	x = single(t)
	x.mfw[0].shares = map[Resource]Share{VPort: {100, 7}}
	x.d.InitStruct()
	if err := x.prepare(PrepareParams{Personality: Default, DriverShares: true}); err != nil || x.d.Lead().Share(VPort) != (Share{0, 52}) {
		t.Errorf("%v: the driver's own are %+v", err, x.d.Lead().Share(VPort))
	}
	x = single(t)
	x.mfw[0].shares = map[Resource]Share{VPort: {200, 9}}
	x.d.InitStruct()
	if err := x.prepare(PrepareParams{Personality: Default}); !errors.Is(err, status.Inval) || x.d.State() != Struct || x.d.Hwfns != nil {
		t.Errorf("vports 200 to 208 of 208: %v", err)
	}
}

// IN-03
func TestRelaxedProbe(t *testing.T) {
	needEmulation(t)
	for _, c := range []struct {
		what    string
		set     func(x *bed)
		code    status.Code
		result  Prepare
		relaxed bool // goes on
	}{
		{"nothing", func(*bed) {}, status.Success, PrepareSuccess, true},
		{"chip", func(x *bed) { x.chip.Engines[0].Regs.Dead = true }, status.NoDev, FailedME, false},
		{"engine 2", func(x *bed) { x.chip.Engines[1].Regs.Dead = true }, status.NoDev, FailedEng2, false},
		{"mailbox", func(x *bed) { x.mfw[0].dead = status.Timeout }, status.Timeout, BadMCP, true},
		{"NVM", func(x *bed) { x.mfw[0].info.NoNVM = true }, status.NoDev, FailedNVM, false},
		{"status blocks", func(x *bed) { x.irq[0].sbs = 0 }, status.NoResources, BadIGU, true},
		{"capability", func(x *bed) { x.mfw[0].info.Personality = FCoE }, status.Inval, FailedDev, false},
		{"memory", func(x *bed) {
			x.fault = func(_ int, step string) error {
				if step == "hw_prepare/ptt_pool" {
					return status.NoMem
				}
				return nil
			}
		}, status.NoMem, FailedMem, false},
	} {
		for _, relaxed := range []bool{false, true} {
			x := dual(t)
			c.set(x)
			x.d.InitStruct()
			err := x.prepare(PrepareParams{Personality: Default, Relaxed: relaxed})
			want := c.code
			if relaxed && c.relaxed {
				want = status.Success
			}
			if status.Of(err) != want || x.d.Prepared() != c.result || (x.d.State() == Prepared) != (want == status.Success) {
				t.Errorf("%s, relaxed %v: %v, %v, state %v; want %v, %v", c.what, relaxed, err, x.d.Prepared(), x.d.State(), want, c.result)
			}
		}
	}
}

// IN-17
func TestPersonality(t *testing.T) {
	for p, want := range map[Personality]map[cxt.Protocol]int{
		Eth:      {cxt.Core: 7, cxt.Eth: 64},
		EthRoCE:  {cxt.Core: 7, cxt.Eth: 64, cxt.RoCE: 128},
		EthIWARP: {cxt.Core: 7, cxt.Eth: 64, cxt.IWARP: 64},
		EthRDMA:  {cxt.Core: 7, cxt.Eth: 64, cxt.RoCE: 128},
		ISCSI:    {cxt.Core: 7, cxt.Eth: 64, cxt.ISCSI: 20},
		FCoE:     {cxt.Core: 7, cxt.Eth: 64, cxt.FCoE: 20},
	} {
		for _, from := range []string{"NVM", "caller"} {
			x := single(t)
			x.mfw[0].info.Caps = CapEth | CapFCoE | CapISCSI | CapRoCE | CapIWARP
			x.d.InitStruct()
			params := PrepareParams{Personality: p}
			if from == "NVM" {
				x.mfw[0].info.Personality, params.Personality = p, Default
			}
			if err := x.prepare(params); err != nil {
				t.Fatal(err)
			}
			pf := PFParams{}
			pf.Eth.Cons, pf.RDMA.QPs, pf.RDMA.MRs, pf.Storage.Cons, pf.Storage.Tasks = 64, 64, 128, 20, 40
			if err := x.d.SetPFParams(pf); err != nil {
				t.Fatal(err)
			}
			for _, c := range calls[3:6] {
				if err := c.do(x); err != nil {
					t.Fatalf("%v: %s: %v", p, c.name, err)
				}
			}
			got := map[cxt.Protocol]int{}
			for _, u := range x.d.Lead().Contexts().CIDs(-1) {
				got[u.Protocol] = u.Count
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || x.d.Lead().Info().Personality != p {
				t.Errorf("%v from the %s: %v, want %v", p, from, got, want)
			}
		}
	}
	for _, p := range []Personality{FCoE, ISCSI, Default + 1} {
		x := single(t)
		x.d.InitStruct()
		if err := x.prepare(PrepareParams{Personality: p}); !errors.Is(err, status.Inval) || x.d.State() != Struct {
			t.Errorf("%v on a board that cannot: %v", p, err)
		}
	}
}

// HW-09: RDMA tasks are reduced, once, to what the function's lines hold; the
// event queue has a limit.
func TestPFParamsLimits(t *testing.T) {
	x := newBed(t, newChip(t, BB, 1, 1, 8), new(board), 1).to("hw_prepare")
	p := params()
	p.RDMA.QPs, p.RDMA.MRs = 8192, MaxTasks
	p.RDMA.SRQs = 8192
	if err := x.d.SetPFParams(p); err != nil {
		t.Fatal(err)
	}
	if err := calls[3].do(x); err != nil {
		t.Fatal(err)
	}
	used, limit, _, _ := x.d.Lead().Contexts().ILT()
	tasks, reduced := x.d.Lead().Contexts().Tasks(cxt.IWARP)
	if used > limit || limit != 950 || tasks+reduced != MaxTasks {
		t.Errorf("%d of %d lines, %d tasks, %d fewer", used, limit, tasks, reduced)
	}
	if n := x.d.Lead().alloc.eq.Stats().Elements; n < 256+2*8192+240 {
		t.Errorf("event queue of %d", n)
	}
	if err := x.d.RescFree(); err != nil {
		t.Fatal(err)
	}
	p.RDMA.QPs, p.RDMA.MRs = 40000, 10
	x.d.SetPFParams(p)
	if err := calls[3].do(x); !errors.Is(err, status.Inval) {
		t.Errorf("an event queue for 40000 QPs: %v", err)
	}
	x.clean("refused")
}

func TestChipLimits(t *testing.T) {
	for _, c := range [][4]int{{int(BB), 3, 1, 1}, {int(BB), 1, 4, 1}, {int(BB), 1, 1, 9}, {int(AH), 1, 3, 1}, {int(AH), 1, 1, 17}, {int(AH), 0, 1, 1}} {
		if _, err := NewChip(Kind(c[0]), c[1], c[2], c[3], NPAR); !errors.Is(err, status.Inval) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
