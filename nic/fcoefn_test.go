package nic

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	fastfcoe "tapir/nic/fastlinq/fcoe"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fcoe"
	"tapir/nic/ideal"
	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"

	wire "tapir/wire/fcoe"
)

// fcoeFunction makes a NIC of personality fcoe with settings.
func fcoeFunction(t *testing.T, w *world, name, set string) (*node, error) {
	t.Helper()
	if !strings.Contains(set, "personality") {
		set += " personality=fcoe"
	}
	return iscsiFunction(t, w, name, "10.0.0.1/24", set)
}

// fcFunction is the NIC's FCoE function.
func (n *node) fcFunction() *fastlinq.FCoEFunction { return fastlinq.FCoE(fastlinq.Of(n.dev.Hardware)) }

// The parameters of the function size its queues; those that contradict each other, or the
// device, are refused. A connection id is the function's own.
//
// FC-01 FC-02
func TestFCoEParameters(t *testing.T) {
	for _, c := range []struct{ set, row, what, want string }{
		{"", "fcoe_connections", "initiator", "0/1024"},
		{"fcoe_num_cons=7", "fcoe_connections", "initiator", "0/7"},
		{"fcoe_num_cons=7", "cid", "FCOE", "1/8"},
		{"fcoe_is_target=1", "fcoe_connections", "target", "0/1024"},
		{"", "fcoe_tasks", "", "0/2048"},
		{"fcoe_num_tasks=8", "fcoe_tasks", "", "0/8"},
		{"", "fcoe_rq 0", "", "0/16/0"},
		{"fcoe_is_target=1", "fcoe_rq 0", "", "0/128/0"},
		{"fcoe_rq_num_entries=5", "fcoe_rq 0", "", "0/5/0"},
		{"", "fcoe_cq 0", "", "0/2048/0"},
		{"fcoe_cq_num_entries=64 fcoe_num_cqs=3", "fcoe_cq 2", "", "0/64/0"},
		{"fcoe_num_tasks=100", "fcoe_cmdq 0", "", "0/100/0"},
		{"fcoe_cmdq_num_entries=3", "fcoe_cmdq 0", "", "0/3/0"},
		{"", "ramrod", "FCOE INIT_FUNC", "1"},
		{"", "fcoe_event", "INIT_FUNC", "1"},
	} {
		n, err := fcoeFunction(t, newWorld(t), "storage", c.set)
		if err != nil {
			t.Errorf("%q: %v", c.set, err)
			continue
		}
		if got := n.iscsiRow(c.row, c.what); got != c.want {
			t.Errorf("%q: %s %s is %q, want %q", c.set, c.row, c.what, got, c.want)
		}
		if err := n.dev.Close(n.w.now); err != nil || n.dev.Core().Health().Leaked != 0 {
			t.Errorf("%q: %v, %d connection ids leak", c.set, err, n.dev.Core().Health().Leaked)
		}
	}
	for set, want := range map[string]string{
		"fcoe_conn_tasks=513 fcoe_sq_num_pbl_pages=1": "sq_num_pbl_pages 1: 513 tasks of 8 octets need 2 pages",
		"fcoe_num_tasks=8 fcoe_conn_tasks=9":          "9 tasks of a connection: the function has 8",
		"fcoe_num_tasks=8 fcoe_cmdq_num_entries=9":    "cmdq_num_entries 9",
		"fcoe_num_cqs=4 msix_vectors=3":               "num_cqs 4: there are vectors for",
		"fcoe_mtu=301":                                "mtu 301",
		"personality=eth fcoe_num_cons=2":             "use personality fcoe",
	} {
		if _, err := fcoeFunction(t, newWorld(t), "storage", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}

// The firmware refuses to start with another list of queues than that which the driver has
// made, or twice.
//
// FC-01 FC-02
func TestFCoEQueueList(t *testing.T) {
	n, err := fcoeFunction(t, newWorld(t), "storage", "fcoe_num_cqs=2")
	must(t, err)
	f := n.fcFunction()
	var names []string
	for _, q := range f.Queues() {
		names = append(names, q.Name)
	}
	if got := strings.Join(names, ","); got != "cq 0,rq 0,cmdq 0,cq 1,rq 1,cmdq 1" {
		t.Errorf("queues %s", got)
	}
	h, p := n.dev.Core().Lead(), f.Params()
	post := func(cmd fastfcoe.Command, data any) (code uint8) {
		t.Helper()
		code = 99
		must(t, h.Post(spq.Request{CID: h.SlowpathCID(), Cmd: uint8(cmd), Protocol: cxt.FCoE, Data: data,
			Done: func(r spq.Result, _ frame.Time) { code = r.Code }}, n.w.now))
		h.Work(n.w.now)
		n.w.run(time.Millisecond)
		return code
	}
	start := func(p fastfcoe.Params, list uint64, dummy int) uint8 {
		t.Helper()
		return post(fastfcoe.InitFunc, &fastfcoe.Init{Params: p, Global: list, Dummy: dummy})
	}
	if code := start(p, f.Global(), f.Dummy()); code != fastfcoe.GeneralError {
		t.Errorf("a second start: %d", code)
	}
	must(t, f.Stop())
	wrong, one := p, p
	wrong.RQEntries, wrong.CmdQEntries = p.CmdQEntries, p.RQEntries
	one.Queues = 1
	cid, err := h.Contexts().Acquire(cxt.FCoE)
	must(t, err)
	_, err = h.Contexts().CIDInfo(cid)
	must(t, err)
	for name, c := range map[string][2]uint8{
		"RQ and CmdQ exchanged": {start(wrong, f.Global(), cid), fastfcoe.BadQueue},
		"one queue of two":      {start(one, f.Global(), cid), fastfcoe.BadQueue},
		"no list":               {start(p, 77, cid), fastfcoe.BadQueue},
		"no dummy connection":   {start(p, f.Global(), 1<<20), fastfcoe.GeneralError},
		"the list in order":     {start(p, f.Global(), cid), fastfcoe.OK},
		"statistics":            {post(fastfcoe.StatFunc, new(fastfcoe.Stats)), fastfcoe.OK},
		"the end":               {post(fastfcoe.DestroyFunc, nil), fastfcoe.OK},
		"a second end":          {post(fastfcoe.DestroyFunc, nil), fastfcoe.GeneralError},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
	must(t, h.Contexts().Release(cid))
}

// fabricless are an initiator and a target that have found each other by VN2VN.
type fabricless struct {
	*world
	i, d *node // initiator, disk
	in   *fcoe.Node
	bad  int // commands that have failed
}

// newFabricless makes NICs with settings and waits for their session.
func newFabricless(t *testing.T, set, targetSet string) *fabricless {
	t.Helper()
	s := &fabricless{world: newWorld(t)}
	var err error
	s.i, err = fcoeFunction(t, s.world, "i", set)
	must(t, err)
	s.d, err = fcoeFunction(t, s.world, "d", "fcoe_is_target=1 "+targetSet)
	must(t, err)
	s.begin()
	return s
}

// begin starts both nodes and does the first command of the session.
func (s *fabricless) begin() {
	s.t.Helper()
	s.d.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Units: []*scsi.Unit{memoryUnit(s.t, 4<<20)}}}},
		fcoe.Env{}, s.now)
	s.in = s.i.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Initiator: true}}}, fcoe.Env{}, s.now)
	s.session()
	s.blocks(target(s.in), nil, make([]byte, 512)) // the unit tells that it is new
}

