package iscsi

import (
	"tapir/nic/fastlinq/storage"
	"tapir/nic/toe"
	"tapir/wire/ether"
)

// Codes that the firmware returns.
const (
	OK           = 0
	GeneralError = 1
	BadQueue     = 2 // an address is not that of a queue of the kind and size
	BadState     = 3 // the connection is in another state
	NoTCP        = 4 // the TCP engine cannot take the connection
)

// Init is the data of INIT_FUNC.
type Init struct {
	Params Params
	Global uint64 // glbl_q_params_addr: CQ 0, RQ 0, CmdQ 0, CQ 1, ...
}

// Offload is the data of OFFLOAD_CONN: an established connection.
type Offload struct {
	SQ, UHQ uint64 // addresses
	Queue   int    // default_cq
	TCB     *toe.TCB
	Upper   toe.Handler // the stream's other end
}

// Update is the data of UPDATE_CONN: what the login has agreed on.
type Update struct {
	Flags                        Flags
	MaxSeqSize, MaxRecv, MaxSend int // octets
	FirstSeq                     int
	ExpStatSN                    uint32
}

// Flags are what sides have agreed on.
type Flags uint8

// The flags.
const (
	HeaderDigest  Flags = 1
	DataDigest    Flags = 2
	InitialR2T    Flags = 4
	ImmediateData Flags = 8
)

// Terminate is the data of TERMINATION_CONN. The firmware fills in Info, the state of TCP.
type Terminate struct {
	Abortive bool
	Info     toe.Info
}

// Stats are the counters of a connection.
type Stats struct {
	RxBytes, TxBytes, RxPDUs, TxPDUs uint64 // octets of the stream
	RQFull, CmdQFull, CQFull         uint64
}

// Firmware is what of a function's firmware serves iSCSI.
type Firmware struct {
	// Context is the memory of an acquired connection id; nil: there is none.
	Context func(cid int) []byte
	// TCP has the TCP engine take a connection over.
	TCP func(t *toe.TCB, h toe.Handler) (*toe.Conn, error)
	// Station has what a connection sends go to a station.
	Station func(c *toe.Conn, a ether.Addr)
	// Notify tells that a completion queue has something, Event tells of a connection.
	Notify func(queue int)
	Event  func(e Event, code uint8, cid int)
	Memory *storage.Memory

	params *Params // nil: not started
	ends   map[int]*endpoint
	total  Stats // of connections that are gone
}

// States of a connection, the first octet of its context.
const (
	ctxIdle = iota
	ctxOffloaded
	ctxUpdated
	ctxTerminating
)

// Reset is the firmware's when the function stops: iSCSI has to be started again.
func (f *Firmware) Reset() { f.params, f.ends = nil, nil }

// Execute does a ramrod.
func (f *Firmware) Execute(c Command, cid int, data any) (code uint8) {
	if c == InitFunc {
		if d, ok := data.(*Init); ok && f.params == nil {
			return f.start(d)
		}
		return GeneralError
	}
	if f.params == nil {
		return GeneralError
	}
	if c == DestroyFunc {
		if len(f.ends) > 0 {
			return BadState
		}
		f.Reset()
		return OK
	}
	ctx := f.Context(cid)
	if ctx == nil {
		return GeneralError
	}
	if c == OffloadConn {
		if d, ok := data.(*Offload); ok && ctx[0] == ctxIdle {
			return f.offload(cid, ctx, d)
		}
		return BadState
	}
	if e := f.ends[cid]; e != nil {
		return e.execute(c, ctx, data)
	}
	return BadState
}

// start takes the queues of the function, in their order.
func (f *Firmware) start(d *Init) uint8 {
	if !f.Memory.TakeQueues(d.Global, &d.Params.Params) {
		return BadQueue
	}
	f.params, f.ends = &d.Params, map[int]*endpoint{}
	return OK
}

// offload takes a connection over.
func (f *Firmware) offload(cid int, ctx []byte, d *Offload) uint8 {
	e := &endpoint{f: f, cid: cid, upper: d.Upper, queue: d.Queue,
		sq:  f.Memory.Ring(d.SQ, storage.SQ, f.params.SQPages*storage.PerPage),
		uhq: f.Memory.Ring(d.UHQ, storage.UHQ, f.params.UHQPages*storage.PerPage)}
	if e.sq == nil || e.uhq == nil || d.Queue < 0 || d.Queue >= f.params.Queues {
		return BadQueue
	}
	var err error
	if e.tcp, err = f.TCP(d.TCB, e); err != nil {
		return NoTCP
	}
	ctx[0] = ctxOffloaded
	f.ends[cid] = e
	f.Event(AsyncConnect, OK, cid)
	return OK
}

// execute does a ramrod about a connection.
func (e *endpoint) execute(c Command, ctx []byte, data any) uint8 {
	switch d := data.(type) {
	case *Update:
		if c != UpdateConn || ctx[0] != ctxOffloaded && ctx[0] != ctxUpdated {
			return BadState
		}
		ctx[0], ctx[1] = ctxUpdated, byte(d.Flags)
	case *Terminate:
		if c != Termination || ctx[0] == ctxTerminating {
			return BadState
		}
		ctx[0] = ctxTerminating
		d.Info = e.tcp.Info()
		if d.Abortive {
			e.tcp.Abort()
		} else {
			e.tcp.CloseBoth()
		}
	case *ether.Addr: // of the station that leads to the peer
		if c != MACUpdate || ctx[0] == ctxTerminating {
			return BadState
		}
		e.f.Station(e.tcp, *d)
	case *Stats:
		if c != ConnStats {
			return BadState
		}
		*d = e.stats
	case *int: // how many PDUs ClearSQ has taken
		if c != ClearSQ {
			return BadState
		}
		*d = e.sq.Clear()
	default:
		return GeneralError
	}
	return OK
}
