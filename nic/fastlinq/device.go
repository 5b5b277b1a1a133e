// Package fastlinq is the FastLinQ device and its driver as a NIC sees them: it
// composes the driver core, management firmware, interrupts and the Ethernet side
// of one function, on one or two engines, into nic.Hardware.
package fastlinq

import (
	"cmp"
	"errors"

	"tapir/nic/dcb"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hardware"
	"tapir/nic/hostfn"
	"tapir/nic/msglog"
	"tapir/nic/pacing"
	"tapir/nic/param"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Config describes a FastLinQ device and what its driver wants of it. The zero
// value of every field means its default.
type Config settings.Config

// Parts of a Config.
type (
	// Interrupts are those of queues and completions.
	Interrupts = settings.Interrupts
	// QueueUsecs are the times of one queue pair.
	QueueUsecs = settings.QueueUsecs
	// CMT are the settings of a NIC with two engines.
	CMT = settings.CMT
	// Ethernet are the settings of the host function's netdev.
	Ethernet = settings.Ethernet
	// Features are the offloads that are not as they are by default.
	Features = settings.Features
	// Link is the port.
	Link = settings.Link
	// Board is what the management firmware looks after.
	Board = settings.Board
	// DCB is LLDP and DCBX of the port.
	DCB = settings.DCB
	// Firmware is that of the storms.
	Firmware = settings.Firmware
	// Health is what the health reporter does by itself.
	Health = settings.Health
	// HashTypes are kinds of packets that RSS spreads.
	HashTypes = l2.HashTypes
)

// Kind implements hardware.Config.
func (c *Config) Kind() string { return "fastlinq" }

// Open implements hardware.Config.
func (c *Config) Open() (hardware.Device, error) { return &Adapter{}, nil }

// Clone implements hardware.Config.
func (c *Config) Clone() hardware.Config { return new(*c) }

// Default implements hardware.Config.
func (c *Config) Default() hardware.Config { return &Config{} }

// Params implements hardware.Config.
func (c *Config) Params() []*param.Row { return (*settings.Config)(c).Params() }

// Validate implements hardware.Config.
func (c *Config) Validate(s hardware.Shape) error {
	c.Engines = cmp.Or(c.Engines, 1)
	return (&settings.NIC{Shape: s, Config: (*settings.Config)(c)}).Validate()
}

// Segments implements hardware.Config.
func (c *Config) Segments() bool { return (&settings.NIC{Config: (*settings.Config)(c)}).HasTSO() }

// Device is a function of a FastLinQ device, and its driver.
type Device struct {
	adapter *Adapter
	// fn is the function's number on the adapter, pf that on its path, whose chip it
	// uses.
	fn, pf, path int
	port         int // of the adapter

	cfg           settings.NIC
	nic           hardware.NIC
	verbs         *verbs.Device
	log           *msglog.Log
	pool          frame.Pool
	system        frame.Clock
	host          bool // there is a host TAP
	drops         frame.Drops
	sched         *pacing.Node    // the function in the transmit scheduler of its port
	ethernet      hardware.Output // the way out for what vports send
	both          *pacing.Node    // its host function, on one engine or two
	tagged        func(t ether.Tag, inner bool)
	limitReceived func(mbps int, weight int64)
	setPriorities func(dcb.State, frame.Time)
	buffer        *brb // nil: nothing has had to wait

	interrupts interrupts
	selftest   selftesting
	management management
	core       driverCore
	identify   identifying
	function   *qede.Netdev // of the first engine; nil: there is no host TAP
	cmt        *engines     // nil: there is one

	driver
	display
	tools
	contexts
	sriov
	light lightL2
	fcoe  fcoeFunction
	iscsi *iscsiFunction // nil: the personality is another one
}

// Parts of a Device, which all work on its state.
type (
	// driver is its life: it loads and unloads, and follows the management firmware.
	driver struct{ *Device }
	// display describes it.
	display struct{ *Device }
	// tools are what users do with it: read and write its memory, test and find it.
	tools struct{ *Device }
)

var _ hardware.Device = (*Adapter)(nil)

// Of is the device of hardware, nil if it is of another kind.
func Of(f hardware.Function) *Device {
	d, _ := f.(*Device)
	return d
}

// newDevice is the driver of a function, which is not attached yet.
func newDevice(a *Adapter, fn int, cfg *Config, e hardware.Env) *Device {
	d := &Device{adapter: a, fn: fn, port: e.Port}
	d.driver, d.display, d.tools, d.contexts.d, d.light.d, d.sriov.d = driver{d}, display{d}, tools{d}, d, d, d
	d.fcoe = fcoeFunction{Sessions: closed{}, d: d}
	d.cfg = settings.NIC{Shape: e.Shape, Config: (*settings.Config)(cfg)}
	d.nic, d.verbs, d.log, d.pool, d.system, d.host = e.NIC, e.Verbs, e.Log, e.Pool, e.System, e.Host != nil
	d.sched, d.limitReceived, d.tagged, d.setPriorities = e.PF, e.LimitReceived, e.Tagged, e.DCB
	if d.ethernet = e.Ethernet; d.cfg.RDMA == verbs.ISCSI {
		d.iscsi = &iscsiFunction{d: d, tcp: e.TCP}
	}
	return d
}

// attach composes what the function is made of, and loads it.
func (d *Device) attach(e *hardware.Env) error {
	if err := d.composeInterrupts(); err != nil {
		return err
	}
	if d.host {
		if err := d.newNetdev(); err != nil {
			return err
		}
	}
	if d.cfg.Engines > 1 {
		if err := d.newSecond(e.Host, e.Second); err != nil {
			return err
		}
	}
	return d.composeMFW()
}

// Check implements hardware.Function.
func (d *Device) Check(s hardware.Shape, c hardware.Config) error {
	to := settings.NIC{Shape: s, Config: (*settings.Config)(c.(*Config))}
	return cmp.Or(d.adapter.checkPort(d, &to), d.checkNetdev(&to), d.checkFirmware(&to), d.checkCoalescing(&to))
}

// Apply implements hardware.Function.
func (d *Device) Apply(s hardware.Shape, c hardware.Config, now frame.Time) error {
	d.cfg = settings.NIC{Shape: s, Config: (*settings.Config)(c.(*Config))}
	if was := d.management.applied.board.Chip; was != d.cfg.Board.Chip {
		d.chipFaults(was & d.cfg.Board.Chip) // those that come wait for what is set with them
	}
	d.nic.Schedule(now, d.Manage) // in the next Poll, which knows the time
	return cmp.Or(d.setNetdev(&d.cfg), d.bridge.TunnelsChanged(), d.setCoalescing())
}

func (d *Device) now() frame.Time { return d.nic.Now() }

// Reshape implements hardware.Function.
func (d *Device) Reshape(s hardware.Shape, now frame.Time) error {
	to := settings.NIC{Shape: s, Config: d.cfg.Config}
	if err := d.setNetdev(&to); err != nil {
		return err
	}
	d.cfg.Shape = s
	d.Manage(now)
	return nil
}

// Config is the configuration in use, borrowed.
func (d *Device) Config() *Config { return (*Config)(d.cfg.Config) }

// Signal implements hardware.Function.
func (d *Device) Signal(on bool, now frame.Time) {
	d.management.fw.SetSignal(d.port, on)
	d.manage(now)
}

// Poll implements hardware.Function.
func (d *Device) Poll(now frame.Time) {
	d.interrupts.poll(now)
	d.light.poll(now)
}

// Notify implements hardware.Function.
func (d *Device) Notify(cnq int) {
	d.interrupts.blocks[d.interrupts.cnqs[cnq]].Event(irq.CNQPI, d.now())
}

// Closed implements hardware.Function: a magic packet may bring the driver back.
func (d *Device) Closed(b []byte, now frame.Time) {
	if d.cfg.Board.Unloaded && d.management.fw.Sniff(d.port, b) {
		d.Manage(now)
	}
}

// SetTracer implements hardware.Function.
func (d *Device) SetTracer(t frame.Tracer) frame.Tracer { return d.cmt.setTracer(t) }

// Host implements hardware.Function.
func (d *Device) Host() hostfn.Function {
	if !d.host {
		return hostfn.None{}
	}
	return hostFunction{d}
}

// Close implements hardware.Function: the driver core goes back to hw_remove, status
// blocks are released.
func (d *Device) Close(now frame.Time) (err error) {
	if d.management.closed {
		return nil
	}
	d.management.loaded, d.management.closed = false, true
	d.coreDown(now, func(_ frame.Time, e error) { err = e })
	d.pump(now)
	err = errors.Join(err, d.interrupts.release(0))
	d.cmt.withSecond(func(e *SecondEngine) { err = errors.Join(err, e.irq.release(1)) })
	d.adapter.detach(d)
	return err
}

// IRQ are the interrupts of the device, Netdev the driver of an engine's half of the
// host function, which has one.
func (d *Device) IRQ() *irq.Device { return d.interrupts.dev }

// Netdev is that driver, borrowed.
func (d *Device) Netdev(hwfn int) (n *qede.Netdev) {
	d.netdevs(func(e int, of *qede.Netdev) {
		if e == hwfn {
			n = of
		}
	})
	return n
}

// Failures counts calls to the firmware that have failed while nobody waited for
// them, and is the last error.
func (d *Device) Failures() (n uint64, last error) {
	return d.management.events.failures, d.management.lastErr
}
