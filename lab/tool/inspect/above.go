package inspect

import (
	"slices"
	"strings"

	msg "tapir/lab/tool/inspect/message"
	"tapir/lab/tool/inspect/nvmf"
	"tapir/lab/tool/inspect/scsi"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ib"
	"tapir/wire/nvme"
)

// program is the protocol above the messages of a connection.
type program interface {
	Message(*msg.Message)
	Gap(side, packet int)
	Agreed() string
}

// above finds out what is above RDMA by the first message: NVMe, iSER, or nothing that is known.
type above struct {
	to      msg.Reporter // nil: nothing is looked for
	judge   program      // nil: not found yet
	active  int          // side that asked for the connection
	port    uint16       // that it asked for
	packet  int          // of the request
	private []byte
	exact   bool // its length is known
}

// wants tells whether the data of messages is of use.
func (a *above) wants() bool { return a.to != nil }

// take takes a message.
func (a *above) take(m *msg.Message) {
	if a.to == nil {
		return
	}
	if a.judge == nil && m.Octets > 0 {
		switch active := m.Side == a.active && m.Kind == msg.Send; {
		case active && a.port == nvme.Port, active && nvmf.Begins(m.Data):
			a.judge = nvmf.New(a.to, a.active, a.packet, a.private, a.exact)
		case active && scsi.BeginsISER(m.Data):
			a.judge = scsi.NewISER(a.to, a.active)
		default:
			a.to = nil
			return
		}
	}
	if a.judge != nil {
		a.judge.Message(m)
	}
}

// gap says that messages of a side are missing.
func (a *above) gap(side, packet int) {
	if a.judge != nil {
		a.judge.Gap(side, packet)
	} else {
		a.to = nil
	}
}

// finish adds to the flow what the connection is about.
func (a *above) finish(f *Flow) {
	if a.judge == nil {
		return
	}
	if f.Agreed != "" {
		f.Agreed += ", "
	}
	f.Agreed += a.judge.Agreed()
}

// carrier is a connection of iWARP as the judge above sees it.
type carrier struct{ session }

// Seen implements msg.Reporter.
func (c carrier) Seen(side int) bool {
	h := c.half[side]
	return c.session.Seen(side) && !h.mute && h.stream.state == streamFull && !c.blind
}

// begins looks for a protocol above RDMA: c has been accepted.
func (c *conn) begins() {
	private := c.req.PrivateData
	if _, ok := words(c.req); ok {
		private = private[mpa.EnhancedLen:]
	}
	if h := c.half[c.initiator]; h.stream.unknown(0, uint64(c.req.Len())) {
		private = nil
	}
	target := c.half[1-c.initiator]
	c.above = above{to: carrier{session{c}}, active: c.initiator, port: target.addr.Port(), packet: c.flow.First,
		private: private, exact: true}
	for _, h := range c.half {
		if h.side == c.initiator && len(h.stream.marks) > 0 {
			c.above.packet = h.stream.marks[0].packet
		}
	}
}

// mostAbove bounds the octets of a Send that are kept for the protocol above.
const mostAbove = 64 << 10

// keep keeps the payload of a segment of a Send.
func (m *message) keep(s *seg) {
	end := int(s.MO) + len(s.payload)
	if !s.whole || m.lacks || end > mostAbove {
		m.data, m.lacks = nil, true
		return
	}
	if n := end - len(m.data); n > 0 {
		m.data = append(m.data, make([]byte, n)...)
	}
	copy(m.data[s.MO:], s.payload)
}

// forAbove is a whole message for the protocol above; ok is false for those that it
// has got already, or does not see.
func forAbove(op rdmap.Opcode, m *message) (x msg.Message, ok bool) {
	x = msg.Message{Packet: m.first, Octets: m.length, Key: m.stag, Addr: m.to, Data: m.data}
	switch {
	case op.Invalidates():
		x.Kind = msg.SendInvalidate
	case op.IsSend():
		x.Kind = msg.Send
	case op == rdmap.Write:
		x.Kind = msg.Write
	case op == rdmap.ReadResponse:
		x.Kind = msg.Answer
	default:
		return x, false
	}
	return x, true
}

func (h *half) above(m *msg.Message) {
	if m.Side = h.side; !h.mute {
		h.c.above.take(m)
	}
}

// roceAbove is what is above a connection of RoCE: msg.Reporter. Side 0 asked for it.
type roceAbove struct {
	above
	in   *Inspector
	dirs [2]*roceDir // by sender
	ends [2]roceAddr // that a side sends to
	late []timed     // the latest messages, which are not judged yet
	last [2]int64
	now  int64 // time of the message in hand
}

// timed is a message and when it was complete.
type timed struct {
	msg.Message
	at int64
}

// mostLate is how many messages wait. No acknowledgement of RoCE goes with the messages of the other direction, so
// only the times tell whether the capture has them in the order of the wire.
const mostLate = 16

// give hands a message on, behind those that were complete before.
func (a *roceAbove) give(m *msg.Message) {
	at := max(a.in.hand.Time, a.last[m.Side])
	a.last[m.Side] = at
	k := len(a.late)
	for k > 0 && a.late[k-1].at > at {
		k--
	}
	a.late = slices.Insert(a.late, k, timed{*m, at})
	if len(a.late) > mostLate {
		a.judgeOldest()
	}
}