// session waits for one.
func (s *fabricless) session() {
	s.t.Helper()
	s.until(30*time.Second, func() bool { return target(s.in) != nil })
}

// submit sends so many reads or writes of a length, each of its place on the disk, and counts
// those that end.
func (s *fabricless) submit(n, octets int, write bool, done *int) {
	for k := range n {
		want := bytes.Repeat([]byte{byte(k + 1), 7}, octets/2)
		q := &fcoe.Request{Done: func(q *fcoe.Request, _ frame.Time) {
			if *done++; q.Err != nil || q.Status != scsi.Good || !write && !bytes.Equal(q.In, want) {
				s.bad++
			}
		}}
		q.CDB[0], q.In = 0x88, make([]byte, octets)
		if write {
			q.CDB[0], q.Out, q.In = 0x8a, want, nil
		}
		lba, blocks := k*octets/512, octets/512
		q.CDB[8], q.CDB[9], q.CDB[12], q.CDB[13] = byte(lba>>8), byte(lba), byte(blocks>>8), byte(blocks)
		target(s.in).Submit(q, s.now)
	}
}

// work writes and reads so many places.
func (s *fabricless) work(n, octets int) {
	s.t.Helper()
	done := 0
	for _, write := range []bool{true, false} {
		done = 0
		s.submit(n, octets, write, &done)
		s.until(time.Minute, func() bool { return done == n })
	}
	if s.bad > 0 {
		s.t.Fatalf("%d commands failed", s.bad)
	}
}

