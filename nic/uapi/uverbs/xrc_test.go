package uverbs

import (
	"syscall"
	"testing"

	"tapir/nic/ring"
	"tapir/nic/verbs"
)

// polled takes one completion by POLL_CQ.
func (s *station) polled(status verbs.Status) body {
	s.tb.Helper()
	var got body
	s.cable.until("a completion", func() bool {
		got = s.must(21, fields(s.cqh, 1), 8+wcLen)
		return got.u32(0) == 1
	})
	if got.u32(16) != uint32(status) {
		s.tb.Fatalf("completion of request %d: status %d, want %v", got.u64(8), got.u32(16), status)
	}
	return got
}

// xrcRequest is a request of an XRC initiator to the shared receive queue srq at the peer.
func xrcRequest(id uint64, opcode int, addr uint64, key, srq uint32) []byte {
	return sendWR(id, 1, opcode, 2, 0, addr, key, uint32(0), uint64(0), uint32(0), srq)
}

// Programs use XRC by commands alone, as no library of theirs knows it: a Send and a Write
// with immediate data, by POST_SEND and by the ring, complete in the queue that the request
// names; a Write and a Read pass; a number that the domain has not got ends the connection.
// A domain is in use as long as anything of it is there. RD-18
func TestXRC(t *testing.T) {
	c := newCable(t, verbs.RoCE)
	a, b := c.ends[0], c.ends[1]
	for _, s := range c.ends {
		s.pdh, s.cqh = s.pd(), s.cq(0xc0, 32, -1)
		s.bufAt, s.buf = s.prog.Map(32768)
		mr := s.must(9, fields(s.bufAt, uint64(len(s.buf)), s.bufAt, s.pdh, 0x1f), 12)
		s.mrh, s.key = mr.u32(0), mr.u32(4)
	}
	b.fails(syscall.EOPNOTSUPP, 37, fields(uint32(7), 0), 4) // a domain that a file names
	xrcd := b.must(37, fields(noFile, 0), 4).u32(0)
	var handles, numbers [2]uint32
	for i := range handles {
		in := fields(uint64(3), srqXRC, b.pdh, 4, 2, 0, xrcd, b.cqh, 0)
		q := b.must(39, in, srqAnswerLen+srqUHWLen)
		handles[i], numbers[i] = q.u32(0), q.u32(12)
	}
	initiator := a.must(24, qpRequest(1, a.pdh, a.cqh, typeXRCSend), createQPAnswerLen+2*ringLen)
	target := b.must(24, qpRequest(2, xrcd, 0, typeXRCRecv), createQPAnswerLen+2*ringLen)
	for s, qp := range map[*station]body{a: initiator, b: target} {
		s.qph, s.v = qp.u32(0), s.server.QP(s.prog.PID, qp.u32(4))
		s.init()
	}
	c.connect()

	for i, srq := range handles {
		sge := fields(b.bufAt+uint64(i)*1000, 1000, b.key)
		if bad, err := b.client.post(36, srq, recvWRLen, append(sge, sge...), fields(uint64(10+i), 1, 0),
			fields(uint64(20+i), 1, 0)); err != nil {
			t.Fatalf("receive %d: %v", bad, err)
		}
	}
	const write, writeImm, send, read = 0, 1, 2, 4
	post := func(octets int, wr []byte) {
		t.Helper()
		if _, err := a.client.post(28, a.qph, sendWRLen, fields(a.bufAt, octets, a.key), wr); err != nil {
			t.Fatal(err)
		}
		a.polled(verbs.StatusSuccess)
	}
	copy(a.buf, "by command")
	post(10, xrcRequest(1, send, 0, 0, numbers[1]))
	if wc := b.polled(verbs.StatusSuccess); wc.u64(8) != 11 || wc.u32(28) != 10 ||
		string(b.buf[1000:1010]) != "by command" {
		t.Errorf("receive %d of %d octets: %q", wc.u64(8), wc.u32(28), b.buf[1000:1010])
	}
	post(10, xrcRequest(2, writeImm, b.bufAt+5000, b.key, numbers[0]))
	if wc := b.polled(verbs.StatusSuccess); wc.u64(8) != 10 || string(b.buf[5000:5010]) != "by command" {
		t.Errorf("receive %d: %q", wc.u64(8), b.buf[5000:5010])
	}
	post(5000, xrcRequest(3, write, b.bufAt+8000, b.key, numbers[0]))
	clear(a.buf)
	post(5000, xrcRequest(4, read, b.bufAt+8000, b.key, numbers[0]))
	if string(a.buf[:10]) != "by command" {
		t.Errorf("read %q", a.buf[:10])
	}

	var err error
	a.send, err = ring.OpenSendQueue(a.mmap(initiator[createQPAnswerLen+ringLen:]), 2, 64)
	ok(t, err)
	a.post(verbs.SendWR{ID: 5, Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: []byte("by ring"),
		RemoteSRQ: numbers[0]})
	a.polled(verbs.StatusSuccess)
	if wc := b.polled(verbs.StatusSuccess); wc.u64(8) != 20 || string(b.buf[:7]) != "by ring" {
		t.Errorf("receive %d: %q", wc.u64(8), b.buf[:7])
	}

	b.fails(syscall.EBUSY, 38, fields(xrcd), 0)
	b.must(35, fields(handles[0], 0), 4)
	a.post(verbs.SendWR{ID: 6, Opcode: verbs.OpSend, RemoteSRQ: numbers[0]})
	a.polled(verbs.StatusRemoteInvalid)
	if !b.ended() {
		t.Errorf("the target is in state %v", b.v.State())
	}
	b.must(27, fields(b.qph, 0), 4)
	b.must(35, fields(handles[1], 0), 4)
	b.must(38, fields(xrcd), 0)
}
