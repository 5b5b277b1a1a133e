package perf

import (
	"encoding/binary"
	"errors"

	"tapir/lab/conf/perfconf"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Work request ids.
const (
	idData = iota + 1 // the test's own messages
	idCtl             // credits and the final message
)

// finSize is the length of the final message of a client: messages and bytes.
const finSize = 16

var errEarly = errors.New("the client left before the test was over")

// sender is the client of the three bandwidth tests: it keeps Depth messages
// in flight on each queue pair.
type sender struct {
	side
	deadline frame.Time
	stopping bool
	fins     int
	wrs      []verbs.SendWR
}

// prepare posts receives for credits; only a Send test gets any.
func (s *sender) prepare(c *conn) error {
	c.credits = s.run.recvWindow()
	return c.recvCtl(2*c.credits/s.run.creditEvery() + 1)
}

// recvWindow is the number of receives that the server of a Send test keeps
// posted, creditEvery after how many of them it reports.
func (r *Run) recvWindow() int64  { return int64(2 * r.job.Depth) }
func (r *Run) creditEvery() int64 { return int64(max(1, r.job.Depth/2)) }

// recv posts n receives of that size.
func (c *conn) recv(n int64, id uint64, sge verbs.SGE) (err error) {
	for ; n > 0 && err == nil; n-- {
		_, err = c.qp.PostRecv(verbs.RecvWR{ID: id, SGEs: []verbs.SGE{sge}})
	}
	return err
}

// recvCtl posts receives of control messages, recvData of messages of the test.
func (c *conn) recvCtl(n int64) error            { return c.recv(n, idCtl, c.run.ctlSGE()) }
func (c *conn) recvData(n int64, size int) error { return c.recv(n, idData, c.run.targetSGE(size)) }

// sendCtl sends a control message. It is solicited, as the peer waits for it;
// besides, Wireshark's RPC-over-RDMA guesser leaves such Sends alone, while it
// calls plain ones below 16 octets malformed.
func (c *conn) sendCtl(b []byte) error {
	_, err := c.qp.PostSend(verbs.SendWR{ID: idCtl, Opcode: verbs.OpSend, Flags: verbs.Inline | verbs.Solicited,
		Inline: b})
	return err
}

func (s *sender) begin(now frame.Time) error {
	s.deadline = s.run.deadline(now)
	for _, c := range s.run.conns {
		if err := s.fill(c, now); err != nil {
			return err
		}
	}
	return nil
}

// more is the number of messages that may be posted on c now.
func (s *sender) more(c *conn, now frame.Time) int64 {
	n := int64(s.run.job.Depth) - (c.posted - c.completed)
	if s.run.job.Op == perfconf.SendBW {
		n = min(n, c.credits)
	}
	if iters := s.run.job.Iters; iters > 0 {
		n = min(n, iters-c.posted)
	}
	if now >= s.deadline {
		n = 0
	}
	return n
}

func (s *sender) fill(c *conn, now frame.Time) error {
	n := s.more(c, now)
	if n <= 0 {
		return nil
	}
	for int64(len(s.wrs)) < n {
		s.wrs = append(s.wrs, s.request())
	}
	for i := range s.wrs[:n] {
		s.wrs[i].RemoteAddr, s.wrs[i].RKey = c.remote.Addr, c.remote.STag
	}
	c.posted += n
	c.credits -= n
	_, err := c.qp.PostSend(s.wrs[:n]...)
	return err
}

// opcodes of the bandwidth tests.
var opcodes = map[perfconf.Op]verbs.Opcode{
	perfconf.WriteBW: verbs.OpWrite, perfconf.ReadBW: verbs.OpRead, perfconf.SendBW: verbs.OpSend,
}

func (s *sender) request() verbs.SendWR {
	sge := s.run.sourceSGE(s.run.job.Size)
	if s.run.job.Op == perfconf.ReadBW {
		sge = s.run.targetSGE(s.run.job.Size)
	}
	return verbs.SendWR{ID: idData, Opcode: opcodes[s.run.job.Op], SGEs: []verbs.SGE{sge}}
}

func (s *sender) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	switch {
	case wc.Opcode == verbs.WCRecv:
		c.credits += s.run.creditEvery()
		if err := c.recvCtl(1); err != nil {
			return err
		}
	case wc.ID == idCtl:
		if s.fins++; s.fins == len(s.run.conns) {
			s.run.finish(nil, now)
		}
		return nil
	default:
		c.completed++
		s.run.moved(s.run.job.Size)
	}
	if err := s.fill(c, now); err != nil {
		return err
	}
	return s.stop(now)
}

// stop sends the final message once nothing is in flight any more.
func (s *sender) stop(now frame.Time) error {
	if s.stopping {
		return nil
	}
	for _, c := range s.run.conns {
		finished := now >= s.deadline || s.run.job.Iters > 0 && c.posted == s.run.job.Iters
		if !finished || c.completed != c.posted {
			return nil
		}
	}
	s.stopping = true
	s.run.measured(now)
	for _, c := range s.run.conns {
		if err := c.sendFin(); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) sendFin() error {
	fin := binary.BigEndian.AppendUint64(nil, uint64(c.completed))
	return c.sendCtl(binary.BigEndian.AppendUint64(fin, uint64(c.completed)*uint64(c.run.job.Size)))
}

// receiver is the server of the bandwidth tests. For Write and Read it only
// waits for the client's final message.
type receiver struct {
	side
	fins int
}

func (v *receiver) isSend() bool { return v.run.job.Op == perfconf.SendBW }

func (v *receiver) prepare(c *conn) error {
	if !v.isSend() {
		return c.recvCtl(1)
	}
	return v.recv(c, v.run.recvWindow()+1) // one more for the final message
}

func (v *receiver) recv(c *conn, n int64) error { return c.recvData(n, max(v.run.job.Size, finSize)) }

func (v *receiver) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if wc.Opcode != verbs.WCRecv {
		return nil
	}
	if !v.isSend() {
		fin := v.run.ctl
		c.completed = int64(binary.BigEndian.Uint64(fin))
		v.run.messages += c.completed
		v.run.bytes += int64(binary.BigEndian.Uint64(fin[8:]))
		v.fin(now)
		return nil
	}
	if wc.Solicited {
		v.fin(now)
		return nil
	}
	c.completed++
	v.run.moved(int(wc.ByteLen))
	if err := v.recv(c, 1); err != nil {
		return err
	}
	if c.completed%v.run.creditEvery() == 0 {
		return c.sendCtl(nil)
	}
	return nil
}

func (v *receiver) fin(now frame.Time) {
	if v.fins++; v.fins == v.run.job.QPs {
		v.run.measured(now)
	}
}

func (v *receiver) closed(frame.Time) error {
	if v.fins < v.run.job.QPs {
		return errEarly
	}
	return nil
}
