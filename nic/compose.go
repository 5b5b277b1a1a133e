package nic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/nic/cm"
	"tapir/nic/ip"
	"tapir/nic/iwarp"
	"tapir/nic/msglog"
	"tapir/nic/ptp"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
	ipproto "tapir/wire/ip"
)

// compose makes the engines above IP and connects them.
func (d *Device) compose(seed uint64, env *Env) error {
	cfg := d.cfg.TCP
	cfg.Seed, cfg.MTU, cfg.MaxSegs = seed, d.cfg.MTU, 1
	if d.cfg.Frames != Wire {
		cfg.MaxSegs = gsoSegs
	}
	if reserver := env.Reserver; reserver != nil {
		lo, hi := reserver.EphemeralRange()
		var ok bool
		if cfg.FirstPort, cfg.LastPort, ok = ephemeral(lo, hi); !ok {
			return fmt.Errorf(
				"the host's ephemeral ports %d-%d leave none to the NIC: narrow net.ipv4.ip_local_port_range", lo, hi)
		}
		cfg.Reserve = reserver.Reserve
	}
	d.composeIP(seed, env)
	if err := d.newVerbs(seed); err != nil {
		return err
	}
	d.CM = cm.New(d.Verbs)
	d.common.Log.SetMsglvl(d.cfg.Msglvl)
	d.common.Log.Now = func() frame.Time { return d.common.Now }
	d.cfg.IWARP.Log = &d.common.Log
	d.Verbs.SetLog(&d.common.Log)
	d.CM.SetClock(d.common.Log.Now)
	d.CM.Watch(d.logEvent)
	d.CM.SetVLAN(d.cfg.VLAN)
	d.Verbs.Watch(d.noteAsync)
	d.tcp.engine = toe.New(cfg, d.pool, &d.tcp, &d.common.Notes)
	d.tcp.engine.SetMaxSegs(d.cfg.maxSegs())
	if d.cfg.IWARP.Source == nil {
		d.cfg.IWARP.Source = d.sourceFor
	}
	d.cfg.IWARP.Allow = d.allow
	if !d.cfg.attached() {
		d.cfg.IWARP.Detached = fmt.Errorf("no RDMA on %s: iface_list names %s", d.cfg.Iface,
			strings.Join(d.cfg.IfaceList, ", "))
	}
	d.iwarp = iwarp.New(d.cfg.IWARP, d.Verbs, d.CM, d.tcp.engine, &d.common.Notes)
	return nil
}

// composeIP makes the internet layer and the PTP unit.
func (d *Device) composeIP(seed uint64, env *Env) {
	e := ip.Env{Wire: d.wire, Pool: d.pool, Seed: seed, Enqueue: func(r ip.Runner) { d.Verbs.Enqueue(r) }}
	if d.host.Exists() {
		e.Host = func(f *frame.Frame, _ frame.Time) { d.os.FromWire(f) }
	}
	d.IP = ip.New(d.cfg.ip(), e)
	d.tcp.d = d
	d.IP.Register(ipproto.ProtoTCP, &d.tcp)
	d.IP.RegisterEtherType(ether.TypeLoopback, loopTest{d})
	d.PTP = ptp.NewService(ptp.Env{
		Name: d.cfg.Iface, Product: d.cfg.Name, Seed: seed, Wire: d.wire, IP: d.IP, Pool: d.pool, Schedule: d.Schedule,
		Observe: env.Observe, Now: env.Now,
	}, d.cfg.PTP.faults())
}

// allow refuses RDMA connections to addresses that settings exclude.
func (d *Device) allow(remote netip.Addr) error {
	if d.cfg.NoLoopback && d.IP.IsLocal(remote) {
		return fmt.Errorf("%v is the NIC's own address and loopback_enabled is 0", remote)
	}
	return nil
}

// noteAsync says which asynchronous event there is, and logs the event of a shared receive queue, which belongs to no
// connection, among theirs.
func (d *Device) noteAsync(ev verbs.AsyncEvent) {
	if d.common.Log.On(msglog.WR) {
		d.logAsync(&ev)
	} else if ev.Err != nil {
		d.common.Log.Say(msglog.Notice, msglog.WR, "async %v: %v", ev.Type, ev.Err)
	}
	if ev.Type == verbs.EventSRQLimit {
		d.CM.Note(cm.EvSRQLimit, nil, nil, cm.NoReason, fmt.Errorf("SRQ %d: %d receives left", ev.SRQ.Num(),
			ev.SRQ.Len()))
	}
}

// attached tells whether RDMA is offered on the wire interface.
func (c *Config) attached() bool {
	return len(c.IfaceList) == 0 || slices.Contains(c.IfaceList, c.Iface)
}

// sourceFor is Source with an error that says how to mend it.
func (d *Device) sourceFor(remote netip.Addr) (netip.Addr, error) {
	if _, _, ok := d.IP.Route(remote); !ok {
		return netip.Addr{}, fmt.Errorf("no route to %v: no prefix of the NIC covers it and no gateway is set", remote)
	}
	return d.IP.Source(remote), nil
}

// ephemeral is the larger range of ports, from 1024 on, outside of [lo, hi].
func ephemeral(lo, hi uint16) (first, last uint16, ok bool) {
	below, above := int(lo)-1024, 65535-int(hi)
	switch {
	case above >= below && above > 0:
		return hi + 1, 65535, true
	case below > 0:
		return 1024, lo - 1, true
	}
	return 0, 0, false
}
