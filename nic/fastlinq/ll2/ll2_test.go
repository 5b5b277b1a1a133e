package ll2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// rig is a function with firmware that executes ramrods at once, and a wire.
type rig struct {
	*Manager
	fw      Firmware
	cbs     map[int]func(frame.Time)
	fired   map[int]int // events that wait for the interrupt
	masked  bool
	cids    int
	filters map[string]bool
	room    int
	out     []string
	refuse  Command // a ramrod that fails
	asserts []string
	leaks   []string
	lost    map[any]int // what was handed in and has not come back
	done    []string    // cookies that came back by completion
}

func newRig() *rig {
	r := &rig{cbs: map[int]func(frame.Time){}, fired: map[int]int{}, filters: map[string]bool{}, room: 1 << 20,
		lost: map[any]int{}}
	r.Manager = NewManager(Core{
		Limit: 32, Allows: func(t Type) bool { return t != FCoE },
		AcquireCID: func() (int, error) { r.cids++; return 100 + r.cids, nil },
		ReleaseCID: func(int) error { r.cids--; return nil },
		RegisterCB: func(fn func(frame.Time)) (int, error) {
			for pi := range 12 {
				if r.cbs[pi] == nil {
					r.cbs[pi] = fn
					return pi, nil
				}
			}
			return 0, status.NoMem
		},
		UnregisterCB: func(pi int) error { delete(r.cbs, pi); return nil },
		Post: func(_ int, x *Ramrod) error {
			if x.Command == r.refuse {
				return status.Busy.Errorf("refused")
			}
			if code := r.fw.Execute(x); code != OK {
				return status.UnknownError.Errorf("code %d", code)
			}
			return nil
		},
		Doorbell: func() {},
		Filter: func(q int, typ uint16, on bool) {
			if r.filters[fmt.Sprint(q, typ)] = on; !on {
				delete(r.filters, fmt.Sprint(q, typ))
			}
		},
	})
	r.fw = Firmware{
		Event: func(pi, n int) {
			if r.fired[pi] += n; !r.masked {
				r.interrupt()
			}
		},
		Room: func() int { return r.room },
		Send: func(d Dest, parts [][]byte, h ether.Header) int {
			r.room--
			b := bytes.Join(parts, nil)
			r.out = append(r.out, fmt.Sprintf("%v %v %d %x", d, h.Dst, len(h.Tags[:h.NTags]), b))
			return h.Len() + len(b)
		},
		Assert: func(text string) { r.asserts = append(r.asserts, text) },
	}
	return r
}

// interrupt runs the slowpath's handlers.
func (r *rig) interrupt() {
	for pi := range 12 {
		if r.fired[pi] > 0 && r.cbs[pi] != nil {
			r.fired[pi] = 0
			r.cbs[pi](0)
		}
	}
}

func (r *rig) callbacks() Callbacks {
	back := func(how string) func(any, []byte) {
		return func(cookie any, b []byte) {
			if r.lost[cookie]--; r.lost[cookie] < 0 {
				r.leaks = append(r.leaks, fmt.Sprint(cookie, " twice"))
			}
			r.done = append(r.done, fmt.Sprint(how, " ", cookie))
		}
	}
	return Callbacks{
		RxComplete: func(rx Rx) { back(fmt.Sprintf("rx %d", rx.Len))(rx.Cookie, rx.Buf) },
		RxRelease:  back("rx release"), TxComplete: back("tx"), TxRelease: back("tx release"),
	}
}

