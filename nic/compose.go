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
	d.cfg.IWARP.Log = &d.Common.Log
	d.Verbs.SetLog(&d.Common.Log)
	d.CM.Watch(d.LogEvent)
	d.CM.SetVLAN(d.cfg.VLAN)
	d.Verbs.Watch(d.NoteAsync)
	d.tcp = transport.NewTCP(cfg, d.pool, transport.Env{IP: d.IP, Wire: d.Wire, Notes: &d.Common.Notes, Sched: d.rdma,
		Shared: d.Host.Exists(), Segments: func() int { return d.cfg.maxSegs() }})
	d.TCPEngine = d.tcp.Engine
	if d.cfg.IWARP.Source == nil {
		d.cfg.IWARP.Source = d.IP.SourceFor
	}
	d.cfg.IWARP.Allow = d.allow
	if !d.cfg.attached() {
		d.cfg.IWARP.Detached = fmt.Errorf("no RDMA on %s: iface_list names %s", d.cfg.Iface,
			strings.Join(d.cfg.IfaceList, ", "))
	}
	d.IWARP = iwarp.New(d.cfg.IWARP, d.Verbs, d.CM, d.TCPEngine, &d.Common.Notes)
	return nil
}

// composeIP makes the internet layer and the PTP unit.
func (d *Device) composeIP(seed uint64, env *Env) {
	e := ip.Env{Wire: d.Wire, Pool: d.pool, IDs: d.cfg.Secret.For("ip").Source(),
		Enqueue: func(r ip.Runner) { d.Verbs.Enqueue(r) }}
	if d.Host.Exists() {
		e.Host = func(f *frame.Frame, _ frame.Time) { d.os.FromWire(f) }
	}
	d.IP = ip.New(d.cfg.ip(), e)
	d.PTP = ptp.NewService(ptp.Env{
		Name: d.cfg.Iface, Product: d.cfg.Name, Seed: seed, Wire: d.Wire, IP: d.IP, Pool: d.pool, Schedule: d.Schedule,
		Observe: env.Observe, Now: env.Now,
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
