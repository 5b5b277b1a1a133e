package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	fastiscsi "tapir/nic/fastlinq/iscsi"
	"tapir/nic/iscsi"
	"tapir/nic/scsi"
	"tapir/nic/toe"
	"tapir/nic/toe/congestion"
	"tapir/nic/toe/receive"
	"tapir/nic/toe/recovery"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	wire "tapir/wire/iscsi"
	"tapir/wire/tcp"
)

// A PDU of the target that breaks a rule ends the session with a reset; the event
// ISCSI_CONN_ERROR says in the log and in counters which rule that is.
//
// IS-16
func TestISCSIErrors(t *testing.T) {
	const readLen, writeLen = 1024, 512 << 10
	type pdu struct {
		op         wire.Opcode
		task       int // 0: the read, 1: the write, others: from the read's tag on
		flags      byte
		ttt, sn    uint32
		off, want  uint32
		lun        byte
		ahs, stat  byte // ahs: what it has in AHSLength, less 1; stat: how far StatSN is beside what is expected
		data       int
		length     int // that the header tells of; 0: that of the data
		firstOctet byte
		flip       int // octet of the PDU that is wrong; 0: none
	}
	const free = 0xffffffff
	const first = 256 << 10 // octets that the write has sent at once
	for want, p := range map[iscsi.Error]pdu{
		iscsi.ErrAHSLen:        {op: wire.NopIn, task: -1, flags: 0x80, ttt: 5, ahs: 10},
		iscsi.ErrAHSType:       {op: wire.NopIn, task: -1, flags: 0x80, ttt: 5, ahs: 2},
		iscsi.ErrOpcode:        {op: 0x2a, flags: 0x80},
		iscsi.ErrSegmentLength: {op: wire.Response, flags: 0x80, length: 1 << 20},
		iscsi.ErrHeaderDigest:  {op: wire.Response, flags: 0x80, flip: 33},
		iscsi.ErrNopInLength:   {op: wire.NopIn, task: -1, flags: 0x80, ttt: 5, data: 4},
		iscsi.ErrR2TLength:     {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first, want: 512, data: 4},
		iscsi.ErrLengthNotZero: {op: wire.LogoutRsp, flags: 0x80, data: 4},
		iscsi.ErrFBit:          {op: wire.Response},
		iscsi.ErrFBitSBit:      {op: wire.DataIn, flags: 1, ttt: free, data: 512},
		iscsi.ErrITTRange:      {op: wire.Response, task: 99, flags: 0x80},
		iscsi.ErrTaskNotValid:  {op: wire.R2T, flags: 0x80, ttt: 5, want: 512},
		iscsi.ErrInvalidITT:    {op: wire.Response, task: -1, flags: 0x80},
		iscsi.ErrDataInTTT:     {op: wire.DataIn, flags: 0x80, ttt: 5, data: 512},
		iscsi.ErrDataSN:        {op: wire.DataIn, flags: 0x80, ttt: free, sn: 1, data: 512},
		iscsi.ErrBufferOffset:  {op: wire.DataIn, flags: 0x80, ttt: free, off: 4, data: 512},
		iscsi.ErrDataOverrun:   {op: wire.DataIn, flags: 0x80, ttt: free, data: readLen + 4},
		iscsi.ErrPlacement:     {op: wire.DataIn, task: 1, flags: 0x80, ttt: free, data: 512},
		iscsi.ErrLength:        {op: wire.DataIn, flags: 0x80, ttt: free},
		iscsi.ErrR2TTTT:        {op: wire.R2T, task: 1, flags: 0x80, ttt: free, off: first, want: 512},
		iscsi.ErrR2TSN:         {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, sn: 7, off: first, want: 512},
		iscsi.ErrR2TOffset:     {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first + 512, want: 512},
		iscsi.ErrDesired0:      {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first},
		iscsi.ErrDesired1:      {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first, want: 2 << 20},
		iscsi.ErrDesired2:      {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first, want: writeLen},
		iscsi.ErrLUN:           {op: wire.R2T, task: 1, flags: 0x80, ttt: 5, off: first, want: 512, lun: 3},
		iscsi.ErrSenseLength:   {op: wire.Response, flags: 0x80, data: 20, firstOctet: 1},
		iscsi.ErrExpStatSN:     {op: wire.Response, flags: 0x80, stat: 5},
		iscsi.ErrUnknown:       {op: wire.DataIn, flags: 0x80, ttt: free, data: 512, flip: 100},
	} {
		s := newStorage(t, initiatorAlone, true, "", "")
		s.work(1, 512)
		e := s.ends[0]
		e.say(nil)
		for _, r := range []*iscsi.Request{command(0, nil, make([]byte, readLen), func(*iscsi.Request) {}),
			command(0, make([]byte, writeLen), nil, func(*iscsi.Request) {})} {
			s.i.Submit(r)
		}
		s.run(time.Second)
		agreed, _ := s.i.Agreed()
		var h wire.BHS
		h[0], h[1], h[9] = byte(p.op), p.flags, p.lun
		copy(h[16:20], e.heard[16:20]) // the tag of the read
		if p.task == -1 {
			h.Put(wire.ITT, free)
		} else {
			h.Put(wire.ITT, h.U32(wire.ITT)+uint32(p.task))
		}
		h.Put(wire.TTT, p.ttt)
		h.Put(wire.StatSN, agreed.ExpStatSN+uint32(p.stat))
		h.Put(wire.DataSN, p.sn)
		h.Put(wire.Offset, p.off)
		h.Put(wire.Desired, p.want)
		data := make([]byte, p.data)
		if p.data > 0 {
			data[0] = p.firstOctet
		}
		h.SetDataLen(max(p.data, p.length))
		d := wire.Digests{Header: true, Data: true}
		b := d.Head(nil, &h)
		if p.ahs > 0 {
			h[4] = 1
			b = append(h[:], 0, p.ahs-1, 1, 0)
			b = wire.Digests{Data: true}.Tail(b, b)
		}
		b = d.Tail(append(b, data...), data)
		if p.flip > 0 {
			b[p.flip] ^= 4
		}
		e.say(b)
		s.run(time.Second)
		if got := s.a.iscsiRow("iscsi_error", want.String()); got != "1" || s.err == nil ||
			s.a.iscsiRow("iscsi_event", "ISCSI_CONN_ERROR") != "1" {
			t.Errorf("%v: counted %q, events %q, %v", want, got, s.a.iscsiRow("iscsi_event", "ISCSI_CONN_ERROR"), s.err)
		}
		if !s.a.logged("ISCSI_CONN_ERROR: " + want.String()) {
			t.Errorf("%v is not in the log", want)
		}
		if s.conn.State() != "terminated" || s.conn.Release() != nil || s.b.dev.TCP().Stats().Open != 0 {
			t.Errorf("%v: the connection is %s, the peer has %d", want, s.conn.State(), s.b.dev.TCP().Stats().Open)
		}
	}
}

