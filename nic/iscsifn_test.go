package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/status"
	"tapir/nic/iscsi"
	"tapir/nic/scsi"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// iscsiFunction makes a NIC of personality iscsi with settings.
func iscsiFunction(t *testing.T, w *world, name, addr, set string) (*node, error) {
	t.Helper()
	if !strings.Contains(set, "personality") {
		set += " personality=iscsi"
	}
	cfg := setting(t, set)
	cfg.Name, cfg.Addrs = name, prefixes(addr)
	n := &node{w: w, room: 64}
	d, err := newNIC(cfg, Env{Pool: w.pool, Wire: n})
	if err != nil {
		return nil, err
	}
	n.dev = d
	d.SetTracer(n)
	w.nodes = append(w.nodes, n)
	d.LinkUp(w.now)
	return n, nil
}

// iscsiRow is a row of the device: its value, or use and limit.
func (n *node) iscsiRow(name, what string) string {
	for _, r := range n.dev.Hardware.DeviceRows() {
		if r.Name != name || what != "" && r.Value != what {
			continue
		}
		var parts []string
		for _, v := range []*int{r.Used, r.Limit, r.Ever} {
			if v != nil {
				parts = append(parts, fmt.Sprint(*v))
			}
		}
		return strings.Join(parts, "/")
	}
	return ""
}

// The parameters of the function size its queues; those that contradict each other, or the
// device, are refused.
//
// IS-01 IS-02 IS-03 IS-05 IS-07
func TestISCSIParameters(t *testing.T) {
	for _, c := range []struct {
		set, row, what, want string
	}{
		{"", "iscsi_connections", "initiator", "0/1024"},
		{"iscsi_num_cons=7", "iscsi_connections", "initiator", "0/7"},
		{"iscsi_is_target=1", "iscsi_connections", "target", "0/1024"},
		{"", "iscsi_tasks", "", "0/4096"},
		{"iscsi_num_tasks=8", "iscsi_tasks", "", "0/8"},
		{"", "iscsi_rq 0", "", "0/16/0"},
		{"iscsi_is_target=1", "iscsi_rq 0", "", "0/128/0"},
		{"iscsi_rq_num_entries=5", "iscsi_rq 0", "", "0/5/0"},
		{"", "iscsi_cq 0", "", "0/2048/0"},
		{"iscsi_cq_num_entries=64 iscsi_num_queues=3", "iscsi_cq 2", "", "0/64/0"},
		{"iscsi_num_tasks=100", "iscsi_cmdq 0", "", "0/100/0"},
		{"iscsi_cmdq_num_entries=3", "iscsi_cmdq 0", "", "0/3/0"},
		{"", "ramrod", "ISCSI INIT_FUNC", "1"},
		{"", "iscsi_event", "INIT_FUNC", "1"},
	} {
		n, err := iscsiFunction(t, newWorld(t), "storage", "10.0.0.1/24", c.set)
		if err != nil {
			t.Errorf("%q: %v", c.set, err)
			continue
		}
		if got := n.iscsiRow(c.row, c.what); got != c.want {
			t.Errorf("%q: %s %s is %q, want %q", c.set, c.row, c.what, got, c.want)
		}
		if err := n.dev.Close(n.w.now); err != nil {
			t.Errorf("%q: %v", c.set, err)
		}
	}
	for set, want := range map[string]string{
		"iscsi_conn_tasks=513 iscsi_num_sq_pages_in_ring=1": "num_sq_pages_in_ring 1: 513 tasks of 8 octets need 2 pages",
		"iscsi_num_tasks=8 iscsi_conn_tasks=9":              "9 tasks of a connection: the function has 8",
		"iscsi_num_tasks=8 iscsi_cmdq_num_entries=9":        "cmdq_num_entries 9",
		"iscsi_num_queues=4 msix_vectors=3":                 "num_queues 4: there are vectors for",
		"personality=eth iscsi_num_cons=2":                  "use personality iscsi",
	} {
		if _, err := iscsiFunction(t, newWorld(t), "storage", "10.0.0.1/24", set); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
	n, err := iscsiFunction(t, newWorld(t), "storage", "10.0.0.1/24", "")
	if err != nil {
		t.Fatal(err)
	}
	f := fastlinq.ISCSI(fastlinq.Of(n.dev.Hardware))
	c, err := f.Acquire()
	if err != nil || n.iscsiRow("cid", "ISCSI") != "1/1024" {
		t.Errorf("acquire: %+v, %v, %s", c, err, n.iscsiRow("cid", "ISCSI"))
	}
}

// storage is a session of an initiator between two NICs, with its target.
type storage struct {
	*world
	a, b   *node
	i      *iscsi.Initiator
	tcp    *toe.Conn // the initiator's
	conn   *fastlinq.ISCSIConn
	target *iscsi.Target
	ends   []*targetEnd
	ready  bool
	err    error
	asks   bool // the login asks for digests

	raw   []byte // what goes out in the initiator's place, from an offset on
	rawAt uint64
}

// say sends octets in the place of the initiator.
func (s *storage) say(b []byte) {
	s.raw, s.rawAt = b, s.tcp.Info().SndUna
	s.tcp.Kick()
}

const diskName = "iqn.2026-11.tapir:disk"

// Methods of toe.Handler for the initiator.
func (s *storage) Next(off uint64, limit int) int {
	switch {
	case s.i == nil:
		return 0
	case s.raw != nil:
		return min(limit, int(s.rawAt+uint64(len(s.raw))-max(off, s.rawAt)))
	}
	return s.i.Next(off, limit)
}
func (s *storage) Render(off uint64, p []byte) {
	if s.raw != nil {
		copy(p, s.raw[off-s.rawAt:])
		return
	}
	s.i.Render(off, p)
}
func (s *storage) Established(c *toe.Conn, _ frame.Time) {
	s.i = iscsi.NewInitiator(iscsi.InitiatorConfig{Name: "iqn.2026-11.tapir:me", Target: diskName, Digests: s.asks,
		Random: rand.NewPCG(1, 2), Ready: func(frame.Time) { s.ready = true },
		Failed: func(err error, _ frame.Time) { s.err = err }}, c)
}
func (s *storage) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	s.i.Receive(data, now)
}
func (s *storage) Acked(_ *toe.Conn, off uint64, _ frame.Time) { s.i.Acked(off) }
func (s *storage) PeerClosed(c *toe.Conn, _ frame.Time)        { c.CloseBoth() }
func (s *storage) Closed(_ *toe.Conn, err error, now frame.Time) {
	if s.err == nil {
		s.err = err
	}
	s.i.Gone(now)
}

