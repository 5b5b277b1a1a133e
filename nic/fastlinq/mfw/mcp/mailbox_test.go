package mcp_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// MF-01
func TestFuncInfo(t *testing.T) {
	cfg := board(1, 1, 1)
	cfg.Funcs[0] = mfw.FuncConfig{MAC: [6]byte{2, 1, 2, 3, 4, 5}, WWPN: 0x2000020102030405, WWNN: 0x1000020102030405,
		OVLAN: 77, MTU: 9000, Protocol: mfw.ProtocolFCoE, PauseOnHostRing: true, BandwidthMin: 10, BandwidthMax: 60}
	r := newRig(t, cfg)
	if got, want := r.drv[0].Info(), (mfw.FuncInfo{PauseOnHostRing: true, Protocol: mfw.ProtocolFCoE, BandwidthMin: 10, BandwidthMax: 60,
		MAC: [6]byte{2, 1, 2, 3, 4, 5}, WWPN: 0x2000020102030405, WWNN: 0x1000020102030405, OVLAN: 77, MTU: 9000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	s := r.fw.Shared()
	if s.Func[0].MACUpper != 0x0201 || s.Func[0].MACLower != 0x02030405 || s.Func[0].Config != 60<<16|10<<8|2<<4|2 {
		t.Errorf("%#x %#x %#x", s.Func[0].MACUpper, s.Func[0].MACLower, s.Func[0].Config)
	}
	r = newRig(t, board(1, 1, 1)) // with nothing configured, the defaults
	if i := r.drv[0].Info(); i.BandwidthMin != 1 || i.BandwidthMax != 100 || i.OVLAN != mfw.NoOVLAN || i.MTU != 1500 {
		t.Errorf("%+v", i)
	}
	if r.drv[0].Version() != mfw.DefaultVersion || s.Global.MaxPorts != 1 {
		t.Errorf("version %#x", r.drv[0].Version())
	}
}

// MF-02 The sequence has sixteen bits and goes round, and an answer has that of
// its command, even of an unknown command.
func TestSequenceIsCyclic(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	mb := &r.fw.Shared().DrvMB[0]
	zero := false
	for i := 1; i <= 0x10003; i++ {
		code := mfw.CmdUpdateMTU
		if i%2 == 0 {
			code = 0x7fff0000
		}
		var resp mfw.Response
		r.drv[0].Cmd(code, uint32(i), nil, r.now, func(a mcp.Answer, err error, _ frame.Time) { resp = a.Response })
		if mb.DrvHeader != uint32(code)|uint32(uint16(i)) || mb.DrvParam != uint32(i) {
			t.Fatalf("command %d: header %#x", i, mb.DrvHeader)
		}
		r.fw.Poll(r.now)
		if uint16(mb.FWHeader) != uint16(i) {
			t.Fatalf("command %d: answer %#x", i, mb.FWHeader)
		}
		r.drv[0].Poll(r.now)
		if i%2 == 1 && resp != mfw.Response(code) || i%2 == 0 && resp != mfw.Unsupported || r.drv[0].Pending() != 0 {
			t.Fatalf("command %d: %#x", i, resp)
		}
		zero = zero || uint16(i) == 0
	}
	if !zero || r.fw.Stats().BadSequence != 0 {
		t.Errorf("never zero, or %+v", r.fw.Stats())
	}
}

// A header whose sequence is not the next changes nothing.
func TestOutOfSequence(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	mb := &r.fw.Shared().DrvMB[0]
	mb.DrvHeader, mb.DrvParam = uint32(mfw.CmdUpdateMTU)|7, 9000
	r.fw.Poll(r.now)
	if mb.FWHeader != uint32(mfw.Error)|7 || r.fw.Pushed(0).MTU != 0 || r.fw.Stats().BadSequence != 1 {
		t.Errorf("%#x, %+v, %+v", mb.FWHeader, r.fw.Pushed(0), r.fw.Stats())
	}
	var resp mfw.Response
	d := mcp.New(r.fw.Shared(), 0, 0, mcp.Hooks{}) // a driver takes over from there
	d.Cmd(mfw.CmdUpdateMTU, 1400, nil, r.now, func(a mcp.Answer, _ error, _ frame.Time) { resp = a.Response })
	r.fw.Poll(r.now)
	d.Poll(r.now)
	if resp != mfw.Response(mfw.CmdUpdateMTU) || r.fw.Pushed(0).MTU != 1400 {
		t.Errorf("%#x, %+v", resp, r.fw.Pushed(0))
	}
}

// MF-03 C7 One command is pending at a time, each gets its own answer, in
// order, whatever is asked when; a stuck firmware ends all of them.
func TestMailboxProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, board(1, 1, 1))
		mb := &r.fw.Shared().DrvMB[0]
		var asked, answered []uint32
		failed := 0
		stuckAt := frame.Never
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				id := uint32(len(asked))
				asked = append(asked, id)
				r.drv[0].Cmd(mfw.CmdUpdateBusNum, id, nil, r.now, func(a mcp.Answer, err error, now frame.Time) {
					answered = append(answered, id)
					switch {
					case err == nil && (a.Response != mfw.Response(mfw.CmdUpdateBusNum) || r.fw.Pushed(0).BusNum != id || mb.DrvParam != id):
						rt.Errorf("command %d: %#x, the firmware has %d", id, a.Response, r.fw.Pushed(0).BusNum)
					case err != nil:
						failed++
						if stuckAt == frame.Never {
							rt.Errorf("command %d: %v, of a firmware that answers", id, err)
						}
						if code := status.Of(err); code != status.Timeout && code != status.Aborted {
							rt.Errorf("command %d: %v", id, err)
						}
					}
				})
			case 2:
				r.fw.Poll(r.now)
			case 3:
				r.drv[0].Poll(r.now)
			case 4:
				r.now = r.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "ms")) * time.Millisecond)
				if stuckAt == frame.Never {
					r.settle() // a firmware that works is not late
				}
			case 5:
				if stuckAt == frame.Never && rapid.IntRange(0, 3).Draw(rt, "stuck") == 0 {
					r.fw.SetFaults(mfw.Faults{Hang: true})
					stuckAt = r.now
				}
			}
		}
		if stuckAt == frame.Never {
			r.settle()
		} else {
			r.settle()
			r.pass(mcp.Timeout)
		}
		if len(answered) != len(asked) || r.drv[0].Pending() != 0 {
			rt.Fatalf("%d of %d commands completed", len(answered), len(asked))
		}
		for i, id := range answered {
			if failed == 0 && uint32(i) != id {
				rt.Fatalf("completed in the order %v", answered)
			}
		}
	})
}

