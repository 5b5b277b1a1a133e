package mgmt

import (
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// subscriber is a client that has asked for notifications.
type subscriber struct {
	origin  origin
	client  msg.PortIdentity
	sdoID   uint16
	domain  uint8
	mask    msg.SubscribeEvents
	expires frame.Time
	seq     uint16
}

// events is what has happened since the last Poll.
type events struct {
	portState []bool
	timeSync  bool
	parent    msg.ParentDataSet // the last that was seen
}

// PortState notes a change of a port's state.
func (s *Server) PortState(port int, _, _ msg.PortState, _ string, _ frame.Time) {
	if port < len(s.events.portState) {
		s.events.portState[port] = true
	}
}

// Measured notes a measurement.
func (s *Server) Measured(ptp.Sample) { s.events.timeSync = true }

func (s *Server) find(m *request) int {
	for i := range s.subscribers {
		if s.subscribers[i].origin == m.origin && s.subscribers[i].client == m.Source {
			return i
		}
	}
	return -1
}

// subscription is what a client is subscribed to, for how long.
func (s *Server) subscription(m *request) *msg.SubscribeEvents {
	i := s.find(m)
	if i < 0 || s.subscribers[i].expires <= m.now {
		return &msg.SubscribeEvents{}
	}
	left := s.subscribers[i].mask
	left.Duration = uint16((s.subscribers[i].expires.Sub(m.now) + time.Second - 1) / time.Second)
	return &left
}

// subscribe begins, renews or (with a duration of 0) ends notifications.
func (s *Server) subscribe(m *request, e *msg.SubscribeEvents) msg.ManagementError {
	s.expire(m.now)
	i := s.find(m)
	if e.Duration == 0 {
		if i >= 0 {
			s.subscribers = append(s.subscribers[:i], s.subscribers[i+1:]...)
		}
		return 0
	}
	if i < 0 {
		if len(s.subscribers) == maxSubscribers {
			return msg.ErrorGeneral
		}
		i = len(s.subscribers)
		s.subscribers = append(s.subscribers, subscriber{origin: m.origin, client: m.Source, sdoID: m.SdoID,
			domain: m.Domain})
		s.events.parent = s.parent()
	}
	sub := &s.subscribers[i]
	sub.mask, sub.expires = *e, m.now.Add(time.Duration(e.Duration)*time.Second)
	return 0
}

func (s *Server) expire(now frame.Time) {
	kept := s.subscribers[:0]
	for _, sub := range s.subscribers {
		if sub.expires > now {
			kept = append(kept, sub)
		}
	}
	s.subscribers = kept
}

func (s *Server) parent() (p msg.ParentDataSet) {
	data, _ := s.inst.Get(msg.IDParentDataSet, 0)
	if d, ok := data.(*msg.ParentDataSet); ok {
		p = *d
	}
	return p
}

// Poll sends the notifications of what has happened since it was called last.
func (s *Server) Poll(now frame.Time) {
	if len(s.subscribers) > 0 {
		s.expire(now)
		for port, changed := range s.events.portState {
			if changed {
				s.notify(msg.EventPortState, msg.IDPortDataSet, port, uint16(port+1))
			}
		}
		if s.events.timeSync {
			s.notify(msg.EventTimeSync, msg.IDTimeStatus, 0, 0)
		}
		if p := s.parent(); p != s.events.parent {
			s.events.parent = p
			s.notify(msg.EventParentDataSet, msg.IDParentDataSet, 0, 0)
		}
	}
	clear(s.events.portState)
	s.events.timeSync = false
}

// notify sends the data of id to those who have asked for e.
func (s *Server) notify(e msg.Event, id msg.ManagementID, port int, number uint16) {
	data, err := s.inst.Get(id, port)
	if err != 0 {
		return
	}
	s.tlvs = msg.AppendManagement(s.tlvs[:0], id, data)
	for i := range s.subscribers {
		sub := &s.subscribers[i]
		if !sub.mask.Has(e) {
			continue
		}
		m := s.message(sub.client, number)
		m.SdoID, m.Domain, m.Sequence = sub.sdoID, sub.domain, sub.seq
		m.Action, m.TLVs = msg.Response, s.tlvs
		sub.seq++
		if s.transmit(&m, sub.origin) {
			s.stats.Notifications++
		}
	}
}
