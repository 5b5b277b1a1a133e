package verbs

import (
	"cmp"

	"tapir/nic/msglog"
	"tapir/nic/secret"
	"tapir/wire/frame"
	"tapir/wire/roster"
)

// Limits bounds what a device gives out. Zero fields take the value of
// DefaultLimits.
type Limits struct {
	MaxQP, MaxCQ, MaxMR, MaxMW, MaxPD, MaxSRQ int
	MaxContext                                int // contexts open at a time: doorbell pages (DPI)
	MaxCNQ                                    int // completion notification queues
	MaxQPWR                                   int // work requests per send or receive queue
	MaxSRQWR                                  int
	MaxCQE                                    int // entries per completion queue
	MaxSGE                                    int // elements per Send, Write or receive
	MaxSGERead                                int // elements per RDMA Read
	MaxPages                                  int // pages of a fast-registered region
	MaxInline                                 int // octets
	MaxIRD                                    int // inbound RDMA Reads per queue pair
	MaxORD                                    int // outbound RDMA Reads per queue pair
	MaxMsg                                    uint32
	// With a transport that is a Fabric only:
	MaxAH, MaxXRCD       int
	MaxMcast, MaxMcastQP int // multicast groups, and queue pairs attached to each
}

// DefaultLimits are the limits that the Linux siw driver reports, with more
// room for inline data, Reads of several elements, fast registration of more
// pages, and memory windows.
func DefaultLimits() Limits {
	return Limits{
		MaxQP: 102400, MaxCQ: 102400, MaxMR: 1024000, MaxMW: 1024000, MaxPD: 102400, MaxSRQ: 102400,
		MaxContext: 1024, MaxCNQ: 8,
		MaxQPWR: 32768, MaxSRQWR: 327680, MaxCQE: 3276800, MaxSGE: 6, MaxSGERead: 6,
		MaxPages: 1024, MaxInline: 256, MaxIRD: 128, MaxORD: 128, MaxMsg: 1<<32 - 1,
		MaxAH: 102400, MaxXRCD: 1024, MaxMcast: 8192, MaxMcastQP: 56,
	}
}

func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	for _, f := range []struct{ have, def *int }{
		{&l.MaxQP, &def.MaxQP}, {&l.MaxCQ, &def.MaxCQ}, {&l.MaxMR, &def.MaxMR}, {&l.MaxMW, &def.MaxMW},
		{&l.MaxPD, &def.MaxPD}, {&l.MaxSRQ, &def.MaxSRQ}, {&l.MaxPages, &def.MaxPages},
		{&l.MaxContext, &def.MaxContext}, {&l.MaxCNQ, &def.MaxCNQ}, {&l.MaxQPWR, &def.MaxQPWR},
		{&l.MaxSRQWR, &def.MaxSRQWR}, {&l.MaxCQE, &def.MaxCQE}, {&l.MaxSGE, &def.MaxSGE},
		{&l.MaxSGERead, &def.MaxSGERead}, {&l.MaxInline, &def.MaxInline},
		{&l.MaxIRD, &def.MaxIRD}, {&l.MaxORD, &def.MaxORD}, {&l.MaxAH, &def.MaxAH}, {&l.MaxXRCD, &def.MaxXRCD},
		{&l.MaxMcast, &def.MaxMcast}, {&l.MaxMcastQP, &def.MaxMcastQP},
	} {
		*f.have = cmp.Or(*f.have, *f.def)
	}
	l.MaxMsg = cmp.Or(l.MaxMsg, def.MaxMsg)
	return l
}

// Device is the RDMA side of one NIC.
type Device struct {
	Port
	dispatcher
	*fabric // nil: the transport is none

	limits    Limits
	transport Transport
	conns     Contexts
	ops       OpSet
	async     func(AsyncEvent, frame.Time)
	watch     func(AsyncEvent)
	log       *msglog.Log

	writes   writeBatch
	ahead    readAhead
	regions  map[uint32]*Region // by STag index
	lookedUp *Region            // the one last: mostly the next one, too
	stags    secret.Source
	nextAddr uint64
	turns    uint64 // registrations and bindings

	identity Identity
	state    deviceState
	cnqs     []uint64 // notifications of each
	notified [][]*CQ  // what each CNQ holds
	raise    func(cnq int)
	raised   [NumEventTypes]uint64

	tasks    int // of memory regions and windows together, one of them reserved; 0: no limit
	objects  [numKinds]int
	nextNum  [numKinds]uint32
	gone     [numQueues]uint64 // work requests of queues that were destroyed
	contexts roster.Roster[Context]
	pds      roster.Roster[PD]
	qps      roster.Roster[QP]
	errFlush []*QP // in state Err, with a source of receives
	cqs      roster.Roster[CQ]
	srqs     roster.Roster[SRQ]
	mrs      roster.Roster[MR]
	mws      roster.Roster[MW]
	ahs      roster.Roster[AH]
	xrcds    roster.Roster[XRCD]
}

// NewDevice returns a device that is started with as many CNQs as the limits
// allow, without objects. STags are drawn from a source that peers must not be
// able to predict.
func NewDevice(limits Limits, stags secret.Source) *Device {
	d := &Device{
		limits: limits.withDefaults(), regions: map[uint32]*Region{},
		stags: stags, nextAddr: 1 << 32, Port: newPort(), transport: noTransport{}, conns: NoContexts{},
	}
	d.Port.dev = d
	d.cnqs, d.notified, d.raise = make([]uint64, d.limits.MaxCNQ), make([][]*CQ, d.limits.MaxCNQ), d.ServeCNQ
	return d
}

// Limits returns the limits in force.
func (d *Device) Limits() Limits { return d.limits }

// OnAsync sets the handler of asynchronous events.
func (d *Device) OnAsync(h func(AsyncEvent, frame.Time)) { d.async = h }

// QPs returns the device's queue pairs in order of creation, borrowed.
func (d *Device) QPs() []*QP { return d.qps.All() }

// CQs returns the device's completion queues in order of creation, borrowed.
func (d *Device) CQs() []*CQ { return d.cqs.All() }

// MRs returns the device's memory regions in order of creation, borrowed.
func (d *Device) MRs() []*MR { return d.mrs.All() }

// MWs returns the device's memory windows in order of creation, borrowed.
func (d *Device) MWs() []*MW { return d.mws.All() }
