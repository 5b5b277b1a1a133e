package verify

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/schema"
)

var _ = schema.Add("verify", 1, Report{})

// Op is the name of the workload in a job; "verify" is one of package perf.
const Op = "verify-steps"

// Defaults.
const (
	DefaultPort     = 7174
	DefaultReads    = 16
	DefaultReceives = 16
	DefaultRecvKiB  = 64
	DefaultPatience = 20 * time.Second

	// None as IRD or ORD of a job stands for no Reads.
	None = -1

	maxConns    = 64
	maxMessages = 4096 // that a report lists of a connection
	maxPrivate  = 512
	maxCount    = 500
)

// Job describes one side.
type Job struct {
	Op string `json:"op"` // "verify-steps"
	// Remote is the server's address; the zero value makes this side the server.
	Remote netip.Addr `json:"remote,omitzero"`
	Port   uint16     `json:"port,omitempty"` // TCP port of the server
	// Transport, if not empty, is what the NIC must speak, iwarp or roce.
	Transport string `json:"transport,omitempty"`
	// Conns is how many connections a client makes at a time, and after how
	// many a server ends; 0 for a server: only when it is cancelled.
	Conns int `json:"conns,omitempty"`
	// IRD and ORD are the Reads to serve and to issue. 0: a client asks for 16,
	// a server gives what it is asked for.
	IRD int `json:"ird,omitempty"`
	ORD int `json:"ord,omitempty"`

	// Of a client only.
	Steps    []string      `json:"steps,omitempty"`
	Private  int           `json:"private,omitempty"`   // octets of private data, at least 8
	Reject   bool          `json:"reject,omitempty"`    // ask to be rejected
	SRQ      bool          `json:"srq,omitempty"`       // the server shall use a shared receive queue
	Receives int           `json:"receives,omitempty"`  // that the server posts
	RecvKiB  int           `json:"recv_kib,omitempty"`  // size of each
	Patience time.Duration `json:"patience,omitempty"`  // with each step
	Settle   time.Duration `json:"settle_ns,omitempty"` // before the first step
}

// Serves tells whether the job is the server side.
func (j *Job) Serves() bool { return !j.Remote.IsValid() }

// WithDefaults fills what the caller left zero.
func (j Job) WithDefaults() Job {
	j.Op = Op
	j.Port = cmp.Or(j.Port, DefaultPort)
	if j.Serves() {
		return j
	}
	j.Conns, j.IRD, j.ORD = cmp.Or(j.Conns, 1), cmp.Or(j.IRD, DefaultReads), cmp.Or(j.ORD, DefaultReads)
	j.Private, j.Receives = cmp.Or(j.Private, askLen), cmp.Or(j.Receives, DefaultReceives)
	j.RecvKiB, j.Patience = cmp.Or(j.RecvKiB, DefaultRecvKiB), cmp.Or(j.Patience, DefaultPatience)
	return j
}

// Validate says what is wrong with a job whose defaults are filled.
func (j *Job) Validate() error {
	if err := perfconf.CheckTransport(j.Transport); err != nil {
		return err
	}
	for _, f := range []struct {
		name         string
		v, low, high int
		client       bool
	}{
		{"connections", j.Conns, 0, maxConns, false},
		{"IRD", j.IRD, None, 1024, false}, {"ORD", j.ORD, None, 1024, false},
		{"private data", j.Private, askLen, maxPrivate, true},
		{"receives", j.Receives, 1, 255, true}, {"KiB of a receive", j.RecvKiB, 1, half >> 10, true},
	} {
		if !(f.client && j.Serves()) && (f.v < f.low || f.v > f.high) {
			return fmt.Errorf("%s %d: want %d to %d", f.name, f.v, f.low, f.high)
		}
	}
	if j.Serves() {
		if len(j.Steps) > 0 {
			return fmt.Errorf("steps are the client's: the server has none")
		}
		return nil
	}
	if len(j.Steps) == 0 && !j.Reject {
		return fmt.Errorf("no step: give at least one, such as write:4096")
	}
	for _, s := range j.Steps {
		if _, err := parseStep(s); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) ask() ask {
	a := ask{Magic: magic, Flags: flagKiB | flagAnswer, Receives: uint8(j.Receives), Size: uint16(j.RecvKiB)}
	if j.Reject {
		a.Flags |= flagReject
	}
	if j.SRQ {
		a.Flags |= flagSRQ
	}
	return a
}

// step is one line of a client's work.
type step struct {
	name        string
	size, count int
}

func (s step) String() string { return fmt.Sprintf("%s:%d", s.name, s.size) }

var stepNames = strings.Fields("write writei burst read readn send sendi echo sendse sendinv sendseinv " +
	"wbad wkey wbounds wlow wro wpd wwo wwrap rbad rkey rbounds rlow rwo rpd sleep gone abort")

func parseStep(s string) (step, error) {
	f := strings.Split(s, ":")
	t := step{f[0], 64, 1}
	if !slices.Contains(stepNames, t.name) {
		return t, fmt.Errorf("unknown step %q: want one of %s", f[0], strings.Join(stepNames, ", "))
	}
	var err error
	for i, to := range []*int{&t.size, &t.count} {
		if len(f) > i+1 && err == nil {
			*to, err = strconv.Atoi(f[i+1])
		}
	}
	if err != nil || len(f) > 3 || t.size < 0 || t.size > half || t.count < 1 || t.count > maxCount {
		return t, fmt.Errorf("step %q: want NAME[:SIZE[:COUNT]], up to %d octets and %d times", s, half, maxCount)
	}
	return t, nil
}

// Report is the result of one side.
type Report struct {
	Role  string       `json:"role"` // client or server
	Conns []ConnReport `json:"connections"`
	// Omitted is how many earlier connections a server had: the last 64 are listed.
	Omitted int    `json:"omitted,omitempty"`
	Error   string `json:"error,omitempty"` // what failed first
}

// ConnReport is what became of one connection.
type ConnReport struct {
	Remote     netip.AddrPort `json:"remote"`
	IRD        uint16         `json:"ird"`
	ORD        uint16         `json:"ord"`
	Private    int            `json:"private"`     // octets of the peer's private data
	PrivateSum uint32         `json:"private_sum"` // FNV-1a
	Rejected   string         `json:"rejected,omitempty"`
	Steps      []StepReport   `json:"steps,omitempty"`    // client
	Received   []Message      `json:"received,omitempty"` // server
	// Omitted is how many further Sends a server has received: the first 4096 are listed.
	Omitted int `json:"omitted,omitempty"`
	// End is why the connection ended or did not come about; empty: in order.
	End string `json:"end,omitempty"`
}

// StepReport is the outcome of a step.
type StepReport struct {
	Step    string        `json:"step"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Error   string        `json:"error,omitempty"` // empty: done and verified
}

// Message is a Send that a server has received.
type Message struct {
	Octets      uint32 `json:"octets"`
	Sum         uint32 `json:"sum"`
	Solicited   bool   `json:"solicited,omitempty"`
	Invalidated uint32 `json:"invalidated,omitempty"` // STag
}

// failed is the first thing that went wrong on a client's connection.
func (c *ConnReport) failed() string {
	for _, s := range c.Steps {
		if s.Error != "" {
			return fmt.Sprintf("step %s: %s", s.Step, s.Error)
		}
	}
	return c.End
}
