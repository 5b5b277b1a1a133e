// Package mgmt is PTP management (IEEE 1588-2019 clause 15): a server for the
// instances of package ptp, a client, and the text that linuxptp's pmc prints
// and understands. It does no I/O: messages and the time go in, messages come
// out.
package mgmt

import (
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Instance is what a Server manages: *ptp.Instance.
type Instance interface {
	// Get returns the data of an id, of a port counted from 0 if it is an id of
	// ports, or an error; ErrorNotSupported for what only the host knows.
	Get(id msg.ManagementID, port int) (any, msg.ManagementError)
	// Set writes it; a command's data is nil.
	Set(id msg.ManagementID, port int, data any, now frame.Time) msg.ManagementError
	// SendManagement sends m out of a port, by multicast if dst is zero; false
	// if it cannot now.
	SendManagement(port int, m *msg.Message, dst transport.Addr) bool
}

// Local carries messages to clients on the same machine.
type Local interface {
	// Send sends b (borrowed) to the client that Server.Local had it from.
	Send(client string, b []byte)
}

// PortInfo is what the host of an instance knows of a port.
type PortInfo struct {
	Interface    string
	MAC          ether.Addr
	Address      transport.Addr // protocol address; zero: the MAC address
	Timestamping msg.Timestamping
	PHCIndex     int32 // -1: none
}

// Config describes a Server.
type Config struct {
	Ports []PortInfo // one for each port of the instance
	// SetFromWire lets everybody in the network change settings. As with
	// linuxptp, only local clients can otherwise; others are told
	// NOT_SUPPORTED.
	SetFromWire bool

	ClockType    uint16 // of msg; 0: ordinary or boundary by the number of ports
	Manufacturer [3]byte
	Product      string // manufacturer;model;instance
	Revision     string // hardware;firmware;software
	Profile      [6]byte
}

// Drop says why a management message was discarded.
type Drop uint8

// The reasons.
const (
	DropNone      Drop = iota
	DropMalformed      // not a message, or not exactly one management TLV
	DropOwn            // of our own, come back
	DropTarget         // for another clock, and not to be passed on
	DropAction         // an action that does not exist
	DropFull           // the instance could not send
	NumDrops
)

var dropNames = [NumDrops]string{"none", "malformed", "own", "target", "action", "full"}

func (d Drop) String() string {
	return enum.Name(dropNames[:], d, "unknown")
}

// Stats is what a server has counted.
type Stats struct {
	Responses     uint64 // acknowledgements too
	Errors        uint64 // responses with an error status
	Forwarded     uint64 // messages passed on, once per port
	Notifications uint64
	Drops         [NumDrops]uint64
}

// Counters lists s by name: responses, drop_target and their like.
func (s *Stats) Counters() []ptp.Counter {
	list := []ptp.Counter{{Name: "responses", Value: s.Responses}, {Name: "errors", Value: s.Errors},
		{Name: "forwarded", Value: s.Forwarded}, {Name: "notifications", Value: s.Notifications}}
	for d := DropNone + 1; d < NumDrops; d++ {
		list = append(list, ptp.Counter{Name: "drop_" + d.String(), Value: s.Drops[d]})
	}
	return list
}

const (
	// maxMessage is how long a message may be, to fit into any carriage with
	// an MTU of 1500, and into the buffers of linuxptp.
	maxMessage = 1440
	// maxClients is how many local clients are remembered for answers that
	// come from the network.
	maxClients = 64
	// maxSubscribers is how many clients can have notifications.
	maxSubscribers = 64
)

// Server answers management messages for an instance, and passes them on as a
// boundary clock does. It implements ptp.Manager and ptp.Observer.
type Server struct {
	cfg      Config
	inst     Instance
	local    Local
	identity msg.ClockIdentity
	stats    Stats
	tlvs     []byte // being sent
	buf      []byte

	clients     []localClient // the latest last
	subscribers []subscriber
	events      events
}

// localClient is who asked through Local under which identity.
type localClient struct {
	identity msg.PortIdentity
	name     string
}

// origin is where a message came from.
type origin struct {
	port   int // -1: Local
	client string
	reply  transport.Addr
}

// request is a message that is being handled.
type request struct {
	*msg.Message
	origin
	now frame.Time
}

func (o origin) isLocal() bool { return o.port < 0 }

// New returns a server for inst, whose ports all have an entry in cfg.
func New(cfg Config, inst Instance) *Server {
	s := &Server{cfg: cfg, inst: inst, local: nobody{}}
	data, _ := inst.Get(msg.IDDefaultDataSet, 0)
	if d, ok := data.(*msg.DefaultDataSet); ok {
		s.identity = d.Identity
	}
	s.events.portState = make([]bool, len(cfg.Ports))
	return s
}

// nobody is where there are no local clients.
type nobody struct{}

func (nobody) Send(string, []byte) {}

// SetLocal says what carries messages to local clients from now on.
func (s *Server) SetLocal(l Local) { s.local = l }

// Stats are the counters.
func (s *Server) Stats() Stats { return s.stats }

// Management takes a message (borrowed) that came in by a port of the
// instance, counted from 0.
func (s *Server) Management(port int, m *msg.Message, meta ptp.Meta) {
	o := origin{port: port}
	if m.Flags.Has(msg.FlagUnicast) {
		o.reply = meta.Src
	}
	s.handle(&request{m, o, meta.Now})
}

// Local takes a message (borrowed) of a client on the same machine. Domain and
// sdoId may be any.
func (s *Server) Local(client string, b []byte, now frame.Time) {
	var m msg.Message
	if m.Parse(b) != nil || m.Type != msg.Management {
		s.drop(DropMalformed)
		return
	}
	s.remember(m.Source, client)
	s.handle(&request{&m, origin{port: -1, client: client}, now})
}

func (s *Server) drop(d Drop) { s.stats.Drops[d]++ }

// remember notes where answers to identity go. The oldest client makes room.
func (s *Server) remember(identity msg.PortIdentity, client string) {
	for i := range s.clients {
		if s.clients[i].identity == identity {
			s.clients[i].name = client
			return
		}
	}
	if len(s.clients) == maxClients {
		s.clients = append(s.clients[:0], s.clients[1:]...)
	}
	s.clients = append(s.clients, localClient{identity, client})
}

// handle answers a message, passes it on, or both (section 15.3).
func (s *Server) handle(m *request) {
	switch {
	case m.Source.Clock == s.identity:
		s.drop(DropOwn)
		return
	case m.Action > msg.Acknowledge:
		s.drop(DropAction)
		return
	}
	tlv, rest, ok := m.TLVs.Next()
	asks := m.Action == msg.Get || m.Action == msg.Set || m.Action == msg.Command
	if !ok || len(rest) != 0 || len(tlv.Value) < 2 || (asks && tlv.Type != msg.TLVManagement) {
		s.drop(DropMalformed)
		return
	}
	ours := m.Port.Clock == s.identity
	passed := false
	if !ours && m.BoundaryHops > 0 {
		passed = s.forward(m)
	}
	switch {
	case asks && (ours || m.Port.Clock == msg.AllClocks):
		s.serve(m, tlv.Value)
	case !passed:
		s.drop(DropTarget)
	}
}

// forward passes m on to all other ports that take part in PTP, and an answer
// to the local client that it is for.
func (s *Server) forward(m *request) (passed bool) {
	out := *m.Message
	out.BoundaryHops--
	if m.Action == msg.Response || m.Action == msg.Acknowledge {
		for _, c := range s.clients {
			if c.identity == m.Port && !m.isLocal() {
				s.sendLocal(c.name, &out)
				return true
			}
		}
	}
	out.Flags &^= msg.FlagUnicast
	for port := range s.cfg.Ports {
		data, _ := s.inst.Get(msg.IDPortDataSet, port)
		ds, ok := data.(*msg.PortDataSet)
		if port == m.port || !ok {
			continue
		}
		switch ds.State {
		case msg.StateMaster, msg.StatePassive, msg.StateUncalibrated, msg.StateSlave:
			passed = s.send(port, &out, transport.Addr{}) || passed
		}
	}
	return passed
}

func (s *Server) send(port int, m *msg.Message, dst transport.Addr) bool {
	if !s.inst.SendManagement(port, m, dst) {
		s.drop(DropFull)
		return false
	}
	s.stats.Forwarded++
	return true
}

func (s *Server) sendLocal(client string, m *msg.Message) {
	s.buf = m.Append(s.buf[:0])
	s.stats.Forwarded++
	s.local.Send(client, s.buf)
}
