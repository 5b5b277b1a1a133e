package iscsi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// end is a Link that is only watched.
type end struct{ closed, aborted bool }

func (e *end) Kick()      {}
func (e *end) CloseBoth() { e.closed = true }
func (e *end) Abort()     { e.aborted = true }

// pair is an initiator and a target on one connection.
type pair struct {
	i        *Initiator
	c        *Conn
	iEnd     end
	cEnd     end
	iOff     uint64
	cOff     uint64
	ready    bool
	err      error
	spoil    func(toTarget bool, b []byte)
	exchange int
}

func newPair(target *Target, cfg InitiatorConfig) *pair {
	p := &pair{}
	cfg.Name, cfg.Random = initiator, rand.NewPCG(3, 4)
	cfg.Ready = func(frame.Time) { p.ready = true }
	cfg.Failed = func(err error, _ frame.Time) { p.err = err }
	p.c = target.Accept(netip.MustParseAddrPort("[fd00::1]:3260"), netip.MustParseAddrPort("[fd00::2]:9"), &p.cEnd, 0)
	p.i = NewInitiator(cfg, &p.iEnd)
	p.run()
	return p
}

// run carries octets until nobody has any.
func (p *pair) run() {
	for {
		n, m := p.i.Next(p.iOff, 1400), p.c.Next(p.cOff, 1400)
		if n+m == 0 {
			return
		}
		b, d := make([]byte, n), make([]byte, m)
		p.i.Render(p.iOff, b)
		p.c.Render(p.cOff, d)
		if p.iOff, p.cOff = p.iOff+uint64(n), p.cOff+uint64(m); p.spoil != nil {
			p.spoil(true, b)
			p.spoil(false, d)
		}
		if !p.cEnd.aborted {
			p.c.Receive(b, 0)
		}
		if !p.iEnd.aborted {
			p.i.Receive(d, 0)
		}
		p.i.Acked(p.iOff)
		p.c.Acked(p.cOff)
	}
}

// do has a command done.
func (p *pair) do(cdb []byte, out, in []byte) *Request {
	done := false
	r := &Request{CDB: [16]byte(cdb), Out: out, In: in, Done: func(*Request, frame.Time) { done = true }}
	p.i.Submit(r)
	if p.run(); !done {
		return nil
	}
	return r
}

// TestInitiator: what it writes it reads again, with and without digests and CHAP in both
// directions.
func TestInitiator(t *testing.T) {
	for name, c := range map[string]struct {
		digests bool
		target  CHAP
		mine    CHAP
		want    error
	}{
		"plain":              {},
		"digests":            {digests: true},
		"CHAP":               {target: CHAP{User: "u", Secret: "secret"}, mine: CHAP{User: "u", Secret: "secret"}},
		"CHAP of both":       {true, CHAP{User: "u", Secret: "secret", MyUser: "t", MySecret: "own"}, CHAP{User: "u", Secret: "secret", MyUser: "", MySecret: "own"}, nil},
		"no secret":          {target: CHAP{User: "u", Secret: "secret"}, want: LoginError(notAuthenticated)},
		"wrong secret":       {target: CHAP{User: "u", Secret: "secret"}, mine: CHAP{User: "u", Secret: "x"}, want: LoginError(notAuthenticated)},
		"target is another":  {false, CHAP{User: "u", Secret: "secret", MyUser: "t", MySecret: "other"}, CHAP{User: "u", Secret: "secret", MyUser: "", MySecret: "own"}, ErrAuthentication},
		"target has no CHAP": {mine: CHAP{User: "u", Secret: "secret"}, want: LoginError(notAuthenticated)},
	} {
		target := newTestTarget(t, func(cfg *Config) { cfg.Nodes[0].CHAP = c.target })
		p := newPair(target, InitiatorConfig{Target: nodeName, Digests: c.digests, CHAP: c.mine})
		if !errors.Is(p.err, c.want) || p.ready != (c.want == nil) {
			t.Errorf("%s: ready %v, %v", name, p.ready, p.err)
		}
		if c.want != nil {
			continue
		}
		if p.c.rd.Header != c.digests || p.i.rd.Digests != p.c.rd.Digests {
			t.Errorf("%s: digests %+v, %+v", name, p.i.rd.Digests, p.c.rd.Digests)
		}
		if r := p.do(ready, nil, nil); r.Status != scsi.CheckCondition || len(r.Sense) != 18 {
			t.Errorf("%s: first command: %+v", name, r)
		}
		data := make([]byte, 2<<20)
		for k := range data {
			data[k] = byte(k * k >> 7)
		}
		if r := p.do(cdb16(0x8a, 0, 4096), data, nil); r == nil || r.Status != scsi.Good || r.Residual != 0 {
			t.Fatalf("%s: WRITE: %+v, %v", name, r, p.err)
		}
		in := make([]byte, len(data))
		if r := p.do(cdb16(0x88, 0, 4096), nil, in); r == nil || r.Status != scsi.Good || !bytes.Equal(in, data) {
			t.Fatalf("%s: what is read is not what was written: %v", name, p.err)
		}
		if r := p.do(cdb16(0x88, 0, 1), nil, make([]byte, 1024)); r.Residual != 512 {
			t.Errorf("%s: residual %d", name, r.Residual)
		}
		for k := range 200 { // more than the window
			p.i.Submit(&Request{CDB: [16]byte(cdb16(0x88, uint64(k), 1)), In: make([]byte, 512), Done: func(r *Request, _ frame.Time) {
				if r.Status == scsi.Good {
					p.exchange++
				}
			}})
		}
		if p.run(); p.exchange != 200 {
			t.Errorf("%s: %d of 200 commands done", name, p.exchange)
		}
		p.c.ping()
		p.i.Logout()
		if p.run(); !p.cEnd.closed || p.c.held != 0 {
			t.Errorf("%s: logout: closed %v, %d octets held", name, p.cEnd.closed, p.c.held)
		}
	}
}

