package capture

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var info = Info{Application: "tapir test", Name: "nic0", MAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500, Speed: 100e9,
	Wire: "tap0", Host: "tap1", Frames: "wire"}

// file is a parsed capture.
type file struct {
	ifaces  []*pcapng.Interface
	packets []*pcapng.Packet
	stats   []*pcapng.Statistics
	said    []*pcapng.Journal
}

func parse(t *testing.T, b []byte) (f file) {
	t.Helper()
	r := pcapng.NewReader(bytes.NewReader(b))
	for {
		blk, err := r.Next()
		if err == io.EOF {
			return f
		}
		if err != nil {
			t.Fatal(err)
		}
		switch blk := blk.(type) {
		case *pcapng.Interface:
			f.ifaces = append(f.ifaces, blk)
		case *pcapng.Packet:
			blk.Data = bytes.Clone(blk.Data)
			f.packets = append(f.packets, blk)
		case *pcapng.Statistics:
			f.stats = append(f.stats, blk)
		case *pcapng.Journal:
			blk.Message = bytes.Clone(blk.Message)
			f.said = append(f.said, blk)
		}
	}
}

// capture runs records through a session and returns the file.
func capture(t *testing.T, opt Options, records ...*frame.Record) file {
	t.Helper()
	var b bytes.Buffer
	s := New(&b, info, opt)
	s.Live()
	for _, r := range records {
		s.Trace(r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.Bytes())
}

func TestFileSaysWhatPassed(t *testing.T) {
	data := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 54)...)
	f := capture(t, Options{SnapLen: 40, Host: true},
		&frame.Record{Port: frame.Wire, Dir: frame.Outbound, Data: data, Stamp: 1000, ID: 1, Notes: []frame.Note{{Text: []byte("QP 3 WR 17"), Times: 2}, {Text: []byte("last"), Times: 1}}},
		&frame.Record{Port: frame.Host, Dir: frame.Inbound, Data: data[6:], Stamp: 2000, ID: 9, Queue: 2, Drop: drop.NotOurIP},
	)
	has := pcapng.HasFlags | pcapng.HasID
	want := []*pcapng.Packet{
		{Interface: 0, Stamp: 1000, Data: data[:40], OrigLen: 60, Has: has, Flags: pcapng.Outbound | pcapng.Broadcast, ID: 1, Comments: []string{"QP 3 WR 17", "last"}},
		{Interface: 1, Stamp: 2000, Data: data[6:46], OrigLen: 54, Has: has | pcapng.HasQueue, Flags: pcapng.Inbound | pcapng.Unicast, ID: 9, Queue: 2, Comments: []string{"dropped: not our IP"}},
	}
	if d := cmp.Diff(want, f.packets); d != "" {
		t.Error(d)
	}
	if len(f.ifaces) != 2 || f.ifaces[0].MAC != info.MAC || f.ifaces[1].Name != "nic0-host" || f.ifaces[0].Description != "wire TAP tap0, MTU 1500" {
		t.Errorf("interfaces %+v", f.ifaces)
	}
	if len(f.stats) != 2 || f.stats[0].Received != 1 || f.stats[0].Start != 1000 || f.stats[1].Delivered != 1 {
		t.Errorf("statistics %+v", f.stats)
	}
}

