package kernelpeer

import (
	"io"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// job is a message to send.
type job struct {
	msg  ddp.Message
	data []byte
	sent bool
}

// read is an outstanding RDMA Read.
type read struct {
	stag uint32 // of the sink
	done bool
}

// batch is how many octets are handed to the byte stream at a time.
const batch = 64 << 10

// sender cuts messages into FPDUs. Only the write loop uses it.
type sender struct {
	layout mpa.Layout
	w      io.Writer
	pos    uint64 // in the full operation stream
	msn    [rdmap.NumQueues]uint32
	buf    []byte
	header [ddp.UntaggedLen]byte
}

// send writes one whole message.
func (s *sender) send(j *job, segmentSize int) error {
	if !j.msg.Header.Tagged {
		s.msn[j.msg.Header.QN]++
		j.msg.Header.MSN = s.msn[j.msg.Header.QN]
	}
	for off, last := uint64(0), false; !last; {
		var h ddp.Header
		n := j.msg.Segment(&h, off, s.layout.MULPDU(segmentSize))
		s.append(&h, j.data[off:off+uint64(n)])
		off, last = off+uint64(n), h.Last
		if last || len(s.buf) >= batch {
			if _, err := s.w.Write(s.buf); err != nil {
				return err
			}
			s.buf = s.buf[:0]
		}
	}
	return nil
}

// append adds one FPDU to the buffer.
func (s *sender) append(h *ddp.Header, payload []byte) {
	header := s.header[:h.Put(s.header[:])]
	n := s.layout.FPDULen(s.pos, len(header)+len(payload))
	at := len(s.buf)
	s.buf = append(s.buf, make([]byte, n)...)
	s.layout.Put(s.buf[at:], s.pos, header, payload)
	s.pos += uint64(n)
}

// writeLoop sends the queued messages one after another.
func (p *Peer) writeLoop() {
	defer p.done.Done()
	for {
		j := p.nextJob()
		if j == nil {
			return
		}
		if err := p.tx.send(j, p.size); err != nil {
			p.fail(err)
			return
		}
		p.mu.Lock()
		j.sent = true
		p.jobs = p.jobs[1:]
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// nextJob waits for the message to send next; nil when there will be none.
func (p *Peer) nextJob() *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && (len(p.jobs) == 0 || !p.mayWrite) {
		if p.closing && len(p.jobs) == 0 {
			return nil
		}
		p.changed.Wait()
	}
	if p.err != nil {
		return nil
	}
	return p.jobs[0]
}

// post queues j and waits until it has been written.
func (p *Peer) post(j *job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.closing {
		return ErrClosed
	}
	p.jobs = append(p.jobs, j)
	p.changed.Broadcast()
	for !j.sent && p.err == nil {
		p.changed.Wait()
	}
	if j.sent {
		return nil
	}
	return p.err
}

// Send sends data as one message with opcode op, one of the four Sends, and
// returns when the byte stream has taken it. invalidate is the other side's
// STag for the opcodes with Invalidate.
func (p *Peer) Send(op rdmap.Opcode, invalidate uint32, data []byte) error {
	h := rdmap.UntaggedHeader(op, false, invalidate, 0, 0)
	return p.post(&job{msg: ddp.Message{Header: h, Length: uint64(len(data))}, data: data})
}

// Write writes data to the other side's memory and returns when the byte
// stream has taken it.
func (p *Peer) Write(stag uint32, to uint64, data []byte) error {
	h := rdmap.TaggedHeader(rdmap.Write, false, stag, to)
	return p.post(&job{msg: ddp.Message{Header: h, Length: uint64(len(data))}, data: data})
}

// Read fills data from the other side's memory and returns when all of it has
// come. It waits while the agreed number of Reads is outstanding.
func (p *Peer) Read(stag uint32, to uint64, data []byte) error {
	if p.result.ORD == 0 {
		return ErrNoReads
	}
	sink, base := p.Register(data)
	defer p.Deregister(sink)
	r := &read{stag: sink}
	req := rdmap.ReadRequest{SinkSTag: sink, SinkTO: base, Size: uint32(len(data)), SourceSTag: stag, SourceTO: to}
	p.mu.Lock()
	for p.err == nil && len(p.reads) >= int(p.result.ORD) {
		p.changed.Wait()
	}
	p.queueRead(r, req)
	defer p.mu.Unlock()
	for !r.done && p.err == nil {
		p.changed.Wait()
	}
	if r.done {
		return nil
	}
	return p.err
}

// queueRead queues a Read Request; p.mu is held.
func (p *Peer) queueRead(r *read, req rdmap.ReadRequest) {
	data := req.AppendTo(nil)
	h := rdmap.UntaggedHeader(rdmap.ReadRequestOp, false, 0, 0, 0)
	p.reads = append(p.reads, r)
	p.jobs = append(p.jobs, &job{msg: ddp.Message{Header: h, Length: uint64(len(data))}, data: data})
	p.changed.Broadcast()
}

// queueRTR queues the ready-to-receive indication that was agreed on.
func (p *Peer) queueRTR() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.result.RTR {
	case mpa.RTRWrite:
		p.jobs = append(p.jobs, &job{msg: ddp.Message{Header: rdmap.TaggedHeader(rdmap.Write, false, 1, 0)}})
	case mpa.RTRRead:
		p.queueRead(&read{}, rdmap.ReadRequest{SourceSTag: 1})
	case mpa.RTRSend:
		p.jobs = append(p.jobs, &job{msg: ddp.Message{Header: rdmap.UntaggedHeader(rdmap.Send, false, 0, 0, 0)}})
	}
}
