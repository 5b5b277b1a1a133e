package iscsi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// TestData writes and reads random data with each choice of the parameters that decide
// which way it goes, and some lengths of PDUs, sequences and digests.
func TestData(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	target := newTestTarget(t, nil)
	for i := range 48 {
		words := fmt.Sprintf("InitialR2T=%s ImmediateData=%s HeaderDigest=%s DataDigest=%s MaxBurstLength=%d "+
			"FirstBurstLength=%d MaxRecvDataSegmentLength=%d", []string{yes, no}[i&1], []string{yes, no}[i>>1&1],
			[]string{"None", "CRC32C"}[i>>2&1], []string{"CRC32C,None", "None"}[i>>3&1], 512<<r.IntN(10),
			512<<r.IntN(10), 512+r.IntN(20000))
		p := connect(t, target)
		p.login(words)
		p.settle()
		for range 8 {
			blocks := 1 + r.IntN(300)
			lba := uint64(r.IntN(8192 - blocks))
			data := make([]byte, blocks*512)
			for j := range data {
				data[j] = byte(r.Uint32())
			}
			g := p.write(lba, data, 512+r.IntN(9000))
			if g.BHS[3] != 0 || g.U32(iscsi.Residual) != 0 {
				t.Fatalf("%s: WRITE: status %d, residual %d, % x", words, g.BHS[3], g.U32(iscsi.Residual), g.data)
			}
			if got := p.read(lba, blocks); !bytes.Equal(got, data) {
				t.Fatalf("%s: %d blocks read are not those written", words, blocks)
			}
		}
		p.idle()
		p.c.Gone()
	}
	if len(target.conns) != 0 {
		t.Errorf("%d connections left", len(target.conns))
	}
}

// Values of keys.
const (
	yes           = "Yes"
	no            = "No"
	refused       = keys.Refused
	notUnderstood = keys.NotUnderstood
)

// TestKeys: each key of RFC 7143 section 13 is answered by its rule.
func TestKeys(t *testing.T) {
	for offer, want := range map[string]string{
		"HeaderDigest=CRC32C,None": "CRC32C", "HeaderDigest=None,CRC32C": "None", "DataDigest=x-own,CRC32C": "CRC32C",
		"DataDigest=MD5": refused, "MaxConnections=8": "1", "MaxConnections=0": refused, "InitialR2T=Yes": yes,
		"InitialR2T=No": no, "InitialR2T=maybe": refused, "ImmediateData=No": no, "ImmediateData=Yes": yes,
		"MaxBurstLength=16776192": "1048576", "MaxBurstLength=0x8000": "32768", "MaxBurstLength=511": refused,
		"FirstBurstLength=65536": "65536", "FirstBurstLength=16777215": "262144", "DefaultTime2Wait=0": "2",
		"DefaultTime2Wait=9": "9", "DefaultTime2Retain=20": "0", "MaxOutstandingR2T=16": "1", "DataPDUInOrder=No": yes,
		"DataSequenceInOrder=No": yes, "ErrorRecoveryLevel=2": "0", "ErrorRecoveryLevel=3": refused, "IFMarker=No": refused,
		"OFMarkInt=2048~8192": refused, "TaskReporting=FastAbort,RFC3720": "RFC3720", "TaskReporting=FastAbort": refused,
		"iSCSIProtocolLevel=2": "1", "X-com.example.key=1": notUnderstood, "MaxRecvDataSegmentLength=511": refused,
		"MaxRecvDataSegmentLength=8192": "262144", "InitiatorAlias=me": "",
	} {
		p := connect(t, newTestTarget(t, nil))
		g := p.loginPDU(0x04, who+offer)
		key, _, _ := strings.Cut(offer, "=")
		pairs, err := iscsi.ParseText(g.data)
		if err != nil || status(g) != 0 {
			t.Fatalf("%s: status %04x, %v", offer, status(g), err)
		}
		got := ""
		if i := slices.IndexFunc(pairs, func(p iscsi.Pair) bool { return p.Key == key }); i >= 0 {
			got = pairs[i].Value
		}
		bad := uint64(0)
		if (want == refused || want == notUnderstood) && !strings.Contains(key, "FMark") {
			bad = 1 // but for markers, which old initiators may name (section 13.25)
		}
		if got != want || p.count(BadKey) != bad {
			t.Errorf("%s: %q, want %q; %d keys refused", offer, got, want, p.count(BadKey))
		}
	}
	p := connect(t, newTestTarget(t, nil))
	g := p.loginPDU(0x87, "InitiatorName="+initiator+" SessionType=Discovery InitialR2T=No ErrorRecoveryLevel=0")
	if !bytes.Contains(g.data, []byte("InitialR2T=Irrelevant")) || !bytes.Contains(g.data, []byte("ErrorRecoveryLevel=0")) {
		t.Errorf("discovery: %q", g.data)
	}
}

