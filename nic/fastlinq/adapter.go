package fastlinq

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tapir/nic/dcbx"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/fastlinq/status"
	"tapir/nic/hardware"
	"tapir/nic/verbs"
)

// Adapter is a FastLinQ device: a chip with one management firmware, and the drivers
// of its functions, each of which is one NIC.
type Adapter struct {
	cfg AdapterConfig
	fw  *mfw.Firmware
	// chips has an element for each path: a chip of one engine, or with CMT of two.
	chips     []*ecore.Chip
	functions []*Device // nil: no NIC is attached
	lasers    []func(on bool)
}

// AdapterConfig describes an adapter. The zero value is one port with one function.
type AdapterConfig struct {
	Mode PortMode // zero: one port, of an engine or of two
	MF   ecore.MFMode
	// Functions have each the number of its port.
	Functions []int
}

// Modes in which functions of a port are told apart.
const (
	SingleFunction = ecore.SingleFunction
	OVLAN          = ecore.OVLAN
	NPAR           = ecore.NPAR
	UFP            = ecore.UFP
)

// MFMode is such a mode.
type MFMode = ecore.MFMode

// NewAdapter returns an adapter whose functions are free.
func NewAdapter(cfg AdapterConfig) (*Adapter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Adapter{cfg: cfg}, nil
}

// boot makes chip and management firmware. Those of an adapter with one function are as
// its configuration says.
func (a *Adapter) boot(first *Device) (err error) {
	engines, perEngine, kind := first.cfg.Engines, 1, ecore.AH
	if m := &a.cfg.Mode; m.Ports > 0 {
		engines, perEngine, kind = m.Engines, m.Ports/m.paths(), m.Kind
	} else {
		a.cfg.Functions = []int{0}
		a.cfg.Mode = PortMode{Kind: kind, Engines: engines, Ports: 1, CMT: engines > 1}
	}
	a.functions, a.lasers = make([]*Device, len(a.cfg.Functions)), make([]func(bool), a.cfg.Mode.Ports)
	for path := range a.cfg.Mode.paths() {
		functions := 0
		for fn := range a.cfg.Functions {
			if a.cfg.path(fn) == path {
				functions++
			}
		}
		c, err := ecore.NewChip(kind, engines/a.cfg.Mode.paths(), perEngine, max(1, functions), a.cfg.MF)
		if err != nil {
			return err
		}
		a.chips = append(a.chips, c)
		a.wire(c, path)
	}
	a.fw = mfw.New(mfw.Config{
		Engines: engines, Ports: a.ports(first), Funcs: a.halves(first), BB: kind == ecore.BB,
		Attention: func(half int) {
			if d := a.functions[half%len(a.functions)]; d != nil {
				d.management.attention[half/len(a.functions)] = true
				d.wake()
			}
		},
		Laser: func(port int, on bool) {
			if port < len(a.lasers) && a.lasers[port] != nil && !a.closed() {
				a.lasers[port](on)
			}
		},
		Wake: func(half int) {
			if d := a.functions[half%len(a.functions)]; d != nil {
				d.cfg.Board.Unloaded, d.cfg.Board.Crashed = false, false
			}
		},
		Send: a.sendLLDP, System: first.cfg.Name,
		Verify: verifyFile, Registers: a.testRegisters,
		InitHW: func() []byte { return fw.Builtin().Encode(fw.ZippedBinary) },
	})
	return nil
}

// ports are those that the management firmware knows: with CMT the second engine has
// one without a cable.
func (a *Adapter) ports(first *Device) (list []mfw.PortConfig) {
	m, l := &a.cfg.Mode, &first.cfg.Link
	speeds := settings.PortSpeeds(l.Medium())
	if m.Speeds != 0 {
		speeds &= m.Speeds
	}
	for port := range m.Ports {
		list = append(list, mfw.PortConfig{Engine: m.engine(port), Media: l.Medium(), Speeds: speeds,
			Partner: l.Partner, NoSignal: port > 0})
	}
	if m.CMT {
		list = append(list, mfw.PortConfig{Engine: 1, Media: l.Medium(), Speeds: speeds, NoSignal: true})
	}
	return list
}

// halves are the functions as the management firmware counts them: with CMT the
// halves of all on the second engine follow those on the first.
func (a *Adapter) halves(first *Device) (list []mfw.FuncConfig) {
	for _, port := range a.cfg.Functions {
		list = append(list, mfw.FuncConfig{Port: port, MAC: first.cfg.MAC, MTU: uint16(first.cfg.MTU)})
	}
	if a.cfg.Mode.CMT {
		for range a.cfg.Functions {
			list = append(list, mfw.FuncConfig{Port: a.cfg.Mode.Ports, MAC: first.cfg.MAC, MTU: uint16(first.cfg.MTU)})
		}
	}
	return list
}