// MF-04 A firmware that does not answer ends the command after 5 s, those that
// wait with it, and every later one at once, until the driver begins anew.
func TestTimeoutBlocks(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	r.fw.SetFaults(mfw.Faults{Hang: true})
	var codes []status.Code
	ask := func() {
		r.drv[0].OVUpdateMTU(1400, r.now, func(err error) { codes = append(codes, status.Of(err)) })
	}
	ask()
	r.pass(time.Second)
	ask()
	r.pass(mcp.Timeout - time.Second - 1)
	if len(codes) != 0 {
		t.Fatalf("too early: %v", codes)
	}
	r.pass(1)
	ask()
	if len(codes) != 3 || codes[0] != status.Timeout || codes[1] != status.Aborted || codes[2] != status.Aborted || !r.drv[0].Blocked() {
		t.Errorf("%v", codes)
	}
	if e := r.seen[0].errors; len(e) != 1 || e[0] != mcp.HWErrMFWRespFail {
		t.Errorf("hardware errors %v", e)
	}
	r.fw.SetFaults(mfw.Faults{})
	ask()
	r.settle()
	if len(codes) != 4 || codes[3] != status.Aborted {
		t.Errorf("still blocked? %v", codes)
	}
	r.drv[0].Init()
	ask()
	r.settle()
	if len(codes) != 5 || codes[4] != status.Success || r.fw.Pushed(0).MTU != 1400 {
		t.Errorf("after a new start: %v", codes)
	}
}

// UNLOAD_REQ avoids the block: what follows has its own 5 s.
func TestUnloadAvoidsBlock(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	r.up(0)
	r.fw.SetFaults(mfw.Faults{Hang: true})
	var unload, done error
	r.drv[0].UnloadReq(r.now, func(_ mcp.Load, err error, _ frame.Time) { unload = err })
	r.drv[0].UnloadDone(r.now, func(err error) { done = err })
	r.pass(mcp.Timeout)
	want(t, "UNLOAD_REQ", unload, status.Timeout)
	if done != nil || r.drv[0].Blocked() || r.drv[0].Pending() != 1 {
		t.Errorf("UNLOAD_DONE is not tried: %v", done)
	}
	r.pass(mcp.Timeout)
	want(t, "UNLOAD_DONE", done, status.Timeout)
}