func (r *rig) open(t testing.TB, p Params) *Conn {
	t.Helper()
	c, err := r.Acquire(p, r.callbacks())
	if err == nil {
		err = c.Establish()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var plain = Params{Type: Test, MTU: 1500, RxDescs: 4, TxDescs: 16}

func is(t *testing.T, what string, err error, want status.Code) {
	t.Helper()
	if got := status.Of(err); got != want {
		t.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

func with(p Params, change func(*Params)) Params {
	change(&p)
	return p
}

// LL-01 LL-02 LL-03
func TestIllegalOrders(t *testing.T) {
	r := newRig()
	for what, p := range map[string]Params{
		"no such type":        with(plain, func(p *Params) { p.Type = NumTypes }),
		"reserved type":       with(plain, func(p *Params) { p.Type = reserved }),
		"another personality": with(plain, func(p *Params) { p.Type = FCoE }),
		"no descriptors":      with(plain, func(p *Params) { p.RxDescs = 0 }),
		"13 buffers":          with(plain, func(p *Params) { p.MaxBDs = 13 }),
		"no such destination": with(plain, func(p *Params) { p.TxDest = 3 }),
		"OOO buffers":         with(plain, func(p *Params) { p.OOOBuffers = 1 }),
		"MTU 0":               with(plain, func(p *Params) { p.MTU = 0 }),
	} {
		_, err := r.Acquire(p, r.callbacks())
		is(t, what, err, status.Inval)
	}
	cb := r.callbacks()
	cb.TxRelease = nil
	_, err := r.Acquire(plain, cb)
	is(t, "three callbacks", err, status.Inval)

	c, err := r.Acquire(plain, r.callbacks())
	is(t, "acquire", err, status.Success)
	buf := make([]byte, 1600)
	tx := Tx{Cookie: 1, First: buf[:64], BDs: 1}
	is(t, "Tx before establish", c.PrepareTx(tx), status.Inval)
	is(t, "Rx before establish", c.PostRx(buf, 1, true), status.Inval)
	is(t, "terminate before establish", c.Terminate(), status.Inval)
	r.refuse = TxQueueStart
	is(t, "establish", c.Establish(), status.Busy)
	if c.Established() || len(r.cbs) > 0 || len(r.filters) > 0 || r.fw.queues[0].rx != nil {
		t.Error("an establishment that failed left something behind")
	}
	r.refuse = 0
	is(t, "establish", c.Establish(), status.Success)
	if len(r.filters) != 1 || len(r.cbs) != 2 {
		t.Errorf("filters %v, %d indices", r.filters, len(r.cbs))
	}
	is(t, "establish twice", c.Establish(), status.Inval)
	is(t, "release while established", c.Release(), status.Inval)
	is(t, "no cookie", c.PostRx(buf, nil, true), status.Inval)
	is(t, "a short buffer", c.PostRx(buf[:1500], 1, true), status.Inval)
	is(t, "fragment of nothing", c.SetFragment(buf), status.Inval)
	is(t, "no cookie", c.PrepareTx(Tx{First: buf, BDs: 1}), status.Inval)
	is(t, "no buffer", c.PrepareTx(Tx{Cookie: 1, First: buf}), status.Inval)
	is(t, "too many buffers", c.PrepareTx(Tx{Cookie: 1, First: buf, BDs: 13}), status.IO)
	is(t, "a packet of two", c.PrepareTx(Tx{Cookie: 1, First: buf[:14], BDs: 2}), status.Success)
	is(t, "another before its second", c.PrepareTx(tx), status.Exists)
	is(t, "the second", c.SetFragment(buf[:50]), status.Success)
	for range 14 {
		is(t, "one more", c.PrepareTx(tx), status.Success)
	}
	is(t, "no descriptor", c.PrepareTx(tx), status.Busy)
	for i := range 4 {
		is(t, "buffer", c.PostRx(buf, 2+i, true), status.Success)
	}
	is(t, "no descriptor", c.PostRx(buf, 9, true), status.NoMem)
	var all []*Conn
	for range MaxConns - 1 {
		all = append(all, r.open(t, plain))
	}
	_, err = r.Acquire(plain, r.callbacks())
	is(t, "a fifth", err, status.Busy)
	r.refuse = RxQueueStop
	is(t, "terminate", c.Terminate(), status.Busy)
	if !c.Established() || c.RxUse().Owned != 4 {
		t.Error("a termination that failed changed something")
	}
	r.refuse = 0
	is(t, "terminate", c.Terminate(), status.Success)
	is(t, "terminate twice", c.Terminate(), status.Inval)
	is(t, "establish again", c.Establish(), status.Success)
	is(t, "terminate", c.Terminate(), status.Success)
	is(t, "release", c.Release(), status.Success)
	is(t, "release twice", c.Release(), status.Inval)
	is(t, "establish what is released", c.Establish(), status.Inval)
	if err := r.Close(); err != nil || len(r.Conns()) > 0 || all[0].Established() || len(r.cbs) > 0 || len(r.filters) > 0 {
		t.Errorf("close: %v", err)
	}
}

// LL-02
func TestOOOBuffers(t *testing.T) {
	r := newRig()
	for buffers, want := range map[int]int{0: 200, 7: 7} {
		c := r.open(t, Params{Type: OOO, MTU: 1500, RxDescs: 100, TxDescs: 1, OOOBuffers: buffers})
		if got := c.Params().OOOBuffers; got != want {
			t.Errorf("%d: %d buffers", buffers, got)
		}
		is(t, "a buffer for OOO", c.PostRx(make([]byte, 2000), 1, true), status.Inval)
	}
}

// LL-04 LL-05 LL-06 LL-07
func TestPacketsOfManyBuffers(t *testing.T) {
	r := newRig()
	c := r.open(t, plain)
	header := ether.Header{Dst: ether.Broadcast, Type: ether.TypeLoopback}.AppendTo(nil)
	for n := 1; n <= MaxBDs; n++ {
		for d := range numDests {
			r.out, r.done = nil, nil
			first, sum := slices.Clone(header), ""
			if n == 1 {
				first, sum = append(first, 0xaa), "aa"
			}
			r.lost[n]++
			is(t, "prepare", c.PrepareTx(Tx{Cookie: n, First: first, BDs: n, Dest: new(d), Tagged: true, TCI: 5}), status.Success)
			for i := 1; i < n; i++ {
				if r.fw.Due() {
					t.Fatal("the firmware knows of half a packet")
				}
				is(t, "fragment", c.SetFragment([]byte{byte(i)}), status.Success)
				sum += fmt.Sprintf("%02x", i)
			}
			r.fw.Poll()
			want := []string{fmt.Sprintf("%v ff:ff:ff:ff:ff:ff 1 %s", d, sum)}
			if d == Drop {
				want = nil
			}
			if !slices.Equal(r.out, want) || !slices.Equal(r.done, []string{fmt.Sprintf("tx %d", n)}) {
				t.Errorf("%d buffers to %v: %q, %q", n, d, r.out, r.done)
			}
		}
	}
	if s := r.fw.Stats(0); s.TxDropped != MaxBDs || s.TxBcast.Packets != 2*MaxBDs || s.Tx().Bytes == 0 {
		t.Errorf("%+v", s)
	}
}

// LL-08 LL-10
func TestReceive(t *testing.T) {
	r := newRig()
	c := r.open(t, with(plain, func(p *Params) { p.RemoveVLAN = true; p.NoBuffer = Assert }))
	var got []Rx
	c.cb.RxComplete = func(rx Rx) { got = append(got, rx) }
	p := Packet{Header: ether.Header{Dst: ether.Addr{2}, Type: ether.TypeLoopback, NTags: 1,
		Tags: [2]ether.Tag{{TPID: ether.TypeVLAN, TCI: 9}}}, Body: []byte("hello"), Off: frame.Offload{DataValid: true}}
	buf := make([]byte, 1600)
	is(t, "untold", c.PostRx(buf, 7, false), status.Success)
	if r.fw.Receive(0, p) != NoBuffer || len(r.asserts) != 1 {
		t.Errorf("without a buffer: %q", r.asserts)
	}
	is(t, "told", c.PostRx(make([]byte, 1600), 8, true), status.Success)
	if r.fw.Receive(0, p) != Taken || len(got) != 1 || got[0].Cookie != 7 || !got[0].Tagged || got[0].TCI != 9 ||
		got[0].Flags != L4Valid || string(got[0].Buf[ether.HeaderLen:got[0].Len]) != "hello" || &got[0].Buf[0] != &buf[0] {
		t.Errorf("%+v", got)
	}
	if p.Body = make([]byte, 1501); r.fw.Receive(0, p) != TooBig {
		t.Error("a packet that is too big is taken")
	}
	if s := r.fw.Stats(0); s.Rx() != (Traffic{1, 19}) || s.RxUcast.Packets != 1 || s.TooBig != 1 || s.NoBuffer != 1 {
		t.Errorf("%+v", s)
	}
	other := r.open(t, with(plain, func(p *Params) { p.TooBig, p.NoBuffer = DoNothing, DoNothing }))
	if r.fw.Receive(other.Handle(), p) != NotTaken || r.fw.Receive(other.Handle(), Packet{}) != NotTaken ||
		r.fw.Receive(3, p) != NotTaken {
		t.Error("a packet that is not the queue's is taken")
	}
}

// Each buffer comes back exactly once, by completion or, at the latest when the
// connection is terminated, by release; the counts agree at any time.
//
// LL-03 LL-07
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		c, next := &Conn{}, 0
		for _, v := range rapid.SliceOfN(rapid.IntRange(0, 1<<16), 1, 120).Draw(t, "moves") {
			switch v % 9 {
			case 0:
				if n, err := r.Acquire(plain, r.callbacks()); err == nil && (c.m == nil || v&16 != 0) {
					c = n
				}
			case 1, 2, 3, 4:
				if c.m == nil {
					continue
				}
				next++
				if v%9 < 3 {
					if c.PostRx(make([]byte, 1600), next, v&16 != 0) == nil {
						r.lost[next]++
					}
				} else if c.PrepareTx(Tx{Cookie: next, First: make([]byte, 20), BDs: v / 16 % 15}) == nil {
					r.lost[next]++
				}
			case 5:
				if c.m != nil {
					_ = c.SetFragment(make([]byte, v%100))
				}
			case 6:
				if r.room = v / 16 % 3; v&1024 != 0 {
					r.masked = !r.masked
				}
				r.fw.Poll()
				if !r.masked {
					r.interrupt()
				}
			case 7:
				r.fw.Receive(v/16%MaxConns, Packet{Body: make([]byte, v%1600)})
			case 8:
				if c.m != nil {
					_ = [...]func() error{c.Establish, c.Establish, c.Terminate, c.Release}[v/16%4]()
				}
			}
			if c.m != nil {
				for _, u := range []Use{c.RxUse(), c.TxUse()} {
					if u.Posted != u.Completed+u.Released+uint64(u.Owned) {
						t.Fatalf("%+v", u)
					}
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for cookie, n := range r.lost {
			if n != 0 {
				t.Fatalf("%v came back %d times", cookie, 1-n)
			}
		}
		if r.cids != 0 || len(r.cbs) > 0 || len(r.leaks) > 0 {
			t.Fatalf("%d connection ids, %d indices, %v", r.cids, len(r.cbs), r.leaks)
		}
	})
}

// A frame each way allocates nothing.
func TestNoAllocation(t *testing.T) {
	r := newRig()
	c := r.open(t, plain)
	cookie := any(c)
	c.cb.RxComplete = func(rx Rx) { _ = c.PostRx(rx.Buf, rx.Cookie, true) }
	c.cb.TxComplete = func(any, []byte) {}
	r.fw.Send = func(Dest, [][]byte, ether.Header) int { return 60 }
	_ = c.PostRx(make([]byte, 1600), cookie, true)
	p := Packet{Body: make([]byte, 46)}
	first := make([]byte, 60)
	if n := testing.AllocsPerRun(100, func() {
		r.fw.Receive(0, p)
		_ = c.PrepareTx(Tx{Cookie: cookie, First: first, BDs: 2})
		_ = c.SetFragment(first)
		r.fw.Poll()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c.RxUse().Completed != 101 || c.TxUse().Completed != 101 {
		t.Errorf("%+v, %+v", c.RxUse(), c.TxUse())
	}
}

// Isles against a map of octets.
//
// LL-09
func TestArchipelagos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewArchipelagos(30, 2)
		a.maxIsles = 8
		type sea struct {
			land map[uint64]bool
			next uint64
		}
		seas := map[uint64]*sea{1: {map[uint64]bool{}, 0}, 2: {map[uint64]bool{}, 0}}
		isles := func() (n int) {
			for _, s := range seas {
				for at := range s.land {
					if !s.land[at-1] {
						n++
					}
				}
			}
			return n
		}
		for _, v := range rapid.SliceOfN(rapid.IntRange(0, 1<<20), 1, 80).Draw(t, "segments") {
			conn := uint64(1 + v&1)
			s := seas[conn]
			left := s.next + uint64(v>>4%60)
			right := left + 1 + uint64(v>>10%9)
			switch {
			case v&14 == 0:
				a.Gone(conn)
				s.land = map[uint64]bool{}
			case left == s.next: // in order
				for s.next < right || s.land[s.next] {
					delete(s.land, s.next)
					s.next++
				}
				if more := a.Reached(conn, s.next); more != (len(s.land) > 0) {
					t.Fatalf("isles left: %v", more)
				}
			default:
				before := isles()
				if !a.Room(conn, left, right) {
					if st := a.Stats(); st.Used < st.Buffers && st.Isles < st.MaxIsles {
						t.Fatalf("no room in %+v", st)
					}
					continue
				}
				fresh := false
				for at := left; at < right; at++ {
					fresh = fresh || !s.land[at]
					s.land[at] = true
				}
				e := a.Add(conn, left, right, v&(1<<19) != 0)
				more := isles() - before
				if !fresh && e != Nop || fresh && (e == AddNewIsle) != (more == 1) || (e == Join) != (more < 0) {
					t.Fatalf("%v: %d isles more", e, more)
				}
			}
			if st := a.Stats(); st.Isles != isles() || st.Used > st.Buffers {
				t.Fatalf("%+v, want %d isles", st, isles())
			}
		}
		a.Gone(1)
		a.Gone(2)
		if st := a.Stats(); st.Isles != 0 || st.Used != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestNames(t *testing.T) {
	for s, want := range map[fmt.Stringer]string{IWARP: "IWARP", Type(9): "Type(9)", Loopback: "LB", Join: "JOIN",
		RxQueueStop: "RX_QUEUE_STOP"} {
		if s.String() != want {
			t.Errorf("%v, want %s", s, want)
		}
	}
	if d, err := ParseDest("drop"); d != Drop || err != nil {
		t.Error(d, err)
	}
	if _, err := ParseDest("moon"); !errors.Is(err, status.Inval) {
		t.Error(err)
	}
}