// targetEnd is a connection of the target.
type targetEnd struct {
	s    *storage
	c    *iscsi.Conn
	tcp  *toe.Conn
	conn *fastlinq.ISCSIConn
	take bool // the function takes the session over

	mute  bool   // the target hears and says nothing more
	deaf  bool   // it does not answer a FIN
	heard []byte // what it has not heard
	raw   []byte // what goes out in its place, from an offset on
	rawAt uint64
}

// say sends octets in the place of the target.
func (e *targetEnd) say(b []byte) {
	e.mute, e.raw, e.rawAt = true, b, e.tcp.Info().SndUna
	e.tcp.Kick()
}

func (e *targetEnd) Next(off uint64, limit int) int {
	if e.mute {
		return min(limit, int(e.rawAt+uint64(len(e.raw))-max(off, e.rawAt)))
	}
	return e.c.Next(off, limit)
}

func (e *targetEnd) Render(off uint64, p []byte) {
	if e.mute {
		copy(p, e.raw[off-e.rawAt:])
		return
	}
	e.c.Render(off, p)
}

func (e *targetEnd) Established(*toe.Conn, frame.Time) {}
func (e *targetEnd) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	if e.mute {
		e.heard = append(e.heard, data...)
		return
	}
	e.c.Receive(data, now)
	if _, full := e.c.Agreed(); full && e.take {
		e.take = false
		e.s.b.dev.Schedule(now, func(now frame.Time) { e.conn, e.tcp = handOver(e.s.b, e.c, e.tcp, e) })
	}
}

