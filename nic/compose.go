package nic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/nic/cm"
	"tapir/nic/ip"
	"tapir/nic/iwarp"
	"tapir/nic/ptp"
	"tapir/nic/settings"
	"tapir/nic/toe/isn"
	"tapir/nic/transport"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// compose makes the engines above IP and connects them.
func (d *Device) compose(seed uint64, env *Env) error {
	cfg := d.cfg.TCP
	cfg.Secret, cfg.MTU, cfg.MaxSegs = isn.Secret(d.cfg.Secret.For("tcp")), d.cfg.MTU, 1
	if d.cfg.Frames != Wire {
		cfg.MaxSegs = gsoSegs
	}
	if reserver := env.Reserver; reserver != nil {
		lo, hi := reserver.EphemeralRange()
		var ok bool
		if cfg.FirstPort, cfg.LastPort, ok = settings.Ephemeral(lo, hi); !ok {
			return fmt.Errorf(
				"the host's ephemeral ports %d-%d leave none to the NIC: narrow net.ipv4.ip_local_port_range", lo, hi)
		}
		cfg.Reserve = reserver.Reserve
	}
	d.composeIP(seed, env)
	if err := d.newVerbs(); err != nil {
		return err
	}
	d.CM = cm.New(d.Verbs)
	d.Common.Log.SetMsglvl(d.cfg.Msglvl)
	d.Verbs.SetLog(&d.Common.Log)
	d.CM.Watch(d.LogEvent)
	d.CM.SetVLAN(d.cfg.VLAN)
	d.Verbs.Watch(d.NoteAsync)
	d.tcp = transport.NewTCP(cfg, d.pool, transport.Env{IP: d.IP, Wire: d.Wire, Notes: &d.Common.Notes, Sched: d.rdma,
		Shared: d.Host.Exists(), Segments: func() int { return d.cfg.maxSegs() }})
	d.TCPEngine = d.tcp.Engine
	switch d.cfg.RDMA.Personality {
	case verbs.IWARP:
		composeIWARP(d)
	case verbs.RoCE:
		composeRoCE(d)
	case verbs.FCoE:
		d.FCoE = transport.NewFCoE(d.pool, d.cfg.Secret.For("fcoe").Source(), transport.Env{IP: d.IP, Wire: d.Wire,
			Notes: &d.Common.Notes, Sched: d.rdma})
	}
	return nil
}

// composeIWARP makes the transport of RDMA over TCP.
func composeIWARP(d *Device) {
	cfg := &d.cfg.IWARP
	cfg.Log, cfg.Allow = &d.Common.Log, d.allow
	if cfg.Source == nil {
		cfg.Source = d.IP.SourceFor
	}
	if !d.cfg.attached() {
		cfg.Detached = fmt.Errorf("no RDMA on %s: iface_list names %s", d.cfg.Iface,
			strings.Join(d.cfg.IfaceList, ", "))
	}
	d.IWARP = iwarp.New(*cfg, d.Verbs, d.CM, d.TCPEngine, &d.Common.Notes)
}

// composeRoCE makes the transport of RDMA over UDP and Ethernet.
func composeRoCE(d *Device) {
	d.roce = transport.NewRoCE(d.Verbs, d.pool, transport.Env{IP: d.IP, Wire: d.Wire, Notes: &d.Common.Notes,
		Sched: d.rdma, Segments: d.cfg.maxSegs, DCQCN: d.cfg.RDMA.DCQCN})
	d.roce.Manage(d.Verbs, d.CM, d.cfg.Secret.For("cm").Source(), d.allow)
	d.RoCE, d.RoCECM = d.roce.Engine, d.roce.CM
	d.Verbs.Watch(func(ev verbs.AsyncEvent) {
		d.NoteAsync(ev)
		d.roce.Async(ev)
	})
}

// composeIP makes the internet layer and the PTP unit.
func (d *Device) composeIP(seed uint64, env *Env) {
	e := ip.Env{Wire: d.Wire, Pool: d.pool, IDs: d.cfg.Secret.For("ip").Source(),
		Enqueue: func(r ip.Runner) { d.Verbs.Enqueue(r) }}
	if d.Host.Exists() {
		e.Host = func(f *frame.Frame, _ frame.Time) { d.os.FromWire(f) }
	}
	d.IP = ip.NewStack(d.cfg.ip(), e)
	d.PTP = ptp.NewService(ptp.Env{
		Name: d.cfg.Iface, Product: d.cfg.Name, Seed: seed, Wire: d.Wire, IP: d.IP.Layer, Pool: d.pool,
		Schedule: d.Schedule,
		Observe:  env.Observe, Now: env.Now,
	}, d.cfg.PTP.Faults())
}

// allow refuses RDMA connections to addresses that settings exclude.
func (d *Device) allow(remote netip.Addr) error {
	if d.cfg.NoLoopback && d.IP.IsLocal(remote) {
		return fmt.Errorf("%v is the NIC's own address and loopback_enabled is 0", remote)
	}
	return nil
}

// attached tells whether RDMA is offered on the wire interface.
func (c *Config) attached() bool {
	return len(c.IfaceList) == 0 || slices.Contains(c.IfaceList, c.Iface)
}