// path is that of a function's port.
func (c *AdapterConfig) path(fn int) int {
	if c.Mode.CMT {
		return 0
	}
	return c.Mode.engine(c.Functions[fn])
}

// pf is the number of a function on its path.
func (c *AdapterConfig) pf(fn int) (pf int) {
	for other := range fn {
		if c.path(other) == c.path(fn) {
			pf++
		}
	}
	return pf
}

// share is what a function has of a resource of its engine.
func (c *AdapterConfig) share(fn int, r ecore.Resource) int {
	functions := 0
	for other := range c.Functions {
		if c.path(other) == c.path(fn) {
			functions++
		}
	}
	return ecore.PFShare(c.Mode.Kind, r, functions)
}

// CNQs are the completion notification queues that a function can have: the
// management firmware gives the functions half of what an engine has.
func (c *AdapterConfig) CNQs(fn int) int { return c.share(fn, ecore.CNQRAM) / 2 }

// Fits refuses queues and completion notification queues beyond a function's share of
// its engine.
func (c *AdapterConfig) Fits(fn, queues, cnqs int) error {
	if share := c.share(fn, ecore.L2Queue); queues > share {
		return status.NoResources.Errorf("queues: %d: the function's share of its engine is %d", queues, share)
	}
	if share := c.CNQs(fn); cnqs > share {
		return status.NoResources.Errorf("desired_cnq: %d: the function's share of its engine is %d", cnqs, share)
	}
	return nil
}

// at is the function of a number on a path.
func (a *Adapter) at(path, pf int) *Device {
	i := slices.IndexFunc(a.functions, func(d *Device) bool { return d != nil && d.path == path && d.pf == pf })
	return a.functions[i]
}

// wire has the firmware of a path execute the ramrods of its functions.
func (a *Adapter) wire(c *ecore.Chip, path int) {
	for engine, e := range c.Engines {
		execute := func(pf int, el spq.Element) (uint8, uint64) { return a.at(path, pf).driver.execute(engine, el) }
		for _, p := range []ecore.Protocol{cxt.Eth, cxt.Common, cxt.IWARP, cxt.RoCE, cxt.Core, cxt.ISCSI,
			cxt.FCoE} {
			e.Handle(p, execute)
		}
		e.Overflow = func(pf int) {
			d := a.at(path, pf)
			d.core.overflow[engine] = true
			d.wake()
		}
	}
}

// execute is the firmware of the function, on an engine.
func (d driver) execute(engine int, el spq.Element) (uint8, uint64) {
	switch el.Protocol {
	case cxt.Eth:
		return d.ethernetRamrods(engine, el)
	case cxt.IWARP, cxt.RoCE:
		return d.contexts.execute(el)
	case cxt.Core:
		return d.light.execute(el)
	case cxt.ISCSI:
		return d.iscsi.execute(el)
	case cxt.FCoE:
		return d.fcoe.execute(el)
	}
	return d.commonRamrods(engine, el)
}

// Attach implements hardware.Device.
func (a *Adapter) Attach(fn int, e hardware.Env) (hardware.Function, error) {
	cfg, ok := e.Config.(*Config)
	if !ok {
		return nil, errors.New("fastlinq: a function takes a fastlinq.Config")
	}
	d := newDevice(a, fn, cfg, e)
	if a.fw == nil {
		if err := a.boot(d); err != nil {
			return nil, err
		}
	}
	switch {
	case fn < 0 || fn >= len(a.functions):
		return nil, fmt.Errorf("fastlinq: no function %d: the device has %d", fn, len(a.functions))
	case a.functions[fn] != nil:
		return nil, fmt.Errorf("fastlinq: function %d is another NIC's", fn)
	case e.Port != a.cfg.Functions[fn]:
		return nil, fmt.Errorf("fastlinq: function %d is on port %d, not %d", fn, a.cfg.Functions[fn], e.Port)
	}
	d.path, d.pf = a.cfg.path(fn), a.cfg.pf(fn)
	cnqs := 0
	if d.cfg.RDMA.RDMA() {
		cnqs = len(d.verbs.Notifications())
	}
	if err := cmp.Or(a.cfg.Fits(fn, d.cfg.Queues, cnqs), a.checkPort(d, &d.cfg)); err != nil {
		return nil, err
	}
	a.functions[fn] = d
	a.fw.SetAddress(fn, d.cfg.MAC, uint16(d.cfg.MTU), map[verbs.Personality]mfw.Protocol{
		verbs.ISCSI: mfw.ProtocolISCSI, verbs.FCoE: mfw.ProtocolFCoE}[d.cfg.RDMA])
	a.setOuter(fn, &d.cfg.Link)
	if e.Laser != nil {
		a.lasers[d.port] = e.Laser
	}
	if err := d.attach(&e); err != nil {
		a.functions[fn] = nil
		return nil, err
	}
	return d, nil
}