// A target that asks for data again before it has got what it asked for, and one whose PDU comes before
// the driver has told of what the login has agreed on, end the session.
//
// IS-16
func TestISCSIErrorsOfOrder(t *testing.T) {
	check := func(s *storage, want iscsi.Error) {
		t.Helper()
		if s.run(time.Second); s.a.iscsiRow("iscsi_error", want.String()) != "1" || !errors.Is(s.err, want) ||
			s.a.iscsiRow("iscsi_event", "ISCSI_CONN_ERROR") != "1" || s.conn.State() != "terminated" {
			t.Errorf("%v: counted %q, %v, %s", want, s.a.iscsiRow("iscsi_error", want.String()), s.err, s.conn.State())
		}
	}
	s := newStorage(t, initiatorAlone, false, "", "")
	s.work(1, 512)
	e := s.ends[0]
	e.say(nil)
	s.i.Submit(command(0, make([]byte, 512<<10), nil, func(*iscsi.Request) {}))
	s.run(time.Second)
	var b []byte
	for k := range 2 {
		var h wire.BHS
		h[0], h[1] = byte(wire.R2T), wire.Final
		copy(h[16:20], e.heard[16:20])
		h.Put(wire.TTT, 5)
		h.Put(wire.R2TSN, uint32(k))
		h.Put(wire.Offset, uint32(256<<10+k*512))
		h.Put(wire.Desired, 512)
		b = append(b, h[:]...)
	}
	e.say(b)
	check(s, iscsi.ErrR2TCount)

	s = newStorage(t, nobody, false, "", "")
	c, err := s.a.function().Acquire()
	must(t, err)
	agreed, _ := s.i.Agreed()
	tcb, err := s.a.dev.TCP().Upload(s.tcp)
	must(t, err)
	s.tcp, err = c.Offload(tcb, s)
	must(t, err)
	s.conn = c
	s.i.Offload(c)
	var h wire.BHS
	h[0], h[1] = byte(wire.NopIn), wire.Final
	h.Put(wire.ITT, wire.Unassigned)
	h.Put(wire.TTT, 5)
	h.Put(wire.StatSN, agreed.ExpStatSN)
	s.ends[0].say(h[:])
	check(s, iscsi.ErrBeforeUpdate)
}

