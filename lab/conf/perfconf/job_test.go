package perfconf

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestJobValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		job  Job
		want string // part of the error; empty: valid
	}{
		{"defaults", Job{Op: WriteBW}, ""},
		{"client", Job{Op: SendLat, Remote: netip.MustParseAddr("10.0.0.1"), Iters: 10}, ""},
		{"unknown", Job{Op: "atomic-bw"}, "unknown test"},
		{"both ends", Job{Op: WriteBW, Iters: 5, Duration: time.Second}, "exclude each other"},
		{"no size", Job{Op: WriteBW, Size: -1}, "message size -1"},
		{"huge", Job{Op: WriteBW, Size: MaxSize + 1}, "message size"},
		{"qps", Job{Op: WriteBW, QPs: MaxQPs + 1}, "queue pairs"},
		{"lat qps", Job{Op: WriteLat, QPs: 2}, "one queue pair"},
		{"verify qps", Job{Op: Verify, QPs: 2}, "one queue pair"},
		{"depth", Job{Op: WriteBW, Depth: -3}, "tx depth"},
		{"service level", Job{Op: WriteBW, SL: 8}, "service level 8: want 0 to 7"},
		{"iters", Job{Op: WriteBW, Iters: -1}, "iterations"},
		{"verify size", Job{Op: Verify, Sizes: []int{8, 0}}, "message size 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := c.job.WithDefaults()
			err := job.Validate()
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDefaultsAreThoseOfPerftest(t *testing.T) {
	if j := (Job{Op: WriteBW}).WithDefaults(); j.Size != 65536 || j.Depth != 128 || j.QPs != 1 || j.Port != 18515 {
		t.Errorf("bandwidth defaults %+v", j)
	}
	if j := (Job{Op: WriteLat}).WithDefaults(); j.Size != 2 {
		t.Errorf("latency size %d", j.Size)
	}
	if j := (Job{Op: WriteBW, Duration: time.Second}).WithDefaults(); j.Iters != 0 {
		t.Errorf("a timed test got %d iterations", j.Iters)
	}
}