// A reset of the MCP begins the sequence anew, and what was pending is tried
// again.
func TestMCPReset(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	for range 5 {
		r.must(func(now frame.Time, done func(error)) { r.drv[0].OVUpdateMTU(1500, now, done) })
	}
	r.fw.SetFaults(mfw.Faults{Hang: true})
	var err error = status.Pending
	r.drv[0].OVUpdateMTU(9000, r.now, func(e error) { err = e })
	r.pass(4 * time.Second)
	r.fw.Reset()
	r.settle()
	if err != nil || r.fw.Pushed(0).MTU != 9000 || r.drv[0].Stats().Retries != 1 || r.fw.Stats().Resets != 1 {
		t.Errorf("%v, %+v", err, r.drv[0].Stats())
	}
	r.fw.Reset() // between two commands
	r.must(func(now frame.Time, done func(error)) { r.drv[0].OVUpdateMTU(1300, now, done) })
	if got := r.fw.Shared().DrvMB[0].DrvHeader & 0xffff; got != 1 {
		t.Errorf("sequence %d after a reset", got)
	}
}

func TestUnionTooLong(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	var err error
	r.drv[0].Cmd(mfw.CmdSetVersion, 0, make([]byte, mfw.UnionLen+1), r.now, func(_ mcp.Answer, e error, _ frame.Time) { err = e })
	want(t, "union data", err, status.Inval)
	if r.fw.Shared().DrvMB[0].DrvHeader != 0 {
		t.Error("it was sent")
	}
}

// MF-05 MF-06 Producers are big-endian words of four counters; each change is
// one message, acknowledged; an attention without one is spurious.
func TestMessages(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	mb := &r.fw.Shared().MFWMB[0]
	before := mb.Msg
	r.fw.FailFan() // message 13: the second counter of the fourth word
	if before[12+2]++; mb.Msg != before || bytes.Equal(mb.Ack[:], mb.Msg[:]) {
		t.Fatalf("producers %x, want %x; acknowledged %x", mb.Msg, before, mb.Ack)
	}
	if err := d.HandleEvents(r.now); err != nil || mb.Ack != mb.Msg || len(r.seen[0].errors) != 1 || r.seen[0].errors[0] != mcp.HWErrFanFail {
		t.Errorf("%v, %v", err, r.seen[0].errors)
	}
	want(t, "a spurious attention", d.HandleEvents(r.now), status.Inval)
	if s := d.Stats(); s.Spurious != 1 || len(r.seen[0].errors) != 1 {
		t.Errorf("%+v", s)
	}
	mb.Msg[4+0]++ // message 7, and 2: that of VFs has no handler
	mb.Msg[1]++
	want(t, "an unknown message", d.HandleEvents(r.now), status.NotImpl)
	if len(r.seen[0].bandwidth) != 1 || mb.Ack != mb.Msg || d.Stats().Unimplemented != 1 {
		t.Errorf("the known one beside it: %v", r.seen[0].bandwidth)
	}
	r.attn[0] = false
	r.settle()
	for range 256 { // counters go round
		r.fw.SetBandwidth(0, 1, 50)
		r.fw.SetBandwidth(0, 1, 60)
		r.settle()
	}
	if n := len(r.seen[0].bandwidth); n != 257 { // two of a kind at once are one message
		t.Errorf("%d changes of bandwidth were told", n)
	}
}

// While UNLOAD_REQ is on its way messages wait; a function without a driver
// gets none.
func TestMessagesWhileUnloading(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	d.UnloadReq(r.now, func(mcp.Load, error, frame.Time) {})
	r.fw.FailFan()
	if err := d.HandleEvents(r.now); err != nil || len(r.seen[0].errors) != 0 {
		t.Errorf("%v, %v", err, r.seen[0].errors)
	}
	r.settle()
	r.must(d.UnloadDone)
	before := r.fw.Shared().MFWMB[0]
	r.fw.FailFan()
	if r.fw.Shared().MFWMB[0] != before {
		t.Error("a message without a driver")
	}
}
