package iscsi

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// fabric carries iSER between two ends: what was posted first is done first.
type fabric struct {
	work    []func()
	memory  map[uint32][]byte // of the initiator, by STag
	next    uint32
	invalid int // STags that a Send has invalidated
}

// run does what is posted, until there is nothing.
func (f *fabric) run() {
	for len(f.work) > 0 {
		do := f.work[0]
		f.work = f.work[1:]
		do()
	}
}

// base is the address of all advertised memory.
const base = 1 << 40

// port is an end of a fabric.
type port struct {
	end
	f       *fabric
	control func(m *iscsi.Message)
}

func (p *port) Send(m *Outgoing) bool {
	b := iscsi.AppendISER(nil, &m.Advert, m.BHS, m.Data)
	p.f.work = append(p.f.work, func() {
		if m.Invalidate != 0 {
			if p.f.memory[m.Invalidate] == nil {
				panic("an STag that nobody has advertised")
			}
			p.f.invalid++
		}
		got, err := iscsi.ParseISER(b)
		if err != nil {
			panic(err)
		}
		p.control(&got)
	})
	return true
}

func (p *port) move(x Transfer, read bool) {
	p.f.work = append(p.f.work, func() {
		mem := p.f.memory[x.STag]
		ours := x.Buffer.Bytes()[x.Off : x.Off+x.Len]
		if mem == nil {
			panic("memory that is not advertised")
		}
		if mem = mem[x.Addr-base:][:x.Len]; read {
			copy(ours, mem)
		} else {
			copy(mem, ours)
		}
		x.Done(true, 0)
	})
}

func (p *port) Write(x Transfer) { p.move(x, false) }
func (p *port) Read(x Transfer)  { p.move(x, true) }

func (p *port) Advertise(r *Request, out []byte) (a iscsi.Advert, err error) {
	p.f.next++
	if r.Region = p.f.next; len(r.In) > 0 {
		p.f.memory[p.f.next] = r.In
		return iscsi.Advert{Read: true, ReadSTag: p.f.next, ReadBase: base}, nil
	}
	p.f.memory[p.f.next] = out
	return iscsi.Advert{Write: true, WriteSTag: p.f.next, WriteBase: base}, nil
}

func (p *port) Withdraw(r *Request) {
	if stag, ok := r.Region.(uint32); ok {
		delete(p.f.memory, stag)
	}
	r.Region = nil
}

// iserPair is an initiator and a target on a fabric.
type iserPair struct {
	*fabric
	i          *Initiator
	c          *Conn
	iEnd, cEnd port
	ready      bool
	err        error
}

// newISER connects an initiator, unless there is no configuration.
func newISER(target *Target, cfg *InitiatorConfig) *iserPair {
	p := &iserPair{fabric: &fabric{memory: map[uint32][]byte{}}}
	p.iEnd = port{f: p.fabric, control: func(m *iscsi.Message) { p.c.Control(m, 0) }}
	p.cEnd = port{f: p.fabric, control: func(m *iscsi.Message) { p.i.Control(m, 0) }}
	p.c = target.Accept(netip.MustParseAddrPort("[fd00::1]:3260"), netip.MustParseAddrPort("[fd00::2]:9"), &p.cEnd, 0)
	if cfg == nil {
		return p
	}
	cfg.Name, cfg.Random = initiator, rand.NewPCG(3, 4)
	cfg.Ready = func(frame.Time) { p.ready = true }
	cfg.Failed = func(err error, _ frame.Time) { p.err = err }
	p.i = NewInitiator(*cfg, &p.iEnd)
	p.run()
	return p
}

// do has a command done.
func (p *iserPair) do(cdb []byte, out, in []byte) *Request {
	done := false
	r := &Request{CDB: [16]byte(cdb), Out: out, In: in, Done: func(*Request, frame.Time) { done = true }}
	p.i.Submit(r)
	if p.run(); !done {
		return nil
	}
	return r
}