func (a *roceAbove) judgeOldest() {
	x := a.late[0]
	a.late = slices.Delete(a.late, 0, 1)
	a.now = x.at
	a.take(&x.Message)
}

// roceAbove begins with a connection that is accepted.
func (i *Inspector) roceAbove(client, server roceAddr, q *ib.REQ, packet int) {
	a := &roceAbove{in: i, ends: [2]roceAddr{server, client}}
	_, port, _ := ib.ServicePort(q.ServiceID)
	a.above = above{to: a, port: port, packet: packet}
	if len(q.Private) > ib.CMALen {
		a.private = q.Private[ib.CMALen:]
	}
	i.roce.above[client], i.roce.above[server] = a, a
}

// joins makes d one of the directions.
func (a *roceAbove) joins(d *roceDir) {
	if a == nil {
		return
	}
	for side, to := range a.ends {
		if to == d.key.to {
			a.dirs[side], d.above = d, a
		}
	}
}

// Violate implements msg.Reporter.
func (a *roceAbove) Violate(side, packet int, r *Rule, detail string) {
	a.in.violate(r, packet, a.flow(side), "%s", detail)
}

// flow is that of a side, or of the other one if it has sent nothing yet.
func (a *roceAbove) flow(side int) *Flow {
	for _, d := range []*roceDir{a.dirs[side], a.dirs[1-side]} {
		if d != nil && d.flow != nil {
			return d.flow
		}
	}
	return nil
}

// PDU implements msg.Reporter.
func (a *roceAbove) PDU(side, packet int, name, detail string, octets int) {
	d := a.dirs[side]
	d.flow.Sides[d.side].PDUs++
	d.flow.Sides[d.side].message(name, uint64(octets))
	if d.flow.of == nil {
		detail = strings.TrimPrefix(strings.TrimPrefix(detail, name), " ")
		a.in.event(Event{Packet: packet, Flow: d.flow.Number, From: d.key.src.String(), To: d.key.to.addr.String(),
			Name: name, Detail: detail}, a.now)
	}
}

// Part implements msg.Reporter.
func (a *roceAbove) Part(_ int, why string) {
	if f := a.flow(0); f != nil && f.Why == "" {
		f.State, f.Why = Partly, why
	}
}

// Seen implements msg.Reporter: all that is acknowledged was judged.
func (a *roceAbove) Seen(side int) bool {
	d := a.dirs[side]
	return d == nil || d.clean() && d.beyond == nil && psnSub(d.una, d.fed) <= 0
}

// finish adds to the flow what the connection is about.
func (a *roceAbove) finish(d *roceDir) {
	if a == nil {
		return
	}
	for len(a.late) > 0 {
		a.judgeOldest()
	}
	a.above.finish(d.flow)
	a.judge, a.to = nil, nil // once
}

// mostLag is how many requests may wait for one that is missing.
const mostLag = 4096

// feed hands on the messages that are complete, in order.
func (d *roceDir) feed(packet int) {
	a := d.above
	if a == nil || !a.wants() {
		return
	}
	for r := d.recs[d.fed]; r != nil && r.n > 0; r = d.recs[d.fed] {
		d.fed = psnAdd(d.fed, r.n)
		d.message(a, r)
		r.data = nil
	}
	if psnSub(d.high, d.fed) > mostLag {
		a.gap(d.sender(), packet)
		d.fed, d.data, d.lacks = d.high, nil, true
	}
}

func (d *roceDir) sender() int {
	if d.above.dirs[0] == d {
		return 0
	}
	return 1
}

// message takes the next request.
func (d *roceDir) message(a *roceAbove, r *roceRec) {
	m := msg.Message{Side: d.sender(), Packet: r.packet, Octets: r.total, Key: r.RETH.RKey, Addr: r.RETH.VA}
	op := r.Opcode.Operation()
	switch {
	case isRead(r.Opcode):
		m.Kind, m.Octets = msg.Read, uint64(r.RETH.Len)
		d.asked = append(d.asked, r)
	case isAtomic(r.Opcode):
		return
	case sending(r.Opcode):
		if op.Place == ib.First || op.Place == ib.Only {
			d.data, d.lacks = nil, false
		}
		d.data, d.lacks = append(d.data, r.data...), d.lacks || r.cut || len(d.data) > mostAbove
		if !r.ends() {
			return
		}
		if m.Data, m.Octets = d.data, uint64(len(d.data)); d.lacks || !r.whole {
			m.Data, m.Octets = nil, r.total
		}
		m.Key = 0
		if h, _ := r.Opcode.Headers(); h&ib.HasIETH != 0 {
			m.Kind, m.Key = msg.SendInvalidate, r.Invalidate
		}
	case op.Place != ib.First && op.Place != ib.Only: // the first packet tells all of a Write
		return
	default:
		m.Kind, m.Octets = msg.Write, uint64(r.RETH.Len)
	}
	a.give(&m)
}

// answersAbove tells of the Reads of x that are answered with r, the last packet of a response of d.
func (x *roceDir) answersAbove(d *roceDir, r *rocePacket) {
	for len(x.asked) > 0 && x.above != nil && d.above == x.above {
		q := x.asked[0]
		if psnSub(psnAdd(q.PSN, q.n-1), r.PSN) > 0 {
			return
		}
		x.asked = x.asked[1:]
		x.above.give(&msg.Message{Kind: msg.Answer, Side: d.sender(), Packet: r.in.Number, Octets: uint64(q.RETH.Len)})
	}
}
