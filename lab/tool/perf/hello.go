package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tapir/lab/conf/perfconf"
)

// helloVersion is the version of the exchange below.
const helloVersion = 1

// hello travels in the client's private data and tells the server the job.
type hello struct {
	Version  int           `json:"v"`
	Op       perfconf.Op   `json:"op"`
	Size     int           `json:"size"`
	Iters    int64         `json:"iters,omitempty"`
	Duration time.Duration `json:"dur,omitempty"`
	QPs      int           `json:"qps"`
	QP       int           `json:"qp"` // which of them, from 0
	Depth    int           `json:"depth"`
	Sizes    []int         `json:"sizes,omitempty"`
	Seed     uint64        `json:"seed,omitempty"` // of the data that Verify moves
	Region   region        `json:"region"`
}

// welcome is the server's answer: where the client may write and read. A
// refusal carries its reason instead.
type welcome struct {
	Region region `json:"region"`
	Refuse string `json:"refuse,omitempty"`
}

// region is a registered region as its peer sees it.
type region struct {
	STag uint32 `json:"stag"`
	Addr uint64 `json:"addr"`
	Len  uint64 `json:"len"`
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of numbers and strings cannot fail
	}
	return b
}

func decodeHello(b []byte) (h hello, err error) {
	if err := json.Unmarshal(b, &h); err != nil {
		return h, errors.New("the private data is no hello of this test")
	}
	if h.Version != helloVersion {
		return h, fmt.Errorf("the client speaks version %d of the test, this side %d", h.Version, helloVersion)
	}
	j := h.job()
	if err := j.Validate(); err != nil {
		return h, err
	}
	if h.QP < 0 || h.QP >= h.QPs {
		return h, fmt.Errorf("queue pair %d of %d", h.QP, h.QPs)
	}
	return h, nil
}

// job is what the hello asks for.
func (h *hello) job() perfconf.Job {
	return perfconf.Job{Op: h.Op, Size: h.Size, Iters: h.Iters, Duration: h.Duration, QPs: h.QPs, Depth: h.Depth,
		Sizes: h.Sizes}
}
