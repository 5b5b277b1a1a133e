package em

import (
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// request is a MAD that waits for its answer. A port has at most one.
type request struct {
	port  *port
	what  string // for the log
	to    mad.Address
	b     []byte
	tid   uint64
	attr  uint16
	set   bool
	tries int
	due   frame.Time // of the next attempt
	done  func(status mad.Status, data []byte)
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

// subnetRequest is a request to the subnet management agent of p, with the
// attribute that put writes in n octets. It goes by the port's GUID, as it
// has to work whatever LID the port has.
func (m *Manager) subnetRequest(p *port, what string, method mad.Method, attr uint16, modifier uint32, n int,
	put func([]byte)) *request {
	tid := m.tid()
	b := make([]byte, mad.DirectedHeaderLen+n)
	s := smp(method, tid, attr, modifier, p.guid)
	s.Put(b)
	if put != nil {
		put(b[mad.DirectedHeaderLen:])
	}
	return &request{port: p, what: what, to: mad.Address{LID: opa.Permissive, QP: opa.QPSubnet}, b: b, tid: tid,
		attr: attr, set: method == mad.MethodSet}
}

// agentRequest is a request to the Ethernet management agent of p.
func (m *Manager) agentRequest(p *port, what string, method mad.Method, attr uint16, num uint8, n int,
	put func([]byte)) *request {
	tid := m.tid()
	b := make([]byte, mad.VEMAHeaderLen+n)
	mad.PutVEMA(b, method, tid, attr, uint32(num))
	if put != nil {
		put(b[mad.VEMAHeaderLen:])
	}
	return &request{port: p, what: what, to: mad.Address{LID: p.lid, QP: opa.QPGeneral}, b: b, tid: tid, attr: attr,
		set: method == mad.MethodSet}
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
	r.done(status, data)
	m.wake = 0
}
