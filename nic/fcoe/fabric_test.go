package fcoe

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// forwarder is a scripted FCF: it advertises itself, gives identifiers, names the ports that
// are logged in and forwards frames.
type forwarder struct {
	w      *world
	mac    ether.Addr
	last   frame.Time // of its last advertisement
	silent bool
	refuse fc.ELS
	ports  []fc.Entry
	enodes map[fc.ID]ether.Addr
	alive  []time.Duration // when keep-alives of the first node came
	begun  frame.Time
}

const fcfPeriod = 8 * time.Second

func newForwarder(w *world) *forwarder {
	f := &forwarder{w: w, mac: ether.Addr{2, 0, 0, 0, 0, 0xfc}, enodes: map[fc.ID]ether.Addr{}, begun: w.now}
	w.hear = f.hear
	return f
}

func (f *forwarder) advertise(dst ether.Addr, flags uint16) {
	m := fip.Message{Op: fip.Advertisement, Flags: fip.FPMA | fip.Available | fip.FromFCF | flags, Priority: 128,
		MAC: f.mac, Name: 0x1000, Fabric: 0x2000, Map: fip.DefaultMap, Period: uint32(fcfPeriod.Milliseconds())}
	m.Set(fip.Priority, fip.MAC, fip.Name, fip.Fabric, fip.Period)
	f.last = f.w.now.Add(delay)
	f.w.send(f.mac, dst, fip.EtherType, m.AppendTo(nil))
}

// hear is what the forwarder does about a frame.
func (f *forwarder) hear(h ether.Header, body []byte) {
	if h.Type == fcoe.EtherType {
		f.forward(h, body)
		return
	}
	m, _ := fip.Parse(body)
	switch {
	case f.silent:
	case m.Op == fip.Solicitation:
		f.advertise(m.MAC, fip.Solicited)
	case m.Op == fip.VLANRequest:
		a := fip.Message{Op: fip.VLANNotify, Flags: fip.FromFCF, MAC: f.mac}
		a.Set(fip.MAC)
		f.w.send(f.mac, m.MAC, fip.EtherType, a.AppendVLANs(nil, 100))
	case m.Op == fip.KeepAlive:
		f.alive = append(f.alive, f.w.now.Sub(f.begun))
	case m.Op == fip.Request:
		f.login(h.Src, &m)
	}
}

// login answers FLOGI, FDISC and LOGO.
func (f *forwarder) login(enode ether.Addr, m *fip.Message) {
	h, payload, _ := fc.Parse(m.Frame)
	r := h.ReplyTo(fc.ELSReply)
	a := fip.Message{Op: fip.Reply, Flags: fip.FPMA, Login: m.Login}
	a.Set(fip.MAC)
	answer := fc.AppendAccept(nil)
	switch l, _ := fc.ParseLogin(payload); {
	case m.Login == fip.LOGO:
		f.ports = slices.DeleteFunc(f.ports, func(e fc.Entry) bool { return e.ID == h.S })
	case fc.Command(payload) == f.refuse:
		answer = fc.AppendReject(nil, fc.CannotPerform, fc.NoResources)
	default:
		r.D = 0x010100 + fc.ID(len(f.ports)) + 1
		f.ports = append(f.ports, fc.Entry{ID: r.D, Name: l.Port})
		f.enodes[r.D] = enode
		l.Command = fc.LSACC
		answer = l.AppendTo(nil)
		a.MAC = fip.DefaultMap.MAC(r.D)
	}
	a.Frame = r.AppendFrame(nil, answer)
	f.w.send(f.mac, enode, fip.EtherType, a.AppendTo(nil))
}

// forward sends a frame on to its port, or answers it.
func (f *forwarder) forward(eh ether.Header, body []byte) {
	_, _, b, err := fcoe.Parse(body)
	h, payload, _ := fc.Parse(b)
	switch {
	case err != nil || eh.Dst != f.mac:
	case !h.D.WellKnown():
		f.w.send(f.mac, fip.DefaultMap.MAC(h.D), fcoe.EtherType, body)
	case h.Type == fc.TypeCT:
		c, rest, _ := fc.ParseCT(payload)
		a := fc.CT{Service: fc.DirectoryService, Subtype: fc.NameServer, Command: fc.CTReply}
		reply := a.AppendTo(nil)
		if c.Command == fc.GPNFT {
			reply = fc.AppendEntries(reply, f.ports, true)
		}
		_ = rest
		f.answer(eh, h.ReplyTo(fc.SolicitedCtl), reply)
	case h.RCtl == fc.ELSRequest:
		l, _ := fc.ParseLogin(payload)
		l.Command = fc.LSACC
		f.answer(eh, h.ReplyTo(fc.ELSReply), l.AppendTo(nil))
		if fc.Command(payload) == fc.SCR { // others hear of the new port
			for _, e := range f.ports {
				if e.ID != h.S {
					f.tell(e.ID, h.S)
				}
			}
		}
	}
}

