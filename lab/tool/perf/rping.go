package perf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// rping, the ping of librdmacm, goes through every basic operation once a
// round. The client fills a buffer and advertises it in a Send; the server
// reads it with an RDMA Read and answers with a Send. The client advertises a
// second buffer; the server writes what it read there with an RDMA Write and
// answers with a Send. The client compares. An advertisement is address, STag
// and length of a buffer, big-endian; answers have its length and no meaning.

const advertLen = 16

var errRpingShort = errors.New("rping: the peer sent something that is no advertisement")

func appendAdvert(b []byte, addr uint64, stag, length uint32) []byte {
	b = binary.BigEndian.AppendUint64(b, addr)
	b = binary.BigEndian.AppendUint32(b, stag)
	return binary.BigEndian.AppendUint32(b, length)
}

func parseAdvert(b []byte) region {
	return region{
		Addr: binary.BigEndian.Uint64(b), STag: binary.BigEndian.Uint32(b[8:]),
		Len: uint64(binary.BigEndian.Uint32(b[12:])),
	}
}

// advert reads the message that has just been received and posts its
// receive again.
func (c *conn) advert(wc *verbs.WC) (region, error) {
	if wc.ByteLen != advertLen {
		return region{}, errRpingShort
	}
	a := parseAdvert(c.run.ctl)
	return a, c.recvCtl(1)
}

// say tells what a ping carried.
func (r *Run) say(who string, data []byte, now frame.Time) {
	if r.progress == nil {
		return
	}
	text, _, _ := bytes.Cut(data, []byte{0})
	p := r.soFar(now)
	p.Data = fmt.Sprintf("%s: %s", who, text)
	r.progress(p)
}

type rpingServer struct {
	side
	size    int
	written bool // the next advertisement is of a buffer to write to
}

// prepare posts receives for advertisements.
func (s *rpingServer) prepare(c *conn) error { return c.recvCtl(2) }

func (s *rpingServer) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	switch wc.Opcode {
	case verbs.WCRecv:
		a, err := c.advert(wc)
		if err != nil {
			return err
		}
		return s.transfer(c, a)
	case verbs.WCRead:
		s.run.moved(s.size)
		s.run.say("server ping data", s.run.target()[:s.size], now)
		return c.sendCtl(make([]byte, advertLen))
	}
	return nil
}

// transfer reads from or writes to the client's buffer.
func (s *rpingServer) transfer(c *conn, a region) error {
	wr := verbs.SendWR{ID: idData, Opcode: verbs.OpRead, RemoteAddr: a.Addr, RKey: a.STag}
	if s.written = !s.written; s.written {
		if a.Len == 0 || a.Len > uint64(len(s.run.target())) {
			return fmt.Errorf("rping: the client advertises %d bytes, this side takes 1 to %d", a.Len,
				len(s.run.target()))
		}
		s.size = int(a.Len)
		s.run.job.Size = s.size
		wr.SGEs = []verbs.SGE{s.run.targetSGE(s.size)}
		_, err := c.qp.PostSend(wr)
		return err
	}
	wr.Opcode = verbs.OpWrite
	wr.SGEs = []verbs.SGE{s.run.targetSGE(min(s.size, int(a.Len)))}
	if _, err := c.qp.PostSend(wr); err != nil {
		return err
	}
	return c.sendCtl(make([]byte, advertLen))
}

type rpingClient struct {
	side
	sent    frame.Time
	written bool // the next answer says that the ping is back
}

// prepare posts receives for answers.
func (p *rpingClient) prepare(c *conn) error { return c.recvCtl(2) }

func (p *rpingClient) begin(now frame.Time) error { return p.ping(now) }

// ping fills the source as rping does and advertises it.
func (p *rpingClient) ping(now frame.Time) error {
	r := p.run
	p.sent, p.written = now, false
	src := r.source()[:r.job.Size]
	n := copy(src, fmt.Sprintf("rdma-ping-%d: ", r.messages))
	for i := n; i < len(src); i++ {
		src[i] = byte('A' + (int(r.messages)+i-n)%('z'-'A'+1))
	}
	src[len(src)-1] = 0
	clear(r.target())
	sge := r.sourceSGE(len(src))
	return r.conns[0].sendCtl(appendAdvert(nil, sge.Addr, sge.LKey, sge.Length))
}

func (p *rpingClient) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if wc.Opcode != verbs.WCRecv {
		return nil
	}
	if _, err := c.advert(wc); err != nil {
		return err
	}
	r := p.run
	if !p.written {
		p.written = true
		sge := r.targetSGE(r.job.Size)
		return c.sendCtl(appendAdvert(nil, sge.Addr, sge.LKey, sge.Length))
	}
	return p.back(now)
}

// back compares what came back and goes on.
func (p *rpingClient) back(now frame.Time) error {
	r := p.run
	// A Linux server writes up to the final zero only.
	want, _, _ := bytes.Cut(r.source()[:r.job.Size], []byte{0})
	if !bytes.HasPrefix(r.target(), want) {
		return fmt.Errorf("rping: ping %d came back changed", r.messages)
	}
	r.lat.add(max(0, now.Sub(p.sent)) / time.Duration(2))
	r.moved(r.job.Size)
	r.say("ping data", r.target(), now)
	if r.messages < r.job.Iters {
		return p.ping(now)
	}
	r.finish(nil, now)
	return nil
}