func (e *targetEnd) Acked(_ *toe.Conn, off uint64, _ frame.Time) {
	if !e.mute {
		e.c.Acked(off)
	}
}

func (e *targetEnd) PeerClosed(*toe.Conn, frame.Time) {
	if !e.deaf {
		e.c.PeerClosed()
	}
}

func (e *targetEnd) Closed(*toe.Conn, error, frame.Time) { e.c.Gone() }

// function is the NIC's iSCSI function.
func (n *node) function() *fastlinq.ISCSIFunction { return fastlinq.ISCSI(fastlinq.Of(n.dev.Hardware)) }

// handOver has a NIC's function take a session over.
func handOver(n *node, s interface {
	Agreed() (iscsi.Agreed, bool)
	Offload(iscsi.Hardware)
}, tcp *toe.Conn, h toe.Handler) (*fastlinq.ISCSIConn, *toe.Conn) {
	n.w.t.Helper()
	agreed, full := s.Agreed()
	c, err := n.function().Acquire()
	must(n.w.t, err)
	tcb, err := n.dev.TCP().Upload(tcp)
	must(n.w.t, err)
	moved, err := c.Offload(tcb, h)
	must(n.w.t, err)
	s.Offload(c)
	must(n.w.t, c.Agree(agreed))
	if !full {
		n.w.t.Fatal("not in the full feature phase")
	}
	return c, moved
}

// Who takes the session over after the login.
const (
	nobody = iota
	both
	initiatorAlone
)

// newStorage logs in from one NIC at a target of the other.
func newStorage(t *testing.T, offload int, digests bool, set, targetSet string) *storage {
	t.Helper()
	s := &storage{world: newWorld(t), asks: digests}
	var err error
	if s.a, err = iscsiFunction(t, s.world, "a", "10.0.0.1/24", set); err == nil {
		s.b, err = iscsiFunction(t, s.world, "b", "10.0.0.2/24", "iscsi_is_target=1 "+targetSet)
	}
	must(t, err)
	u, err := scsi.New(scsi.Config{Size: 4 << 20, Block: 512, Physical: 512, Store: scsi.NewMemory(4 << 20)})
	must(t, err)
	s.target = iscsi.NewTarget(iscsi.Config{Nodes: []*iscsi.Node{{Name: diskName, Units: []*scsi.Unit{u}}},
		Random: rand.NewPCG(3, 4), Window: s.b.function().Params().CmdQEntries})
	_, err = s.b.dev.TCP().Listen(netip.MustParseAddrPort("10.0.0.2:3260"), 4, func(c *toe.Conn, now frame.Time) toe.Handler {
		e := &targetEnd{s: s, tcp: c, take: offload == both}
		e.c = s.target.Accept(c.Local(), c.Remote(), c, now)
		s.ends = append(s.ends, e)
		return e
	})
	must(t, err)
	s.tcp, err = s.a.dev.TCP().Connect(netip.MustParseAddrPort("10.0.0.1:0"), netip.MustParseAddrPort("10.0.0.2:3260"), s, s.now)
	must(t, err)
	s.until(10*time.Second, func() bool { return s.ready || s.err != nil })
	if s.err != nil {
		t.Fatal(s.err)
	}
	if offload != nobody {
		s.a.dev.Schedule(s.now, func(frame.Time) { s.conn, s.tcp = handOver(s.a, s.i, s.tcp, s) })
		s.run(0)
	}
	return s
}

// command is a READ(16) or WRITE(16) of some blocks.
func command(lba uint64, out, in []byte, done func(r *iscsi.Request)) *iscsi.Request {
	r := &iscsi.Request{In: in, Out: out, CDB: [16]byte{0x88}, Done: func(r *iscsi.Request, _ frame.Time) { done(r) }}
	if out != nil {
		r.CDB[0] = 0x8a
	}
	binary.BigEndian.PutUint64(r.CDB[2:], lba)
	binary.BigEndian.PutUint32(r.CDB[10:], uint32((len(out)+len(in))/512))
	return r
}