// TestISER: an initiator writes and reads by RDMA; what it has advertised ends with the command, by
// the target's Send where it is the good end of one.
func TestISER(t *testing.T) {
	secret := CHAP{User: "u", Secret: "secret"}
	p := newISER(newTestTarget(t, func(cfg *Config) { cfg.Nodes[0].CHAP = secret }),
		&InitiatorConfig{Target: nodeName, CHAP: secret, Digests: true})
	if !p.ready || p.err != nil {
		t.Fatalf("ready %v, %v", p.ready, p.err)
	}
	if r := p.do(ready, nil, nil); r == nil || r.Status != scsi.CheckCondition || len(r.Sense) != 18 {
		t.Fatalf("first command: %+v", r)
	}
	for _, size := range []int{512, 8192, 8704, 2 << 20} { // immediate alone, and with more
		data, in := make([]byte, size), make([]byte, size)
		for k := range data {
			data[k] = byte(k*k>>7 + size)
		}
		before := p.invalid
		if r := p.do(cdb16(0x8a, 0, size/512), data, nil); r == nil || r.Status != scsi.Good || r.Residual != 0 {
			t.Fatalf("%d octets: WRITE: %+v, %v", size, r, p.err)
		}
		if r := p.do(cdb16(0x88, 0, size/512), nil, in); r == nil || r.Status != scsi.Good || !bytes.Equal(in, data) {
			t.Fatalf("%d octets: what is read is not what was written: %+v, %v", size, r, p.err)
		}
		want := 2
		if size <= ControlData {
			want = 1
		}
		if n := p.invalid - before; n != want || len(p.memory) != 0 {
			t.Errorf("%d octets: %d STags invalidated, want %d; %d still advertised", size, n, want, len(p.memory))
		}
	}
	if r := p.do(cdb16(0x88, 0, 1), nil, make([]byte, 1024)); r.Residual != 512 || r.Status != scsi.Good {
		t.Errorf("residual %d, %v", r.Residual, r.Status)
	}
	if r := p.do(cdb16(0x88, 1<<40, 1), nil, make([]byte, 512)); r.Status != scsi.CheckCondition || len(p.memory) != 0 {
		t.Errorf("beyond the end: %v, %d STags advertised", r.Status, len(p.memory))
	}
	done := 0
	for k := range 200 { // more than the window
		p.i.Submit(&Request{CDB: [16]byte(cdb16(0x88, uint64(k), 1)), In: make([]byte, 512),
			Done: func(*Request, frame.Time) { done++ }})
		if len(p.memory) > window {
			t.Fatalf("%d commands at a time", len(p.memory))
		}
	}
	if p.run(); done != 200 {
		t.Errorf("%d of 200 commands done", done)
	}
	if s := p.c.t.Sessions(); len(s) != 1 || !s[0].ISER || s[0].HeaderDigest {
		t.Errorf("sessions: %+v", s)
	}
	p.c.ping()
	p.i.Logout()
	if p.run(); !p.iEnd.closed || p.cEnd.closed || p.c.held != 0 || p.err != nil {
		t.Errorf("logout: closed %v, by the target %v, %d octets held, %v", p.iEnd.closed, p.cEnd.closed, p.c.held, p.err)
	}
	if p.c.t.Poll(frame.Time(lingerFor)); !p.cEnd.closed {
		t.Error("an initiator that does not close after a logout stays")
	}
	d := newISER(newTestTarget(t, nil), &InitiatorConfig{})
	n := 0
	d.i.Targets(func(l []iscsi.Pair, _ frame.Time) { n = len(l) })
	if d.run(); n != 2 {
		t.Errorf("discovery by RDMA: %d pairs, %v", n, d.err)
	}
}

// raw is an initiator by hand: it logs in with words, and has the answers.
func (p *iserPair) raw(words string) (answer pdu) {
	p.cEnd.control = func(m *iscsi.Message) { answer = pdu{m.BHS, bytes.Clone(m.Data)} }
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.LoginReq)|0x40, 0x87
	p.iEnd.Send(&Outgoing{BHS: &h, Data: textOf(who + words)})
	p.run()
	return answer
}

// control sends a PDU of the full feature phase.
func (p *iserPair) send(op iscsi.Opcode, flags byte, change func(h *iscsi.BHS), a iscsi.Advert) {
	var h iscsi.BHS
	h[0], h[1] = byte(op), flags
	h.Put(iscsi.CmdSN, p.c.expCmdSN)
	if change != nil {
		change(&h)
	}
	p.iEnd.Send(&Outgoing{BHS: &h, Advert: a})
	p.run()
}

