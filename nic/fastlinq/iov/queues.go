package iov

import (
	"slices"

	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
)

// What the pages of a queue's ring hold: completions of 32 octets, descriptors of 16.
const (
	cqesPerPage = 4096 / 32
	bdsPerPage  = 4096 / 16
)

// usage is which of the queues of a zone a request means: what its QID says, if PF and
// VF have agreed on that, else 0 to receive and 1 to transmit.
func (v *vf) usage(m *message, tx bool) (n uint8, ok bool) {
	if v.acquire.VF.Capabilities&tlv.VFQueueQIDs == 0 {
		if tx {
			return 1, true
		}
		return 0, true
	}
	var id tlv.QueueID
	if b := m.find(tlv.QID); b == nil || tlv.Decode(b, &id) != nil || id.ID >= l2.MaxPerZone {
		return 0, false
	}
	return id.ID, true
}

// active tells whether the VF has started such a queue.
func (v *vf) active(id uint16, tx bool) bool {
	if int(id) >= v.queues {
		return false
	}
	return slices.ContainsFunc(v.zones[id], func(q queue) bool { return q.tx == tx })
}

// mayStart tells whether the VF may start a queue with that status block: both are its
// own, the vport is started, and nothing else has the place.
func (v *vf) mayStart(id, block uint16, index, usage uint8) bool {
	if !v.vport.started || int(id) >= v.queues || index >= indicesPerSB || !slices.Contains(v.blocks, block) {
		return false
	}
	return !slices.ContainsFunc(v.zones[id], func(q queue) bool { return q.usage == usage })
}

// ring is the size of a queue whose ring has so many places.
func ring(places int) int { return min(max(places, l2.MinRing), l2.MaxRing) }

// started keeps a queue that has been started, and answers.
func (v *vf) started(id uint16, q queue, offset uint32, err error) answer {
	if err != nil {
		return answer{status: tlv.Failure, first: tlv.StartReply{}}
	}
	v.zones[id] = append(v.zones[id], q)
	return answer{status: tlv.Success, first: tlv.StartReply{Offset: offset}}
}

func (v *vf) onStartRxq(q *tlv.StartRxqRequest, m *message) answer {
	usage, ok := v.usage(m, false)
	if !ok || !v.mayStart(q.Queue, q.Block, q.Index, usage) || v.active(q.Queue, false) {
		return answer{status: tlv.NoResource, first: tlv.StartReply{}}
	}
	if q.BufSize < 64 || q.PBLSize == 0 {
		return answer{status: tlv.Failure, first: tlv.StartReply{}}
	}
	id := v.rxIDs[q.Queue]
	offset, err := v.pf.cfg.Function.RxQueueStart(v.id, l2.QueueParams{Vport: v.vportID, Stats: v.vportID, Queue: id,
		SB: q.Block, PI: q.Index, Size: ring(int(q.PBLSize) * cqesPerPage)}, RxRing{int(q.BufSize), usage})
	return v.started(q.Queue, queue{usage, false}, offset, err)
}

func (v *vf) onStartTxq(q *tlv.StartTxqRequest, m *message) answer {
	usage, ok := v.usage(m, true)
	if !ok || !v.mayStart(q.Queue, q.Block, q.Index, usage) {
		return answer{status: tlv.NoResource, first: tlv.StartReply{}}
	}
	if q.PBLSize == 0 {
		return answer{status: tlv.Failure, first: tlv.StartReply{}}
	}
	id := v.txIDs[q.Queue]
	offset, err := v.pf.cfg.Function.TxQueueStart(v.id, l2.QueueParams{Vport: v.vportID, Stats: v.vportID, Queue: id,
		SB: q.Block, PI: q.Index, Size: ring(int(q.PBLSize) * bdsPerPage)}, usage)
	return v.started(q.Queue, queue{usage, true}, offset, err)
}

// stopQueue stops a queue of a zone, which is then free whatever the device says.
func (v *vf) stopQueue(id int, q queue) error {
	v.zones[id] = slices.DeleteFunc(v.zones[id], func(o queue) bool { return o == q })
	if q.tx {
		return v.pf.cfg.Function.TxQueueStop(v.id, v.txIDs[id], q.usage)
	}
	err := v.pf.cfg.Function.RxQueueStop(v.id, v.rxIDs[id])
	if !v.receives() {
		v.vport.rxActive = false
	}
	return err
}

// receives tells whether the VF has a receive queue.
func (v *vf) receives() bool {
	for id := range v.queues {
		if v.active(uint16(id), false) {
			return true
		}
	}
	return false
}

// onStop stops one queue of a kind. No driver stops several by one message.
func (v *vf) onStop(id uint16, num uint8, m *message, tx bool) answer {
	usage, ok := v.usage(m, tx)
	switch {
	case num != 1:
		return just(tlv.NotSupported)
	case !ok || int(id) >= v.queues || !slices.Contains(v.zones[id], queue{usage, tx}):
		return just(tlv.Failure)
	}
	return done(v.stopQueue(int(id), queue{usage, tx}))
}

func (v *vf) onStopRxqs(q *tlv.StopRxqsRequest, m *message) answer {
	return v.onStop(q.Queue, q.Num, m, false)
}

func (v *vf) onStopTxqs(q *tlv.StopTxqsRequest, m *message) answer {
	return v.onStop(q.Queue, q.Num, m, true)
}

// done is the answer to a request that ends so.
func done(err error) answer {
	if err != nil {
		return just(tlv.Failure)
	}
	return just(tlv.Success)
}

// onUpdateRxq is about buffers of aggregation, which queues do not have any more; the
// queues have to be active.
func (v *vf) onUpdateRxq(q *tlv.UpdateRxqRequest, m *message) answer {
	_, ok := v.usage(m, false)
	if !ok || q.Num == 0 || v.acquire.VF.Capabilities&tlv.VFQueueQIDs != 0 && q.Num != 1 {
		return just(tlv.Failure)
	}
	for i := range uint16(q.Num) {
		if !v.active(q.Queue+i, false) {
			return just(tlv.Failure)
		}
	}
	return just(tlv.Success)
}

func (v *vf) onCoalesce(q *tlv.CoalesceRequest, _ *message) answer {
	if q.Rx > l2.MaxCoalesce || q.Tx > l2.MaxCoalesce || q.Rx > 0 && !v.active(q.Queue, false) ||
		q.Tx > 0 && !v.active(q.Queue, true) {
		return just(tlv.Failure)
	}
	return done(v.coalesce(q.Queue, int(q.Rx), int(q.Tx)))
}

// coalesce sets the coalescing times of a queue's two directions, of which the ids may
// differ.
func (v *vf) coalesce(id uint16, rx, tx int) error {
	if rx > 0 {
		if err := v.pf.cfg.Function.SetCoalesce(v.id, v.rxIDs[id], rx, 0); err != nil {
			return err
		}
	}
	if tx > 0 {
		return v.pf.cfg.Function.SetCoalesce(v.id, v.txIDs[id], 0, tx)
	}
	return nil
}

func (v *vf) onCoalesceRead(q *tlv.CoalesceReadRequest, _ *message) answer {
	tx := q.IsRx == 0
	if !v.active(q.Queue, tx) {
		return answer{status: tlv.Failure, first: tlv.CoalesceReadReply{}}
	}
	id := v.rxIDs[q.Queue]
	if tx {
		id = v.txIDs[q.Queue]
	}
	us := v.pf.cfg.Function.Coalesce(v.id, id, tx)
	return answer{status: tlv.Success, first: tlv.CoalesceReadReply{Coalesce: uint16(us)}}
}