// onWire are the frames of FIP and FCoE that have passed, in order, with what is the NIC's own
// choice.
func (s *fabricless) onWire() (list [][]byte) {
	for _, r := range s.i.all {
		h, _, err := ether.Parse(r.Data)
		if err == nil && (h.Type == wire.EtherType || h.Type == fip.EtherType) {
			list = append(list, r.Data)
		}
	}
	return list
}

// A session that the functions of both sides have has the same frames on the wire as without
// functions, and passes through their queues. At its end nothing is left.
//
// FC-03 FC-04 FC-06
func TestFCoEOffload(t *testing.T) {
	var frames [2][][]byte
	for k, offload := range []bool{false, true} {
		s := newFabricless(t, "", "")
		if !offload {
			s = &fabricless{world: newWorld(t)}
			s.i, s.d = s.storage("i", new(ideal.Config), 1500), s.storage("d", new(ideal.Config), 1500)
			s.begin()
		}
		s.work(20, 64<<10)
		if offload {
			for _, n := range []*node{s.i, s.d} {
				f := n.fcFunction()
				c := f.Conns()[0]
				if sq := c.SQ(); len(f.Conns()) != 1 || c.State() != "offloaded" || sq.Prod < 40 || sq.Used() != 0 || sq.Peak == 0 ||
					sq.Size != 512 || f.Tasks() != 0 || c.Session().TxPayload != 1452 || c.Stats().Rx.Bytes == 0 {
					t.Errorf("%s, %d tasks, SQ %+v", c.State(), f.Tasks(), sq)
				}
				if cq := n.iscsiRow("fcoe_cq 0", ""); !strings.HasPrefix(cq, "0/2048/") || cq == "0/2048/0" {
					t.Errorf("CQ %s", cq)
				}
				if c.Release() == nil || f.Stop() == nil {
					t.Error("release or stop with a session")
				}
			}
			if cmdq := s.d.iscsiRow("fcoe_cmdq 0", ""); cmdq == "0/2048/0" {
				t.Errorf("CmdQ of the target %s", cmdq)
			}
		}
		s.i.dev.FCoE.Stop(s.now)
		s.run(time.Second)
		frames[k] = s.onWire()
		if !offload {
			continue
		}
		for _, n := range []*node{s.i, s.d} {
			f := n.fcFunction()
			if len(f.Conns()) != 0 || n.iscsiRow("cid", "FCOE") != "1/1025" || n.iscsiRow("fcoe_event", "TERMINATE_CONN") != "1" ||
				n.dev.failures() != 0 {
				t.Errorf("left: %d connections, cids %s, %d failures", len(f.Conns()), n.iscsiRow("cid", "FCOE"), n.dev.failures())
			}
			must(t, f.Stop())
			if err := n.dev.Close(s.now); err != nil || n.dev.Core().Health().Leaked != 0 {
				t.Errorf("close: %v, %d connection ids leak", err, n.dev.Core().Health().Leaked)
			}
		}
	}
	if len(frames[0]) < 1000 || len(frames[0]) != len(frames[1]) {
		t.Fatalf("%d frames without functions, %d with", len(frames[0]), len(frames[1]))
	}
	for i := range frames[0] {
		if !bytes.Equal(frames[0][i], frames[1][i]) {
			t.Fatalf("frame %d differs", i)
		}
	}
}

// FIP and logins come by light L2, frames of sessions do not.
//
// FC-06
func TestFCoELightL2(t *testing.T) {
	s := newFabricless(t, "", "")
	before := s.i.dev.ShowLL2()[0]
	s.work(20, 64<<10)
	after := s.i.dev.ShowLL2()[0]
	if before.RxPackets < 5 || before.TxPackets < 5 || after.RxPackets > before.RxPackets+4 ||
		after.TxPackets > before.TxPackets+4 {
		t.Errorf("light L2 %d/%d packets before the commands, %d/%d after", before.RxPackets, before.TxPackets,
			after.RxPackets, after.TxPackets)
	}
	if c := s.i.counter("fcoe_fn_rx_data"); c < 20*64<<10/1452 {
		t.Errorf("%d frames with data by the function", c)
	}
}

