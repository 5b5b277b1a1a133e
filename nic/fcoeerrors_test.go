package nic

import (
	"bytes"
	"container/heap"
	"testing"
	"time"

	"tapir/nic/fcoe"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"

	wire "tapir/wire/fcoe"
)

// frames are those of FCP, or of ABTS and its replies, that a NIC has sent since some record.
func (s *fabricless) frames(n *node, from int) (list []fc.Header) {
	for _, r := range n.all[from:] {
		h, k, err := ether.Parse(r.Data)
		if err != nil || h.Type != wire.EtherType || r.Dir != frame.Outbound {
			continue
		}
		if x, ok := wire.Header(r.Data[k:]); ok && (x.Type == fc.TypeFCP || x.Type == fc.TypeBLS) {
			list = append(list, x)
		}
	}
	return list
}

// say sends a frame of Fibre Channel in the name of a NIC.
func (s *fabricless) say(from *node, h fc.Header, payload []byte) {
	other := s.i
	if from == s.i {
		other = s.d
	}
	c, o := from.fcFunction().Conns()[0].Session(), other.fcFunction().Conns()[0].Session()
	h.S, h.D = c.SID, c.DID
	e := ether.Header{Dst: o.Source, Src: c.Source, Type: wire.EtherType}
	s.seq++
	heap.Push(&s.events, event{s.now + delay, s.seq, from, wire.Append(e.AppendTo(nil), h, payload), frame.Offload{}})
}

// expect tells whether an error, and no other, was counted and logged once.
func (s *fabricless) expect(n *node, want fcoe.Error) {
	s.t.Helper()
	_, errs := n.fcFunction().Events()
	for e, k := range errs {
		if right := fcoe.Error(e) == want; right && k != 1 || !right && k > 0 {
			s.t.Errorf("%v: counted %d times where %v is expected", fcoe.Error(e), k, want)
		}
	}
	if !n.logged("ERROR: " + want.String()) {
		s.t.Errorf("%v is not in the log", want)
	}
	if n.iscsiRow("fcoe_error", want.String()) != "1" || n.iscsiRow("fcoe_event", "ERROR") != "1" {
		s.t.Errorf("%v: %s errors, %s events", want, n.iscsiRow("fcoe_error", want.String()), n.iscsiRow("fcoe_event", "ERROR"))
	}
}

// A frame of the target that breaks a rule is told of by the event ERROR with a code, in the log
// and in counters. The command comes to its end all the same.
//
// FC-05
func TestFCoEInitiatorErrors(t *testing.T) {
	const length = 4096
	transfer := func(off, burst uint32) []byte { return fc.Transfer{Offset: off, Burst: burst}.AppendTo(nil) }
	response := func(r fc.Response) []byte { return r.AppendTo(nil) }
	type said struct {
		r       fc.RCtl
		f       fc.FCtl
		param   uint32
		payload []byte
	}
	data := func(off uint32, n int) said {
		return said{fc.SolicitedData, fc.FromResponder | fc.RelOffset, off, make([]byte, n)}
	}
	xfer := func(b []byte) said { return said{fc.DataDescriptor, fc.Offer, 0, b} }
	rsp := func(r fc.Response) said { return said{fc.CommandStatus, fc.Reply, 0, response(r)} }
	for want, c := range map[fcoe.Error]struct {
		write bool
		said  []said
	}{
		fcoe.ErrTransferLength:   {true, []said{xfer(transfer(0, 512)[:8])}},
		fcoe.ErrTransferNotWrite: {false, []said{xfer(transfer(0, 512))}},
		fcoe.ErrTransferBurst:    {true, []said{xfer(transfer(0, 0))}},
		fcoe.ErrTransferRange:    {true, []said{xfer(transfer(0, length+512))}},
		fcoe.ErrTransferOffset:   {true, []said{xfer(transfer(512, 512))}},
		fcoe.ErrTransferPending:  {true, []said{xfer(transfer(0, 4096)), xfer(transfer(0, 4096))}},
		fcoe.ErrResponseLength:   {false, []said{{fc.CommandStatus, fc.Reply, 0, make([]byte, 20)}}},
		fcoe.ErrResponsePending:  {true, []said{xfer(transfer(0, 4096)), rsp(fc.Response{Status: 8})}},
		fcoe.ErrResponseLost:     {true, []said{rsp(fc.Response{Flags: fc.HasInfo, Info: fc.DataLenWrong})}},
		fcoe.ErrResponseData:     {false, []said{rsp(fc.Response{})}},
		fcoe.ErrDataNotRead:      {true, []said{data(0, 512)}},
		fcoe.ErrDataOffset:       {false, []said{data(512, 512)}},
		fcoe.ErrDataRange:        {false, []said{data(length-256, 512)}},
		fcoe.ErrDataSize:         {false, []said{data(0, 1456)}},
		fcoe.ErrFrameType:        {false, []said{{fc.UnsolicitedCtl, fc.FromResponder, 0, nil}}},
	} {
		s := newFabricless(t, "", "")
		from := len(s.i.all)
		s.lose = func(n *node, b []byte) bool { return n == s.d } // the target says what the test says
		done := 0
		s.submit(1, length, c.write, &done)
		s.run(time.Millisecond)
		for _, f := range c.said {
			h := s.frames(s.i, from)[0]
			s.say(s.d, fc.Header{RCtl: f.r, Type: fc.TypeFCP, FCtl: f.f, OXID: h.OXID, RXID: 1, Param: f.param}, f.payload)
		}
		s.run(delayed)
		s.expect(s.i, want)
		s.lose = nil
		s.until(time.Minute, func() bool { return done == 1 })
		s.bad = 0
		s.work(2, 4096)
	}
}

