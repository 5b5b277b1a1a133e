package cxt

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
)

func config() Config {
	c := Config{RDMA: IWARP, VFs: 2, PQs: 8, VFPQs: 1, SRQs: 100, Filters: 256, FirstLine: 950, MaxLines: 950}
	c.Protocols[Core].CIDs = 1
	c.Protocols[Eth] = Counts{CIDs: 64, VFCIDs: 32}
	c.Protocols[IWARP] = Counts{CIDs: 200, Tasks: 1000}
	return c
}

func newManager(t *testing.T, c Config) *Manager {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// HW-08
func TestLines(t *testing.T) {
	m := newManager(t, config())
	// 16+64+208 contexts are 4.5 pages, a VF's 32 half a page; 1000 tasks 3.9.
	// 9 queues of 288 or 64 ids, and 4 of 1288, which is more than a page of 4 KiB.
	// 208 and 1000 timers, in groups of 128; 464 elements of the searcher are 512.
	want := [NumClients]int{CDUC: 5 + 2, CDUT: 4, QM: 2, TM: 1, SRC: 1, TSDM: 1}
	at, sum := 950, 0
	for c, n := range want {
		if got := m.Lines(Client(c)); got != (Lines{at, n}) {
			t.Errorf("%v: lines %+v, want %+v", Client(c), got, Lines{at, n})
		}
		at, sum = at+n, sum+n
	}
	if used, limit, _, _ := m.ILT(); used != sum || limit != 950 {
		t.Errorf("%d of %d lines", used, limit)
	}
}

// HW-09
func TestTooManyLines(t *testing.T) {
	c := config()
	c.Protocols[IWARP].Tasks = 128*1024 - 1
	all := newManager(t, Config{Protocols: c.Protocols, RDMA: c.RDMA, MaxLines: 10000})
	if tasks, reduced := all.Tasks(IWARP); tasks != 131071 || reduced != 0 {
		t.Errorf("all: %d tasks, %d fewer", tasks, reduced)
	}
	used, _, _, _ := all.ILT()
	c.VFs, c.SRQs, c.Filters, c.PQs, c.VFPQs = 0, 0, 0, 0, 0
	c.MaxLines = used - 100
	m := newManager(t, c)
	tasks, reduced := m.Tasks(IWARP)
	if now, _, _, _ := m.ILT(); reduced != 100*256 || tasks != 131071-reduced || now > c.MaxLines {
		t.Errorf("%d tasks, %d fewer, %d of %d lines", tasks, reduced, now, c.MaxLines)
	}
	c.MaxLines = 3
	if _, err := New(c); !errors.Is(err, status.Inval) {
		t.Errorf("3 lines: %v", err)
	}
	c.MaxLines, c.RDMA = used-100, Common
	if _, err := New(c); !errors.Is(err, status.Inval) {
		t.Errorf("no RDMA, tasks that do not fit: %v", err)
	}
	c.Protocols[Eth].CIDs = 1 << 30
	if _, err := New(c); !errors.Is(err, status.Inval) {
		t.Errorf("a milliard of connections: %v", err)
	}
}

// HW-10
func TestCIDs(t *testing.T) {
	m := newManager(t, config())
	for want := 80; want < 280; want++ { // after 16 of CORE and 64 of ETH; ranges begin at multiples of 16
		if cid, err := m.Acquire(IWARP); err != nil || cid != want {
			t.Fatalf("cid %#x, %v: want %#x", cid, err, want)
		}
	}
	if _, err := m.Acquire(IWARP); !errors.Is(err, status.NoResources) {
		t.Errorf("one too many: %v", err)
	}
	if err := errors.Join(m.Release(100), m.Release(90)); err != nil {
		t.Error(err)
	}
	if cid, err := m.Acquire(IWARP); cid != 90 {
		t.Errorf("the lowest free one is 90, not %d (%v)", cid, err)
	}
	if vf, err := m.AcquireVF(Eth, 1); vf != 0 || err != nil {
		t.Errorf("VF 1: %d, %v", vf, err)
	}
	for what, err := range map[string]error{
		"free one":         m.Release(100),
		"nobody's":         m.Release(288),
		"negative":         m.Release(-1),
		"of the other VF":  m.ReleaseVF(0, 0),
		"of no VF":         m.ReleaseVF(0, 2),
		"of no protocol":   func() error { _, err := m.Acquire(NumProtocols); return err }(),
		"VF out of range":  func() error { _, err := m.AcquireVF(Eth, 2); return err }(),
		"info of free one": func() error { _, err := m.CIDInfo(100); return err }(),
	} {
		if !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if faults, refused := m.Faults(); faults != 5 || refused != 1 {
		t.Errorf("%d faults, %d refused", faults, refused)
	}
	if n := m.Leaked(); n != 200 { // 199 of the PF, one of VF 1
		t.Errorf("%d leaked", n)
	}
}

// HW-11
func TestCIDInfo(t *testing.T) {
	m := newManager(t, config())
	var contexts [][]byte
	for i := range 100 {
		cid, err := m.Acquire(IWARP)
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.CIDInfo(cid)
		if err != nil || in.Protocol != IWARP || len(in.Context) != ContextSize || in.Line != 950+cid/64 {
			t.Fatalf("%#x: %v, line %d, %d octets, %v", cid, in.Protocol, in.Line, len(in.Context), err)
		}
		in.Context[0], in.Context[ContextSize-1] = byte(i), byte(i)
		contexts = append(contexts, in.Context)
	}
	for i, c := range contexts {
		if c[0] != byte(i) || c[ContextSize-1] != byte(i) {
			t.Errorf("context %d is another's", i)
		}
	}
	for i := range 100 {
		if err := m.Release(80 + i); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, resident := m.ILT(); resident != 0 || m.Leaked() != 0 {
		t.Errorf("%d contexts left, %d ids", resident, m.Leaked())
	}
	if cid, _ := m.Acquire(IWARP); cid != 80 {
		t.Fatal(cid)
	}
	if in, err := m.CIDInfo(80); err != nil || in.Context[0] != 0 {
		t.Errorf("the next owner sees the context of the last: %v", err)
	}
}

// HW-10: always the lowest free one, of the protocol's own range, and nobody's
// else.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		owned := map[[2]int]bool{}
		for _, v := range rapid.SliceOfN(rapid.IntRange(0, 1<<16), 1, 80).Draw(t, "moves") {
			p, vf := Protocol(v%int(NumProtocols)), v/16%3-1
			if v&1 == 0 {
				cid, err := m.AcquireVF(p, vf)
				if err != nil {
					if s := status.Of(err); s != status.NoResources {
						t.Fatal(err)
					}
					continue
				}
				if owned[[2]int{vf, cid}] {
					t.Fatalf("%d of VF %d twice", cid, vf)
				}
				owned[[2]int{vf, cid}] = true
			} else if err := m.ReleaseVF(v/64%128, vf); (err == nil) != owned[[2]int{vf, v / 64 % 128}] {
				t.Fatalf("release %d of VF %d: %v", v/64%128, vf, err)
			} else {
				delete(owned, [2]int{vf, v / 64 % 128})
			}
		}
		if m.Leaked() != len(owned) {
			t.Fatalf("%d leaked, %d owned", m.Leaked(), len(owned))
		}
	})
}

