package fcoe

import (
	"slices"
	"time"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// Times of FIP in a fabric (FC-BB-6 table 44).
const (
	solicitEvery  = 4 * time.Second        // while there is no FCF
	selectWait    = 200 * time.Millisecond // for other FCFs, once there is one
	portKeepAlive = 90 * time.Second
	rejectedWait  = 10 * time.Second // after a login that was refused
	maxFCFs       = 16
)

// FCF is a forwarder that has advertised itself.
type FCF struct {
	MAC          ether.Addr
	Name, Fabric fc.WWN
	Map          fip.Map
	Priority     uint8 // the lowest is best
	Period       time.Duration
	Quiet        bool // it wants no keep-alives
	Available    bool
	solicited    bool
	heard        frame.Time
}

// expires is when the FCF is gone unless it is heard of: 2.5 times the period.
func (f *FCF) expires() frame.Time { return f.heard.Add(f.Period * 5 / 2) }

// fabric is FIP of an end node in a fabric.
type fabric struct {
	n     *Node
	fcfs  []*FCF
	fcf   *FCF     // that the node is logged in to, or tries to
	vlans []uint16 // that an FCF has offered
	vlan  uint16   // the one of them that is used; 0: the NIC's own
	timer alarm    // solicitation, selection, login
	beat  alarm    // keep-alives of the node
	watch alarm    // the end of the FCF
	tries int
}

// discover looks for FCFs.
func (b *fabric) discover(now frame.Time) {
	b.fcf = nil
	n := b.n
	n.stations()
	if len(b.vlans) == 0 {
		m := fip.Message{Op: fip.VLANRequest, MAC: n.cfg.MAC}
		m.Set(fip.MAC)
		n.sendFIP(n.cfg.MAC, fip.AllFCFs, m.AppendTo(nil))
	}
	b.solicit(fip.AllFCFs)
	n.set(&b.timer, now.Add(solicitEvery), b.again)
}

// again looks for FCFs: where none was heard, in other VLANs too.
func (b *fabric) again(now frame.Time) {
	if len(b.fcfs) == 0 {
		b.leaveVLAN()
	}
	b.discover(now)
}

// leaveVLAN goes back to the NIC's own VLAN, to ask which others there are.
func (b *fabric) leaveVLAN() {
	b.vlan, b.vlans = 0, nil
	b.n.stations()
}

// offered takes the VLANs that an FCF offers: the node goes to the first, unless the NIC has
// one or untagged frames are offered, too.
func (b *fabric) offered(m *fip.Message, now frame.Time) frame.DropReason {
	b.vlans = slices.Collect(m.VLANs())
	if b.n.cfg.VLAN == 0 && b.vlan == 0 && b.fcf == nil && len(b.vlans) > 0 && !slices.Contains(b.vlans, 0) {
		b.vlan, b.fcfs = b.vlans[0], nil
		b.discover(now)
	}
	return frame.DropNone
}

// solicit asks an FCF, or all, for an advertisement.
func (b *fabric) solicit(dst ether.Addr) {
	m := fip.Message{Op: fip.Solicitation, Flags: fip.FPMA, MAC: b.n.cfg.MAC, Name: b.n.cfg.Ports[0].Node,
		MaxSize: b.n.maxSize()}
	m.Set(fip.MAC, fip.Name, fip.MaxSize)
	b.n.sendFIP(b.n.cfg.MAC, dst, m.AppendTo(nil))
}

// receive takes a FIP frame.
func (b *fabric) receive(h ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	switch m.Op {
	case fip.Advertisement:
		return b.advertised(m, now)
	case fip.VLANNotify:
		return b.offered(m, now)
	case fip.Reply:
		return b.replied(h, m, now)
	case fip.ClearLinks:
		return b.cleared(m, now)
	}
	return drop.Unused
}

// advertised takes an advertisement.
func (b *fabric) advertised(m *fip.Message, now frame.Time) frame.DropReason {
	if b.n.cfg.Map != 0 && m.Map != b.n.cfg.Map || m.Map>>8 != fip.DefaultMap>>8 {
		b.n.stats[ForeignMaps]++
		return drop.Unused
	}
	i := slices.IndexFunc(b.fcfs, func(f *FCF) bool { return f.MAC == m.MAC && f.Name == m.Name })
	if i < 0 {
		b.fcfs = slices.DeleteFunc(b.fcfs, func(f *FCF) bool { return f != b.fcf && f.expires() <= now })
		if len(b.fcfs) >= maxFCFs {
			return drop.Backlog
		}
		i = len(b.fcfs)
		b.fcfs = append(b.fcfs, &FCF{MAC: m.MAC, Name: m.Name})
	}
	f := b.fcfs[i]
	f.Fabric, f.Map, f.Priority, f.Quiet, f.heard = m.Fabric, m.Map, m.Priority, m.Quiet, now
	f.Period = time.Duration(m.Period) * time.Millisecond
	f.Available = m.Flags&fip.Available != 0
	f.solicited = f.solicited || m.Flags&fip.Solicited != 0
	switch {
	case b.fcf == f:
		b.n.set(&b.watch, f.expires(), b.lost)
	case f.Available && !f.solicited && m.Flags&fip.Solicited == 0:
		b.solicit(f.MAC) // which proves that frames of full length pass
	case f.Available && f.solicited && b.fcf == nil:
		b.n.set(&b.timer, now.Add(selectWait), b.choose)
	}
	return frame.DropNone
}

// choose logs in to the best FCF.
func (b *fabric) choose(now frame.Time) {
	var best *FCF
	for _, f := range b.fcfs {
		if f.Available && f.solicited && f.expires() > now && (best == nil || f.Priority < best.Priority) {
			best = f
		}
	}
	if best == nil {
		b.discover(now)
		return
	}
	b.fcf, b.tries = best, 0
	b.n.set(&b.watch, best.expires(), b.lost)
	b.login(now)
}

// login sends FLOGI.
func (b *fabric) login(now frame.Time) {
	p := b.n.ports[0]
	p.state = portLogin
	b.n.cancel(&b.timer)
	l := p.serviceParams(fc.FLOGI)
	l.Features = 0
	if len(b.n.ports) > 1 {
		l.Features = fc.MultipleIDs
	}
	f := b.fcf
	p.login(fip.FLOGI, f.MAC, fc.FabricPort, l.AppendTo(nil), now, func(h *fc.Header, payload []byte, now frame.Time) {
		if b.fcf != f || p.state != portLogin {
			return
		}
		switch {
		case p.admitted(h, payload, f.Map, now):
			if !f.Quiet {
				b.keepAlive(now)
			}
		case h != nil:
			b.n.stats[LoginFailures]++
			b.n.set(&b.timer, now.Add(rejectedWait), b.login)
		default:
			b.n.stats[LoginFailures]++
			if b.tries++; b.tries < 3 {
				b.login(now)
				return
			}
			b.discover(now)
		}
	})
}

// keepAlive tells the FCF that the node is there.
func (b *fabric) keepAlive(now frame.Time) {
	m := fip.Message{Op: fip.KeepAlive, MAC: b.n.cfg.MAC}
	m.Set(fip.MAC)
	b.n.sendFIP(b.n.cfg.MAC, b.fcf.MAC, m.AppendTo(nil))
	b.n.stats[KeepAlives]++
	b.n.set(&b.beat, now.Add(b.fcf.Period), b.keepAlive)
}

// keepAlive tells the FCF that the port is there.
func (p *Port) keepAlive(now frame.Time) {
	m := fip.Message{Op: fip.KeepAlive, MAC: p.n.cfg.MAC, Port: fip.Port{MAC: p.mac, ID: p.id, Name: p.cfg.Port}}
	m.Set(fip.MAC, fip.VNPort)
	p.n.sendFIP(p.mac, p.n.fabric.fcf.MAC, m.AppendTo(nil))
	p.n.stats[KeepAlives]++
	p.n.set(&p.beat, now.Add(portKeepAlive), p.keepAlive)
}

// lost ends the virtual links: the FCF has not been heard of for too long.
func (b *fabric) lost(now frame.Time) {
	b.n.stats[FCFsLost]++
	b.fcfs = slices.DeleteFunc(b.fcfs, func(f *FCF) bool { return f == b.fcf })
	b.leaveVLAN()
	b.restart(now)
}

// restart forgets the login to the fabric and begins again.
func (b *fabric) restart(now frame.Time) {
	for _, p := range b.n.ports {
		p.down(false, now)
	}
	b.n.cancel(&b.beat)
	b.n.cancel(&b.watch)
	b.discover(now)
}

// cleared takes a Clear Virtual Links: of the ports that it names, or of all.
func (b *fabric) cleared(m *fip.Message, now frame.Time) frame.DropReason {
	if b.fcf == nil || m.MAC != b.fcf.MAC || m.Name != b.fcf.Name {
		return drop.Unused
	}
	all := !m.Has(fip.VNPort)
	var named []*Port
	for l := range m.Ports() {
		for _, p := range b.n.ports {
			if p.state > portLogin && l.MAC == p.mac && l.ID == p.id && l.Name == p.cfg.Port {
				named = append(named, p)
				all = all || p.index == 0
			}
		}
	}
	switch {
	case all:
		b.n.stats[LinksCleared]++
		b.fcf.solicited = false
		b.restart(now)
	case len(named) == 0:
		return drop.Unused
	default:
		for _, p := range named {
			b.n.stats[LinksCleared]++
			p.down(false, now)
			p.join(now)
		}
	}
	return frame.DropNone
}

// replied takes a reply to a login.
func (b *fabric) replied(eh ether.Header, m *fip.Message, now frame.Time) frame.DropReason {
	h, payload, err := fc.Parse(m.Frame)
	switch {
	case err != nil:
		return drop.Malformed
	case b.fcf == nil || eh.Src != b.fcf.MAC:
		return drop.Source
	}
	return b.n.loginReply(&h, m, payload, now)
}

// loginReply takes the reply to a login that came by FIP.
func (n *Node) loginReply(h *fc.Header, m *fip.Message, payload []byte, now frame.Time) frame.DropReason {
	x := n.exchanges[h.OXID]
	if x == nil || x.request != nil || h.FCtl&fc.FromResponder == 0 || h.S != x.to {
		return drop.FCExchange
	}
	if m.Has(fip.MAC) {
		x.port.granted = m.MAC
	}
	n.endExchange(x)
	x.done(h, payload, now)
	return frame.DropNone
}
