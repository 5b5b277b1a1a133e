package perf

import (
	"slices"
	"time"
)

// Progress is what a running test tells about itself.
type Progress struct {
	Elapsed  time.Duration `json:"elapsed_ns"`
	Messages int64         `json:"messages"`
	Bytes    int64         `json:"bytes"`
	// Data is what one ping of rping carried.
	Data string `json:"data,omitempty"`
}

// Gbps is the rate so far in gigabits of payload per second.
func (p Progress) Gbps() float64 { return gbps(p.Bytes, p.Elapsed) }

// Report is the result of one side of a test.
type Report struct {
	Op       Op            `json:"op"`
	Role     string        `json:"role"` // client or server
	Size     int           `json:"size,omitempty"`
	QPs      int           `json:"qps"`
	Depth    int           `json:"depth"`
	Messages int64         `json:"messages"`
	Bytes    int64         `json:"bytes"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Gbps     float64       `json:"gbps"`
	MsgRate  float64       `json:"messages_per_second"`
	Latency  *Latency      `json:"latency,omitempty"`
	Checks   []Check       `json:"checks,omitempty"`
}

// Latency is the distribution of half round trips.
type Latency struct {
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Mean   time.Duration `json:"mean_ns"`
	P99    time.Duration `json:"p99_ns"`
	P999   time.Duration `json:"p999_ns"`
	Max    time.Duration `json:"max_ns"`
}

// Check is one operation of Verify.
type Check struct {
	Operation string        `json:"operation"` // Send/Recv, RDMA Write, RDMA Read
	Size      int           `json:"size"`
	Elapsed   time.Duration `json:"elapsed_ns"` // from post to completion
	SHA256    string        `json:"sha256"`     // of the target memory, as its owner computed it
	Want      string        `json:"want"`       // of the source memory
	Verified  bool          `json:"verified"`
}

// Gbps is the operation's rate in gigabits of payload per second.
func (c Check) Gbps() float64 { return gbps(int64(c.Size), c.Elapsed) }

func gbps(bytes int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) * 8 / float64(d.Nanoseconds())
}

// finish derives the rates.
func (r *Report) finish() {
	r.Gbps = gbps(r.Bytes, r.Elapsed)
	if r.Elapsed > 0 {
		r.MsgRate = float64(r.Messages) / r.Elapsed.Seconds()
	}
}

// maxSamples bounds the memory of a long latency test; beyond it every
// further sample replaces an old one in turn.
const maxSamples = 1 << 20

// samples collects half round trips.
type samples struct {
	kept []time.Duration
	next int
	n    int64
	sum  time.Duration
	max  time.Duration
}

func (s *samples) add(d time.Duration) {
	s.n++
	s.sum += d
	s.max = max(s.max, d)
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, d)
		return
	}
	s.kept[s.next] = d
	s.next = (s.next + 1) % maxSamples
}

func (s *samples) latency() *Latency {
	if s.n == 0 {
		return nil
	}
	slices.Sort(s.kept)
	at := func(permille int) time.Duration {
		return s.kept[min(len(s.kept)-1, len(s.kept)*permille/1000)]
	}
	return &Latency{
		Min: s.kept[0], Median: at(500), Mean: s.sum / time.Duration(s.n),
		P99: at(990), P999: at(999), Max: s.max,
	}
}
