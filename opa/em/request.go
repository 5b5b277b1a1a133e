package em

import (
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// request is a MAD that waits for its answer. A port has at most one.
type request struct {
	what     string // for the log
	set      bool
	attr     uint16
	modifier uint32
	n        int          // octets of the attribute that put writes
	put      func([]byte) // nil: nothing

	took    func(data []byte) // takes a good answer
	refused func()            // takes another one; nil: the port is left alone for a while

	port  *port
	to    mad.Address
	b     []byte
	tid   uint64
	tries int
	due   frame.Time // of the next attempt
}

func (r *request) method() mad.Method {
	if r.set {
		return mad.MethodSet
	}
	return mad.MethodGet
}

// tidSpace is the upper half of all transactions of this manager: answers to
// ports without LID reach everybody.
func (m *Manager) tidSpace() uint32 {
	return uint32(m.opt.GUID>>32)*0x9e3779b1 ^ uint32(m.opt.GUID) ^ m.opt.Transactions
}

func (m *Manager) tid() uint64 {
	m.tids++
	return uint64(m.tidSpace())<<32 | uint64(m.tids)
}

func (m *Manager) transmit(to mad.Address, b []byte, send mad.Send) {
	m.count.Sent++
	send(to, b) // one that the port cannot take now is lost like any other
}

// broadcast asks all ports for an attribute.
func (m *Manager) broadcast(attr uint16, tid uint64, send mad.Send) {
	var b [mad.DirectedHeaderLen]byte
	s := smp(mad.MethodGet, tid, attr, 0, 0)
	s.Put(b[:])
	m.transmit(mad.Address{LID: opa.Permissive, QP: opa.QPSubnet}, b[:], send)
}

func smp(method mad.Method, tid uint64, attr uint16, modifier uint32, guid uint64) mad.SMP {
	return mad.SMP{Header: mad.Header{
		BaseVersion: mad.BaseVersion, Class: mad.ClassSubnDirected, ClassVersion: mad.BaseVersion,
		Method: method, TID: tid, Attr: attr, Modifier: modifier,
	}, GUID: guid}
}

// askSubnet makes r a request to the subnet management agent of p. It goes by the
// port's GUID, as it has to work whatever LID the port has.
func (m *Manager) askSubnet(p *port, r request) *request {
	h := smp(r.method(), m.tid(), r.attr, r.modifier, p.guid)
	return r.address(p, mad.Address{LID: opa.Permissive, QP: opa.QPSubnet}, h.TID, mad.DirectedHeaderLen, h.Put)
}

// askAgent makes r a request to the Ethernet management agent of p.
func (m *Manager) askAgent(p *port, r request) *request {
	tid := m.tid()
	return r.address(p, mad.Address{LID: p.lid, QP: opa.QPGeneral}, tid, mad.VEMAHeaderLen, func(b []byte) {
		mad.PutVEMA(b, r.method(), tid, r.attr, r.modifier)
	})
}

// address completes the request with its far end and its header.
func (r request) address(p *port, to mad.Address, tid uint64, headerLen int, header func([]byte)) *request {
	r.port, r.to, r.tid, r.b = p, to, tid, make([]byte, headerLen+r.n)
	header(r.b)
	if r.put != nil {
		r.put(r.b[headerLen:])
	}
	return &r
}

// drive brings p forward: it repeats the request that waits, or finds the
// next one.
func (m *Manager) drive(p *port, send mad.Send) {
	if p.waits == nil {
		if !p.up || m.now < p.pause {
			if p.up {
				m.by(p.pause)
			}
			return
		}
		r := m.step(p)
		if r == nil {
			return
		}
		if r.set {
			m.count.Sets++
		}
		p.waits = r
		m.requests[r.tid] = r
	} else if r := p.waits; m.now < r.due {
		m.by(r.due)
		return
	} else if r.tries > m.t.Retries {
		m.giveUp(r)
		return
	} else {
		m.count.Retries++
	}
	r := p.waits
	r.tries++
	r.due = m.now.Add(time.Duration(r.tries) * m.t.Timeout)
	m.by(r.due)
	m.transmit(r.to, r.b, send)
}

// giveUp ends a request without an answer. The port is asked again a while
// later, if it is still there.
func (m *Manager) giveUp(r *request) {
	m.count.Timeouts++
	m.note("%v does not answer: %s", r.port, r.what)
	m.cancel(r.port)
	r.port.unanswered = true
	r.port.pause = m.now.Add(m.t.Sweep)
	m.by(r.port.pause)
}

// cancel forgets what p was asked.
func (m *Manager) cancel(p *port) {
	if p.waits != nil {
		delete(m.requests, p.waits.tid)
		p.waits = nil
	}
}

// answer takes the answer to a request.
func (m *Manager) answer(h *mad.Header, data []byte, from mad.Address) {
	r := m.requests[h.TID]
	if r == nil || r.attr != h.Attr || r.to.QP == opa.QPGeneral && from.LID != r.port.lid {
		m.count.Unexpected++
		return
	}
	p := r.port
	m.cancel(p)
	p.seen, p.unanswered = m.now, false
	status := h.Status &^ mad.StatusDirection
	if status != mad.StatusOK {
		m.count.Refused++
		m.note("%v answers with status %#x: %s", p, uint16(status), r.what)
	}
	switch {
	case status == mad.StatusOK:
		r.took(data)
	case r.refused != nil:
		r.refused()
	default:
		p.pause = m.now.Add(m.t.Poll)
	}
	m.wake = 0
}
