// Package hardware is the seam between a NIC and the device that it is made of:
// link, interrupts of completion queues, connection contexts. A device has ports
// and functions, which count from 0; each function is one NIC.
package hardware

import (
	"errors"

	"tapir/nic/dcb"
	"tapir/nic/fcoe"
	"tapir/nic/hostfn"
	"tapir/nic/msglog"
	"tapir/nic/pacing"
	"tapir/nic/param"
	"tapir/nic/secret"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// MaxQueues is the share of a function in the device's queues, each way.
const MaxQueues = 32

// Objects of RDMA: those that drivers ask for, and all that there can be.
const (
	DefaultQPs  = 8192
	MaxQPs      = 32512 // of iWARP
	MaxRoCEQPs  = 32 * 1024
	DefaultSRQs = 8192
	MaxSRQs     = 32 * 1024
	MaxTasks    = 128*1024 - 1 // of memory regions and windows together, one of them reserved
	MaxCNQs     = 64
)

// Device is a device with its ports and functions.
type Device interface {
	// Attach puts a NIC on a function.
	Attach(fn int, e Env) (Function, error)
	// FLR resets a function whose NIC is gone without a Close (function level reset): it
	// is free for another one.
	FLR(fn int)
}

// Function is what a NIC calls.
type Function interface {
	// Signal tells that the cable of the function's port has gained or lost its
	// carrier. The device answers with NIC.Carrier, also to the port's other
	// functions.
	Signal(on bool, now frame.Time)
	// Poll lets the device work.
	Poll(now frame.Time)
	// Close ends the function, and with the last one the device. What hinders it is
	// returned, and does not keep it from closing. A second call does nothing.
	Close(now frame.Time) error
	// Notify tells that a completion waits in a notification queue. The device
	// answers with verbs.Device.ServeCNQ, at once or later.
	Notify(cnq int)
	// Contexts are those of queue pairs and shared receive queues.
	verbs.Contexts
	// Holds tells whether frames may wait for their interrupt; then Hold takes one
	// that does, and gives it back by NIC.Received.
	Holds() bool
	Hold(f *frame.Frame, now frame.Time) bool
	// Batch ends a batch of frames; received is how many of them came to the NIC's
	// own Ethernet queue.
	Batch(received int, now frame.Time)
	// Sent reports that frames of that queue have left, and returns when the device
	// wants to be polled again.
	Sent(frames int, now frame.Time) frame.Time
	// SYN takes an opening segment of TCP, a packet (borrowed) behind an Ethernet
	// header; the device answers with NIC.Opened, at once or later. False: the device
	// has no way of its own for it. With a reason it is dropped.
	SYN(h ether.Header, packet []byte, off frame.Offload) (taken bool, why frame.DropReason)
	// MAD is SYN for a packet of RoCE to queue pair 1 and its header; the device answers
	// with NIC.MAD.
	MAD(h ether.Header, packet []byte) (taken bool, why frame.DropReason)
	// FCoE is the device's part in FCoE; nil: it has none.
	FCoE() fcoe.Hardware
	// Isles hear of data that TCP receives out of order; nil: nobody does.
	Isles() Isles
	// LLDP offers the device a frame with EtherType 0x88CC, borrowed; one that it takes is
	// its own, and with a reason it has discarded it.
	LLDP(b []byte, now frame.Time) (taken bool, why frame.DropReason)
	// Closed shows the device a frame that a closed port drops.
	Closed(b []byte, now frame.Time)
	// Host is the operating system's interface.
	Host() hostfn.Function
	// Check refuses settings that the device cannot have. Apply takes those that
	// were checked.
	Check(s Shape, c Config) error
	Apply(s Shape, c Config, now frame.Time) error
	// Reshape tells of a new station address or MTU.
	Reshape(s Shape, now frame.Time) error
	// SetTracer has the device trace the frames that do not pass the NIC, and
	// returns the tracer for those that do.
	SetTracer(t frame.Tracer) frame.Tracer
	View
}

// Isles count data that a TCP connection has received beyond a gap, by offsets of its
// stream: each run of it is an isle.
type Isles interface {
	// Room tells whether data [left, right) may be kept.
	Room(conn, left, right uint64) bool
	// Add says that it is; held: in a buffer, not at its target. Reached says that all
	// before next is in order, and returns whether isles are left; Gone that nothing is
	// kept any more.
	Add(conn, left, right uint64, held bool)
	Reached(conn, next uint64) (left bool)
	Gone(conn uint64)
}

// View is what a device knows for display.
type View interface {
	// Counters are those of the NIC that the device has. Drops are frames that the
	// device has dropped itself.
	Counters() []view.Counter
	Drops() frame.Drops
	// HostTraffic counts frames of the host TAP that did not pass the NIC: received,
	// sent.
	HostTraffic() [4]uint64
	// Describe fills in what the device knows of a NIC.
	Describe(e *view.EthtoolInfo)
	DeviceRows() []view.DeviceRow
}

// NIC is what a device calls.
type NIC interface {
	hostfn.NIC
	// Now is the time of the call that is being served.
	Now() frame.Time
	// Enter begins a call from outside at a time.
	Enter(now frame.Time)
	// Schedule runs fn in the first Poll at or after a time, unless cancelled.
	Schedule(at frame.Time, fn func(now frame.Time)) (cancel func())
	// Carrier tells that the link of the function's port has changed.
	Carrier(l Link)
	// Active tells whether frames pass the port. Announce tells neighbors so.
	Active() bool
	Announce()
	// Failed tells that the offloads have ceased to work, or work again.
	Failed(failed bool)
	// Received gives back a frame that Hold took.
	Received(f *frame.Frame)
	// Opened takes a SYN that the device was given, borrowed: the IP packet.
	Opened(packet []byte, off frame.Offload)
	// MAD takes a packet to queue pair 1 that the device was given, borrowed, and its header.
	MAD(h ether.Header, packet []byte)
	// FCoE takes a frame of FIP or FCoE that the device has received behind its header, borrowed.
	FCoE(h ether.Header, body []byte)
	// TakeEtherType has take see the frames of an EtherType that come for the NIC's
	// station, their headers and what follows, borrowed, until remove is called. What it
	// returns is as with Function.SYN.
	TakeEtherType(typ uint16, take func(h ether.Header, body []byte) (taken bool, why frame.DropReason)) (remove func())
	// Traffic counts what has passed.
	Traffic() Traffic
	// Bench is what selftests use.
	Bench
}

// Output is frame.Link with the time.
type Output interface {
	Room(now frame.Time) int
	Transmit(f *frame.Frame, now frame.Time)
}

// Link is the link of a port.
type Link struct {
	Up     bool
	Looped bool // the port turns its own frames back
	Speed  int  // in Mb/s; 0: the device does not know, and does not pace
	// RxPause and TxPause: the ends have agreed that PAUSE frames are obeyed, and sent.
	RxPause, TxPause bool
}

// Bench is what the selftests of a device use of its NIC.
type Bench interface {
	// Loop cuts the wire off: frames for it come back. Looping tells whether some
	// wait for the next Poll.
	Loop(on bool)
	Looping() bool
	// ClockCounter is the free-running counter of the hardware clock, and how much
	// faster it is set to run.
	ClockCounter(now frame.Time) (ns, ppb int64)
}

// Traffic counts what has passed a NIC.
type Traffic struct {
	RxFrames, RxBytes, TxFrames, TxBytes         uint64 // of the wire
	RxMessages, RxPayload, TxMessages, TxPayload uint64 // FPDUs of RDMA
	Connections                                  int    // of the TCP engine
	LoginFailures                                uint64 // of FCoE, in fabrics and at ports
}

// Config is the configuration of one kind of device.
type Config interface {
	// Kind names the kind: "fastlinq" or "ideal".
	Kind() string
	// Open makes the device.
	Open() (Device, error)
	// Clone is a copy with a life of its own. Default is one without settings.
	Clone() Config
	Default() Config
	// Params are its settings, bound to it.
	Params() []*param.Row
	// Validate says what is wrong with it for a function of that shape.
	Validate(Shape) error
	// Segments tells whether the device cuts super-frames of the TCP engine.
	Segments() bool
}

// Shape is what a device has to know of a function's NIC.
type Shape struct {
	Name        string
	MAC         ether.Addr
	MTU         int // of IP, in octets
	VLAN        uint16
	Queues      int           // of the host function, each way
	Superframes bool          // frames of the wire may hold several segments
	RSSKey      secret.Secret // what the keys of hashes follow from
	RDMA        verbs.Personality
	Classes     dcb.Admin
}

// CheckClasses refuses traffic classes of a port that functions share without DCBX.
func (s *Shape) CheckClasses(shared bool) error {
	if !shared || s.Classes == (dcb.Admin{}) {
		return nil
	}
	return errors.New("prio_pfc, prio_tc, tc_tsa, tc_bw, tc_maxrate, trust and dscp_prio are not for functions that " +
		"share a port without dcbx: remove them")
}

// Env is the NIC and the world that a function is attached to.
type Env struct {
	NIC    NIC
	Shape  Shape
	Config Config
	Port   int // of the device, which the wire belongs to
	Verbs  *verbs.Device
	TCP    *toe.Engine
	Log    *msglog.Log
	Pool   frame.Pool
	System frame.Clock
	// Ethernet is the way out for what vports send. With DCQCN it is the queue of the first
	// queue pair, whose rate it has.
	Ethernet Output
	// PF is the function's place in the scheduler of what its port sends. LimitReceived
	// limits what it receives, in Mb/s, 0: not, and says its part of a full port.
	PF            *pacing.Node
	LimitReceived func(mbps int, weight int64)
	Host          frame.Link // the host TAP; nil: none
	Second        *Second
	// Laser is called when the port's transmitter is switched; nil: nobody notices.
	Laser func(on bool)
	// Tagged is told the outer VLAN tag that the firmware has the port put on all
	// frames of the function, TPID 0: none, and whether a frame's own VLAN tag decides
	// on its priority; nil: the port puts none.
	Tagged func(t ether.Tag, inner bool)
	// DCB is told what ports and transports act on when DCBX has changed it.
	DCB func(s dcb.State, now frame.Time)
}

// Second is the world of the second engine if it has a thread of its own.
type Second struct {
	Pool frame.Pool
	// Host are its queues of the host TAP, those with odd numbers.
	Host frame.Link
	// Call runs a function on its thread and returns after it.
	Call func(fn func())
	// Wake wakes the second engine's thread, WakeFirst the NIC's.
	Wake, WakeFirst func()
	// Guard returns a tracer that both threads may use at a time.
	Guard func(frame.Tracer) frame.Tracer
}