// TestISERKeys: the keys of RFC 7145 section 6, and those of others that it changes.
func TestISERKeys(t *testing.T) {
	const on = "RDMAExtensions=Yes "
	for offer, want := range map[string]string{
		on: "RDMAExtensions=Yes", on + "MaxOutstandingUnexpectedPDUs=2": "RDMAExtensions=Yes MaxOutstandingUnexpectedPDUs=16", on + "HeaderDigest=CRC32C,None": "HeaderDigest=None",
		on + "DataDigest=CRC32C":                     "DataDigest=Reject",
		on + "InitiatorRecvDataSegmentLength=262144": "InitiatorRecvDataSegmentLength=8192",
		on + "TargetRecvDataSegmentLength=4096":      "TargetRecvDataSegmentLength=4096",
		on + "TargetRecvDataSegmentLength=100":       "TargetRecvDataSegmentLength=Reject",
		on + "ImmediateData=Yes InitialR2T=No":       "ImmediateData=No InitialR2T=Yes",
		on + "ImmediateData=Yes InitialR2T=No TaggedBufferForSolicitedDataOnly=Yes FirstBurstLength=65536": "ImmediateData=Yes InitialR2T=No FirstBurstLength=8192",
		on + "iSERHelloRequired=maybe": "iSERHelloRequired=Reject",
		on + "MaxAHSLength=1":          "MaxAHSLength=Reject",
	} {
		p := newISER(newTestTarget(t, nil), nil)
		g := p.raw(offer)
		for w := range strings.FieldsSeq(want) {
			if !slices.Contains(strings.Split(string(g.data), "\x00"), w) {
				t.Errorf("%s: %q lacks %s", offer, g.data, w)
			}
		}
		if status(g) != 0 {
			t.Errorf("%s: status %04x", offer, status(g))
		}
	}
	if g := newISER(newTestTarget(t, nil), nil).raw(on); bytes.Contains(g.data, []byte("Unexpected")) {
		t.Errorf("declared to who may not know it: %q", g.data)
	}
	if g := newISER(newTestTarget(t, nil), nil).raw("RDMAExtensions=No"); status(g) != initiatorError {
		t.Errorf("a session on RDMA that is none in iSER: status %04x", status(g))
	}
	stream := connect(t, newTestTarget(t, nil))
	g := stream.loginPDU(0x87, who+"RDMAExtensions=Yes MaxAHSLength=256")
	for _, want := range []string{"RDMAExtensions=No", "MaxAHSLength=Irrelevant"} {
		if !bytes.Contains(g.data, []byte(want)) {
			t.Errorf("on a stream: %q lacks %s", g.data, want)
		}
	}
}

// TestUnexpected: a target sends no more PDUs that the initiator does not expect than it has declared; the last
// place is that of a ping. ExpStatSN, and the answer to the ping, make room (RFC 7145 section 8.1.2).
func TestUnexpected(t *testing.T) {
	for _, c := range []struct {
		declared string
		rejects  int
	}{{"", 5}, {" MaxOutstandingUnexpectedPDUs=0", 5}, {" MaxOutstandingUnexpectedPDUs=3", 2}} {
		p := newISER(newTestTarget(t, nil), nil)
		p.raw("RDMAExtensions=Yes" + c.declared)
		begun := p.c.statSN
		got := map[iscsi.Opcode]int{}
		p.cEnd.control = func(m *iscsi.Message) { got[m.BHS.Opcode()]++ }
		snacks := func(n int, exp uint32) {
			for range n {
				p.send(iscsi.SNACK, 0x80, func(h *iscsi.BHS) { h.Put(iscsi.ExpStatSN, exp) }, iscsi.Advert{})
			}
		}
		snacks(5, begun)
		p.c.ping()
		if p.run(); got[iscsi.Reject] != c.rejects || got[iscsi.NopIn] != 1 || p.c.t.stats[Withheld] != uint64(5-c.rejects) {
			t.Errorf("%q: got %v, %d withheld", c.declared, got, p.c.t.stats[Withheld])
		}
		if c.rejects == 5 {
			continue
		}
		tag := p.c.tag
		snacks(1, begun+1) // has had the first
		if got[iscsi.Reject] != 2 {
			t.Errorf("in the place of a ping: %v", got)
		}
		p.send(iscsi.NopOut, 0x80, func(h *iscsi.BHS) {
			h[0] |= 0x40
			h.Put(iscsi.ITT, iscsi.Unassigned)
			h.Put(iscsi.TTT, tag)
			h.Put(iscsi.ExpStatSN, begun+1)
		}, iscsi.Advert{})
		if snacks(2, begun+2); got[iscsi.Reject] != 4 {
			t.Errorf("after the answer to the ping: %v", got)
		}
	}
}

