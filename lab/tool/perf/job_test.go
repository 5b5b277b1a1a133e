package perf

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/perfconf"
)

func TestHelloFitsPrivateData(t *testing.T) {
	h := hello{
		Version: 1, Op: perfconf.WriteLat, Size: perfconf.MaxSize, Iters: perfconf.MaxIters, Duration: 1 << 62, QPs: perfconf.MaxQPs, QP: perfconf.MaxQPs - 1, Depth: perfconf.MaxDepth,
		Seed: 1<<64 - 1, Region: region{STag: 1<<32 - 1, Addr: 1<<64 - 1, Len: 1<<64 - 1}, Sizes: []int{perfconf.MaxSize, perfconf.MaxSize, perfconf.MaxSize, perfconf.MaxSize},
	}
	if n := len(encode(h)); n > 508 {
		t.Fatalf("%d octets of private data; MPA takes 508", n)
	}
}

func TestDecodeHelloRefuses(t *testing.T) {
	good := hello{Version: helloVersion, Op: perfconf.WriteBW, Size: 8, Iters: 1, QPs: 2, QP: 1, Depth: 1}
	if _, err := decodeHello(encode(good)); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*hello){
		"version": func(h *hello) { h.Version = 9 },
		"op":      func(h *hello) { h.Op = "x" },
		"qp":      func(h *hello) { h.QP = 2 },
		"size":    func(h *hello) { h.Size = 0 },
		"sizes":   func(h *hello) { h.Op, h.QPs, h.QP = perfconf.Verify, 1, 0 },
		"qps":     func(h *hello) { h.Op, h.Sizes = perfconf.Verify, []int{8} },
	} {
		h := good
		spoil(&h)
		if _, err := decodeHello(encode(h)); err == nil {
			t.Errorf("%s: accepted %s", name, encode(h))
		}
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
	f.Add(encode(hello{Version: helloVersion, Op: perfconf.WriteBW, Size: 8, Iters: 1, QPs: 2, QP: 1, Depth: 1}))
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil {
			j := h.job()
			if err := j.Validate(); err != nil || h.QP < 0 || h.QP >= h.QPs {
				t.Fatalf("accepted %s: %v", b, err)
			}
		}
	})
}