// logged tells whether a line with that text is in the log.
func (n *node) logged(text string) bool {
	for _, l := range n.dev.Common.Log.Since(0) {
		if strings.Contains(l.Text, text) {
			return true
		}
	}
	return false
}

// queueVector is the vector of the first completion queue.
func (n *node) queueVector() int {
	for _, i := range n.dev.ShowIRQ() {
		if strings.Contains(i.User, "cnq 0") {
			return i.Vector
		}
	}
	n.w.t.Fatal("no vector")
	return 0
}

// While nobody looks at the completion queue, PDUs wait there and their data in receive
// buffers; what finds no room ends the session.
//
// IS-05 IS-16
func TestISCSIQueuesFill(t *testing.T) {
	for _, c := range []struct {
		set  string
		data int
		most int
		want iscsi.Error
	}{{"iscsi_rq_num_entries=5", wire.HeaderLen, 5, iscsi.ErrRQFull},
		{"", wire.HeaderLen, 16, iscsi.ErrRQFull},
		{"iscsi_cq_num_entries=20", 0, 20, iscsi.ErrLocalCompletion}} {
		for _, n := range []int{c.most, c.most + 1} {
			s := newStorage(t, initiatorAlone, false, c.set, "")
			e, irqs := s.ends[0], s.a.dev.IRQ()
			v := s.a.queueVector()
			must(t, irqs.MaskVector(v))
			agreed, _ := s.i.Agreed()
			var b []byte
			for k := range n {
				var h wire.BHS // a Reject of a digest, or a ping
				h[0], h[1], h[2] = byte(wire.Reject), wire.Final, 2
				h.Put(wire.ITT, wire.Unassigned)
				h.Put(wire.StatSN, agreed.ExpStatSN+uint32(k))
				data := append([]byte{byte(wire.DataOut)}, make([]byte, wire.HeaderLen-1)...)
				if c.data == 0 {
					h[0], h[2], data = byte(wire.NopIn), 0, nil
					h.Put(wire.TTT, 9)
				}
				h.SetDataLen(len(data))
				b = append(append(b, h[:]...), data...)
			}
			e.say(b)
			s.run(time.Second)
			if n == c.most {
				if got := s.a.iscsiRow("iscsi_cq 0", ""); s.err != nil || !strings.HasPrefix(got, fmt.Sprint(n, "/")) {
					t.Errorf("%q, %d PDUs: %v, CQ %s", c.set, n, s.err, got)
				}
				must(t, irqs.UnmaskVector(v, s.now))
				s.run(time.Second)
				if got := s.a.iscsiRow("iscsi_cq 0", ""); s.err != nil || !strings.HasPrefix(got, "0/") {
					t.Errorf("%q: after the interrupt: %v, CQ %s", c.set, s.err, got)
				}
				continue
			}
			if got := s.a.iscsiRow("iscsi_error", c.want.String()); got != "1" || s.err == nil {
				t.Errorf("%q, %d PDUs: %v counted %q, %v", c.set, n, c.want, got, s.err)
			}
		}
	}
}

// Commands wait in the target's queue of commands while nobody looks at the completion queue. The window
// (MaxCmdSN) keeps ordinary ones to its length, but not those that are immediate: one too many ends the
// session.
//
// IS-05 IS-16
func TestISCSICommandsFill(t *testing.T) {
	for _, n := range []int{5, 6} {
		s := newStorage(t, both, false, "", "iscsi_cmdq_num_entries=5")
		s.work(1, 512)
		irqs, v := s.b.dev.IRQ(), s.b.queueVector()
		must(t, irqs.MaskVector(v))
		var b []byte
		for k := range n {
			var h wire.BHS // TEST UNIT READY
			h[0], h[1] = byte(wire.Command)|0x40, wire.Final
			h.Put(wire.ITT, uint32(1000+k))
			b = append(b, h[:]...)
		}
		s.say(b)
		s.run(time.Second)
		got, want := s.b.iscsiRow("iscsi_error", iscsi.ErrCmdQFull.String()), ""
		if n == 6 {
			want = "1"
		}
		if full := s.b.iscsiRow("iscsi_cmdq 0", ""); got != want || !strings.HasPrefix(full, "5/5/") && n == 5 {
			t.Errorf("%d commands: counted %q, %s in the queue", n, got, full)
		}
		if s.target.Stats()[iscsi.Overrun] != uint64(n-5) {
			t.Errorf("%d commands: %d overruns", n, s.target.Stats()[iscsi.Overrun])
		}
	}
}