// What there is of tasks bounds the commands on the wire, of an initiator and at a target.
//
// FC-01
func TestFCoETasksBound(t *testing.T) {
	for _, c := range []struct {
		set, targetSet string
		most           int
	}{{"", "", 30}, {"fcoe_num_tasks=3", "", 3}, {"fcoe_conn_tasks=7", "", 7}, {"", "fcoe_num_tasks=5", 5}} {
		s := newFabricless(t, c.set, c.targetSet)
		done, most, at := 0, 0, s.i
		if c.targetSet != "" {
			at = s.d
		}
		s.submit(30, 4096, true, &done)
		s.until(time.Minute, func() bool {
			most = max(most, at.fcFunction().Conns()[0].Tasks())
			return done == 30
		})
		if most > c.most || c.most < 30 && most != c.most || s.bad > 0 {
			t.Errorf("%q, %q: %d outstanding, want %d; %d failed", c.set, c.targetSet, most, c.most, s.bad)
		}
		if waited := s.i.counter("fcoe_tasks_waited"); (waited > 0) != (c.set != "") {
			t.Errorf("%q: %d commands have waited", c.set, waited)
		}
	}
}

// While nobody looks at the completion queue, what a peer sends waits there; what finds no room
// is dropped silently, counted, and comes again.
//
// FC-01 FC-05
func TestFCoEQueuesFill(t *testing.T) {
	for _, c := range []struct {
		set, targetSet string
		target, sense  bool
		most           int
		row, drop      string
	}{
		{"", "fcoe_cmdq_num_entries=5", true, false, 5, "fcoe_cmdq 0", "cmdq_full"},
		{"", "fcoe_cq_num_entries=16", true, false, 16, "fcoe_cq 0", "cq_full"},
		{"fcoe_rq_num_entries=4", "", false, true, 4, "fcoe_rq 0", "rq_full"},
		{"", "", false, true, 16, "fcoe_rq 0", "rq_full"},
	} {
		s := newFabricless(t, c.set, c.targetSet)
		n := s.i
		if c.target {
			n = s.d
		}
		irqs, v := n.dev.IRQ(), n.queueVector()
		must(t, irqs.MaskVector(v))
		done, commands := 0, c.most+3
		if c.sense { // of another unit
			for range commands {
				q := &fcoe.Request{Done: func(q *fcoe.Request, _ frame.Time) {
					if done++; q.Err != nil || q.Status != scsi.CheckCondition || len(q.Sense) == 0 {
						s.bad++
					}
				}}
				q.LUN, q.CDB[0] = 1<<48, 0
				target(s.in).Submit(q, s.now)
			}
		} else {
			s.submit(commands, 512, true, &done)
		}
		s.run(time.Second)
		if got := n.iscsiRow(c.row, ""); !strings.HasPrefix(got, fmt.Sprint(c.most, "/")) || done > 0 {
			t.Errorf("%q, %q: %s is %s, %d ended", c.set, c.targetSet, c.row, got, done)
		}
		if got := n.iscsiRow("fcoe_drop", c.drop); got != "3" || n.iscsiRow("fcoe_drop", "total") != "3" {
			t.Errorf("%q, %q: %s %s, %s in all", c.set, c.targetSet, got, c.drop, n.iscsiRow("fcoe_drop", "total"))
		}
		must(t, irqs.UnmaskVector(v, s.now))
		s.until(time.Minute, func() bool { return done == commands })
		if got := n.iscsiRow(c.row, ""); s.bad > 0 || !strings.HasPrefix(got, "0/") {
			t.Errorf("%q, %q: %d failed; %s", c.set, c.targetSet, s.bad, got)
		}
		if s.i.counter("fcoe_retries") < 3 {
			t.Errorf("%q, %q: %d retries", c.set, c.targetSet, s.i.counter("fcoe_retries"))
		}
	}
}