// With the hardware clock, each packet of the wire is there twice: with the
// system's time and with the clock's.
func TestClockInterface(t *testing.T) {
	data := make([]byte, 60)
	f := capture(t, Options{PHC: true, Host: true, Count: 3},
		&frame.Record{Port: frame.Wire, Data: data, Stamp: 1000, System: 900, ID: 1, Notes: frame.Say("rx stamp 0.000001000")},
		&frame.Record{Port: frame.Host, Data: data, Stamp: 2000, System: 1900, ID: 2},
		&frame.Record{Port: frame.Wire, Data: data, Stamp: 3000, ID: 3},
		&frame.Record{Port: frame.Wire, Data: data, Stamp: 4000, System: 3900, ID: 4},
	)
	var got [][3]int64
	for _, p := range f.packets {
		got = append(got, [3]int64{int64(p.Interface), p.Stamp, int64(p.ID)})
	}
	want := [][3]int64{{0, 900, 1}, {2, 1000, 1}, {1, 1900, 2}, {0, 3000, 3}, {2, 3000, 3}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(f.ifaces) != 3 || f.ifaces[2].Name != "nic0/phc" || f.ifaces[2].Description != "the packets of nic0 with the stamps of its hardware clock" {
		t.Errorf("interfaces %+v", f.ifaces)
	}
	if len(f.stats) != 3 || f.stats[2].Received != 2 || f.stats[2].End != 3000 || !slices.Equal(f.packets[1].Comments, []string{"rx stamp 0.000001000"}) {
		t.Errorf("statistics %+v, comments %q", f.stats, f.packets[1].Comments)
	}
}

func TestHostSideOnlyOnRequest(t *testing.T) {
	f := capture(t, Options{}, &frame.Record{Port: frame.Host, Data: make([]byte, 60)})
	if len(f.packets) != 0 || len(f.ifaces) != 1 {
		t.Fatalf("%d packets, %d interfaces", len(f.packets), len(f.ifaces))
	}
}

// superFrame is an IPv4 TCP super-frame of n segments of 100 octets each.
func superFrame(n int) *frame.Record {
	d := make([]byte, 54+100*n)
	copy(d[12:], []byte{0x08, 0x00, 0x45})
	d[16], d[17] = byte((40+100*n)>>8), byte(40+100*n)
	d[22], d[23] = 64, 6
	copy(d[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	d[46], d[47] = 5<<4, 0x18
	for i := range d[54:] {
		d[54+i] = byte(i / 100)
	}
	return &frame.Record{Dir: frame.Outbound, Data: d, ID: 5,
		Offload: frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, HdrLen: 54, GSOSize: 100, CsumStart: 34, CsumOffset: 16}}
}

func TestSuperFrameIsSplit(t *testing.T) {
	note := func(text string, times int) frame.Note { return frame.Note{Text: []byte(text), Times: times} }
	for _, c := range []struct {
		notes []frame.Note
		want  [][]string
	}{
		{[]frame.Note{note("a", 1), note("b", 1), note("c", 1)}, [][]string{{"a"}, {"b"}, {"c"}}},
		{[]frame.Note{note("a", 2), note("b", 1)}, [][]string{{"a"}, {"a"}, {"b"}}},
		{[]frame.Note{note("a", 1), note("b", 2)}, [][]string{{"a"}, {"b"}, {"b"}}},
		{[]frame.Note{note("a", 3)}, [][]string{{"a"}, {"a"}, {"a"}}},
		{[]frame.Note{note("a", 1), note("b", 1)}, [][]string{{"a", "b"}, nil, nil}},
		{nil, [][]string{nil, nil, nil}},
	} {
		r := superFrame(3)
		r.Notes = c.notes
		f := capture(t, Options{}, r)
		if len(f.packets) != 3 {
			t.Fatalf("%d segments", len(f.packets))
		}
		for i, p := range f.packets {
			if len(p.Data) != 154 || p.Data[54] != byte(i) || p.ID != 5 {
				t.Errorf("segment %d: %d octets, first %d, id %d", i, len(p.Data), p.Data[54], p.ID)
			}
			if d := cmp.Diff(c.want[i], p.Comments); d != "" {
				t.Errorf("segment %d: %s", i, d)
			}
		}
	}
}

func TestRawKeepsSuperFrames(t *testing.T) {
	r := superFrame(3)
	r.Notes = []frame.Note{{Text: []byte("QP 3 WR 17 RDMA Write"), Times: 3}}
	f := capture(t, Options{Raw: true}, r)
	if len(f.packets) != 1 || !bytes.Equal(f.packets[0].Data, r.Data) {
		t.Fatalf("%d packets", len(f.packets))
	}
	if d := cmp.Diff([]string{"QP 3 WR 17 RDMA Write (3 times)"}, f.packets[0].Comments); d != "" {
		t.Error(d)
	}
}

func TestCountEndsTheFile(t *testing.T) {
	var b bytes.Buffer
	s := New(&b, info, Options{Count: 2})
	r := &frame.Record{Data: make([]byte, 60)}
	s.Trace(r) // context, not counted
	s.Live()
	for range 4 {
		s.Trace(r)
	}
	<-s.Done()
	if f := parse(t, b.Bytes()); len(f.packets) != 3 || len(f.stats) != 1 {
		t.Fatalf("%d packets, %d statistics", len(f.packets), len(f.stats))
	}
	if st := s.Stats(); st != (Stats{Seen: 3, Written: 3}) {
		t.Fatalf("%+v", st)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// gate is a writer that blocks until it is opened.
type gate struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func TestSlowWriterLosesAndSaysSo(t *testing.T) {
	g := &gate{}
	g.mu.Lock()
	s := New(g, info, Options{Buffer: 4096})
	s.Live()
	r := &frame.Record{Data: make([]byte, 60)}
	for range 200 {
		s.Trace(r)
	}
	full := s.Stats()
	g.mu.Unlock()
	for s.Stats().Written == full.Written { // until one finds room again
		s.Trace(r)
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st, f := s.Stats(), parse(t, g.b.Bytes())
	if full.Lost == 0 || st.Seen != st.Written+st.Lost || uint64(len(f.packets)) != st.Written {
		t.Fatalf("%+v, %d packets in the file", st, len(f.packets))
	}
	var dropped uint64
	for _, p := range f.packets {
		dropped += p.DropCount
	}
	if dropped != st.Lost || len(f.stats) < 2 || f.stats[0].Dropped == 0 || !strings.Contains(f.stats[0].Comments[0], "are missing here") {
		t.Fatalf("file accounts for %d of %d lost packets, statistics %+v", dropped, st.Lost, f.stats)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("disk full")

func TestWriterErrorEndsTheSession(t *testing.T) {
	s := New(broken{}, info, Options{})
	s.Live()
	<-s.Done()
	s.Trace(&frame.Record{Data: make([]byte, 60)})
	if err := s.Close(); !errors.Is(err, errBroken) {
		t.Fatalf("error %v", err)
	}
	if st := s.Stats(); st.Seen != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestEveryDropHasAComment(t *testing.T) {
	for r := range frame.DropReasons() {
		f := capture(t, Options{}, &frame.Record{Data: make([]byte, 60), Drop: r})
		if want := "dropped: " + r.String(); len(f.packets) != 1 || f.packets[0].Comments[0] != want {
			t.Errorf("reason %d: %+v", r, f.packets)
		}
	}
}

func TestTee(t *testing.T) {
	var a, b bytes.Buffer
	var tee Tee
	s1, s2 := New(&a, info, Options{}), New(&b, info, Options{})
	tee.Add(s1)
	tee.Add(s2)
	tee.Trace(&frame.Record{Data: make([]byte, 60)})
	if left := tee.Remove(s1); left != 1 {
		t.Fatalf("%d left", left)
	}
	tee.Trace(&frame.Record{Data: make([]byte, 60)})
	s1.Close()
	s2.Close()
	if n1, n2 := len(parse(t, a.Bytes()).packets), len(parse(t, b.Bytes()).packets); n1 != 1 || n2 != 2 {
		t.Fatalf("%d and %d packets", n1, n2)
	}
}

func TestTraceDoesNotAllocate(t *testing.T) {
	s := New(io.Discard, info, Options{Buffer: 1 << 16})
	defer s.Close()
	r := &frame.Record{Data: make([]byte, 1514), Notes: frame.Say("QP 3 WR 17 RDMA Write last"), Drop: drop.Fault}
	for range 1000 { // both buffers reach their full size
		s.Trace(r)
		time.Sleep(time.Microsecond)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Trace(r) }); n > 0 {
		t.Fatalf("%v allocations per frame", n)
	}
}

func BenchmarkTrace(b *testing.B) {
	s := New(io.Discard, info, Options{})
	defer s.Close()
	r := &frame.Record{Data: make([]byte, 1514), Notes: frame.Say("QP 3 WR 17 RDMA Write")}
	b.ReportAllocs()
	b.SetBytes(1514)
	for b.Loop() {
		s.Trace(r)
	}
}

func TestSplittingDoesNotAllocate(t *testing.T) {
	s := New(io.Discard, info, Options{Buffer: 1 << 20})
	defer s.Close()
	r := superFrame(30)
	for range 500 { // both buffers reach their full size
		s.Trace(r)
		time.Sleep(time.Microsecond)
	}
	if n := testing.AllocsPerRun(500, func() { s.Trace(r) }); n > 0 {
		t.Fatalf("%v allocations per super-frame", n)
	}
}

// Of a true segment that is cut, the checksum stays partial; all else is that
// of the segment.
func TestSuperFrameIsSplitAndCut(t *testing.T) {
	r := superFrame(3)
	whole, short := capture(t, Options{}, r), capture(t, Options{SnapLen: 70}, r)
	if len(short.packets) != 3 {
		t.Fatalf("%d segments", len(short.packets))
	}
	for i, p := range short.packets {
		want := bytes.Clone(whole.packets[i].Data[:70])
		if bytes.Equal(p.Data, want) || p.OrigLen != 154 {
			t.Errorf("segment %d: %d octets of %d, checksum complete", i, len(p.Data), p.OrigLen)
		}
		copy(want[50:52], p.Data[50:]) // the checksum
		if d := cmp.Diff(want, p.Data); d != "" {
			t.Errorf("segment %d: %s", i, d)
		}
	}
}

// What is written at once is much more than a packet, but nothing waits long.
func TestWriterTakesManyAtATime(t *testing.T) {
	w := &counter{}
	s := New(w, info, Options{})
	r := superFrame(40)
	for range 1000 {
		s.Trace(r)
	}
	for s.Stats().Written > 0 && w.octets.Load() < 1000*40*154 { // without Close
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if writes, octets := w.writes.Load(), w.octets.Load(); octets/writes < 32<<10 {
		t.Fatalf("%d writes for %d octets", writes, octets)
	}
}

type counter struct{ writes, octets atomic.Int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.writes.Add(1)
	c.octets.Add(int64(len(b)))
	return len(b), nil
}

func BenchmarkTraceSuperFrame(b *testing.B) {
	d := make([]byte, 66+44*1448)
	copy(d, superFrame(1).Data[:54])
	d[16], d[17] = byte((len(d)-14)>>8), byte(len(d)-14)
	d[46] = 8 << 4
	r := &frame.Record{Dir: frame.Outbound, Data: d, ID: 5, Notes: []frame.Note{{Text: []byte("QP 3 WR 17 RDMA Write"), Times: 44}},
		Offload: frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: 1448, CsumStart: 34, CsumOffset: 16}}
	for _, o := range []struct {
		name string
		opt  Options
	}{{"default", Options{Bulk: DefaultBulk}}, {"snap", Options{SnapLen: 256}}, {"all", Options{}}, {"raw", Options{SnapLen: 256, Raw: true}}} {
		b.Run(o.name, func(b *testing.B) {
			s := New(io.Discard, info, o.opt)
			defer s.Close()
			b.ReportAllocs()
			b.SetBytes(int64(len(d)))
			for b.Loop() {
				s.Trace(r)
			}
			b.ReportMetric(float64(s.Stats().Lost)/float64(s.Stats().Seen), "lost/pkt")
		})
	}
}

// long is a super-frame of n segments that carry part of one long message.
func long(n int) *frame.Record {
	r := superFrame(n)
	r.Data[47] |= 0x80 // CWR, which only the first segment has
	r.Notes = []frame.Note{{Text: []byte("QP 3 WR 17 RDMA Write"), Times: n}}
	return r
}

// What is kept of a long message's segments is what the whole ones have. Short
// messages stay whole, and of long ones the first FPDU.
func TestBulkIsCut(t *testing.T) {
	for _, n := range []int{bulkRun, bulkRun + 1, 40} {
		whole, short := capture(t, Options{}, long(n), long(n)), capture(t, Options{Bulk: 24}, long(n), long(n))
		if len(short.packets) != 2*n {
			t.Fatalf("%d segments, want %d", len(short.packets), 2*n)
		}
		for i, p := range short.packets {
			kept := 154
			if n > bulkRun && i > 0 {
				kept = 54 + 24
			}
			want := *whole.packets[i]
			want.Data = bytes.Clone(want.Data[:kept])
			if kept < 154 {
				copy(want.Data[50:52], p.Data[50:]) // the checksum stays partial
			}
			if d := cmp.Diff(&want, p); d != "" {
				t.Errorf("segment %d of %d: %s", i, n, d)
			}
		}
	}
}

// Nobody sees the head of a file before it is sure that nothing is missed.
func TestHeadWaitsForTheTracer(t *testing.T) {
	for what, begin := range map[string]func(*Session){
		"Live":   (*Session).Live,
		"packet": func(s *Session) { s.Trace(superFrame(1)) },
		"Close":  func(s *Session) { _ = s.Close() },
	} {
		r, w := io.Pipe()
		s := New(w, info, Options{})
		began := make(chan struct{})
		go func() {
			<-began
			begin(s)
			_ = s.Close()
		}()
		go func() {
			<-s.Done()
			w.Close()
		}()
		select {
		case <-s.Done():
			t.Errorf("%s: done before it began", what)
		case <-time.After(2 * flushAfter): // time for a mistake
		}
		s.mu.Lock()
		early := len(s.out.fill) == 0
		s.mu.Unlock()
		close(began)
		b, err := io.ReadAll(r)
		if f := parse(t, b); early || err != nil || len(f.ifaces) != 1 {
			t.Errorf("%s: head taken before %v, %d interfaces, %v", what, early, len(f.ifaces), err)
		}
	}
}