// What there is of tasks and of commands bounds what is outstanding on the wire: of an
// initiator by its tasks, of a target by its queue of commands.
//
// IS-01 IS-05
func TestISCSITasksBound(t *testing.T) {
	for _, c := range []struct {
		set, targetSet string
		most           int
	}{{"", "", 30}, {"iscsi_num_tasks=3", "", 3}, {"iscsi_conn_tasks=7", "", 7}, {"", "iscsi_cmdq_num_entries=5", 5}} {
		s := newStorage(t, both, false, c.set, c.targetSet)
		s.work(1, 512)
		done := 0
		for range 30 {
			s.i.Submit(command(0, nil, make([]byte, 4096), func(*iscsi.Request) { done++ }))
		}
		most := 0
		s.until(time.Minute, func() bool {
			most = max(most, s.conn.Tasks())
			return done == 30 || s.err != nil
		})
		if most > c.most || s.err != nil || c.most < 30 && most != c.most {
			t.Errorf("%q, %q: %d outstanding, want %d; %v", c.set, c.targetSet, most, c.most, s.err)
		}
	}
}

// The ring of PDUs that are not acknowledged bounds how many are in flight.
//
// IS-02 IS-10
func TestISCSIRingsBound(t *testing.T) {
	s := newStorage(t, both, false, "", "")
	s.work(60, 64<<10)
	sq, uhq := s.ends[0].conn.Rings()
	if sq.Size != 512 || uhq.Size != 512 || uhq.Peak == 0 || uhq.Peak > 512 {
		t.Errorf("SQ %d, UHQ %d, at most %d", sq.Size, uhq.Size, uhq.Peak)
	}
	s = newStorage(t, both, false, "iscsi_num_uhq_pages_in_ring=3 iscsi_conn_tasks=600", "")
	sq, uhq = s.conn.Rings()
	if sq.Size != 1024 || uhq.Size != 3*512 {
		t.Errorf("SQ %d, UHQ %d", sq.Size, uhq.Size)
	}
}

// segmentsOf are the segments that a NIC has sent since some frame, with flags and the type of
// service.
func (s *storage) segmentsOf(n *node, from int) (list []tcp.Header, tos []byte) {
	for _, r := range n.all[from:] {
		if r.Dir != frame.Outbound || r.Port != frame.Wire || len(r.Data) < ether.HeaderLen+40 || r.Data[23] != 6 {
			continue
		}
		h, _, err := tcp.Parse(r.Data[ether.HeaderLen+20:])
		must(s.t, err)
		list, tos = append(list, h), append(tos, r.Data[ether.HeaderLen+1])
	}
	return list, tos
}

