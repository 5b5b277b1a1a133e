// Package perfconf describes RDMA workloads: what each does, and the limits and
// defaults of its settings.
package perfconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tapir/nic/verbs"
)

// Op names a workload.
type Op string

const (
	WriteBW  Op = "write-bw"  // RDMA Writes, as many in flight as Depth allows
	ReadBW   Op = "read-bw"   // RDMA Reads
	SendBW   Op = "send-bw"   // Sends, paced by the receiver's credits
	WriteLat Op = "write-lat" // RDMA Write ping-pong, both sides polling memory
	SendLat  Op = "send-lat"  // Send ping-pong
	Verify   Op = "verify"    // each operation once per size, target memory checked by SHA-256
	Rping    Op = "rping"     // the protocol of librdmacm's rping, with any peer that speaks it
)

// Ops lists every workload.
var Ops = []Op{WriteBW, ReadBW, SendBW, WriteLat, SendLat, Verify, Rping}

// The defaults of rping.
const (
	RpingPort  = 7174
	RpingIters = 10
	RpingSize  = 64

	// RpingMaxSize bounds a ping, as rping does.
	RpingMaxSize = 65535
)

// Transports are the RDMA protocols that a job can ask for.
var Transports = []string{verbs.IWARP.String(), verbs.RoCE.String()}

// CheckTransport says what is wrong with a job's transport.
func CheckTransport(t string) error {
	if t != "" && !slices.Contains(Transports, t) {
		return fmt.Errorf("transport %q: use one of %s", t, strings.Join(Transports, ", "))
	}
	return nil
}

// Speaks fails unless a NIC with that identity has the transport that a job asks for.
func Speaks(transport string, id verbs.Identity) error {
	if is := id.Personality.String(); transport != "" && is != transport {
		return fmt.Errorf("%s has personality %s, not %s: start it with --personality %[3]s, or choose another NIC",
			id.Name, is, transport)
	}
	return nil
}

// IsLatency tells whether the workload is a ping-pong.
func (o Op) IsLatency() bool { return o == WriteLat || o == SendLat }

// Defaults, as perftest has them.
const (
	DefaultPort  = 18515
	DefaultIters = 1000
	DefaultDepth = 128

	defaultSizeBW  = 65536
	defaultSizeLat = 2
)

// Limits of a job.
const (
	MaxSize  = 1 << 30
	MaxQPs   = 1024
	MaxDepth = 8192
	MaxIters = 1 << 40
)

// VerifySizes are the message sizes of Verify unless the job names others.
var VerifySizes = []int{8, 4096, 16 << 20}

// Job describes one side of a workload. The client's parameters win: a
// server takes them from the client's private data.
type Job struct {
	Op Op `json:"op"`
	// Remote is the server's address; the zero value makes this side the server.
	Remote netip.Addr `json:"remote,omitzero"`
	// Port is the server's TCP port.
	Port uint16 `json:"port,omitempty"`
	// Size is the message size in bytes.
	Size int `json:"size,omitempty"`
	// Iters is the number of messages per queue pair. Exclusive with Duration.
	Iters int64 `json:"iters,omitempty"`
	// Duration, if positive, runs the test for that long instead.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// QPs is the number of queue pairs.
	QPs int `json:"qps,omitempty"`
	// Depth is the number of outstanding messages per queue pair.
	Depth int `json:"depth,omitempty"`
	// Sizes are the message sizes of Verify.
	Sizes []int `json:"sizes,omitempty"`
	// SL is the service level of the client's connections, which their answers have, too: 0
	// to 7. iWARP has none.
	SL uint8 `json:"sl,omitempty"`
	// Transport, if not empty, is what the NIC must speak, one of Transports.
	Transport string `json:"transport,omitempty"`
}

// Serves tells whether the job is the server side.
func (j *Job) Serves() bool { return !j.Remote.IsValid() }

// Server is the server's side of a client's job: what it does, the client tells
// it.
func (j *Job) Server() Job { return Job{Op: j.Op, Port: j.Port, Transport: j.Transport}.WithDefaults() }

// WithDefaults fills what the caller left zero.
func (j Job) WithDefaults() Job {
	if j.Op == Rping {
		return j.withRpingDefaults()
	}
	size := defaultSizeBW
	if j.Op.IsLatency() {
		size = defaultSizeLat
	}
	if j.Duration == 0 {
		j.Iters = cmp.Or(j.Iters, DefaultIters)
	}
	j.Port, j.Size = cmp.Or(j.Port, DefaultPort), cmp.Or(j.Size, size)
	j.QPs, j.Depth = cmp.Or(j.QPs, 1), cmp.Or(j.Depth, DefaultDepth)
	if j.Op == Verify && len(j.Sizes) == 0 {
		j.Sizes = VerifySizes
	}
	return j
}

func (j Job) withRpingDefaults() Job {
	size := RpingSize
	if j.Serves() {
		size = RpingMaxSize // the client decides
	}
	j.Port, j.Size, j.Iters = cmp.Or(j.Port, RpingPort), cmp.Or(j.Size, size), cmp.Or(j.Iters, RpingIters)
	j.QPs, j.Depth = 1, 1
	return j
}

// Complete fills what is left and says what is wrong. With the address of the
// serving NIC the job is a client's.
func (j *Job) Complete(server string) (err error) {
	if server != "" {
		if j.Remote, err = netip.ParseAddr(server); err != nil {
			return fmt.Errorf("%q is no IP address: give the address of the serving NIC", server)
		}
	}
	*j = j.WithDefaults()
	return j.Validate()
}

// Validate says what is wrong with a job whose defaults are filled.
func (j *Job) Validate() error {
	known := false
	names := make([]string, len(Ops))
	for i, op := range Ops {
		known = known || op == j.Op
		names[i] = string(op)
	}
	switch {
	case !known:
		return fmt.Errorf("unknown test %q: use one of %s", j.Op, strings.Join(names, ", "))
	case j.Iters < 0 || j.Iters > MaxIters:
		return fmt.Errorf("iterations %d: want 1 to %d", j.Iters, int64(MaxIters))
	case j.Duration < 0:
		return fmt.Errorf("duration %v: want a positive time", j.Duration)
	case j.Iters > 0 && j.Duration > 0:
		return fmt.Errorf("iterations (-n) and duration (-D) exclude each other")
	case j.QPs < 1 || j.QPs > MaxQPs:
		return fmt.Errorf("queue pairs %d: want 1 to %d", j.QPs, MaxQPs)
	case j.Depth < 1 || j.Depth > MaxDepth:
		return fmt.Errorf("tx depth %d: want 1 to %d", j.Depth, MaxDepth)
	case j.SL > 7:
		return fmt.Errorf("service level %d: want 0 to 7", j.SL)
	case j.Op == Rping && j.Size > RpingMaxSize:
		return fmt.Errorf("ping size %d: want at most %d bytes", j.Size, RpingMaxSize)
	case j.Op == Verify && len(j.Sizes) == 0:
		return fmt.Errorf("%s without message sizes", j.Op)
	case (j.Op.IsLatency() || j.Op == Verify) && j.QPs != 1:
		return fmt.Errorf("%s runs on one queue pair, not %d", j.Op, j.QPs)
	}
	for _, size := range append([]int{j.Size}, j.Sizes...) {
		if size < 1 || size > MaxSize {
			return fmt.Errorf("message size %d: want 1 to %d bytes", size, MaxSize)
		}
	}
	return CheckTransport(j.Transport)
}