func (f *forwarder) answer(to ether.Header, h fc.Header, payload []byte) {
	f.w.send(f.mac, to.Src, fcoe.EtherType, fcoe.Append(nil, h, payload))
}

// tell sends an RSCN.
func (f *forwarder) tell(to, changed fc.ID) {
	h := fc.Header{RCtl: fc.ELSRequest, D: to, S: fc.Controller, Type: fc.TypeELS, FCtl: fc.Request, RXID: fc.NoID}
	f.w.send(f.mac, fip.DefaultMap.MAC(to), fcoe.EtherType, fcoe.Append(nil, h, fc.AppendStateChange(nil, changed)))
}

// fabricPair are an initiator and a target in a fabric.
func fabricPair(t *testing.T, vports int) (w *world, f *forwarder, i, d *station) {
	w = newWorld(t)
	f = newForwarder(w)
	d = w.node(1, Config{Ports: []PortConfig{{Units: []*scsi.Unit{disk(t, 1<<20)}}}})
	i = w.node(2, Config{Ports: slices.Repeat([]PortConfig{{Initiator: true}}, 1+vports)})
	d.Start(w.now)
	i.Start(w.now)
	w.run(10*time.Second, func() bool { return i.target() != nil })
	return w, f, i, d
}

func TestFabricLogin(t *testing.T) {
	w, _, i, d := fabricPair(t, 0)
	for range 3 {
		i.command(&Request{})
	}
	if q := i.command(rw(0x8a, 0, 64<<10)); q.Err != nil || q.Status != scsi.Good {
		t.Fatal(q.Err, q.Status)
	}
	if q := i.command(rw(0x88, 0, 64<<10)); q.Err != nil || !bytes.Equal(q.In, rw(0x8a, 0, 64<<10).Out) {
		t.Fatal(q.Err, q.Status)
	}
	if !slices.Equal(i.fabric.vlans, []uint16{100}) || i.ports[0].mac != fip.DefaultMap.MAC(i.ports[0].id) {
		t.Error(i.fabric.vlans, i.ports[0].mac)
	}
	d.Stop(w.now)
	w.run(time.Second, func() bool { return i.target() == nil && i.stats[LogoutsReceived] == 1 })
}

// The node tells the FCF that it is there each FKA_ADV period, and its port each 90 s.
func TestKeepAlives(t *testing.T) {
	w := newWorld(t)
	f := newForwarder(w)
	s := w.node(1, Config{Ports: []PortConfig{{Initiator: true}}})
	s.Start(w.now)
	w.run(5*time.Second, func() bool { return s.ports[0].state == portUp })
	for range 12 {
		w.pass(8 * time.Second)
		f.advertise(fip.AllENodes, 0)
	}
	first := f.alive[0]
	var want []time.Duration
	for k := range time.Duration(13) {
		want = append(want, first+k*fcfPeriod)
		if k == 11 {
			want = append(want, first+portKeepAlive)
			slices.Sort(want)
		}
	}
	if !slices.Equal(f.alive, want) {
		t.Errorf("keep-alives at %v, want %v", f.alive, want)
	}
}

// An FCF that is silent for 2.5 periods is gone, with all sessions.
func TestAdvertisementsStop(t *testing.T) {
	w, f, i, _ := fabricPair(t, 0)
	w.pass(time.Second)
	f.advertise(fip.AllENodes, 0)
	f.silent = true
	last := f.last
	w.run(time.Minute, func() bool { return i.stats[FCFsLost] == 1 })
	if got := w.now.Sub(last); got != 20*time.Second || i.target() != nil || i.ports[0].state != portDown {
		t.Errorf("the FCF is gone after %v", got)
	}
	f.silent = false
	f.ports = nil
	w.run(15*time.Second, func() bool { return i.target() != nil })
}