// TestLoginRefused: what is wrong with a login its status tells, and the connection closes.
func TestLoginRefused(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(p *peer, h *iscsi.BHS)
		words  string
		want   uint16
	}{
		{"no initiator", nil, "TargetName=" + nodeName, missingParameter},
		{"no target", nil, "InitiatorName=" + initiator, missingParameter},
		{"unknown target", nil, "InitiatorName=" + initiator + " TargetName=iqn.x", noSuchTarget},
		{"unknown kind of session", nil, who + "SessionType=Other", wrongSessionType},
		{"not admitted", func(p *peer, _ *iscsi.BHS) { p.target.cfg.Nodes[0].Initiators = []string{"iqn.other"} }, who,
			notAuthorized},
		{"version", func(_ *peer, h *iscsi.BHS) { h[2], h[3] = 2, 1 }, who, wrongVersion},
		{"not a login", func(_ *peer, h *iscsi.BHS) { h[0] = byte(iscsi.Command) }, who, invalidRequest},
		{"stage 2", func(_ *peer, h *iscsi.BHS) { h[1] = 0x88 }, who, initiatorError},
		{"stage backwards", func(_ *peer, h *iscsi.BHS) { h[1] = 0x84 }, who, initiatorError},
		{"transit and continue", func(_ *peer, h *iscsi.BHS) { h[1] = 0xc7 }, who, initiatorError},
		{"key twice", nil, who + "InitialR2T=No InitialR2T=No", initiatorError},
		{"no text", nil, who + "nonsense", initiatorError},
		{"session that is not there", func(_ *peer, h *iscsi.BHS) { h[15] = 9 }, who, noSuchSession},
		{"stopped", func(p *peer, _ *iscsi.BHS) { p.target.stopped = true }, who, unavailable},
		{"without CHAP", func(p *peer, _ *iscsi.BHS) { p.target.cfg.Nodes[0].CHAP = CHAP{User: "u", Secret: "s"} }, who,
			notAuthenticated},
	} {
		p := connect(t, newTestTarget(t, nil))
		var h iscsi.BHS
		h[0], h[1] = byte(iscsi.LoginReq)|0x40, 0x87
		if c.change != nil {
			c.change(p, &h)
		}
		p.send(&h, textOf(c.words))
		if s := status(p.take(iscsi.LoginRsp)); s != c.want || !p.closed || p.count(LoginRefused) != 1 {
			t.Errorf("%s: status %04x, want %04x; closed %v", c.what, s, c.want, p.closed)
		}
	}
}

