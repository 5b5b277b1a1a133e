package perf

import (
	"fmt"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/schema"
)

var _ = schema.Add("perf", 1, Report{})

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
	Op       perfconf.Op   `json:"op"`
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
	// Progress is what had been done by when, at most timelineMost points; the
	// last is the end.
	Progress []Progress `json:"progress,omitempty"`
}

// Latency is the distribution of half round trips.
type Latency struct {
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Mean   time.Duration `json:"mean_ns"`
	P99    time.Duration `json:"p99_ns"`
	P999   time.Duration `json:"p999_ns"`
	Max    time.Duration `json:"max_ns"`
	// Histogram has the buckets that are not empty, eight for each power of two.
	Histogram []Bucket `json:"histogram,omitempty"`
}

// Bucket counts the values up to Most that the bucket before does not.
type Bucket struct {
	Most  time.Duration `json:"most_ns"`
	Count int64         `json:"count"`
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

// Together is the report of clients that ran side by side: what they moved in
// the time that the slowest took. Distributions are those of a single one.
func Together(reports []Report) Report {
	sum := reports[0]
	for _, r := range reports[1:] {
		sum.QPs += r.QPs
		sum.Messages += r.Messages
		sum.Bytes += r.Bytes
		sum.Elapsed = max(sum.Elapsed, r.Elapsed)
		sum.Checks = append(sum.Checks, r.Checks...)
	}
	if len(reports) > 1 {
		sum.Latency, sum.Progress = nil, nil
		sum.finish()
	}
	return sum
}

// Verdict says which operation of Verify moved other data than it should.
func (r *Report) Verdict() error {
	for _, c := range r.Checks {
		if !c.Verified {
			return fmt.Errorf("%s of %d octets: the target memory differs", c.Operation, c.Size)
		}
	}
	return nil
}