// work writes and reads with so many commands at a time, and logs out.
func (s *storage) work(depth, octets int) {
	s.t.Helper()
	left, bad := 0, 0
	ready := &iscsi.Request{Done: func(*iscsi.Request, frame.Time) { left-- }} // TEST UNIT READY: the attention
	left++
	s.i.Submit(ready)
	s.until(10*time.Second, func() bool { return left == 0 || s.err != nil })
	for _, write := range []bool{true, false} {
		for k := range depth {
			data := make([]byte, octets)
			want := bytes.Repeat([]byte{byte(k + 1), 7}, octets/2)
			left++
			done := func(r *iscsi.Request) {
				if left--; r.Status != scsi.Good || !write && !bytes.Equal(data, want) {
					bad++
				}
			}
			if lba := uint64(k * octets / 512); write {
				s.i.Submit(command(lba, want, nil, done))
			} else {
				s.i.Submit(command(lba, nil, data, done))
			}
		}
		s.until(time.Minute, func() bool { return left == 0 || s.err != nil })
	}
	if bad > 0 || s.err != nil {
		s.t.Fatalf("%d commands failed, %v", bad, s.err)
	}
}

// A session whose connection the functions of both sides take over after the login has the
// same octets on the wire at the same times as without, and passes through the queues. At its
// end nothing is left.
//
// IS-08 IS-09 IS-10 IS-13 IS-14
func TestISCSIOffload(t *testing.T) {
	digests := map[bool][]byte{}
	for _, offload := range []bool{false, true} {
		s := newStorage(t, map[bool]int{true: both}[offload], true, "", "")
		s.work(20, 64<<10)
		if offload {
			for _, c := range []*fastlinq.ISCSIConn{s.conn, s.ends[0].conn} {
				sq, uhq := c.Rings()
				if c.State() != "updated" || c.Flags() != 15-4 && c.Flags() != 15 || sq.Prod == 0 || uhq.Prod != sq.Prod ||
					sq.Used() != 0 || c.Info().SndUna < 1000 {
					t.Errorf("%s, flags %#x, SQ %d/%d, UHQ %d/%d, %+v", c.State(), c.Flags(), sq.Prod, sq.Cons, uhq.Prod,
						uhq.Cons, c.Info())
				}
			}
			if n := s.a.iscsiRow("iscsi_cq 0", ""); !strings.HasPrefix(n, "0/2048/") || n == "0/2048/0" {
				t.Errorf("CQ %s", n)
			}
			if err := s.conn.Release(); !errors.Is(err, status.Inval) {
				t.Errorf("release of a connection that works: %v", err)
			}
			if err := s.a.function().Stop(); !errors.Is(err, status.Busy) {
				t.Errorf("stop with a connection: %v", err)
			}
		}
		s.i.Logout()
		s.run(10 * time.Second)
		digests[offload] = s.digest.Sum(nil)
		if !offload {
			continue
		}
		for _, c := range []*fastlinq.ISCSIConn{s.conn, s.ends[0].conn} {
			if c.State() != "terminated" {
				t.Errorf("after the logout: %s", c.State())
			}
			must(t, c.Release())
		}
		for _, n := range []*node{s.a, s.b} {
			if n.iscsiRow("iscsi_event", "ASYN_TERMINATE_DONE") != "1" || n.iscsiRow("cid", "ISCSI") != "0/1024" ||
				n.iscsiRow("iscsi_tasks", "") != "0/4096" {
				t.Errorf("left: %s events, cids %s, tasks %s", n.iscsiRow("iscsi_event", "ASYN_TERMINATE_DONE"),
					n.iscsiRow("cid", "ISCSI"), n.iscsiRow("iscsi_tasks", ""))
			}
			must(t, n.function().Stop())
			if err := n.dev.Close(s.now); err != nil || n.dev.Core().Health().Leaked != 0 {
				t.Errorf("close: %v, %d connection ids leak", err, n.dev.Core().Health().Leaked)
			}
		}
	}
	if !bytes.Equal(digests[false], digests[true]) {
		t.Error("the wire shows whether a session is offloaded")
	}
}