// TestLoginInPieces: a text may come in several PDUs, and each stage takes as many as it
// needs.
func TestLoginInPieces(t *testing.T) {
	p := connect(t, newTestTarget(t, nil))
	text := textOf(who + "AuthMethod=None")
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.LoginReq)|0x40, 0x40
	h.Put(iscsi.CmdSN, p.cmdSN)
	p.send(&h, text[:20])
	if g := p.take(iscsi.LoginRsp); g.BHS[1] != 0 || len(g.data) != 0 {
		t.Errorf("answer to a text that goes on: flags %x, %q", g.BHS[1], g.data)
	}
	h[1] = 0x81
	p.send(&h, text[20:])
	if g := p.take(iscsi.LoginRsp); g.BHS[1] != 0x81 || !bytes.Contains(g.data, []byte("AuthMethod=None")) {
		t.Errorf("flags %x, %q", g.BHS[1], g.data)
	}
	if g := p.loginPDU(0x04, "HeaderDigest=CRC32C"); g.BHS[1] != 0x04 {
		t.Errorf("flags %x", g.BHS[1])
	}
	if g := p.loginPDU(0x87, "DataDigest=CRC32C"); g.BHS[1] != 0x87 || g.BHS[14]|g.BHS[15] == 0 {
		t.Errorf("last answer: flags %x, TSIH %x", g.BHS[1], g.BHS[14:16])
	}
	p.rd.Digests = iscsi.Digests{Header: true, Data: true}
	p.settle()
}

// bad is input in the full feature phase that RFC 7143 has an answer to.
type bad struct {
	what    string
	words   string
	send    func(p *peer)
	answer  iscsi.Opcode // 0: none
	reason  byte         // of a Reject, or the status
	sense   uint16       // of a status
	counter Counter
}

