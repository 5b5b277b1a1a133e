package fcf

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

const ports = 4

// sent is a frame that the FCF has sent or forwarded.
type sent struct {
	port int
	at   frame.Time
	b    []byte
}

// bed is an FCF in virtual time. It captures all that passes.
type bed struct {
	t    testing.TB
	f    *FCF
	now  frame.Time
	got  []sent
	file []byte
}

func newBed(t testing.TB, cfg swconf.FCF) *bed {
	b := &bed{t: t}
	cfg.On = true
	c := swconf.Config{FCF: cfg}.WithDefaults()
	b.file = (&pcapng.Interface{LinkType: 1}).AppendTo((&pcapng.Section{}).AppendTo(nil))
	b.f = New(c.FCF, Env{MAC: c.FCFMAC(), Ports: ports, Priority: 3, FIPPriority: 4,
		Send: func(port int, f []byte, now frame.Time) {
			b.got = append(b.got, sent{port, now, slices.Clone(f)})
			b.capture(f)
		}})
	return b
}

func (b *bed) capture(f []byte) {
	b.file = (&pcapng.Packet{Data: f, OrigLen: uint32(len(f)), Stamp: int64(b.now)}).AppendTo(b.file)
}

// save writes the capture.
func (b *bed) save() string {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "fcf.pcapng")
	if err := os.WriteFile(name, b.file, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// run lets d pass.
func (b *bed) run(d time.Duration) {
	b.t.Helper()
	end := b.now.Add(d)
	for steps := 0; ; steps++ {
		next := b.f.Poll(b.now)
		if steps > 100_000 {
			b.t.Fatal("the FCF does not come to rest")
		}
		if next > end {
			b.now = end
			return
		}
		b.now = max(b.now, next)
	}
}

// in lets a frame in. Forwarded frames are as if they had been sent.
func (b *bed) in(port int, f []byte) (out int, why frame.DropReason) {
	b.capture(f)
	if out, why = b.f.Receive(port, f, b.now); out >= 0 && why == frame.DropNone {
		b.got = append(b.got, sent{out, b.now, f})
		b.capture(f)
	}
	return out, why
}

// take empties what was sent.
func (b *bed) take() []sent {
	g := b.got
	b.got = nil
	return g
}

// one is the only frame that was sent, but for advertisements to all.
func (b *bed) one() sent {
	b.t.Helper()
	g := slices.DeleteFunc(b.take(), func(s sent) bool { return ether.Addr(s.b[:6]) == fip.AllENodes })
	if len(g) != 1 {
		b.t.Fatalf("%d frames: %x", len(g), g)
	}
	return g[0]
}

// fip is a message of FIP and the header before it.
func (s *sent) fip(t testing.TB) (h ether.Header, m fip.Message) {
	t.Helper()
	h, n, err := ether.Parse(s.b)
	if err == nil && h.Type == fip.EtherType {
		m, err = fip.Parse(s.b[n:])
	}
	if err != nil || h.Type != fip.EtherType {
		t.Fatalf("%x: type %#x: %v", s.b, h.Type, err)
	}
	return h, m
}

// fc is a frame of Fibre Channel, out of FCoE.
func (s *sent) fc(t testing.TB) (eth ether.Header, h fc.Header, payload []byte) {
	t.Helper()
	eth, n, err := ether.Parse(s.b)
	if err != nil || eth.Type != fcoe.EtherType {
		t.Fatalf("%x: %v", s.b, err)
	}
	_, _, f, err := fcoe.Parse(s.b[n:])
	if err == nil {
		h, payload, err = fc.Parse(f)
	}
	if err != nil {
		t.Fatalf("%x: %v", s.b, err)
	}
	return eth, h, payload
}

// enode is an end node of the test.
type enode struct {
	*bed
	port int
	mac  ether.Addr
	vlan uint16
}

func (b *bed) enode(port int, last byte) *enode {
	return &enode{b, port, ether.Addr{2, 0, 0, 0, 0, last}, 0}
}

// wwpn is the port name of N_Port n of the ENode.
func (e *enode) wwpn(n int) fc.WWN { return fc.FromMAC(0x2000|uint16(n), e.mac) }

func (e *enode) wwnn() fc.WWN { return fc.FromMAC(0x1000, e.mac) }

func (e *enode) header(src, dst ether.Addr, typ uint16) ether.Header {
	h := ether.Header{Dst: dst, Src: src, Type: typ}
	if e.vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: 3<<13 | e.vlan}
	}
	return h
}

// say sends a message of FIP.
func (e *enode) say(src, dst ether.Addr, m *fip.Message) (out int, why frame.DropReason) {
	return e.in(e.port, m.AppendTo(e.header(src, dst, fip.EtherType).AppendTo(nil)))
}

