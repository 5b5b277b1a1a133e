package verbs

// The work requests of a device.

// Requests counts work requests of one kind of queue.
type Requests struct {
	Queue string // sq, rq or srq
	Now   int    // posted and not completed
	Ever  uint64 // posted since the device exists
}

// numQueues are the kinds of queues: send, receive, shared receive.
const numQueues = 3

// WorkRequests counts those of all queue pairs and shared receive queues. Requests that
// a program holds in a ring of its own are posted when they are taken from there.
func (d *Device) WorkRequests() [numQueues]Requests {
	list := [numQueues]Requests{{Queue: "sq", Ever: d.gone[0]}, {Queue: "rq", Ever: d.gone[1]},
		{Queue: "srq", Ever: d.gone[2]}}
	for _, q := range d.qps.All() {
		list[0].add(q.SendsPending(), q.sq.tail)
		list[1].add(int(q.rq.tail-q.rq.head), q.rq.tail)
	}
	for _, s := range d.srqs.All() {
		list[2].add(int(s.rq.tail-s.rq.head), s.rq.tail)
	}
	return list
}

func (r *Requests) add(now int, ever uint64) {
	r.Now += now
	r.Ever += ever
}