// TestBadInput: it is answered, counted, and the session goes on without a trace of it.
func TestBadInput(t *testing.T) {
	block := make([]byte, 512)
	for _, b := range []bad{
		{"unknown operation code", "", func(p *peer) {
			h := p.newCommand(0x80, 0, ready)
			h[0] = 0x1e
			p.send(h, nil)
		}, iscsi.Reject, rejectOpcode, 0, Rejected},
		{"SNACK", "", func(p *peer) { p.send(&iscsi.BHS{byte(iscsi.SNACK), 0x80}, nil) }, iscsi.Reject, rejectSNACK, 0,
			Rejected},
		{"login again", "", func(p *peer) { p.send(&iscsi.BHS{byte(iscsi.LoginReq) | 0x40, 0x87}, nil) }, iscsi.Reject,
			rejectProtocol, 0, Rejected},
		{"Data-Out for no task", "", func(p *peer) { p.send(dataOut(77, 1, 0, 0, true), block) }, iscsi.Reject,
			rejectField, 0, NoSuchTask},
		{"command beyond the window", "", func(p *peer) {
			p.cmdSN += window
			p.send(p.newCommand(0x80, 0, ready), nil)
			p.cmdSN -= window + 1
		}, 0, 0, 0, OutsideWindow},
		{"command again", "", func(p *peer) {
			p.cmdSN--
			p.send(p.newCommand(0x80, 0, ready), nil)
		}, 0, 0, 0, OutsideWindow},
		{"reserved task tag", "", func(p *peer) {
			h := p.newCommand(0x80, 0, ready)
			h.Put(iscsi.ITT, iscsi.Unassigned)
			p.send(h, nil)
		}, iscsi.Reject, rejectField, 0, Rejected},
		{"LUN out of range", "", func(p *peer) {
			h := p.newCommand(0x80, 0, ready)
			h[9] = 200
			p.send(h, nil)
		}, iscsi.Response, 2, 0x2500, NoSuchLUN},
		{"immediate data that is not allowed", "ImmediateData=No", func(p *peer) {
			p.send(p.newCommand(0xa0, 512, cdb16(0x8a, 0, 1)), block)
		}, iscsi.Response, 2, 0x0c0c, UnexpectedData},
		{"immediate data beyond the first burst", "FirstBurstLength=512", func(p *peer) {
			p.send(p.newCommand(0xa0, 1024, cdb16(0x8a, 0, 2)), make([]byte, 1024))
		}, iscsi.Response, 2, 0x0c0d, WrongAmount},
		{"DataSN gap", "InitialR2T=No ImmediateData=No", func(p *peer) {
			h := p.newCommand(0x20, 1024, cdb16(0x8a, 0, 2))
			p.send(h, nil)
			p.send(dataOut(h.U32(iscsi.ITT), iscsi.Unassigned, 0, 0, false), block)
			p.send(dataOut(h.U32(iscsi.ITT), iscsi.Unassigned, 2, 512, true), block)
		}, iscsi.Response, 2, 0x4705, DataSequence},
		{"buffer offset", "InitialR2T=No ImmediateData=No", func(p *peer) {
			h := p.newCommand(0x20, 1024, cdb16(0x8a, 0, 2))
			p.send(h, nil)
			p.send(dataOut(h.U32(iscsi.ITT), iscsi.Unassigned, 0, 512, true), block)
		}, iscsi.Response, 2, 0x4705, DataSequence},
		{"data beyond the R2T", "ImmediateData=No", func(p *peer) {
			h := p.newCommand(0xa0, 512, cdb16(0x8a, 0, 1))
			p.send(h, nil)
			r := p.take(iscsi.R2T)
			p.send(dataOut(h.U32(iscsi.ITT), r.U32(iscsi.TTT), 0, 0, true), make([]byte, 1024))
		}, iscsi.Response, 2, 0x0c0d, WrongAmount},
		{"less data than the R2T asks for", "ImmediateData=No", func(p *peer) {
			h := p.newCommand(0xa0, 1024, cdb16(0x8a, 0, 2))
			p.send(h, nil)
			r := p.take(iscsi.R2T)
			p.send(dataOut(h.U32(iscsi.ITT), r.U32(iscsi.TTT), 0, 0, true), block)
		}, iscsi.Response, 2, 0x0c0d, WrongAmount},
		{"unknown transfer tag", "ImmediateData=No", func(p *peer) {
			h := p.newCommand(0xa0, 512, cdb16(0x8a, 0, 1))
			p.send(h, nil)
			r := p.take(iscsi.R2T)
			p.send(dataOut(h.U32(iscsi.ITT), r.U32(iscsi.TTT)+1, 0, 0, true), block)
			p.take(iscsi.Reject)
			p.send(dataOut(h.U32(iscsi.ITT), r.U32(iscsi.TTT), 0, 0, true), block)
		}, iscsi.Response, 0, 0, NoSuchTask},
		{"data digest of a command", "DataDigest=CRC32C", func(p *peer) {
			h := p.newCommand(0xa0, 512, cdb16(0x8a, 0, 1))
			h.SetDataLen(512)
			p.raw(append(append(h[:], block...), 1, 2, 3, 4))
			p.cmdSN-- // as if it had not been sent
		}, iscsi.Reject, rejectDigest, 0, DataDigest},
		{"oversized CDB", "", func(p *peer) {
			h := p.newCommand(0x80, 0, []byte{0x7f, 15: 0})
			h[4] = 6 // 24 octets behind the header
			p.raw(append(h[:], make([]byte, 24)...))
		}, iscsi.Response, 2, 0x2000, Commands},
		{"no such text key", "", func(p *peer) {
			h := p.newCommand(0x80, iscsi.Unassigned, nil)
			h[0] = byte(iscsi.TextReq)
			p.send(h, textOf("Unknown=1"))
		}, iscsi.TextRsp, 0, 0, BadKey},
		{"task that is not there", "", func(p *peer) {
			h := p.newCommand(0x80|abortTask, 4711, nil)
			h[0] = byte(iscsi.TaskRequest) | 0x40
			p.cmdSN--
			p.send(h, nil)
		}, iscsi.TaskResponse, 0, 0, NoSuchTask},
	} {
		t.Run(b.what, func(t *testing.T) {
			p := connect(t, newTestTarget(t, nil))
			p.login(b.words)
			p.settle()
			was := p.count(b.counter)
			b.send(p)
			if p.count(b.counter) == was {
				t.Errorf("%v is not counted", b.counter)
			}
			if b.answer != 0 {
				g := p.take(b.answer)
				if b.answer == iscsi.Reject && g.BHS[2] != b.reason || b.answer == iscsi.Response && g.BHS[3] != b.reason {
					t.Errorf("answer %x", g.BHS)
				}
				if b.sense != 0 && uint16(g.data[14])<<8|uint16(g.data[15]) != b.sense {
					t.Errorf("sense % x, want %04x", g.data, b.sense)
				}
			}
			if p.closed || p.aborted {
				t.Fatal("the connection has ended")
			}
			if p.write(0, block, 512).BHS[3] != 0 || !bytes.Equal(p.read(0, 1), block) {
				t.Error("the session does not go on")
			}
			p.idle()
		})
	}
}

