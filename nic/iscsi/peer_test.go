package iscsi

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

const (
	nodeName  = "iqn.2026-11.tapir:disk"
	initiator = "iqn.2026-11.test:initiator"
)

// newTestTarget serves one unit of 4 MiB.
func newTestTarget(t testing.TB, change func(*Config)) *Target {
	t.Helper()
	u, err := scsi.New(scsi.Config{Size: 4 << 20, Block: 512, Physical: 512, Thin: true, Serial: "1",
		Store: scsi.NewMemory(4 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Nodes: []*Node{{Name: nodeName, Units: []*scsi.Unit{u}}}, Random: rand.NewPCG(1, 2)}
	if change != nil {
		change(&cfg)
	}
	return NewTarget(cfg)
}

// pdu is one that a target has sent.
type pdu struct {
	iscsi.BHS
	data []byte
}

// peer is an initiator for tests: it sends what it is told to.
type peer struct {
	t       testing.TB
	target  *Target
	c       *Conn
	rd      iscsi.Reader
	got     []pdu
	off     uint64
	cmdSN   uint32
	itt     uint32
	isid    byte
	closed  bool
	aborted bool
	now     frame.Time
}

// Kick implements Link.
func (p *peer) Kick() {}

// CloseBoth implements Link.
func (p *peer) CloseBoth() { p.closed = true }

// Abort implements Link.
func (p *peer) Abort() { p.aborted = true }

// connect connects a peer.
func connect(t testing.TB, target *Target) *peer {
	p := &peer{t: t, target: target, cmdSN: 100}
	p.rd.Max = 1 << 24
	p.c = target.Accept(netip.MustParseAddrPort("10.0.0.1:3260"), netip.MustParseAddrPort("10.0.0.2:40000"), p, 0)
	return p
}

// send sends a PDU and reads what comes back.
func (p *peer) send(h *iscsi.BHS, data []byte) {
	h.SetDataLen(len(data))
	b := p.rd.Head(nil, h)
	p.raw(p.rd.Tail(append(b, data...), data))
}

// raw sends octets in pieces.
func (p *peer) raw(b []byte) {
	for len(b) > 0 {
		n := min(len(b), 1000)
		p.c.Receive(b[:n], p.now)
		b = b[n:]
	}
	p.drain()
}

// drain reads what the target has sent.
func (p *peer) drain() {
	for {
		n := p.c.Next(p.off, 1448)
		if n == 0 {
			return
		}
		b := make([]byte, n)
		p.c.Render(p.off, b)
		p.off += uint64(n)
		for {
			k, ev, err := p.rd.Next(b)
			if err != nil || p.rd.DataBad {
				p.t.Fatalf("the target's stream: %v, digest wrong: %v", err, p.rd.DataBad)
			}
			if b = b[k:]; ev == iscsi.More {
				break
			}
			if ev == iscsi.Whole {
				p.got = append(p.got, pdu{p.rd.BHS, bytes.Clone(p.rd.Data)})
			}
		}
		p.c.Acked(p.off)
	}
}

// take returns the next PDU of the target, which must be of a kind.
func (p *peer) take(op iscsi.Opcode) pdu {
	p.t.Helper()
	if len(p.got) == 0 {
		p.t.Fatalf("no PDU, want %x (closed %v, aborted %v)", op, p.closed, p.aborted)
	}
	g := p.got[0]
	p.got = p.got[1:]
	if g.Opcode() != op {
		p.t.Fatalf("PDU %x, want %x: %x", g.Opcode(), op, g.BHS)
	}
	return g
}

// text is a text of "key=value" words.
func textOf(words string) (b []byte) {
	for _, w := range strings.Fields(words) {
		b = append(append(b, w...), 0)
	}
	return b
}

const who = "InitiatorName=" + initiator + " TargetName=" + nodeName + " "

// loginPDU sends a login request.
func (p *peer) loginPDU(flags byte, words string) pdu {
	p.t.Helper()
	var h iscsi.BHS
	h[0], h[1], h[13] = byte(iscsi.LoginReq)|0x40, flags, p.isid
	h.Put(iscsi.CmdSN, p.cmdSN)
	p.send(&h, textOf(words))
	return p.take(iscsi.LoginRsp)
}

// login logs in without security.
func (p *peer) login(words string) pdu {
	p.t.Helper()
	g := p.loginPDU(0x87, who+words)
	if s := status(g); s != 0 {
		p.t.Fatalf("login: status %04x", s)
	}
	p.rd.Digests = p.c.rd.Digests
	return g
}

func status(g pdu) uint16 { return uint16(g.U32(iscsi.StatusClass) >> 16) }

// newCommand is a command PDU.
func (p *peer) newCommand(flags byte, expected int, cdb []byte) *iscsi.BHS {
	h := new(iscsi.BHS)
	p.itt++
	h[0], h[1] = byte(iscsi.Command), flags
	h.Put(iscsi.ITT, p.itt)
	h.Put(iscsi.Expected, uint32(expected))
	h.Put(iscsi.CmdSN, p.cmdSN)
	copy(h.CDB(), cdb)
	p.cmdSN++
	return h
}

// dataOut is a Data-Out PDU.
func dataOut(itt, ttt, sn uint32, off int, last bool) *iscsi.BHS {
	h := new(iscsi.BHS)
	h[0] = byte(iscsi.DataOut)
	if last {
		h[1] = iscsi.Final
	}
	h.Put(iscsi.ITT, itt)
	h.Put(iscsi.TTT, ttt)
	h.Put(iscsi.DataSN, sn)
	h.Put(iscsi.Offset, uint32(off))
	return h
}

// cdb16 is a READ or WRITE of 16 octets.
func cdb16(op byte, lba uint64, n int) []byte {
	b := []byte{op, 15: 0}
	binary.BigEndian.PutUint64(b[2:], lba)
	binary.BigEndian.PutUint32(b[10:], uint32(n))
	return b
}

var ready = make([]byte, 16) // TEST UNIT READY

// settle takes the attention of power-on.
func (p *peer) settle() {
	p.t.Helper()
	p.send(p.newCommand(0x80, 0, ready), nil)
	p.take(iscsi.Response)
}

// write writes data as the negotiated parameters say, with Data-Out of at most segment
// octets.
func (p *peer) write(lba uint64, data []byte, segment int) pdu {
	p.t.Helper()
	par := p.c.par
	now := 0
	if par.ImmediateData {
		now = min(len(data), par.First, segment)
	}
	flags := byte(0xa0)
	first := now
	if !par.InitialR2T {
		first = min(len(data), par.First)
	}
	if first > now {
		flags &^= 0x80
	}
	h := p.newCommand(flags, len(data), cdb16(0x8a, lba, len(data)/512))
	itt := h.U32(iscsi.ITT)
	p.send(h, data[:now])
	p.sequence(itt, iscsi.Unassigned, data, now, first, segment)
	for len(p.got) > 0 && p.got[0].Opcode() == iscsi.R2T {
		r := p.take(iscsi.R2T)
		off, n := int(r.U32(iscsi.Offset)), int(r.U32(iscsi.Desired))
		if n > par.Burst {
			p.t.Fatalf("R2T for %d octets, burst is %d", n, par.Burst)
		}
		p.sequence(itt, r.U32(iscsi.TTT), data, off, off+n, segment)
	}
	return p.take(iscsi.Response)
}

// sequence sends a sequence of Data-Out.
func (p *peer) sequence(itt, ttt uint32, data []byte, off, end, segment int) {
	for sn := uint32(0); off < end; sn++ {
		n := min(segment, end-off)
		p.send(dataOut(itt, ttt, sn, off, off+n == end), data[off:off+n])
		off += n
	}
}

// read reads blocks and checks the PDUs that they come in.
func (p *peer) read(lba uint64, blocks int) (data []byte) {
	p.t.Helper()
	p.send(p.newCommand(0xc0, blocks*512, cdb16(0x88, lba, blocks)), nil)
	for sn := uint32(0); ; sn++ {
		g := p.take(iscsi.DataIn)
		if g.U32(iscsi.DataSN) != sn || int(g.U32(iscsi.Offset)) != len(data) || len(g.data) > p.c.par.Send {
			p.t.Fatalf("Data-In %d at %d of %d octets: %x", sn, len(data), len(g.data), g.BHS)
		}
		data = append(data, g.data...)
		if final := len(data)%p.c.par.Burst == 0 || len(data) == blocks*512; final != (g.BHS[1]&iscsi.Final != 0) {
			p.t.Fatalf("F is %v at %d of %d octets", !final, len(data), blocks*512)
		}
		if g.BHS[1]&iscsi.Status != 0 {
			return data
		}
	}
}

// idle fails if the connection holds anything.
func (p *peer) idle() {
	p.t.Helper()
	if p.c.held != 0 || len(p.c.tasks) != 0 || p.c.queued != 0 || len(p.got) != 0 {
		p.t.Errorf("held %d octets, %d tasks, %d queued, %d PDUs unread", p.c.held, len(p.c.tasks), p.c.queued,
			len(p.got))
	}
}

func (p *peer) count(c Counter) uint64 { return p.target.stats[c] }
