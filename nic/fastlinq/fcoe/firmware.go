package fcoe

import (
	"time"

	"tapir/nic/fastlinq/storage"
	"tapir/wire/ether"
	"tapir/wire/fc"
)

// Codes that the firmware returns.
const (
	OK           = 0
	GeneralError = 1
	BadQueue     = 2 // an address is not that of a queue of the kind and size
	BadState     = 3 // the connection is in another state
	BadPayload   = 4 // payloads are longer than the function's MTU allows
	BadPair      = 5 // another connection has the pair of identifiers
)

// Init is the data of INIT_FUNC.
type Init struct {
	Params Params
	Global uint64 // glbl_q_params_addr: CQ 0, RQ 0, CmdQ 0, CQ 1, ...
	Dummy  int    // dummy_icid, a connection id that no session gets
}

// Offload is the data of OFFLOAD_CONN: a session.
type Offload struct {
	SQ, SQCurr, SQNext uint64 // sq_pbl_addr, sq_curr_page_addr, sq_next_page_addr
	Queue              int    // def_q_idx
	Source, Dest       ether.Addr
	SID, DID           fc.ID
	TxPayload          int // tx_max_fc_pay_len, octets
	Payload            int // rx_max_fc_pay_len, octets
	EDTOV, RECTOV      time.Duration
	VLAN               uint16 // vlan_tag; 0: none
	MaxSeqs            int    // max_conc_seqs_c3
	send               *Queue
}

// Terminate is the data of TERMINATE_CONN. The firmware fills in what the connection has
// counted and how many elements of its send queue are thrown away.
type Terminate struct {
	Stats   Stats
	Flushed int
}

// Traffic counts frames of sessions: octets of Fibre Channel with its headers, and frames with
// data, FCP_XFER_RDY and others.
type Traffic struct{ Bytes, Data, Transfers, Others uint64 }

// Stats are the counters of a function or, without drops, a connection (fcoe_rx_stat,
// fcoe_tx_stat).
type Stats struct {
	Rx, Tx Traffic
	// Drops are silent ones, by reason.
	Drops [NumDrops]uint64
}

// Drop is why a frame is dropped silently.
type Drop uint8

// Reasons. DropTotal counts all, those with other reasons too.
const (
	DropCmdQFull Drop = iota
	DropRQFull
	DropCQFull
	DropCRC
	DropTask
	DropTotal
	NumDrops
)

var dropNames = [NumDrops]string{"cmdq_full", "rq_full", "cq_full", "crc_error", "task_invalid", "total"}

// String is the reason's name.
func (d Drop) String() string { return dropNames[d] }

// Firmware is what of a function's firmware serves FCoE.
type Firmware struct {
	// Context is the memory of an acquired connection id; nil: there is none.
	Context func(cid int) []byte
	// Notify tells that a completion queue has something, Event tells of a connection.
	Notify func(queue int)
	Event  func(e Event, code uint8, cid int)
	Memory *storage.Memory

	params  *Params // nil: not started
	ends    map[int]*endpoint
	pairs   map[pair]int // connections
	stats   Stats
	handles int // of sessions, ever
}

// pair are the identifiers of a session: the function's own, and the other.
type pair struct{ own, other fc.ID }

// endpoint is the firmware's half of a connection.
type endpoint struct {
	Offload
	sent  uint64 // the last element of the send queue that was taken
	stats Stats
}

// The first octet of a connection's context.
const (
	ctxIdle = iota
	ctxOffloaded
)

// Reset is the firmware's when the function stops: FCoE has to be started again.
func (f *Firmware) Reset() { f.params, f.ends, f.pairs = nil, nil, nil }

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
	switch d := data.(type) {
	case nil:
		if c != DestroyFunc {
			return GeneralError
		}
		if len(f.ends) > 0 {
			return BadState
		}
		f.Reset()
		return OK
	case *Stats:
		if c != StatFunc {
			return GeneralError
		}
		*d = f.stats
		return OK
	}
	ctx := f.Context(cid)
	if ctx == nil {
		return GeneralError
	}
	return f.connection(c, cid, ctx, data)
}

// connection does a ramrod about a connection.
func (f *Firmware) connection(c Command, cid int, ctx []byte, data any) uint8 {
	switch d := data.(type) {
	case *Offload:
		if c != OffloadConn || ctx[0] != ctxIdle {
			return BadState
		}
		return f.offload(cid, ctx, d)
	case *Terminate:
		e := f.ends[cid]
		if c != TerminateConn || e == nil {
			return BadState
		}
		d.Stats, d.Flushed = e.stats, e.send.Used()
		f.forget(cid)
		return OK
	}
	return GeneralError
}

// start takes the queues of the function, in their order.
func (f *Firmware) start(d *Init) uint8 {
	if !f.Memory.TakeQueues(d.Global, &d.Params.Params) {
		return BadQueue
	}
	if f.Context(d.Dummy) == nil {
		return GeneralError
	}
	f.params, f.ends, f.pairs, f.stats = &d.Params, map[int]*endpoint{}, map[pair]int{}, Stats{}
	return OK
}

// offload takes a session over.
func (f *Firmware) offload(cid int, ctx []byte, d *Offload) uint8 {
	p := pair{d.SID, d.DID}
	_, taken := f.pairs[p]
	switch {
	case d.send == nil || !fits(f.Memory, d, f.params.SQPages) || d.Queue < 0 || d.Queue >= f.params.Queues:
		return BadQueue
	case max(d.TxPayload, d.Payload) > f.params.MaxPayload():
		return BadPayload
	case taken:
		return BadPair
	}
	ctx[0] = ctxOffloaded
	f.ends[cid], f.pairs[p] = &endpoint{Offload: *d}, cid
	return OK
}

// forget ends a connection.
func (f *Firmware) forget(cid int) {
	if e := f.ends[cid]; e != nil {
		delete(f.ends, cid)
		delete(f.pairs, pair{e.SID, e.DID})
		clear(f.Context(cid)[:1])
	}
}

// Has tells whether the firmware has the session of two ports: the function's own, and the
// other.
func (f *Firmware) Has(own, other fc.ID) bool {
	_, ok := f.pairs[pair{own, other}]
	return ok
}

// Stats are the counters of the function, as they are now.
func (f *Firmware) Stats() *Stats { return &f.stats }

// dropped counts a frame that is.
func (f *Firmware) dropped(d Drop) {
	f.stats.Drops[d]++
	if d != DropTotal {
		f.stats.Drops[DropTotal]++
	}
}

// traffic counts a frame of a session.
func (f *Firmware) traffic(e *endpoint, r fc.RCtl, octets int, sent bool) {
	for _, s := range [...]*Stats{&f.stats, &e.stats} {
		t := &s.Rx
		if sent {
			t = &s.Tx
		}
		t.Bytes += uint64(fc.HeaderLen + octets)
		switch r {
		case fc.SolicitedData:
			t.Data++
		case fc.DataDescriptor:
			t.Transfers++
		default:
			t.Others++
		}
	}
}