// TestBroken: after what makes the stream unreadable the connection is reset.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		words   string
		send    func(p *peer)
		counter Counter
	}{
		"header digest": {"HeaderDigest=CRC32C", func(p *peer) {
			h := p.newCommand(0x80, 0, ready)
			p.raw(append(h[:], 0, 0, 0, 0))
		}, HeaderDigest},
		"data segment too long": {"", func(p *peer) {
			h := p.newCommand(0xa0, 0, ready)
			h.SetDataLen(maxSegment + 1)
			p.raw(h[:])
		}, TooLong},
		"peer that does not read": {"", func(p *peer) {
			for range maxWaiting + 1 {
				p.c.Receive((&iscsi.BHS{byte(iscsi.NopOut) | 0x40, 0x80})[:], 0)
			}
		}, SlowReader},
	} {
		p := connect(t, newTestTarget(t, nil))
		p.login(c.words)
		c.send(p)
		if !p.aborted || p.count(c.counter) != 1 {
			t.Errorf("%s: aborted %v, counted %d", name, p.aborted, p.count(c.counter))
		}
		p.c.Gone()
		if p.c.held != 0 || len(p.target.conns) != 0 {
			t.Errorf("%s: %d octets held, %d connections", name, p.c.held, len(p.target.conns))
		}
	}
}

// TestOrder: a command that comes before its turn waits for it.
func TestOrder(t *testing.T) {
	p := connect(t, newTestTarget(t, nil))
	p.login("")
	p.settle()
	a, b, c := p.newCommand(0x80, 0, ready), p.newCommand(0x80, 0, ready), p.newCommand(0x80, 0, ready)
	p.send(c, nil)
	p.send(b, nil)
	if len(p.got) != 0 {
		t.Fatal("a command has been done before its turn")
	}
	p.send(a, nil)
	for i := range uint32(3) {
		if g := p.take(iscsi.Response); g.U32(iscsi.ITT) != a.U32(iscsi.ITT)+i {
			t.Errorf("answer %d is for task %d", i, g.U32(iscsi.ITT))
		}
	}
	p.idle()
}

// TestResiduals: what an initiator expects and what a command moves need not be the same.
func TestResiduals(t *testing.T) {
	p := connect(t, newTestTarget(t, nil))
	p.login("")
	p.settle()
	for _, c := range []struct {
		expected, blocks int
		flags            byte
		residual         uint32
	}{{1024, 1, iscsi.Underflow, 512}, {512, 2, iscsi.Overflow, 512}, {512, 1, 0, 0}, {0, 1, iscsi.Overflow, 512}} {
		p.send(p.newCommand(0xc0, c.expected, cdb16(0x88, 0, c.blocks)), nil)
		op := iscsi.DataIn
		if c.expected == 0 {
			op = iscsi.Response
		}
		g := p.take(op)
		if g.BHS[1]&(iscsi.Underflow|iscsi.Overflow) != c.flags || g.U32(iscsi.Residual) != c.residual {
			t.Errorf("READ of %d blocks, %d octets expected: flags %x, residual %d", c.blocks, c.expected, g.BHS[1],
				g.U32(iscsi.Residual))
		}
		p.send(p.newCommand(0xa0, c.expected, cdb16(0x8a, 0, c.blocks)), make([]byte, c.expected))
		g = p.take(iscsi.Response)
		if g.BHS[3] != 0 || g.BHS[1]&(iscsi.Underflow|iscsi.Overflow) != c.flags || g.U32(iscsi.Residual) != c.residual {
			t.Errorf("WRITE of %d blocks, %d octets expected: %x", c.blocks, c.expected, g.BHS)
		}
	}
	p.idle()
}

