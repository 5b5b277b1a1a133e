package perf

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/perfconf"
)

// RoCE leaves 56 octets of private data to a request.
func TestHelloFitsPrivateData(t *testing.T) {
	for _, h := range []hello{
		{Op: perfconf.WriteBW, Size: perfconf.MaxSize, Iters: perfconf.MaxIters,
			QPs: perfconf.MaxQPs, QP: perfconf.MaxQPs - 1, Depth: perfconf.MaxDepth, Seed: 1<<64 - 1,
			Region: region{STag: 1<<32 - 1, Addr: 1<<64 - 1, Len: perfconf.MaxSize}},
		{Op: perfconf.Verify, Size: 8, Iters: 1, QPs: 1, Depth: 1, Seed: 1<<64 - 1, Sizes: append([]int{1000}, perfconf.VerifySizes...),
			Region: region{STag: 1<<32 - 1, Addr: 1<<64 - 1, Len: perfconf.MaxSize}},
	} {
		b := h.encode()
		if len(b) > 56 {
			t.Errorf("%v: %d octets of private data; RoCE takes 56", h.Op, len(b))
		}
		if back, err := decodeHello(append(b, make([]byte, 56-len(b))...)); err != nil || !reflect.DeepEqual(back, h) {
			t.Errorf("%+v became %+v: %v", h, back, err)
		}
	}
}

func TestDecodeHelloRefuses(t *testing.T) {
	good := hello{Op: perfconf.WriteBW, Size: 8, Iters: 1, QPs: 2, QP: 1, Depth: 1}
	if h, err := decodeHello(good.encode()); err != nil || !reflect.DeepEqual(h, good) {
		t.Fatalf("%+v, %v", h, err)
	}
	for name, spoil := range map[string]func(*hello){
		"op":    func(h *hello) { h.Op = "x" },
		"qp":    func(h *hello) { h.QP = 2 },
		"size":  func(h *hello) { h.Size = 0 },
		"sizes": func(h *hello) { h.Op, h.QPs, h.QP = perfconf.Verify, 1, 0 },
		"qps":   func(h *hello) { h.Op, h.Sizes = perfconf.Verify, []int{8} },
	} {
		h := good
		spoil(&h)
		if _, err := decodeHello(h.encode()); err == nil {
			t.Errorf("%s: accepted %+v", name, h)
		}
	}
	whole := good.encode()
	for n := range len(whole) {
		if _, err := decodeHello(whole[:n]); err == nil {
			t.Errorf("%d octets of %d accepted", n, len(whole))
		}
	}
	if _, err := decodeHello(append([]byte{9}, whole[1:]...)); err == nil {
		t.Error("another version accepted")
	}
	if _, err := decodeHello([]byte("rdma-ping-0")); err == nil {
		t.Error("foreign private data accepted")
	}
}

func TestSamples(t *testing.T) {
	var s samples
	if s.latency() != nil {
		t.Fatal("latency of nothing")
	}
	for i := 1; i <= 1000; i++ {
		s.add(time.Duration(i))
	}
	l := s.latency()
	if l.Min != 1 || l.Median != 501 || l.P99 != 991 || l.Max != 1000 || l.Mean != 500 {
		t.Fatalf("%+v", *l)
	}
	count := int64(0)
	for i, b := range l.Histogram {
		if i > 0 && b.Least() != l.Histogram[i-1].Most+1 || b.Count == 0 {
			t.Errorf("bucket %d: %+v", i, b)
		}
		count += b.Count
	}
	// 1 to 15, then eight buckets from 16 on, from 32 on and so forth.
	if n := len(l.Histogram); count != 1000 || n != 15+6*8 || l.Histogram[15] != (Bucket{17, 2}) || l.Histogram[n-1] != (Bucket{1023, 41}) {
		t.Errorf("%d values in %d buckets: %+v", count, n, l.Histogram)
	}
}

// However long a test runs, its timeline has enough points, and no more.
func TestTimeline(t *testing.T) {
	for _, ms := range []int{1, 50, 127, 128, 129, 100_000} {
		line := newTimeline()
		for i := range 4 * ms {
			line.note(Progress{Elapsed: time.Duration(i) * 250 * time.Microsecond, Messages: int64(i)})
		}
		line.finish(Progress{Elapsed: time.Duration(ms) * time.Millisecond, Messages: 4 * int64(ms)})
		n := len(line.points)
		if want := min(ms, timelineMost/2); n < want || n > timelineMost {
			t.Errorf("%d ms: %d points, want %d to %d", ms, n, want, timelineMost)
		}
		for i, p := range line.points {
			if p.Messages != 4*int64(p.Elapsed/time.Millisecond) || i > 0 && p.Elapsed <= line.points[i-1].Elapsed {
				t.Errorf("%d ms: point %d is %+v", ms, i, p)
			}
		}
		if last := line.points[n-1]; last.Elapsed != time.Duration(ms)*time.Millisecond {
			t.Errorf("%d ms: the last point is %+v", ms, last)
		}
	}
}

func TestReportJSON(t *testing.T) {
	r := Report{Op: perfconf.WriteBW, Bytes: 1e9, Messages: 10, Elapsed: time.Second}
	r.finish()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"gbps":8`, `"messages_per_second":10`, `"elapsed_ns":1000000000`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %s", b, want)
		}
	}
}

// FuzzHello: a peer asks for any job.
func FuzzHello(f *testing.F) {
	f.Add((&hello{Op: perfconf.WriteBW, Size: 8, Iters: 1, QPs: 2, QP: 1, Depth: 1}).encode())
	f.Add((&hello{Op: perfconf.Verify, QPs: 1, Depth: 1, Sizes: []int{8, 1000}}).encode())
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil {
			j := h.job()
			if err := j.Validate(); err != nil || h.QP < 0 || h.QP >= h.QPs {
				t.Fatalf("accepted %x: %v", b, err)
			}
		}
	})
}