// delayed is when all that was said is heard.
const delayed = 20 * time.Microsecond

// A target is silent: E_D_TOV passes, then the ABTS has no answer, or is rejected.
//
// FC-05
func TestFCoETimeouts(t *testing.T) {
	s := newFabricless(t, "", "")
	from := len(s.i.all)
	s.lose = func(n *node, b []byte) bool { return n == s.d }
	done := 0
	s.submit(1, 512, true, &done)
	s.run(2*time.Second + time.Millisecond)
	s.expect(s.i, fcoe.ErrTimeout)
	if f := s.frames(s.i, from); len(f) != 2 || f[1].RCtl != fc.Abort {
		t.Fatalf("%+v", f)
	}
	s.i.fcFunction().ClearStats()
	s.run(2 * time.Second)
	s.expect(s.i, fcoe.ErrAbortTimeout)
	s.run(2 * time.Second) // the repeated command is aborted, too
	s.i.fcFunction().ClearStats()
	f := s.frames(s.i, from)
	s.say(s.d, fc.Header{RCtl: fc.AbortReject, Type: fc.TypeBLS, FCtl: fc.Reply, OXID: f[len(f)-1].OXID}, make([]byte, 4))
	s.run(time.Millisecond)
	s.expect(s.i, fcoe.ErrAbortRejected)
	s.lose = nil
	s.until(time.Minute, func() bool { return done == 1 })
	if s.bad > 0 {
		t.Error("the command has failed")
	}
}

// A frame of the initiator that breaks a rule is told of at the target.
//
// FC-05
func TestFCoETargetErrors(t *testing.T) {
	const length = 4096
	for want, change := range map[fcoe.Error]func(s *fabricless, h *fc.Header, payload *[]byte) bool{
		fcoe.ErrCommandLength: func(_ *fabricless, h *fc.Header, p *[]byte) bool {
			if h.RCtl == fc.UnsolicitedCmd {
				*p = (*p)[:28]
			}
			return true
		},
		fcoe.ErrBurstCount: func(_ *fabricless, h *fc.Header, _ *[]byte) bool { return h.SeqCnt != 1 },
		fcoe.ErrBurstOffset: func(_ *fabricless, h *fc.Header, _ *[]byte) bool {
			if h.SeqCnt == 1 {
				h.Param += 4
			}
			return true
		},
		fcoe.ErrBurstRange: func(_ *fabricless, h *fc.Header, p *[]byte) bool {
			if h.RCtl == fc.SolicitedData && h.FCtl&fc.End != 0 {
				*p = append(*p, 1, 2, 3, 4)
			}
			return true
		},
		fcoe.ErrBurstShort: func(_ *fabricless, h *fc.Header, p *[]byte) bool {
			if h.RCtl == fc.SolicitedData && h.FCtl&fc.End != 0 {
				*p = (*p)[4:]
			}
			return true
		},
		fcoe.ErrBurstTimeout: func(_ *fabricless, h *fc.Header, _ *[]byte) bool {
			return h.RCtl != fc.SolicitedData && h.RCtl != fc.Abort
		},
		fcoe.ErrFrameType: func(s *fabricless, h *fc.Header, _ *[]byte) bool {
			if h.RCtl == fc.UnsolicitedCmd {
				h.RCtl = fc.UnsolicitedCtl
			}
			return true
		},
	} {
		s := newFabricless(t, "", "")
		once := true // the first try is wrong
		s.lose = func(n *node, b []byte) bool {
			e, k, _ := ether.Parse(b)
			_, _, f, err := wire.Parse(b[k:])
			if n != s.i || e.Type != wire.EtherType || err != nil || !once {
				return false
			}
			h, payload, _ := fc.Parse(f)
			if h.Type != fc.TypeFCP && h.Type != fc.TypeBLS {
				return false
			}
			once = want == fcoe.ErrBurstTimeout || h.RCtl != fc.Abort && (h.RCtl != fc.SolicitedData || h.FCtl&fc.End == 0)
			was, p := h, bytes.Clone(payload)
			if keep := change(s, &h, &p); keep && h == was && bytes.Equal(p, payload) {
				return false
			} else if keep {
				s.say(s.i, h, p)
			}
			return true
		}
		done := 0
		s.submit(1, length, true, &done)
		if want == fcoe.ErrBurstTimeout {
			s.run(10*time.Second + time.Millisecond)
		} else {
			s.run(time.Second)
		}
		s.expect(s.d, want)
		s.lose = nil
		s.until(2*time.Minute, func() bool { return done == 1 })
		if s.bad > 0 {
			t.Errorf("%v: the command has failed", want)
		}
	}
}