// What ends a connection is told by an event of its own: limits of FINs, keep-alive probes,
// retransmissions and time are those of the function.
//
// IS-06 IS-11 IS-14 IS-16
func TestISCSIEvents(t *testing.T) {
	lose := func(s *storage) { s.lose = func(_ *node, b []byte) bool { return b[12] == 8 && b[13] == 0 } } // but not ARP
	for _, c := range []struct {
		event, set string
		do         func(s *storage)
		after      time.Duration
		check      func(s *storage, sent []tcp.Header) string
	}{
		{"ASYN_ABORT_RCVD", "", func(s *storage) { s.ends[0].tcp.Abort() }, time.Second, nil},
		{"ASYN_CLOSE_RCVD", "", func(s *storage) { s.ends[0].tcp.CloseBoth() }, time.Second, nil},
		{"ASYN_TERMINATE_DONE", "", func(s *storage) { _, err := s.conn.Terminate(true); must(s.t, err) }, time.Second,
			func(s *storage, sent []tcp.Header) string {
				if len(sent) != 1 || !sent[0].Flags.Has(tcp.RST) {
					return "an abort is one reset"
				}
				return ""
			}},
		{"ASYN_TERMINATE_DONE", "", func(s *storage) { _, err := s.conn.Terminate(false); must(s.t, err) }, time.Second,
			func(s *storage, sent []tcp.Header) string {
				if s.a.dev.TCP().Stats().TimeWait != 1 {
					return "no TIME-WAIT"
				}
				if s.run(4 * time.Second); s.a.dev.TCP().Stats().TimeWait != 0 {
					return "two_msl_timer: still in TIME-WAIT after 5 s"
				}
				return ""
			}},
		{"TCP_CONN_ERROR", "", func(s *storage) { s.tcp.Abort() }, time.Second, nil},
		{"ASYN_MAX_RT_CNT", "iscsi_max_fin_rt=2", func(s *storage) { lose(s); s.conn.CloseBoth() }, time.Minute,
			func(s *storage, sent []tcp.Header) string { return countFINs(sent, 3) }},
		{"ASYN_MAX_RT_CNT", "", func(s *storage) { lose(s); s.conn.CloseBoth() }, time.Minute,
			func(s *storage, sent []tcp.Header) string { return countFINs(sent, 4) }},
		{"ASYN_MAX_RT_CNT", "", func(s *storage) { lose(s); s.i.Submit(command(0, nil, make([]byte, 512), nil)) }, time.Hour, nil},
		{"ASYN_MAX_RT_TIME", "user_timeout=5s", func(s *storage) {
			lose(s)
			s.i.Submit(command(0, nil, make([]byte, 512), nil))
		}, 6 * time.Second, nil},
		{"ASYN_MAX_KA_PROBES_CNT", "keepalive=10s ka_interval=1s iscsi_ka_max_probe_cnt=4", lose, 30 * time.Second,
			func(s *storage, sent []tcp.Header) string {
				if len(sent) != 4 {
					return fmt.Sprint(len(sent), " probes, want 4")
				}
				return ""
			}},
		{"ASYN_MAX_KA_PROBES_CNT", "keepalive=10s ka_interval=1s", lose, 30 * time.Second,
			func(s *storage, sent []tcp.Header) string {
				if len(sent) != 10 {
					return fmt.Sprint(len(sent), " probes, want 10")
				}
				return ""
			}},
		{"ASYN_SYN_RCVD", "", func(s *storage) { s.forgets(s.b) }, time.Second,
			func(s *storage, sent []tcp.Header) string {
				if len(sent) != 1 || sent[0].Flags != tcp.ACK || s.conn.State() != "updated" {
					return "a SYN has a challenge ACK for answer, and the connection goes on"
				}
				return ""
			}},
		{"ASYN_FIN_WAIT2", "iscsi_half_way_close_timeout=3s", func(s *storage) {
			s.ends[0].deaf = true
			s.conn.CloseBoth()
		}, 4 * time.Second, nil},
	} {
		s := newStorage(t, initiatorAlone, false, c.set, "")
		s.work(1, 512)
		s.run(100 * time.Millisecond)
		from := len(s.a.all)
		c.do(s)
		s.run(c.after)
		sent, _ := s.segmentsOf(s.a, from)
		if s.a.iscsiRow("iscsi_event", c.event) != "1" || !s.a.logged(c.event) && c.event != "ASYN_TERMINATE_DONE" &&
			c.event != "ASYN_CLOSE_RCVD" {
			t.Errorf("%s, %q: counted %q", c.event, c.set, s.a.iscsiRow("iscsi_event", c.event))
		}
		if c.check != nil {
			if bad := c.check(s, sent); bad != "" {
				t.Errorf("%s, %q: %s", c.event, c.set, bad)
			}
		}
		if c.event != "ASYN_CLOSE_RCVD" && c.event != "ASYN_SYN_RCVD" && (s.conn.State() != "terminated" || s.conn.Release() != nil) {
			t.Errorf("%s, %q: the connection is %s", c.event, c.set, s.conn.State())
		}
	}
}

// forgets has a NIC send a SYN on the connection that it has, as if it had begun again.
func (s *storage) forgets(n *node) {
	for _, r := range slices.Backward(n.all) {
		b := bytes.Clone(r.Data)
		if r.Dir != frame.Outbound || b[12] != 8 || b[13] != 0 || b[23] != ip.ProtoTCP {
			continue
		}
		h, body, err := ip.Parse(b[ether.HeaderLen:])
		must(s.t, err)
		copy(body[12:], []byte{body[12], byte(tcp.SYN), body[14], body[15], 0, 0})
		binary.BigEndian.PutUint16(body[16:], ip.Checksum(body, ip.PseudoSum(h.Src, h.Dst, h.Proto, len(body))))
		s.send(n, b, frame.Offload{})
		return
	}
	s.t.Fatal("it has sent nothing")
}

// stations are the destinations of the segments that a NIC has sent since some frame.
func (s *storage) stations(n *node, from int) (list []ether.Addr) {
	for _, r := range n.all[from:] {
		if r.Dir == frame.Outbound && r.Port == frame.Wire && len(r.Data) > 40 && r.Data[23] == ip.ProtoTCP {
			list = append(list, ether.Addr(r.Data[:6]))
		}
	}
	return list
}