// TestInitiatorDiscovers: a list of targets may come in many PDUs.
func TestInitiatorDiscovers(t *testing.T) {
	p := newPair(newTestTarget(t, func(c *Config) {
		for k := range 8000 {
			c.Nodes = append(c.Nodes, &Node{Name: fmt.Sprintf("iqn.2026-11.tapir:%d", k)})
		}
	}), InitiatorConfig{})
	var list []iscsi.Pair
	p.i.Targets(func(l []iscsi.Pair, _ frame.Time) { list = l })
	if p.run(); len(list) != 2*8001 || list[1].Value != "[fd00::1]:3260,1" {
		t.Errorf("%d pairs, %v", len(list), p.err)
	}
}

// TestDigestFaults flips an octet now and then on the way to the target. No octet that is
// acknowledged is wrong: a command fails, or the session ends.
func TestDigestFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var failed, ended int
	for range 200 {
		store := scsi.NewMemory(4 << 20)
		u, err := scsi.New(scsi.Config{Size: 4 << 20, Block: 512, Physical: 512, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		p := newPair(newTestTarget(t, func(c *Config) { c.Nodes[0].Units[0] = u }),
			InitiatorConfig{Target: nodeName, Digests: true})
		p.do(ready, nil, nil)
		left, flipped := 40+r.IntN(15000), false
		p.spoil = func(toTarget bool, b []byte) {
			if left -= len(b) / 100; toTarget && left < 0 && len(b) > 0 && !flipped {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
				flipped = true
			}
		}
		data := make([]byte, 512<<10)
		for k := range 4 {
			binary.BigEndian.PutUint64(data[r.IntN(len(data)-8):], r.Uint64())
			w := p.do(cdb16(0x8a, uint64(k)*1024, 1024), data, nil)
			if w == nil {
				ended++
				break
			}
			if w.Status != scsi.Good {
				failed++
				continue
			}
			is := make([]byte, len(data))
			if err := store.ReadAt(is, int64(k)*512<<10); err != nil || !bytes.Equal(is, data) {
				t.Fatal("a write with wrong octets was acknowledged")
			}
		}
	}
	if failed == 0 || ended == 0 {
		t.Errorf("%d commands failed, %d sessions ended", failed, ended)
	}
}

// FuzzInitiator: no target brings an initiator down.
func FuzzInitiator(f *testing.F) {
	for _, op := range []iscsi.Opcode{iscsi.NopIn, iscsi.Response, iscsi.DataIn, iscsi.R2T, iscsi.Async, iscsi.Reject,
		iscsi.TextRsp, iscsi.LogoutRsp, iscsi.LoginRsp, iscsi.TaskResponse} {
		h := iscsi.BHS{byte(op), 0x81, 19: 1, 47: 8}
		f.Add(h[:], true)
	}
	f.Add(append((&iscsi.BHS{byte(iscsi.LoginRsp), 0x81, 7: 24})[:], "MaxBurstLength=1024\x00abc\x00"...), false)
	f.Fuzz(func(t *testing.T, b []byte, in bool) {
		p := newPair(newTestTarget(t, nil), InitiatorConfig{Target: nodeName})
		if !in {
			p = &pair{}
			p.i = NewInitiator(InitiatorConfig{Name: initiator, Target: nodeName, Random: rand.NewPCG(3, 4),
				CHAP: CHAP{User: "u", Secret: "secret", MyUser: "", MySecret: "own"}, Ready: func(frame.Time) {}, Failed: func(error, frame.Time) {}}, &p.iEnd)
		}
		p.i.Submit(&Request{CDB: [16]byte(cdb16(0x88, 0, 1)), In: make([]byte, 512), Done: func(*Request, frame.Time) {}})
		p.i.Submit(&Request{CDB: [16]byte(cdb16(0x8a, 0, 1)), Out: make([]byte, 512), Done: func(*Request, frame.Time) {}})
		p.i.Receive(b, 0)
		rest := make([]byte, p.i.Next(0, 1<<20))
		p.i.Render(p.iOff, rest[:p.i.Next(p.iOff, len(rest))])
	})
}