// fcoe_mtu bounds the frames of sessions below the MTU of the NIC, on either side.
//
// FC-01 FC-03
func TestFCoEMTU(t *testing.T) {
	for _, sets := range [][2]string{{"fcoe_mtu=700", ""}, {"", "fcoe_mtu=700"}} {
		s := newFabricless(t, sets[0], sets[1])
		s.work(3, 8192)
		longest := 0
		for _, b := range s.onWire() {
			if h, n, _ := ether.Parse(b); h.Type == wire.EtherType {
				longest = max(longest, len(b)-n)
			}
		}
		if longest != 698 { // a payload of 652 octets
			t.Errorf("%q: the longest frame has %d octets", sets, longest)
		}
	}
}

// Statistics count what has passed, for a connection and for the function, until they are
// cleared. The management firmware is told.
//
// FC-05
func TestFCoEStatistics(t *testing.T) {
	s := newFabricless(t, "fcoe_cq_num_entries=77", "")
	i, d := s.i.fcFunction(), s.d.fcFunction()
	i.ClearStats()
	d.ClearStats()
	s.work(8, 4096)
	a, err := i.Stats()
	must(t, err)
	b, err := d.Stats()
	must(t, err)
	const data = 8 * 3 // frames of 1452 octets for 4096
	want := fastfcoe.Traffic{Bytes: 8 * (3*24 + 4096 + 24 + 12 + 2*(24+24)), Data: data, Transfers: 8, Others: 16}
	back := fastfcoe.Traffic{Bytes: 8 * (3*24 + 4096 + 2*(24+32)), Data: data, Others: 16}
	if a.Rx != want || b.Tx != want || a.Tx != back || b.Rx != back || i.Conns()[0].Stats() != a {
		t.Errorf("initiator %+v, target %+v, want %+v and %+v", a, b, want, back)
	}
	if s.i.iscsiRow("ramrod", "FCOE STAT_FUNC") != "1" || s.i.iscsiRow("fcoe_event", "STAT_FUNC") != "1" {
		t.Error("the statistics came without a ramrod")
	}
	for name, n := range map[string]uint64{"rx_bytes": want.Bytes, "rx_data": data, "rx_xfer": 8, "rx_other": 16,
		"tx_data": data, "tx_xfer": 0, "drop_total": 0} {
		if got := s.i.counter("fcoe_fn_" + name); got != n {
			t.Errorf("%s is %d, want %d", name, got, n)
		}
	}
	values := map[string]string{}
	for _, r := range s.i.dev.ShowTLV(s.now) {
		values[r.TLV] = r.Value
	}
	for name, n := range map[string]uint64{"FCOE_RX_FRAMES_RECEIVED": data + 24, "FCOE_TX_FRAMES_SENT": data + 16,
		"FCOE_RX_BYTES_RECEIVED": want.Bytes, "FCOE_RX_DESCRIPTORS_QUEUE_SIZE": 77, "CRC_ERROR_COUNT": 0} {
		if values[name] != fmt.Sprint(n) {
			t.Errorf("%s is %q, want %d", name, values[name], n)
		}
	}
	spoilt := 0 // one frame of data in 40 has a wrong bit
	s.lose = func(_ *node, b []byte) bool {
		h, n, _ := ether.Parse(b)
		x, ok := wire.Header(b[n:])
		if h.Type == wire.EtherType && ok && x.RCtl == fc.SolicitedData {
			if spoilt++; spoilt%40 == 0 {
				b[100] ^= 4
			}
		}
		return false
	}
	s.work(8, 16<<10)
	s.lose = nil
	a, err = i.Stats()
	must(t, err)
	b, err = d.Stats()
	must(t, err)
	crc := a.Drops[fastfcoe.DropCRC] + b.Drops[fastfcoe.DropCRC]
	if crc != uint64(spoilt/40) || crc < 3 {
		t.Errorf("%d frames spoilt, %d counted", spoilt/40, crc)
	}
	fast := fastlinq.Of(s.i.dev.Hardware)
	fast.MFW().AskStats(0, mfw.StatsFCoE)
	fast.Manage(s.now)
	s.run(time.Second)
	if got := fast.MFW().ProtocolStats(0, mfw.StatsFCoE); got.Rx < data || got.FCSErrors != uint32(a.Drops[fastfcoe.DropCRC]) {
		t.Errorf("the management firmware has heard %+v", got)
	}
	i.ClearStats()
	if n, err := i.Stats(); err != nil || n != (fastfcoe.Stats{}) {
		t.Errorf("cleared: %+v, %v", n, err)
	}
}