// HW-08: lines of RDMA get their page with their first connection.
func TestDynamicLines(t *testing.T) {
	c := config()
	c.Protocols[IWARP].CIDs = 640
	var mapped []int
	fail := status.Success
	c.Map = func(line int) error {
		if fail != status.Success {
			return fail
		}
		mapped = append(mapped, line)
		return nil
	}
	m := newManager(t, c)
	for c, want := range map[Client][2]int{CDUC: {2, 11}, CDUT: {0, m.Lines(CDUT).Count}, TSDM: {0, 1}, QM: {}, SRC: {}} { // ids 80 to 719
		if from, to := m.Dynamic(c); from != want[0] || to != want[1] {
			t.Errorf("%v: lines %d to %d are dynamic, want %v", c, from, to, want)
		}
	}
	look := func(p Protocol) error {
		cid, err := m.Acquire(p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.CIDInfo(cid)
		return err
	}
	if err := look(Core); err != nil || len(mapped) != 0 {
		t.Errorf("a static line: %v, %v", err, mapped)
	}
	for range 300 {
		if err := look(IWARP); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{952, 953, 954, 955}; !slices.Equal(mapped, want) { // ids 80 to 379
		t.Errorf("mapped %v, want %v", mapped, want)
	}
	fail = status.Busy
	for range 100 {
		if err := look(IWARP); err != nil {
			if !errors.Is(err, status.Busy) {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Error("no line was asked for")
}