// TestISERViolations: who breaks the rules of iSER loses the connection, and nothing stays held.
func TestISERViolations(t *testing.T) {
	read := func(h *iscsi.BHS) { h.Put(iscsi.Expected, 512); copy(h.CDB(), cdb16(0x88, 0, 1)) }
	write := func(h *iscsi.BHS) { h.Put(iscsi.Expected, 512); copy(h.CDB(), cdb16(0x8a, 0, 1)) }
	settle := func(p *iserPair) { p.send(iscsi.Command, 0x80, nil, iscsi.Advert{}) }
	for name, do := range map[string]func(p *iserPair){
		"a read without an STag":  func(p *iserPair) { settle(p); p.send(iscsi.Command, 0xc0, read, iscsi.Advert{}) },
		"a write without an STag": func(p *iserPair) { settle(p); p.send(iscsi.Command, 0xa0, write, iscsi.Advert{}) },
		"a Hello that is not due": func(p *iserPair) { p.c.Hello() },
		"no message":              func(p *iserPair) { p.c.Malformed() },
	} {
		p := newISER(newTestTarget(t, nil), nil)
		p.raw("RDMAExtensions=Yes")
		if do(p); !p.cEnd.aborted || p.c.t.stats[BadISER] != 1 || p.c.held != 0 {
			t.Errorf("%s: aborted %v, counted %d, %d octets held", name, p.cEnd.aborted, p.c.t.stats[BadISER], p.c.held)
		}
	}
	for _, hello := range []bool{true, false} {
		p := newISER(newTestTarget(t, nil), nil)
		p.raw("RDMAExtensions=Yes iSERHelloRequired=Yes")
		if hello && !p.c.Hello() {
			t.Error("the Hello is refused")
		}
		if settle(p); p.cEnd.aborted == hello {
			t.Errorf("Hello %v, then a command: aborted %v", hello, p.cEnd.aborted)
		}
	}
}

// TestISERAbort: a task is gone only when its RDMA Read has ended (RFC 7145 section 7.3.3).
func TestISERAbort(t *testing.T) {
	for _, abort := range []bool{true, false} {
		p := newISER(newTestTarget(t, nil), nil)
		p.raw("RDMAExtensions=Yes")
		p.send(iscsi.Command, 0x80, nil, iscsi.Advert{})
		var got []iscsi.Opcode
		p.cEnd.control = func(m *iscsi.Message) { got = append(got, m.BHS.Opcode()) }
		p.memory[7] = make([]byte, 512)
		var h iscsi.BHS
		h[0], h[1] = byte(iscsi.Command), 0xa0
		h.Put(iscsi.CmdSN, p.c.expCmdSN)
		h.Put(iscsi.ITT, 5)
		h.Put(iscsi.Expected, 512)
		copy(h.CDB(), cdb16(0x8a, 0, 1))
		p.c.Control(&iscsi.Message{BHS: h, Advert: iscsi.Advert{Write: true, WriteSTag: 7, WriteBase: base}}, 0)
		if abort {
			h = iscsi.BHS{byte(iscsi.TaskRequest) | 0x40, 0x80 | abortTask}
			h.Put(iscsi.CmdSN, p.c.expCmdSN)
			h.Put(iscsi.RefTag, 5)
			p.c.Control(&iscsi.Message{BHS: h}, 0)
		} else {
			p.c.PeerClosed()
		}
		if len(got) != 0 || len(p.c.tasks) != 1 {
			t.Errorf("abort %v: %d answers before the Read has ended, %d tasks", abort, len(got), len(p.c.tasks))
		}
		p.run()
		if want := abort; slices.Equal(got, []iscsi.Opcode{iscsi.TaskResponse}) != want || p.c.held != 0 || len(p.c.tasks) != 0 {
			t.Errorf("abort %v: answers %v, %d octets held, %d tasks", abort, got, p.c.held, len(p.c.tasks))
		}
	}
}