// Logins that nobody answers are counted, and the management firmware hears of them.
//
// FC-05
func TestFCoELoginFailures(t *testing.T) {
	s := newFabricless(t, "", "")
	s.d.dev.FCoE.Stop(s.now)
	s.run(time.Second)
	s.lose = func(_ *node, b []byte) bool {
		h, n, _ := ether.Parse(b)
		m, err := fip.Parse(b[n:])
		return h.Type == fip.EtherType && err == nil && m.Op == fip.Request
	}
	s.d.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Initiator: true}}}, fcoe.Env{}, s.now)
	s.until(time.Minute, func() bool { return s.i.dev.FCoE.LoginFailures() == 2 })
	fast := fastlinq.Of(s.i.dev.Hardware)
	fast.MFW().AskStats(0, mfw.StatsFCoE)
	fast.Manage(s.now)
	s.run(time.Millisecond)
	if got := fast.MFW().ProtocolStats(0, mfw.StatsFCoE); got.LoginFailures != 2 {
		t.Errorf("the management firmware has heard %+v", got)
	}
}

// Calls out of their order are refused; sessions beyond what there are connections for end with
// a logout.
//
// FC-02 FC-03 FC-04
func TestFCoEOrder(t *testing.T) {
	s := newFabricless(t, "fcoe_num_cons=2", "")
	f := s.i.fcFunction()
	c, err := f.Acquire()
	must(t, err)
	if _, err := f.Acquire(); err == nil || !strings.Contains(err.Error(), "NORESOURCES") {
		t.Errorf("a third connection of two: %v", err)
	}
	session := f.Conns()[0]
	for what, err := range map[string]error{
		"terminate before offload": second(c.Terminate()),
		"offload twice":            session.Offload(fcoe.Session{}),
		"another pair's":           c.Offload(session.Session()),
		"release before the end":   session.Release(),
		"stop before the release":  f.Stop(),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := f.Offload(fcoe.Session{SID: 1, DID: 2}); err == nil {
		t.Error("a session without a connection")
	}
	must(t, c.Offload(fcoe.Session{SID: 1, DID: 2}))
	if n, err := c.Terminate(); err != nil || n != 0 {
		t.Errorf("terminate: %d, %v", n, err)
	}
	must(t, c.Release())
	if c.Release() == nil {
		t.Error("a second release")
	}
	if err := s.i.dev.Close(s.now); err != nil || s.i.dev.Core().Health().Leaked != 0 {
		t.Errorf("close: %v, %d connection ids leak", err, s.i.dev.Core().Health().Leaked)
	}
	if f.Stop() != nil {
		t.Error("a second stop")
	}
	if _, err := f.Acquire(); err == nil || !strings.Contains(err.Error(), "INVAL") {
		t.Errorf("acquire after the stop: %v", err)
	}
}

// A driver that is unloaded, or crashes, ends the sessions that its function has; a driver that
// loads again has a function that works.
//
// FC-02 FC-04
func TestFCoEUnload(t *testing.T) {
	for _, how := range []string{"unloaded", "crashed"} {
		s := newFabricless(t, "", "")
		done := 0
		s.submit(20, 64<<10, true, &done)
		s.run(time.Millisecond)
		must(t, s.i.dev.Set(Setting{"driver", how}))
		s.run(time.Minute)
		if target(s.in) != nil || s.i.fcFunction() != nil || done != 20 {
			t.Errorf("%s: there is a session, or a function; %d commands have ended", how, done)
		}
		if how == "crashed" {
			continue // the firmware lets no driver load beside one that it has not seen end
		}
		must(t, s.i.dev.Set(Setting{"driver", "loaded"}))
		s.session()
		f := s.i.fcFunction()
		if f == nil || len(f.Conns()) != 1 || s.i.iscsiRow("cid", "FCOE") != "2/1025" || f.Tasks() != 0 {
			t.Fatalf("after the load: %+v, %s", f, s.i.iscsiRow("cid", "FCOE"))
		}
		s.bad = 0
		s.blocks(target(s.in), nil, make([]byte, 512))
		s.work(4, 4096)
	}
}
