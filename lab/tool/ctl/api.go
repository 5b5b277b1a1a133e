// Package ctl is the way into a running NIC from another process: HTTP and
// JSON over one Unix socket per NIC, with server-sent events for what takes
// long and a pcapng stream for captures. Only the user who runs the NIC, and
// root, may use it.
//
//	GET    /v1/version?control=1   first on every connection
//	GET    /v1/show/{kind}         an object, or an array of flat objects
//	GET    /v1/follow/{kind}       events or log: what is new, as it happens, ?since=
//	POST   /v1/set                 [{"name", "value"}...] in, the table of parameters out
//	POST   /v1/perf                a job in, events progress... and result or error out
//	GET    /v1/capture             ?snaplen= &bulk= &compact=1 &buffer= &count= &raw=1 &host=1 &phc=1 &log= &context=0
//	DELETE /v1/capture/{id}        ends that stream with a complete file
//	POST   /v1/stop                ends the NIC as an interrupt does
//	POST   /v1/do/{command}        what only some NICs can do: an Ethernet Manager's reload,
//	                               the hardware clock's phc.gettime, the selftest, flashing
//	GET    /v1/vf/{vf}/channel     becomes the channel of a VF's driver (lab/tool/vfsocket),
//	                               with Upgrade: tapir-vf
//	GET    /metrics                for Prometheus, without the handshake
//
// An error is {"error": what and where, "remedy": how to mend it}.
//
// A first request by hand:
//
//	curl --unix-socket /run/tapir/nic0.sock http://nic/v1/version?control=1 http://nic/v1/show/qp
package ctl

import (
	"context"
	"encoding/json"
	"slices"

	"tapir/lab/tool/capture"
)

// Version is the control protocol's version. Client and server must agree.
const Version = 1

// Kinds are the tables that Show knows, in the order of the help text: of any
// NIC, of an RDMA NIC, of an Omni-Path HFI, of an Ethernet Manager.
var Kinds = []string{"nic", "device", "qp", "cq", "mr", "mw", "cep", "gid", "ah", "resource", "clients", "neigh",
	"irq", "stats",
	"counters", "params", "events", "log", "link", "mfw", "nvm", "tlv", "ll2", "vf", "lldp", "dcb", "iscsi", "nvme",
	"fcoe", "fcf",
	"vport", "queue", "mac", "ethtool", "vesw", "port", "member", "traffic", "congestion", "switch", "audit", "wire"}

// Recorded are the kinds of tables that the record of a lab has over its time.
var Recorded = []string{"nic", "link", "queue", "irq", "qp", "cep", "cq", "mr", "mw", "neigh", "counters",
	"port", "vport", "vesw", "member", "mac", "fcf"}

// KnownKind tells whether kind is one of Kinds.
func KnownKind(kind string) bool { return slices.Contains(Kinds, kind) }

// Followed tells whether kind is a list that grows, which Follow knows.
func Followed(kind string) bool { return kind == "events" || kind == "log" }

// NIC is what a server serves. All methods may be called from any goroutine.
type NIC interface {
	// Show returns the table of that kind, one of Kinds, ready for
	// encoding/json: a slice of flat structs, or one struct for "nic".
	Show(kind string) (any, error)
	// Follow returns what of "events" or "log" is kept from number since on,
	// a slice of flat structs, and the number of the next to come.
	Follow(kind string, since uint64) (list any, next uint64, err error)
	// Set changes parameters, all or none.
	Set(settings []Setting) error
	// Perf starts a job. Neither callback may block. done is called exactly
	// once unless cancel is called first; a cancelled job may skip it.
	Perf(job json.RawMessage, progress func(any), done func(any, error)) (cancel func(), err error)
	// CaptureInfo describes the NIC for the head of a capture file.
	CaptureInfo() capture.Info
	// Attach adds s to the NIC's tracers, after the saved handshakes of live
	// connections if context is set, and calls s.Live between the two. detach
	// returns when no further call to s can happen.
	Attach(s *capture.Session, context bool) (detach func(), err error)
	// Stop begins the NIC's orderly end and returns at once.
	Stop()
}

// Commander is a NIC that can do more.
type Commander interface {
	// Command runs a command of that name; args and the answer are JSON.
	Command(ctx context.Context, name string, args json.RawMessage) (any, error)
}

// CannotCapture is a NIC that makes no captures: Attach is never called.
type CannotCapture interface {
	// CannotCapture says why, and what does.
	CannotCapture() error
}

// metricsPath is where Prometheus looks.
const metricsPath = "/metrics"

// Setting is one value for a named parameter.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Was is the value that the new one was made from; if another client has
	// changed it meanwhile, nothing is set: see IsConflict. Empty: any value.
	Was string `json:"was,omitempty"`
}

// Hello answers the version handshake.
type Hello struct {
	Control int    `json:"control"` // the server's Version
	Version string `json:"version"` // of the server's tapir binary
	Name    string `json:"name"`
	PID     int    `json:"pid"`
}

// Error is what went wrong and how to mend it.
type Error struct {
	What   string `json:"error"`
	Remedy string `json:"remedy,omitempty"`
	Errno  string `json:"errno,omitempty"` // what a driver would return, such as EBUSY
	Status int    `json:"-"`               // HTTP status; 0 on errors found by the client
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.What
	}
	return e.What + ": " + e.Remedy
}
