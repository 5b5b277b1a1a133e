package iov

import (
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/status"
)

// Deliver takes a message of a VF, borrowed. With the hardware's channel it waits for
// Process, and Hooks.Message is told; else it is answered at once. What is longer than
// a message can be is cut off. NODEV, and the message is gone: the VF is about to go or
// is being reset, or the PF's driver does not run.
func (p *PF) Deliver(id int, msg []byte) error {
	v, err := p.vf(id)
	switch {
	case err != nil:
		return err
	case v.toDisable || v.pending:
		v.counts.Ignored++
		return status.NoDev.Errorf("VF %d: its messages are not served", id)
	case !v.ready:
		v.counts.Ignored++
		v.shutOut("CHANNEL_NOT_READY")
		return status.Busy.Errorf("VF %d: a message while another waits", id)
	}
	v.msg = append([]byte{}, msg[:min(len(msg), tlv.BufferSize)]...)
	v.ready = false
	if !p.cfg.HWChannel {
		p.Process(id)
	} else if p.cfg.Hooks.Message != nil {
		if err := p.cfg.Hooks.Message(id); err != nil {
			v.msg, v.ready = nil, true
			v.counts.Ignored++
			return err
		}
	}
	return nil
}

// PendingEvents is the set of VFs whose messages wait, 64 to a word
// (iov_pf_get_pending_events).
func (p *PF) PendingEvents() (events [(192 + 63) / 64]uint64) {
	for _, v := range p.vfs[:p.num] {
		if v.msg != nil {
			events[v.id/64] |= 1 << (v.id % 64)
		}
	}
	return events
}

// Process answers the message of a VF that waits, if there is one
// (iov_process_mbx_req).
func (p *PF) Process(id int) {
	v, err := p.vf(id)
	if err != nil || v.msg == nil {
		return
	}
	msg := v.msg
	v.msg = nil
	v.counts.Messages++
	v.dispatch(msg)
	v.ready = !v.pending
}

// message is a request, taken apart.
type message struct {
	tlv.First
	list [][]byte // the first TLV too
}

// find is the first TLV of a type behind the first of the message, nil if there is none.
func (m *message) find(t tlv.Type) []byte {
	for _, b := range m.list[1:] {
		if tlv.TypeOf(b) == t {
			return b
		}
	}
	return nil
}

// answer is what a reply says: its first TLV, which begins with a tlv.Reply, nil for that
// alone, and more TLVs. then runs when it has been sent.
type answer struct {
	status tlv.Status
	first  any
	more   []any
	then   func()
}

func just(s tlv.Status) answer { return answer{status: s} }

// handler answers a request.
type handler func(v *vf, m *message) answer

// on is a handler of requests with structure Q. One that is too short fails.
func on[Q any](do func(*vf, *Q, *message) answer) handler {
	return func(v *vf, m *message) answer {
		var q Q
		if tlv.Decode(m.list[0], &q) != nil {
			v.counts.Malformed++
			return just(tlv.Failure)
		}
		return do(v, &q, m)
	}
}

// acquired is a handler for VFs that have been acquired; those of others fail.
func acquired(h handler) handler {
	return func(v *vf, m *message) answer {
		if v.state != Acquired && v.state != Enabled {
			return just(tlv.Failure)
		}
		return h(v, m)
	}
}

// handlers by type. There is none for what is only part of a message.
var handlers = [tlv.MaxType]handler{
	tlv.Acquire:           on((*vf).onAcquire),
	tlv.VportStart:        acquired(on((*vf).onVportStart)),
	tlv.VportUpdate:       acquired((*vf).onVportUpdate),
	tlv.VportTeardown:     acquired((*vf).onVportTeardown),
	tlv.StartRxq:          acquired(on((*vf).onStartRxq)),
	tlv.StartTxq:          acquired(on((*vf).onStartTxq)),
	tlv.StopRxqs:          acquired(on((*vf).onStopRxqs)),
	tlv.StopTxqs:          acquired(on((*vf).onStopTxqs)),
	tlv.UpdateRxq:         acquired(on((*vf).onUpdateRxq)),
	tlv.IntCleanup:        acquired((*vf).onIntCleanup),
	tlv.Close:             acquired((*vf).onClose),
	tlv.Release:           (*vf).onRelease,
	tlv.UcastFilter:       acquired(on((*vf).onUcast)),
	tlv.UpdateTunnParam:   acquired(on((*vf).onTunnels)),
	tlv.CoalesceUpdate:    acquired(on((*vf).onCoalesce)),
	tlv.CoalesceRead:      acquired(on((*vf).onCoalesceRead)),
	tlv.BulletinUpdateMAC: acquired(on((*vf).onMAC)),
	tlv.UpdateMTU:         acquired(on((*vf).onMTU)),
	tlv.SoftFLR:           on((*vf).onSoftFLR),
}

// dispatch answers a message. One that cannot be taken apart fails and changes nothing;
// of one whose reply address cannot be read, nobody hears.
func (v *vf) dispatch(msg []byte) {
	var m message
	if tlv.Decode(msg, &m.First) != nil {
		v.counts.Malformed++
		return
	}
	list, err := tlv.List(msg)
	m.list = list
	switch known := m.Type < tlv.MaxType; {
	case v.malicious && known:
		v.reply(&m, just(tlv.Malicious))
	case err != nil || int(m.Length) < tlv.FirstLen:
		v.counts.Malformed++
		v.reply(&m, just(tlv.Failure))
	case known && handlers[m.Type] != nil:
		v.reply(&m, handlers[m.Type](v, &m))
	case known && m.Type >= tlv.RDMAFirst && m.Type <= tlv.RDMALast:
		if h := v.pf.cfg.Hooks.RDMA; h != nil && !v.rdma {
			h(v.id, m.Type)
		}
		v.rdma = true
		v.reply(&m, just(tlv.NotSupported))
	case known && m.Type != tlv.None || m.Reply != 0 && m.Reply == v.acquire.Reply:
		v.reply(&m, just(tlv.NotSupported))
	default: // of a driver that is newer than this PF, or of nobody
		v.counts.Ignored++
	}
}

// reply writes an answer: what follows the first octets, which have the status that
// the VF's driver waits for, is there before they are, and so is the channel ready.
func (v *vf) reply(m *message, a answer) {
	b := tlv.Response(m.Type, a.status, a.first, a.more...)
	v.write(m.Reply+tlv.ReplyLen, b[tlv.ReplyLen:])
	v.ready = true
	v.counts.Replies++
	v.write(m.Reply, b[:tlv.ReplyLen])
	if a.then != nil {
		a.then()
	}
}

// write writes to the memory of the VF's driver.
func (v *vf) write(addr uint64, b []byte) {
	if v.mem == nil || v.mem.Write(addr, b) != nil {
		v.counts.Unreachable++
	}
}

// shutOut shuts a malicious VF out until it is reset.
func (v *vf) shutOut(why string) {
	if v.malicious {
		return
	}
	v.malicious, v.why = true, why
	v.counts.Malicious++
	if v.vport.started {
		off := false
		_ = v.update(updateParams{RxActive: &off, TxActive: &off})
		v.vport.rxActive, v.vport.txActive = false, false
	}
	if h := v.pf.cfg.Hooks.Malicious; h != nil {
		h(v.id, why)
	}
	_ = v.changed(nil)
}