// closed tells whether no function is left.
func (a *Adapter) closed() bool {
	return !slices.ContainsFunc(a.functions, func(d *Device) bool { return d != nil && !d.management.closed })
}

// detach ends a function: it is free for another NIC.
func (a *Adapter) detach(d *Device) {
	if a.functions[d.fn] == d {
		a.functions[d.fn] = nil
	}
}

// FLR implements hardware.Device.
func (a *Adapter) FLR(fn int) {
	if a.functions == nil || a.functions[fn] == nil { // without a function nothing has booted
		return
	}
	d := a.functions[fn]
	d.management.closed = true
	for e, engine := range a.chips[d.path].Engines {
		engine.FLR(d.pf)
		a.fw.FLR(fn + e*len(a.functions))
	}
	a.detach(d)
}

// lead is the first function of the port: the port's settings are its own.
func (d driver) lead() *Device {
	for _, o := range d.adapter.functions {
		if o != nil && o.port == d.port {
			return o
		}
	}
	return d.Device
}

func (d driver) leads() bool { return d.lead() == d.Device }

// wake has a function of several look at what its neighbours have brought about.
func (d driver) wake() {
	if len(d.adapter.functions) > 1 {
		d.nic.Schedule(d.now(), d.Manage)
	}
}

// setOuter has the management firmware give a function its outer VLAN.
func (a *Adapter) setOuter(fn int, l *settings.Link) {
	a.fw.SetOVLAN(fn, l.OVLAN)
	if a.cfg.MF == UFP {
		a.fw.SetUFP(fn, l.UFP.TC, l.UFP.OS)
	}
}

// checkPort refuses settings of a port that is another function's, and tags where
// functions have none.
func (a *Adapter) checkPort(d *Device, to *settings.NIC) error {
	lead := d.lead()
	tags := a.cfg.MF == OVLAN || a.cfg.MF == UFP
	switch {
	case lead != d && to.Link.OfPort() != (settings.Link{}) && to.Link.OfPort() != lead.cfg.Link.OfPort():
		return fmt.Errorf("settings of the link are those of %s, the first function of port %d: leave them out here",
			lead.cfg.Name, d.port)
	case lead != d && !to.PortDCB().OfPort().Equal(&settings.PortDCB{}) &&
		!to.PortDCB().OfPort().Equal(lead.cfg.PortDCB().OfPort()):
		return fmt.Errorf("settings of LLDP and DCBX are those of %s, the first function of port %d: leave them out "+
			"here", lead.cfg.Name, d.port)
	case !tags && to.Link.OVLAN != 0:
		return fmt.Errorf("ovlan %d: functions have outer VLANs with mf_mode ovlan or ufp", to.Link.OVLAN)
	case a.cfg.MF != UFP && to.Link.UFP != settings.UFP{}:
		return errors.New("ufp_tc and ufp_pri are of functions with mf_mode ufp")
	case tags && to.Link.OVLAN == 0:
		return errors.New("ovlan: with mf_mode ovlan or ufp each function has an outer VLAN: give it one")
	}
	if err := to.CheckClasses(d.tagged != nil && to.DCB.Version == dcbx.Disabled); err != nil {
		return err
	}
	for _, o := range a.functions {
		if tags && o != nil && o != d && o.port == d.port && o.cfg.Link.OVLAN == to.Link.OVLAN {
			return fmt.Errorf("ovlan %d is that of %s", to.Link.OVLAN, o.cfg.Name)
		}
	}
	return nil
}

// blocks is how many status blocks of an engine the function has for queues.
func (a *Adapter) blocks(d *Device, want int) int {
	return min(want, a.cfg.share(d.fn, ecore.SB)-1)
}

// neighbours runs fn for the other functions.
func (a *Adapter) neighbours(d *Device, fn func(*Device)) {
	for _, o := range a.functions {
		if o != nil && o != d {
			fn(o)
		}
	}
}

// testRegisters hands the registers of each engine to the management firmware: those of
// the functions that are there.
func (a *Adapter) testRegisters(test func([]mfw.Register)) {
	for _, d := range a.functions {
		if d != nil {
			d.testRegisters(test)
		}
	}
}