// request sends a link service by FIP, and returns the reply.
func (e *enode) request(kind fip.Kind, s fc.ID, payload []byte, change func(*fip.Message)) (m fip.Message, h fc.Header, reply []byte) {
	e.t.Helper()
	fr := fc.Header{RCtl: fc.ELSRequest, D: fc.FabricPort, S: s, Type: fc.TypeELS, FCtl: fc.Request, OXID: 0x1234, RXID: fc.NoID}.
		AppendFrame(nil, payload)
	q := fip.Message{Op: fip.Request, Flags: fip.FPMA, Login: kind, Frame: fr}
	if kind == fip.LOGO {
		q.MAC = e.f.cfg.Map.MAC(s)
	}
	q.Set(fip.MAC)
	if change != nil {
		change(&q)
	}
	e.take()
	if out, why := e.say(e.mac, e.f.env.MAC, &q); out != Taken || why != frame.DropNone {
		e.t.Fatalf("request: %d, %v", out, why)
	}
	r := e.one()
	eth, m := r.fip(e.t)
	h, reply, err := fc.Parse(m.Frame)
	if err != nil || eth.Dst != e.mac || r.port != e.port || m.Op != fip.Reply || m.Login != kind || h.OXID != 0x1234 || h.S != fc.FabricPort {
		e.t.Fatalf("reply %+v %+v: %v", m, h, err)
	}
	return m, h, reply
}

// loginOf is what an N_Port says of itself.
func (e *enode) loginOf(cmd fc.ELS, n int) fc.Login {
	return fc.Login{Command: cmd, Features: fc.MultipleIDs, MaxPayload: fc.MaxPayload, Port: e.wwpn(n), Node: e.wwnn(), Class3: true,
		Class3Size: fc.MaxPayload}
}

// login has N_Port n log in: 0 by FLOGI, the others by FDISC.
func (e *enode) login(n int) *peer {
	e.t.Helper()
	kind, l := fip.FLOGI, e.loginOf(fc.FLOGI, n)
	if n > 0 {
		kind, l.Command = fip.FDISC, fc.FDISC
	}
	m, h, reply := e.request(kind, 0, l.AppendTo(nil), nil)
	a, err := fc.ParseLogin(reply)
	if err != nil || a.Command != fc.LSACC || m.MAC != e.f.cfg.Map.MAC(h.D) {
		e.t.Fatalf("%+v %+v %x: %v", m, h, reply, err)
	}
	return &peer{e, h.D, m.MAC, e.wwpn(n)}
}

// peer is an N_Port of the test.
type peer struct {
	*enode
	id   fc.ID
	mac  ether.Addr
	name fc.WWN
}

// frame is a frame of FCoE to the FCF.
func (p *peer) frame(h fc.Header, payload []byte) []byte {
	h.S = p.id
	return fcoe.Append(p.header(p.mac, p.f.env.MAC, fcoe.EtherType).AppendTo(nil), h, payload)
}

// ask sends a sequence to a service and returns the payload of the reply, put together.
func (p *peer) ask(to fc.ID, r fc.RCtl, typ fc.Type, payload []byte) (reply []byte) {
	p.t.Helper()
	p.take()
	out, why := p.in(p.port, p.frame(fc.Header{RCtl: r, D: to, Type: typ, FCtl: fc.Request, OXID: 7, RXID: fc.NoID}, payload))
	if out != Taken || why != frame.DropNone {
		p.t.Fatalf("%v: %d, %v", to, out, why)
	}
	frames := p.take()
	for i := range frames {
		eth, h, b := frames[i].fc(p.t)
		if eth.Dst != p.mac || eth.Src != p.f.env.MAC || h.D != p.id || h.S != to || int(h.SeqCnt) != i || h.OXID != 7 ||
			(h.FCtl&fc.End != 0) != (i == len(frames)-1) || h.FCtl&fc.FromResponder == 0 {
			p.t.Fatalf("frame %d of %d: %+v", i, len(frames), h)
		}
		reply = append(reply, b...)
	}
	return reply
}

func (p *peer) els(to fc.ID, payload []byte) []byte {
	p.t.Helper()
	return p.ask(to, fc.ELSRequest, fc.TypeELS, payload)
}

// query asks the name server; bad is why it refuses.
func (p *peer) query(cmd fc.CTCommand, parameters []byte) (body []byte, bad *rejection) {
	p.t.Helper()
	c, body, err := fc.ParseCT(p.ask(fc.Directory, fc.UnsolicitedCtl, fc.TypeCT, fc.AppendQuery(nil, cmd, parameters)))
	switch {
	case err != nil || c.Service != fc.DirectoryService || c.Command != fc.CTReply && c.Command != fc.CTRefus:
		p.t.Fatalf("%+v: %v", c, err)
	case c.Command == fc.CTRefus:
		return nil, &rejection{c.Reason, c.Explanation}
	}
	return body, nil
}

// settle logs in to the directory server and registers, as a target or initiator.
func (p *peer) settle(features byte) {
	p.t.Helper()
	l := p.loginOf(fc.PLOGI, 0)
	l.Port = p.name
	if a, err := fc.ParseLogin(p.els(fc.Directory, l.AppendTo(nil))); err != nil || a.Command != fc.LSACC || !a.Class3 {
		p.t.Fatalf("PLOGI: %+v, %v", a, err)
	}
	var types fc.Types
	types.Add(fc.TypeFCP)
	for cmd, more := range map[fc.CTCommand][]byte{fc.RFTID: types[:], fc.RFFID: {0, 0, features, byte(fc.TypeFCP)}} {
		if _, bad := p.query(cmd, append(fc.AppendID(nil, p.id), more...)); bad != nil {
			p.t.Fatalf("%v: %+v", cmd, *bad)
		}
	}
}