// A peer gets another station address while commands are outstanding. The driver tells the firmware
// of it by MAC_UPDATE; from then on all frames go to the new address, and every command is answered.
func TestISCSIMACUpdate(t *testing.T) {
	s := newStorage(t, both, true, "", "")
	s.work(1, 512)
	s.run(2 * time.Second) // the entries are not fresh any more
	before, after := s.b.dev.cfg.MAC, ether.Addr{2, 0, 0, 0, 9, 9}
	if s.conn.Station() != before || s.ends[0].conn.Station() != s.a.dev.cfg.MAC {
		t.Errorf("stations %v and %v", s.conn.Station(), s.ends[0].conn.Station())
	}
	left := 40
	from := len(s.a.all)
	for k := range left {
		s.i.Submit(command(uint64(k), bytes.Repeat([]byte{7}, 64<<10), nil, func(r *iscsi.Request) {
			if left--; r.Status != scsi.Good {
				t.Errorf("status %v", r.Status)
			}
			if left == 20 {
				must(t, s.b.dev.SetMAC(after, s.now))
			}
		}))
	}
	s.until(time.Minute, func() bool { return left == 0 || s.err != nil })
	list := s.stations(s.a, from)
	turn := slices.Index(list, after)
	if s.err != nil || turn < 100 || len(list)-turn < 100 || slices.Contains(list[turn:], before) {
		t.Errorf("%v: of %d frames those from %d on go to the new address", s.err, len(list), turn)
	}
	if s.conn.Station() != after || s.a.iscsiRow("ramrod", "ISCSI MAC_UPDATE") != "1" ||
		s.a.iscsiRow("iscsi_event", "MAC_UPDATE_CONN") != "1" || s.b.iscsiRow("iscsi_event", "MAC_UPDATE_CONN") != "" {
		t.Errorf("station %v, %s ramrods, %s events", s.conn.Station(), s.a.iscsiRow("ramrod", "ISCSI MAC_UPDATE"),
			s.a.iscsiRow("iscsi_event", "MAC_UPDATE_CONN"))
	}
	s.i.Logout()
	s.run(10 * time.Second)
	if s.conn.State() != "terminated" || s.a.dev.TCP().Stats().Retransmits == 0 {
		t.Errorf("%s; %+v", s.conn.State(), s.a.dev.TCP().Stats())
	}
}

func countFINs(sent []tcp.Header, want int) string {
	n := 0
	for _, h := range sent {
		if h.Flags.Has(tcp.FIN) {
			n++
		}
	}
	if n != want {
		return fmt.Sprint(n, " FINs, want ", want)
	}
	return ""
}

// The type of service of the function is that of the packets from the offload on.
//
// IS-12
func TestISCSITypeOfService(t *testing.T) {
	s := newStorage(t, initiatorAlone, false, "iscsi_tos=0x68 tos=4", "")
	_, before := s.segmentsOf(s.a, 0)
	from := len(s.a.all)
	s.work(4, 4096)
	_, after := s.segmentsOf(s.a, from)
	if bytes.Trim(before, "\x04") != nil && len(bytes.Trim(before, "\x04")) > 0 || len(bytes.Trim(after, "\x68")) > 0 ||
		len(before) == 0 || len(after) == 0 {
		t.Errorf("type of service % x before, % x after", before, after)
	}
}

// Statistics count what has passed, for a connection and for the function, until they are
// cleared; the send queue is cleared with what waits in it. The management firmware is told.
//
// IS-15
func TestISCSIStatistics(t *testing.T) {
	s := newStorage(t, initiatorAlone, false, "", "")
	s.work(8, 4096)
	c, err := s.conn.Stats()
	must(t, err)
	all := s.a.function().Totals()
	if c != all || c.TxPDUs != 17 || c.RxPDUs < 17 || c.RxBytes < 8*4096 || c.TxBytes < 8*4096 {
		t.Errorf("connection %+v, function %+v", c, all)
	}
	for list, counters := range map[string][]view.Counter{"ethtool -S": s.a.dev.ShowEthtool().Stats,
		"the metrics": s.a.dev.Counters()} {
		got := map[string]uint64{}
		for _, n := range counters {
			got[n.Name] = n.Value
		}
		if got["iscsi_fn_tx_pdus"] != c.TxPDUs || got["iscsi_fn_rx_bytes"] != c.RxBytes {
			t.Errorf("%s has %d PDUs and %d octets of %+v", list, got["iscsi_fn_tx_pdus"], got["iscsi_fn_rx_bytes"], c)
		}
	}
	if s.a.iscsiRow("iscsi_event", "COLLECT_STATS_CONN") != "1" {
		t.Error("the statistics came without a ramrod")
	}
	s.a.function().ClearStats()
	if n, err := s.conn.Stats(); err != nil || n.TxPDUs != 0 {
		t.Errorf("cleared: %+v, %v", n, err)
	}
	s.lose = func(*node, []byte) bool { return true } // nothing is acknowledged
	for range 60 {
		s.i.Submit(command(0, make([]byte, 512), nil, func(*iscsi.Request) {}))
	}
	n, err := s.conn.ClearSQ()
	if sq, _ := s.conn.Rings(); err != nil || sq.Used() != 0 {
		t.Errorf("clear SQ: %d, %v, %d left", n, err, sq.Used())
	}
	_, err = s.conn.Terminate(true)
	must(t, err)
	s.run(time.Second)
	if s.conn.State() != "terminated" {
		t.Errorf("it is %s", s.conn.State())
	}
}

