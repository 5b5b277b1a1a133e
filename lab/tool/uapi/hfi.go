package uapi

import (
	"context"
	"encoding/binary"
	"sync"
	"syscall"
	"time"

	"tapir/lab/tool/ctl"
	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/hfiverbs"
	"tapir/nic/uapi/sysfs"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/umad"
	"tapir/opa"
	"tapir/opa/sma"
	"tapir/wire/ib"
)

// fabric is the port of an HFI, which programs use by management datagrams.
type fabric struct {
	d    *device
	attr func() (sysfs.HFIAttr, error)

	mu      sync.Mutex
	session uint16 // of this process at the HFI; 0: none
	links   map[*fabricLink]bool
	watches map[*func(uint32)]bool // of events
	end     func()                 // of the session
}

// fabricLink is one open file.
type fabricLink struct {
	of      *fabric
	receive func(umad.Address, []byte)
}

func newFabric(d *device) *fabric {
	f := &fabric{d: d, links: map[*fabricLink]bool{}, watches: map[*func(uint32)]bool{}}
	f.attr = cached(func() (a sysfs.HFIAttr, err error) {
		p, err := ask(d, d.client.MADPort)
		if err != nil {
			return a, err
		}
		return sysfs.HFIAttr{GUID: p.GUID, Name: "tapir " + p.Name, LID: p.LID, SMLID: p.SMLID, SMSL: p.SMSL,
			State: p.State, PKeys: p.PKeys}, nil
	})
	return f
}

// newFabrics are the ports of HFIs, as programs see them, with their device files
// behind those of ports, and the handler of their verbs.
func newFabrics(hfis []*device, ports []umad.Port) (list []*fabric, shown []sysfs.HFI,
	all []umad.Port, verbs trap.Handler) {
	var devices []hfiverbs.Device
	for i, d := range hfis {
		f, n := newFabric(d), len(ports)
		list, shown = append(list, f), append(shown, sysfs.HFI{Index: i, File: n, Attr: f.attr})
		ports = append(ports, umad.Port{Path: sysfs.UMAD(n), Stat: managed(sysfs.UMADNumber(n)), Open: f.open})
		devices = append(devices, hfiverbs.Device{Path: sysfs.UVerbs(n), Stat: node(sysfs.UVerbsNumber(n)),
			Query: f.query, Watch: f.watch})
	}
	return list, shown, ports, hfiverbs.New(devices...)
}

// Values of QUERY_PORT of an HFI: the most that InfiniBand's fields can say.
const (
	ibMTU       = 4096
	fourLanes   = 2
	speedEDR    = 32 // 25 Gbit/s a lane
	linkLayerIB = 1
)

// query is hfiverbs.Device.Query.
func (f *fabric) query() (d abi.DeviceAttr, p abi.PortAttr, err error) {
	a, err := f.attr()
	if err != nil {
		return d, p, err
	}
	binary.BigEndian.PutUint64(d.NodeGUID[:], a.GUID)
	d.SystemImageGUID, d.VendorID, d.MaxPKeys, d.Ports = d.NodeGUID, uint32(a.GUID>>40), sysfs.HFIPKeys, 1
	p = abi.PortAttr{GIDTable: 1, PKeyTable: sysfs.HFIPKeys, LID: sma.LID(opa.LID(a.LID)),
		SMLID: sma.LID(opa.LID(a.SMLID)), State: a.State, SMSL: a.SMSL, VirtualLanes: 1,
		MaxMTU: ib.MTUCode(ibMTU), MTU: ib.MTUCode(ibMTU), Width: fourLanes, Speed: speedEDR,
		Phys: sysfs.HFIPhys(a.State), LinkLayer: linkLayerIB}
	return d, p, nil
}

// open is umad.Port.Open.
func (f *fabric) open(receive func(umad.Address, []byte)) (umad.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == 0 && !f.begin() {
		return nil, syscall.ENODEV
	}
	l := &fabricLink{f, receive}
	f.links[l] = true
	return l, nil
}

// watch is hfiverbs.Device.Watch.
func (f *fabric) watch(tell func(uint32)) (stop func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == 0 && !f.begin() {
		return nil, syscall.ENODEV
	}
	f.watches[&tell] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, &tell)
	}, nil
}

// event tells the programs of an event. What is told does not wait.
func (f *fabric) event(number uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tell := range f.watches {
		(*tell)(number)
	}
}

// begin begins a session.
func (f *fabric) begin() bool {
	ctx, cancel := context.WithCancel(context.Background())
	numbers := make(chan uint16, 1)
	go func() {
		defer close(numbers)
		_ = f.d.client.FollowMADs(ctx, func(e ctl.MADEvent) {
			if e.Session != 0 {
				numbers <- e.Session
			} else if e.MAD != nil {
				f.received(e.MAD)
			} else {
				f.event(e.Event)
			}
		})
		f.event(uint32(al.DeviceFatal))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.session = 0 // the next file begins another
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case f.session = <-numbers: // 0: the HFI is gone
	case <-late.C:
	}
	if f.end = cancel; f.session == 0 {
		cancel()
	}
	return f.session != 0
}

// received hands a datagram to all files.
func (f *fabric) received(m *ctl.MAD) {
	f.mu.Lock()
	links := make([]*fabricLink, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	f.mu.Unlock()
	for _, l := range links {
		l.receive(umad.Address{QP: m.QP, LID: m.LID, SL: m.SL}, append([]byte(nil), m.Octets...))
	}
}

// closeFabrics ends the sessions.
func closeFabrics(list []*fabric) {
	for _, f := range list {
		f.mu.Lock()
		if f.end != nil {
			f.end()
		}
		f.mu.Unlock()
	}
}

// Session implements umad.Link.
func (l *fabricLink) Session() uint16 {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return l.of.session
}

// Send implements umad.Link.
func (l *fabricLink) Send(to umad.Address, b []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// What is not sent has no response, as on a fabric.
	_ = l.of.d.client.SendMAD(ctx, ctl.MAD{QP: to.QP, LID: to.LID, SL: to.SL, PKey: to.PKey, Octets: b})
}

// Close implements umad.Link.
func (l *fabricLink) Close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.links, l)
}