// A Clear Virtual Links ends what it names at once, and the node logs in again.
func TestClearVirtualLinks(t *testing.T) {
	w, f, i, _ := fabricPair(t, 2)
	w.run(5*time.Second, func() bool { return i.ports[2].state == portUp })
	clear := func(ports ...fip.Port) {
		m := fip.Message{Op: fip.ClearLinks, Flags: fip.FromFCF, MAC: f.mac, Name: 0x1000}
		m.Set(fip.MAC, fip.Name)
		w.send(f.mac, i.mac, fip.EtherType, m.AppendPorts(nil, ports...))
	}
	p := i.ports[2]
	was := p.id
	begun := w.now
	clear(fip.Port{MAC: p.mac, ID: p.id, Name: p.cfg.Port})
	w.run(time.Second, func() bool { return i.stats[LinksCleared] == 1 })
	if w.now.Sub(begun) != delay || p.state != portLogin || i.ports[1].state != portUp {
		t.Errorf("after %v: %v, %v", w.now.Sub(begun), p.state, i.ports[1].state)
	}
	w.run(time.Second, func() bool { return p.state == portUp && p.id != was })
	clear()
	w.run(time.Second, func() bool { return i.stats[LinksCleared] == 2 })
	if i.ports[0].state != portDown || i.target() != nil {
		t.Errorf("%v", i.ports[0].state)
	}
	w.run(5*time.Second, func() bool { return i.ports[0].state == portUp && i.ports[2].state == portUp })
	m := fip.Message{Op: fip.ClearLinks, MAC: ether.Addr{2, 9}, Name: 0x1000}
	m.Set(fip.MAC, fip.Name)
	w.send(f.mac, i.mac, fip.EtherType, m.AppendTo(nil))
	w.pass(time.Second)
	if i.stats[LinksCleared] != 2 {
		t.Error("another FCF cleared the links")
	}
}

// 64 ports log in by FDISC and log out.
func TestVirtualPorts(t *testing.T) {
	w, f, i, _ := fabricPair(t, MaxPorts-1)
	w.run(30*time.Second, func() bool {
		return !slices.ContainsFunc(i.ports, func(p *Port) bool { return p.state != portUp })
	})
	if len(f.ports) != 1+MaxPorts {
		t.Errorf("%d ports in the fabric", len(f.ports))
	}
	i.Stop(w.now)
	w.pass(time.Second)
	if len(f.ports) != 1 {
		t.Errorf("%d ports are left: %v", len(f.ports), f.ports)
	}
}

func TestLoginsAreRefused(t *testing.T) {
	w := newWorld(t)
	f := newForwarder(w)
	f.refuse = fc.FLOGI
	s := w.node(1, Config{Ports: []PortConfig{{Initiator: true}}})
	s.Start(w.now)
	w.run(5*time.Second, func() bool { return s.stats[LoginFailures] == 1 })
	if r := s.Info().Ports[0].Refused; r == nil || r.Explanation != fc.NoResources {
		t.Errorf("%+v", r)
	}
	f.refuse = 0
	w.run(15*time.Second, func() bool { return s.ports[0].state == portUp })

	w = newWorld(t)
	newForwarder(w)
	s = w.node(1, Config{Map: 0x0efc99, Ports: []PortConfig{{Initiator: true}}})
	s.Start(w.now)
	w.pass(10 * time.Second)
	if s.stats[Dropped] == 0 || s.ports[0].state != portDown {
		t.Error("a foreign FC-MAP was taken")
	}
}

// A node goes to the VLAN that an FCF offers, and back to ask again when nobody is heard there or
// the link was down. With a VLAN of the NIC's, or untagged frames on offer, it stays.
func TestVLANs(t *testing.T) {
	for _, c := range []struct {
		own   uint16
		offer []uint16
		want  uint16
	}{{0, []uint16{100, 200}, 100}, {0, []uint16{200, 0}, 0}, {7, []uint16{100}, 0}, {0, nil, 0}} {
		w := newWorld(t)
		a := fip.Message{Op: fip.VLANNotify, Flags: fip.FromFCF, MAC: ether.Addr{2, 0, 0, 0, 0, 9}}
		a.Set(fip.MAC)
		requests := 0
		w.hear = func(h ether.Header, body []byte) {
			if m, err := fip.Parse(body); err == nil && m.Op == fip.VLANRequest {
				if requests++; requests < 3 {
					w.send(a.MAC, m.MAC, fip.EtherType, a.AppendVLANs(nil, c.offer...))
				}
			}
		}
		s := w.node(1, Config{VLAN: c.own, Ports: []PortConfig{{Initiator: true}}})
		s.Start(w.now)
		w.pass(time.Second)
		if s.vlan != c.want || s.Info().VLAN != c.want || requests != 1 {
			t.Errorf("%+v: VLAN %d, %d requests", c, s.vlan, requests)
		}
		s.LinkDown(w.now)
		if s.vlan != 0 {
			t.Errorf("%+v: VLAN %d without a link", c, s.vlan)
		}
		s.Start(w.now)
		if w.pass(time.Second); s.vlan != c.want || requests != 2 {
			t.Errorf("%+v: VLAN %d, %d requests after the link came back", c, s.vlan, requests)
		}
		if w.pass(solicitEvery); s.vlan != 0 || requests < 3 {
			t.Errorf("%+v: VLAN %d, %d requests after silence", c, s.vlan, requests)
		}
	}
}