// Calls out of their order are refused; the end of the driver ends what there is.
//
// IS-07 IS-08 IS-13 IS-14 IS-17
func TestISCSIOrder(t *testing.T) {
	s := newStorage(t, initiatorAlone, false, "iscsi_num_cons=2", "")
	s.work(1, 512)
	f := s.a.function()
	c, err := f.Acquire()
	must(t, err)
	if _, err := f.Acquire(); err == nil || !strings.Contains(err.Error(), "NORESOURCES") {
		t.Errorf("a third connection of two: %v", err)
	}
	for what, err := range map[string]error{
		"update before offload":     c.Agree(iscsi.Agreed{}),
		"terminate before offload":  second(c.Terminate(true)),
		"clear SQ before offload":   second(c.ClearSQ()),
		"statistics before offload": second(c.Stats()),
		"offload twice":             second(s.conn.Offload(nil, nil)),
		"release before the end":    s.conn.Release(),
		"stop before the release":   f.Stop(),
	} {
		if err == nil || !strings.Contains(err.Error(), "INVAL") && !strings.Contains(err.Error(), "BUSY") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, c.Release())
	if err := s.a.dev.Close(s.now); err != nil || s.a.dev.Core().Health().Leaked != 0 {
		t.Errorf("close: %v, %d connection ids leak", err, s.a.dev.Core().Health().Leaked)
	}
	if f.Stop() != nil {
		t.Error("a second stop")
	}
	if _, err := f.Acquire(); err == nil || !strings.Contains(err.Error(), "INVAL") {
		t.Errorf("acquire after the stop: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// The firmware refuses to start with another list of queues than that which the driver has
// made: CQ 0, RQ 0, CmdQ 0, CQ 1 and so on.
//
// IS-04
func TestISCSIQueueList(t *testing.T) {
	n, err := iscsiFunction(t, newWorld(t), "storage", "10.0.0.1/24", "iscsi_num_queues=2")
	must(t, err)
	f := n.function()
	var names []string
	for _, q := range f.Queues() {
		names = append(names, q.Name)
	}
	if got := strings.Join(names, ","); got != "cq 0,rq 0,cmdq 0,cq 1,rq 1,cmdq 1" {
		t.Errorf("queues %s", got)
	}
	must(t, f.Stop())
	h, p := n.dev.Core().Lead(), f.Params()
	post := func(p fastiscsi.Params, list uint64, cmd fastiscsi.Command) (code uint8) {
		t.Helper()
		code = 99
		var data any
		if cmd == fastiscsi.InitFunc {
			data = &fastiscsi.Init{Params: p, Global: list}
		}
		must(t, h.Post(spq.Request{CID: h.SlowpathCID(), Cmd: uint8(cmd), Protocol: cxt.ISCSI, Data: data,
			Done: func(r spq.Result, _ frame.Time) { code = r.Code }}, n.w.now))
		h.Work(n.w.now)
		n.w.run(time.Millisecond)
		return code
	}
	wrong := p
	wrong.RQEntries, wrong.CmdQEntries = p.CmdQEntries, p.RQEntries
	one := p
	one.Queues = 1
	for name, code := range map[string]uint8{
		"RQ and CmdQ exchanged": post(wrong, f.Global(), fastiscsi.InitFunc),
		"one queue of two":      post(one, f.Global(), fastiscsi.InitFunc),
		"no list":               post(p, 77, fastiscsi.InitFunc),
	} {
		if code != fastiscsi.BadQueue {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := post(p, f.Global(), fastiscsi.InitFunc); code != fastiscsi.OK {
		t.Errorf("the list in order: %d", code)
	}
	if code := post(p, 0, fastiscsi.DestroyFunc); code != fastiscsi.OK {
		t.Errorf("the end: %d", code)
	}
}

// The management firmware pulls the function's TLVs and statistics.
//
// IS-15
func TestISCSIPulled(t *testing.T) {
	s := newStorage(t, initiatorAlone, true, "iscsi_cq_num_entries=77", "")
	s.work(3, 512)
	values := map[string]string{}
	for _, r := range s.a.dev.ShowTLV(s.now) {
		values[r.TLV] = r.Value
	}
	for name, want := range map[string]string{"HEADER_DIGEST_FLAG_ENABLED": "1", "DATA_DIGEST_FLAG_ENABLED": "1",
		"PDU_TX_DESCRIPTORS_QUEUE_SIZE": "512", "PDU_RX_DESCRIPTORS_QUEUE_SIZE": "77", "MAX_FRAME_SIZE": "1500",
		"ISCSI_PDU_TX_FRAMES_SENT": fmt.Sprint(s.a.function().Totals().TxPDUs)} {
		if values[name] != want {
			t.Errorf("%s is %q, want %s", name, values[name], want)
		}
	}
}

// source is a toe.Handler that sends one record of that many octets, whatever they are.
type source struct{ octets int }

func (s *source) Next(off uint64, limit int) int        { return min(limit, s.octets-int(off)) }
func (s *source) Render(uint64, []byte)                 {}
func (s *source) Established(*toe.Conn, frame.Time)     {}
func (s *source) Receive(*toe.Conn, []byte, frame.Time) {}
func (s *source) Acked(*toe.Conn, uint64, frame.Time)   {}
func (s *source) PeerClosed(*toe.Conn, frame.Time)      {}
func (s *source) Closed(*toe.Conn, error, frame.Time)   {}

// A connection is taken over with the state that it has: sequence numbers, timestamps and the
// peer's window, of which a segment that does not fit waits for tx_sws_timer.
//
// IS-09
func TestISCSISmallWindow(t *testing.T) {
	for set, want := range map[string]time.Duration{"": 500 * time.Millisecond,
		"iscsi_tx_sws_timer=700ms": 700 * time.Millisecond} {
		w := newWorld(t)
		n, err := iscsiFunction(t, w, "a", "10.0.0.1/24", set)
		must(t, err)
		_, err = iscsiFunction(t, w, "b", "10.0.0.2/24", "")
		must(t, err)
		c, err := n.function().Acquire()
		must(t, err)
		tcb := &toe.TCB{Local: netip.MustParseAddrPort("10.0.0.1:5000"), Remote: netip.MustParseAddrPort("10.0.0.2:6000"),
			SndNxt: 0xfffffff0, RcvNxt: 77, SndWnd: 100, MaxWnd: 65535, PeerMSS: 1000, TSOffset: 12345,
			RTT: recovery.RTT{RTO: 3 * time.Second}, Window: congestion.Window{Cwnd: 14600, Ssthresh: 1 << 30},
			TS: receive.Timestamps{On: true, Recent: 4711}, KeepAliveAt: frame.Never, IPID: 999}
		begun := w.now
		_, err = c.Offload(tcb, &source{300})
		must(t, err)
		from := len(n.all)
		w.lose = func(_ *node, b []byte) bool { return b[12] == 8 && b[13] == 0 }
		s := &storage{world: w}
		var sent []tcp.Header
		w.until(10*time.Second, func() bool {
			sent, _ = s.segmentsOf(n, from)
			return len(sent) > 0
		})
		h := sent[0]
		if after := w.now.Sub(begun); after < want || after > want+time.Millisecond {
			t.Errorf("%q: sent after %v, want %v", set, after, want)
		}
		if h.Seq != 0xfffffff0 || h.Ack != 77 || h.Opts.TSEcr != 4711 ||
			h.Opts.TSVal != uint32(begun.Add(w.now.Sub(begun))/1e6)+12345 {
			t.Errorf("%q: %+v", set, h)
		}
	}
}

// A driver that is unloaded, or crashes, resets the sessions that its function has; a driver that
// loads again has a function that works.
//
// IS-14 IS-17
func TestISCSIUnload(t *testing.T) {
	for _, how := range []string{"unloaded", "crashed"} {
		s := newStorage(t, both, true, "", "")
		s.work(4, 4096)
		for _, n := range []*node{s.b, s.a} {
			must(t, n.dev.Set(Setting{"driver", how}))
		}
		s.run(10 * time.Second)
		if s.err == nil || len(s.ends) != 1 {
			t.Errorf("%s: the session goes on: %v", how, s.err)
		}
		if s.a.function() != nil {
			t.Errorf("%s: there is a function", how)
		}
		if how == "crashed" {
			continue // the firmware lets no driver load beside one that it has not seen end
		}
		for _, n := range []*node{s.b, s.a} {
			must(t, n.dev.Set(Setting{"driver", "loaded"}))
		}
		s.run(10 * time.Second)
		f := s.a.function()
		if f == nil || len(f.Conns()) != 0 || s.a.iscsiRow("cid", "ISCSI") != "0/1024" {
			t.Fatalf("%s: after the load: %+v, %s", how, f, s.a.iscsiRow("cid", "ISCSI"))
		}
		c, err := f.Acquire()
		must(t, err)
		must(t, c.Release())
	}
}