// TestTaskManagement: the answer waits for the end of tasks that another thread works on,
// which are never answered themselves; data that still comes for an aborted task goes
// nowhere.
func TestTaskManagement(t *testing.T) {
	var work []func()
	target := newTestTarget(t, func(c *Config) {
		c.Offload = func(_ *scsi.Unit, w, done func()) { work = append(work, w, done) }
	})
	p, other := connect(t, target), connect(t, target)
	other.isid = 1
	p.login("ImmediateData=No")
	p.settle()
	other.login("")
	other.settle()
	for _, function := range []byte{abortTask, abortTaskSet, clearTaskSet, resetUnit, warmReset} {
		busy := p.newCommand(0xc0, 512, cdb16(0x88, 0, 1))
		p.send(busy, nil)
		waits := p.newCommand(0xa0, 512, cdb16(0x8a, 0, 1))
		p.send(waits, nil)
		r2t := p.take(iscsi.R2T)
		ttt := r2t.U32(iscsi.TTT)
		half := dataOut(waits.U32(iscsi.ITT), ttt, 0, 0, true)
		half.SetDataLen(512)
		p.raw(append(half[:], make([]byte, 256)...)) // its data is on the way
		for _, h := range []*iscsi.BHS{waits, busy} {
			m := p.newCommand(0x80|function, int(h.U32(iscsi.ITT)), nil)
			m[0] = byte(iscsi.TaskRequest) | 0x40
			p.cmdSN--
			p.got = nil
			p.raw(m[:0]) // nothing: the stream is in the middle of a PDU
			p.c.request(m, nil)
			p.drain()
			if function != abortTask {
				break
			}
			if h == waits {
				p.take(iscsi.TaskResponse)
			}
		}
		if len(p.got) != 0 {
			t.Fatalf("function %d is answered while a task runs", function)
		}
		for _, w := range work {
			w()
		}
		work = nil
		p.drain()
		if g := p.take(iscsi.TaskResponse); g.BHS[2] != functionDone {
			t.Errorf("function %d: response %d", function, g.BHS[2])
		}
		p.raw(make([]byte, 256)) // the rest of the data
		if function == resetUnit || function == warmReset {
			p.settle()
		}
		p.idle()
	}
	for function, want := range map[byte]byte{3: functionUnsupported, reassign: functionNoReassign, 77: functionUnsupported} {
		m := p.newCommand(0x80|function, 0, nil)
		m[0] = byte(iscsi.TaskRequest)
		p.send(m, nil)
		if g := p.take(iscsi.TaskResponse); g.BHS[2] != want {
			t.Errorf("function %d: response %d, want %d", function, g.BHS[2], want)
		}
	}
	m := p.newCommand(0x80|coldReset, 0, nil)
	m[0] = byte(iscsi.TaskRequest)
	p.send(m, nil)
	if p.take(iscsi.TaskResponse); !p.closed || !other.closed {
		t.Error("a cold reset leaves connections open")
	}
}

