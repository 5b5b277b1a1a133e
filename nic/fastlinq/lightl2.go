package fastlinq

import (
	"errors"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/hardware"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// lightL2 has the light L2 of the leading hwfn: while the function is loaded, with RDMA,
// a connection of type IWARP that the SYNs of peers come by, and one of type OOO that
// counts the isles of what TCP receives out of order. With RoCE it is one of type ROCE that the
// datagrams to queue pair 1 come by. Others come and go.
type lightL2 struct {
	d       *Device
	manager *ll2.Manager // nil: the function is not loaded
	fw      ll2.Firmware
	syn     *ll2.Conn // nil: no iWARP
	gsi     *ll2.Conn // nil: no RoCE
	isles   *ll2.Archipelagos
	rung    bool // there is something to be sent
	filters map[filter]func()
	test    *ll2Test // that runs; nil: none
}

// filter is the way of an EtherType to a connection.
type filter struct {
	queue     int
	etherType uint16
}

// Queues of the connection for SYNs, which wait for no longer than the slowpath's
// interrupt. One that is longer than its headers and options takes the way of other
// segments.
const (
	synRx  = 16
	synMTU = 60 + 60
	// oooRx is the most that the public driver has. Its buffers are TCP's.
	oooRx = ll2.MaxOOOBuffers / 2
	// Those of the connection for management datagrams, whose packets have up to
	// 40+8+12+8+256+4 octets, with RoCE v1 as well.
	gsiRx  = 64
	gsiMTU = 328
)

// compose makes the firmware of light L2.
func (l *lightL2) compose() {
	d := l.d
	l.fw = ll2.Firmware{
		Event: func(pi, n int) { d.interrupts.dev.Hwfns[0].SP().Events(pi, n, d.now()) },
		Room:  d.nic.WireRoom, Send: l.send,
		Assert: func(text string) { d.core.dev.Lead().HWError(ecore.FWAssert, errors.New(text)) },
	}
}

// execute is the firmware of light L2.
func (l *lightL2) execute(el spq.Element) (code uint8, _ uint64) {
	if r, ok := el.Data.(*ll2.Ramrod); ok {
		return l.fw.Execute(r), 0
	}
	return ll2.GeneralError, 0
}

// resetFirmware is the firmware's when a function stops.
func (d *Device) resetFirmware(h *ecore.Hwfn) {
	if h.Index == 0 {
		d.contexts.fw.Reset()
		d.light.fw.Reset()
		if d.iscsi != nil {
			d.iscsi.fw.Reset()
		}
		d.fcoe.fw.Reset()
	}
}

// ll2Types are the personalities that have connections of a type; all have TEST.
var ll2Types = [ll2.NumTypes][]ecore.Personality{ll2.FCoE: {ecore.FCoE}, ll2.ISCSI: {ecore.ISCSI},
	ll2.OOO: {ecore.ISCSI, ecore.EthIWARP, ecore.EthRDMA}, ll2.RoCE: {ecore.EthRoCE, ecore.EthRDMA},
	ll2.IWARP: {ecore.EthIWARP, ecore.EthRDMA}}

// allows tells whether the function's personality has connections of a type.
func (l *lightL2) allows(t ll2.Type) bool {
	if t == ll2.Test {
		return true
	}
	for _, p := range ll2Types[t] {
		if p == l.d.personality() {
			return true
		}
	}
	return false
}

// start begins with a function that has been loaded.
func (l *lightL2) start() (err error) {
	d := l.d
	h, irqs := d.core.dev.Lead(), d.interrupts.dev.Hwfns[0]
	l.filters = map[filter]func(){}
	l.manager = ll2.NewManager(ll2.Core{
		Limit: h.Share(ecore.LL2Queue).Num, Allows: l.allows,
		AcquireCID: func() (int, error) {
			cid, err := h.Contexts().Acquire(cxt.Core)
			if err == nil {
				_, err = h.Contexts().CIDInfo(cid)
			}
			return cid, err
		},
		ReleaseCID: func(cid int) error { return h.Contexts().Release(cid) },
		RegisterCB: irqs.RegisterCB, UnregisterCB: irqs.UnregisterCB,
		Post: func(cid int, r *ll2.Ramrod) error {
			_, err := d.contexts.ramrods.post(spq.Request{CID: cid, Cmd: uint8(r.Command), Protocol: cxt.Core, Data: r},
				r.Command)
			return err
		},
		Doorbell: l.doorbell, Filter: l.filter,
	})
	switch d.cfg.RDMA {
	case verbs.RoCE:
		l.gsi, err = l.startRx(ll2.Params{Type: ll2.RoCE, MTU: gsiMTU, RxDescs: gsiRx}, l.managed)
	case verbs.FCoE:
		err = d.fcoe.start()
	case verbs.IWARP:
		l.syn, err = l.startRx(ll2.Params{Type: ll2.IWARP, MTU: synMTU, RxDescs: synRx, RemoveVLAN: true}, l.opened)
		err = errors.Join(err, l.startOOO())
	}
	return err
}

// LL2 has the light L2 connections of the function; nil: it is not loaded.
func (d *Device) LL2() *ll2.Manager { return d.light.manager }

// stop ends it, before the function is unloaded.
func (l *lightL2) stop() {
	if l.manager == nil {
		return
	}
	l.test.cancel()
	l.syn, l.gsi, l.isles, l.d.fcoe.conn = nil, nil, nil, nil
	l.d.management.note(l.manager.Close())
	l.manager = nil
}

// startRx opens a connection that receives, with a buffer for each descriptor.
func (l *lightL2) startRx(p ll2.Params, complete func(ll2.Rx)) (*ll2.Conn, error) {
	release := func(any, []byte) {} // the memory is this function's
	p.TxDescs, p.TooBig = max(p.TxDescs, 1), ll2.DoNothing
	c, err := l.manager.Acquire(p,
		ll2.Callbacks{RxComplete: complete, RxRelease: release, TxComplete: release, TxRelease: release})
	if err == nil {
		err = c.Establish()
	}
	if err != nil {
		return nil, err
	}
	size := p.MTU + ll2.HeaderLen
	memory := make([]byte, p.RxDescs*size)
	for i := range p.RxDescs {
		if err := c.PostRx(memory[i*size:(i+1)*size], l, i == p.RxDescs-1); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// startOOO opens the connection for what comes out of order, with as many buffers for a
// descriptor as by default.
func (l *lightL2) startOOO() error {
	release := func(any, []byte) {}
	c, err := l.manager.Acquire(ll2.Params{Type: ll2.OOO, MTU: l.d.cfg.MTU, RxDescs: oooRx, TxDescs: 1,
		TxDest: ll2.Loopback},
		ll2.Callbacks{RxComplete: func(ll2.Rx) {}, RxRelease: release, TxComplete: release, TxRelease: release})
	if err == nil {
		err = c.Establish()
	}
	if err == nil {
		l.isles = ll2.NewArchipelagos(c.Params().OOOBuffers, l.d.verbs.Limits().MaxQP)
	}
	return err
}

// SYN implements hardware.Function.
func (d *Device) SYN(h ether.Header, packet []byte, off frame.Offload) (taken bool, why frame.DropReason) {
	l := &d.light
	if l.syn == nil {
		return false, frame.DropNone
	}
	return l.receive(l.syn.Handle(), ll2.Packet{Header: h, Body: packet, Off: off})
}

// receive gives a queue a packet; it is dropped with a reason if the queue cannot take it.
func (l *lightL2) receive(queue int, p ll2.Packet) (taken bool, why frame.DropReason) {
	switch l.fw.Receive(queue, p) {
	case ll2.NotTaken:
		return false, frame.DropNone
	case ll2.TooBig:
		return true, drop.Oversize
	case ll2.NoBuffer:
		return true, drop.NoBuffer
	}
	l.d.contexts.look(l.d.now())
	return true, frame.DropNone
}

// opened gives a SYN to TCP, and its buffer back.
func (l *lightL2) opened(rx ll2.Rx) {
	_, n, err := ether.Parse(rx.Buf[:rx.Len])
	if err == nil {
		l.d.nic.Opened(rx.Buf[n:rx.Len], frame.Offload{DataValid: rx.Flags&ll2.L4Valid != 0,
			NeedsCsum: rx.Flags&ll2.L4Partial != 0})
	}
	if l.syn != nil {
		err = errors.Join(err, l.syn.PostRx(rx.Buf, rx.Cookie, true))
	}
	l.d.management.note(err)
}

// MAD implements hardware.Function.
func (d *Device) MAD(h ether.Header, packet []byte) (taken bool, why frame.DropReason) {
	l := &d.light
	if l.gsi == nil {
		return false, frame.DropNone
	}
	return l.receive(l.gsi.Handle(), ll2.Packet{Header: h, Body: packet})
}

// managed gives RoCE a management datagram, and its buffer back.
func (l *lightL2) managed(rx ll2.Rx) {
	h, n, err := ether.Parse(rx.Buf[:rx.Len])
	if err == nil {
		l.d.nic.MAD(h, rx.Buf[n:rx.Len])
	}
	if l.gsi != nil {
		err = errors.Join(err, l.gsi.PostRx(rx.Buf, rx.Cookie, true))
	}
	l.d.management.note(err)
}

// filter gives a connection the frames of an EtherType, or no longer.
func (l *lightL2) filter(queue int, etherType uint16, on bool) {
	key := filter{queue, etherType}
	if !on {
		l.filters[key]()
		delete(l.filters, key)
		return
	}
	l.filters[key] = l.d.nic.TakeEtherType(etherType, func(h ether.Header, body []byte) (bool, frame.DropReason) {
		if l.d.fcoe.own(h, body) {
			l.d.nic.FCoE(h, body)
			return true, frame.DropNone
		}
		return l.receive(queue, ll2.Packet{Header: h, Body: body})
	})
}

// doorbell tells the firmware of packets to be sent, in the next Poll.
func (l *lightL2) doorbell() {
	if !l.rung {
		l.rung = true
		l.d.nic.Schedule(l.d.now(), func(frame.Time) {})
	}
}

// poll sends what waits while the wire has room.
func (l *lightL2) poll(now frame.Time) {
	if l.rung {
		l.fw.Poll()
		l.rung = l.fw.Due()
		l.d.contexts.look(now)
	}
}

// send makes a frame of the parts of a packet, and sends it.
func (l *lightL2) send(dest ll2.Dest, parts [][]byte, h ether.Header) int {
	d, body := l.d, 0
	for _, p := range parts {
		body += len(p)
	}
	if body > d.cfg.MTU || dest == ll2.Loopback && !d.host {
		return 0
	}
	f := d.pool.Get(ether.MaxHeaderLen + body)
	if f == nil {
		return 0
	}
	h.Put(f.Extend(h.Len()))
	for _, p := range parts {
		f.Append(p)
	}
	if dest == ll2.Loopback {
		hostFunction{d}.FromWire(f)
	} else {
		d.nic.ToWire(f)
	}
	return h.Len() + body
}

// isles are what TCP tells of data that it receives out of order.
type isles struct{ l *lightL2 }

// Isles implements hardware.Function.
func (d *Device) Isles() hardware.Isles { return isles{&d.light} }

// Room implements hardware.Isles.
func (i isles) Room(conn, left, right uint64) bool {
	return i.l.isles == nil || i.l.isles.Room(conn, left, right)
}

// Add implements hardware.Isles.
func (i isles) Add(conn, left, right uint64, held bool) {
	if i.l.isles != nil {
		i.l.isles.Add(conn, left, right, held)
	}
}

// Reached implements hardware.Isles.
func (i isles) Reached(conn, next uint64) bool {
	return i.l.isles != nil && i.l.isles.Reached(conn, next)
}

// Gone implements hardware.Isles.
func (i isles) Gone(conn uint64) {
	if i.l.isles != nil {
		i.l.isles.Gone(conn)
	}
}

// ShowLL2 describes the light L2 connections and, last, the isles.
func (d display) ShowLL2() (list []view.LL2Info) {
	l := &d.light
	if l.manager == nil {
		return []view.LL2Info{}
	}
	list = []view.LL2Info{}
	for _, c := range l.manager.Conns() {
		list = append(list, l.describe(c))
	}
	return list
}

// describe is a connection for display.
func (l *lightL2) describe(c *ll2.Conn) view.LL2Info {
	p, s := c.Params(), l.fw.Stats(c.Handle())
	in, out := s.Rx(), s.Tx()
	return view.LL2Info{
		Handle: c.Handle(), Type: p.Type.String(), State: word(c.Established(), "established", "acquired"),
		CID: c.CID(), MTU: p.MTU, TxDest: p.TxDest.String(), RxDescs: p.RxDescs, RxPosted: c.Waiting(),
		TxDescs: p.TxDescs, TxPending: c.TxUse().Owned,
		RxPackets: in.Packets, RxBytes: in.Bytes, TxPackets: out.Packets, TxBytes: out.Bytes,
		TxDropped: s.TxDropped, TxFailed: s.TxFailed, TooBig: s.TooBig, NoBuffer: s.NoBuffer,
	}
}

// rows describe the isles, for the table of the device.
func (l *lightL2) rows() (rows []view.DeviceRow) {
	if l.isles == nil {
		return nil
	}
	s := l.isles.Stats()
	rows = append(rows, partRow("ooo_isles", "", s.Isles, s.MaxIsles), partRow("ooo_buffers", "", s.Used, s.Buffers))
	for e, n := range s.Events {
		if n > 0 {
			rows = append(rows, countRow("ooo_event", ll2.Event(e).String(), n))
		}
	}
	if s.Dropped > 0 {
		rows = append(rows, countRow("ooo_dropped", "", s.Dropped))
	}
	return rows
}

// loaded refuses a connection while the function is not loaded. INVAL.
func (l *lightL2) loaded() error {
	if l.manager == nil {
		return status.Inval.Errorf("%s: the driver is not loaded", l.d.cfg.Name)
	}
	return nil
}