// TestReinstatement: the second login of an initiator port ends the first session.
func TestReinstatement(t *testing.T) {
	target := newTestTarget(t, nil)
	a, b, c := connect(t, target), connect(t, target), connect(t, target)
	c.isid = 1
	a.login("")
	c.login("")
	if b.login(""); !a.closed || c.closed || target.stats[Reinstated] != 1 {
		t.Errorf("closed: first %v, other port %v", a.closed, c.closed)
	}
	if n := len(target.Sessions()); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestTimers: a login ends after 15 s; a silent peer is asked after 30 s and given up 30 s
// later.
func TestTimers(t *testing.T) {
	target := newTestTarget(t, nil)
	slow := connect(t, target)
	p := connect(t, target)
	p.login("")
	at := func(d time.Duration) frame.Time { return frame.Time(0).Add(d) }
	if next := target.Poll(at(0)); next != at(loginWithin) {
		t.Errorf("deadline %v", next)
	}
	if target.Poll(at(loginWithin)); !slow.aborted || p.aborted || target.stats[LoginTimeout] != 1 {
		t.Errorf("aborted: login %v, session %v", slow.aborted, p.aborted)
	}
	slow.c.Gone()
	target.Poll(at(pingAfter))
	p.drain()
	ping := p.take(iscsi.NopIn)
	p.now = at(pingAfter + time.Second)
	p.send(&iscsi.BHS{byte(iscsi.NopOut) | 0x40, 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff}, nil)
	if target.Poll(at(2 * pingAfter)); p.aborted || ping.U32(iscsi.TTT) == iscsi.Unassigned {
		t.Error("the ping has no tag, or its answer does not count")
	}
	target.Poll(at(3 * pingAfter))
	if target.Poll(at(4*pingAfter + time.Second)); !p.aborted || target.stats[Silent] != 1 {
		t.Error("a silent peer is not given up")
	}
}

// TestStop: sessions hear that the target ends.
func TestStop(t *testing.T) {
	target := newTestTarget(t, nil)
	p := connect(t, target)
	p.login("")
	target.Stop()
	p.drain()
	if g := p.take(iscsi.Async); g.BHS[36] != eventDropSession || !p.closed {
		t.Errorf("event %d, closed %v", g.BHS[36], p.closed)
	}
}

// TestPingLogout: a ping comes back; logouts are answered.
func TestPingLogout(t *testing.T) {
	p := connect(t, newTestTarget(t, nil))
	p.login("")
	h := p.newCommand(0x80, iscsi.Unassigned, nil)
	h[0] = byte(iscsi.NopOut)
	p.send(h, []byte("hello"))
	if g := p.take(iscsi.NopIn); string(g.data) != "hello" || g.U32(iscsi.TTT) != iscsi.Unassigned {
		t.Errorf("ping: %q, %x", g.data, g.BHS)
	}
	for _, c := range []struct {
		reason, cid, want byte
	}{{2, 0, logoutUnsupported}, {1, 5, logoutUnknownCID}, {1, 0, logoutDone}} {
		h := p.newCommand(0x80|c.reason, int(c.cid)<<16, nil)
		h[0] = byte(iscsi.LogoutReq)
		p.send(h, nil)
		if g := p.take(iscsi.LogoutRsp); g.BHS[2] != c.want || p.closed != (c.want == logoutDone) {
			t.Errorf("logout for reason %d: response %d, closed %v", c.reason, g.BHS[2], p.closed)
		}
	}
}

// TestDiscovery: a discovery session hears of the targets that it may log in to, in as many
// PDUs as it takes, and can do nothing else.
func TestDiscovery(t *testing.T) {
	target := newTestTarget(t, func(c *Config) {
		for i := range 20 {
			c.Nodes = append(c.Nodes, &Node{Name: fmt.Sprintf("iqn.2026-11.tapir:%d", i)})
		}
		c.Nodes = append(c.Nodes, &Node{Name: "iqn.2026-11.tapir:secret", Initiators: []string{"iqn.other"}})
	})
	p := connect(t, target)
	if g := p.loginPDU(0x87, "InitiatorName="+initiator+" SessionType=Discovery MaxRecvDataSegmentLength=512"); status(g) != 0 {
		t.Fatalf("status %04x", status(g))
	}
	var text []byte
	h := p.newCommand(0x80, 0, nil)
	h[0] = byte(iscsi.TextReq)
	h.Put(iscsi.TTT, iscsi.Unassigned)
	p.send(h, textOf("SendTargets=All"))
	for {
		g := p.take(iscsi.TextRsp)
		text = append(text, g.data...)
		if len(g.data) > 512 {
			t.Fatalf("%d octets", len(g.data))
		}
		if g.BHS[1]&iscsi.Final != 0 {
			break
		}
		h := p.newCommand(0x80, 0, nil)
		h[0] = byte(iscsi.TextReq)
		h.Put(iscsi.TTT, g.U32(iscsi.TTT))
		p.send(h, nil)
	}
	pairs, err := iscsi.ParseText(text)
	if err != nil || len(pairs) != 2*21 || pairs[1] != (iscsi.Pair{Key: "TargetAddress", Value: "10.0.0.1:3260,1"}) {
		t.Errorf("%d pairs, %v: %v", len(pairs), err, pairs)
	}
	p.send(p.newCommand(0x80, 0, ready), nil)
	if g := p.take(iscsi.Reject); g.BHS[2] != rejectOpcode {
		t.Errorf("a command in a discovery session: reason %d", g.BHS[2])
	}
}

// TestSteadyState: commands take no memory.
func TestSteadyState(t *testing.T) {
	p := connect(t, newTestTarget(t, nil))
	p.login("HeaderDigest=CRC32C DataDigest=CRC32C")
	p.settle()
	data, buf := make([]byte, 4096), make([]byte, 8192)
	round := func() {
		for _, op := range []byte{0x8a, 0x88} {
			h := p.newCommand(0xa0, 4096, cdb16(op, 8, 8))
			var out []byte
			if out = data; op == 0x88 {
				h[1], out = 0xc0, nil
			}
			h.SetDataLen(len(out))
			b := append(p.rd.Head(buf[:0], h), out...)
			p.c.Receive(p.rd.Tail(b, out), 0)
			n := p.c.Next(p.off, 1<<20)
			p.c.Render(p.off, buf[:n])
			p.off += uint64(n)
			p.c.Acked(p.off)
		}
	}
	for range 100 {
		round()
	}
	// The test's own: two headers, two CDBs.
	if n := testing.AllocsPerRun(1000, round); n > 4 {
		t.Errorf("%v allocations for a write and a read", n)
	}
}

// FuzzTarget: no stream brings a target down, nothing is left when it has ended.
func FuzzTarget(f *testing.F) {
	h := (&peer{}).newCommand(0xa0, 512, cdb16(0x8a, 0, 1))
	h.SetDataLen(4)
	f.Add(append(h[:], 1, 2, 3, 4), byte(0))
	for _, op := range []iscsi.Opcode{iscsi.NopOut, iscsi.TaskRequest, iscsi.TextReq, iscsi.LogoutReq, iscsi.DataOut} {
		b := iscsi.BHS{byte(op) | 0x40, 0x81}
		f.Add(b[:], byte(op))
	}
	f.Add((&iscsi.BHS{0x43, 0x87})[:], byte(0x80))
	f.Fuzz(func(t *testing.T, b []byte, how byte) {
		p := connect(t, newTestTarget(t, nil))
		if how&0x80 == 0 {
			p.login(fmt.Sprintf("InitialR2T=%s ImmediateData=%s", []string{yes, no}[how&1], []string{yes, no}[how>>1&1]))
			p.cmdSN = 0
		}
		p.raw(b)
		p.c.Gone()
		if p.c.held != 0 || len(p.c.tasks) != 0 || len(p.target.conns) != 0 {
			t.Fatalf("held %d octets, %d tasks", p.c.held, len(p.c.tasks))
		}
	})
}
