package fastlinq

import (
	"fmt"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/fcoe"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"

	node "tapir/nic/fcoe"
	wire "tapir/wire/fcoe"
)

// compose makes the firmware.
func (f *fcoeFunction) compose() {
	d := f.d
	f.fw = fcoe.Firmware{
		Context: func(cid int) []byte { return d.contexts.manager().Context(cid) }, Notify: d.Notify,
		Event: func(e fcoe.Event, code uint8, cid int) { d.told(cxt.FCoE, uint8(e), code, cid, f.inside) },
	}
}

// execute is the firmware of FCoE.
func (f *fcoeFunction) execute(el spq.Element) (code uint8, _ uint64) {
	if f.d.cfg.RDMA != verbs.FCoE {
		return codeUnknown, 0
	}
	f.inside = true
	code = f.fw.Execute(fcoe.Command(el.Cmd), el.CID, el.Data)
	f.inside = false
	return code, 0
}

// startFunction starts the function after the load.
func (f *fcoeFunction) startFunction() (err error) {
	d := f.d
	if d.cfg.RDMA != verbs.FCoE {
		return nil
	}
	if err = d.core.dev.Lead().RegisterAsync(cxt.FCoE, f.heard); err != nil {
		return err
	}
	f.driver, err = fcoe.Start(d.cfg.FCoE.Values(d.cfg.MTU), storageCore[fcoe.Command](d, cxt.FCoE), &f.fw)
	if err == nil {
		f.Sessions = f.driver
	}
	return err
}

// stopFunction ends all connections and the function, before it is unloaded.
func (f *fcoeFunction) stopFunction() {
	if f.driver == nil {
		return
	}
	f.d.management.note(f.driver.Close())
	f.driver, f.Sessions = nil, closed{}
	f.d.core.dev.Lead().UnregisterAsync(cxt.FCoE)
}

// MaxPayload implements fcoe.Hardware.
func (f *fcoeFunction) MaxPayload() int { return new(f.d.cfg.FCoE.Values(f.d.cfg.MTU)).MaxPayload() }

// closed are the sessions of a function that is not started.
type closed struct{ node.Unlimited }

// Offload implements fcoe.Sessions.
func (closed) Offload(node.Session) (int, error) {
	return 0, status.Inval.Errorf("FCoE function: the driver is not loaded")
}

// heard takes an event out of the event queue: it is logged and counted.
func (f *fcoeFunction) heard(e spq.Event, _ frame.Time) error {
	event, cid := fcoe.Event(e.Opcode), int(e.Data)
	if f.driver == nil || event >= fcoe.NumEvents {
		return status.NoEnt.Errorf("event %v about FCoE connection %#x", event, cid)
	}
	f.d.log.Say(msglog.Notice, msglog.Storage, "FCoE connection %#x: %v: %s", cid, event, node.Error(e.Code).String())
	f.driver.Heard(event, e.Code)
	return nil
}

// serve has the driver look at a completion queue.
func (f *fcoeFunction) serve(queue int) {
	if f.driver != nil && queue < f.driver.Params().Queues {
		f.driver.Serve(queue, f.d.now())
	}
}

// own tells whether a frame belongs to a session that the firmware has: it does not come by
// light L2.
func (f *fcoeFunction) own(h ether.Header, body []byte) bool {
	if h.Type != wire.EtherType || f.driver == nil {
		return false
	}
	x, ok := wire.Header(body)
	return ok && (x.Type == fc.TypeFCP || x.RCtl == fc.AbortAccept || x.RCtl == fc.AbortReject) && f.fw.Has(x.D, x.S)
}

// FCoEFunction is an FCoE function as its driver uses it, FCoEStats what it counts, FCoEDrop why a
// frame is dropped.
type (
	FCoEFunction = fcoe.Function
	FCoEStats    = fcoe.Stats
	FCoEDrop     = fcoe.Drop
)

// FCoE is the FCoE function; nil: the personality is another one, or the driver is not loaded.
func FCoE(d *Device) *fcoe.Function { return d.fcoe.driver }

// protocolStats are what the management firmware asks for.
func (f *fcoeFunction) protocolStats(s *mfw.ProtocolStats) {
	t := f.fw.Stats()
	s.Rx, s.Tx = frames(&t.Rx), frames(&t.Tx)
	s.FCSErrors = uint32(t.Drops[fcoe.DropCRC])
}

// frames are those that are counted.
func frames(t *fcoe.Traffic) uint64 { return t.Data + t.Transfers + t.Others }

// tlvs are what the management firmware is told of the function.
func (f *fcoeFunction) tlvs() map[tlv.Type]uint64 {
	if f.driver == nil {
		return nil
	}
	p, t := f.driver.Params(), f.fw.Stats()
	return map[tlv.Type]uint64{tlv.FIPTxQueue: fcoeTx, tlv.FCoERxQueue: uint64(p.CQEntries),
		tlv.FCoERxFrames: frames(&t.Rx), tlv.FCoERxBytes: t.Rx.Bytes, tlv.FCoETxFrames: frames(&t.Tx),
		tlv.FCoETxBytes: t.Tx.Bytes, tlv.CRCErrors: t.Drops[fcoe.DropCRC]}
}

// traffics are the counters of frames, by their names.
func traffics(s *fcoe.Stats) (names []string, values []uint64) {
	names = []string{"rx_bytes", "rx_data", "rx_xfer", "rx_other", "tx_bytes", "tx_data", "tx_xfer", "tx_other"}
	return names, []uint64{s.Rx.Bytes, s.Rx.Data, s.Rx.Transfers, s.Rx.Others, s.Tx.Bytes, s.Tx.Data, s.Tx.Transfers,
		s.Tx.Others}
}

// counters are those of ethtool -S.
func (f *fcoeFunction) counters() (list []view.Counter) {
	if f.d.cfg.RDMA != verbs.FCoE {
		return nil
	}
	s := f.fw.Stats()
	names, values := traffics(s)
	for i, n := range values {
		list = append(list, view.Count("fcoe_fn_"+names[i], n))
	}
	for r, n := range s.Drops {
		list = append(list, view.Count("fcoe_fn_drop_"+fcoe.Drop(r).String(), n))
	}
	return list
}

// rows describe the function, its connections and what the firmware has told of.
func (f *fcoeFunction) rows() (rows []view.DeviceRow) {
	if f.driver == nil {
		return nil
	}
	fn := f.driver
	p, t := fn.Params(), f.fw.Stats()
	rows = append(rows, partRow("fcoe_connections", word(p.Target, "target", "initiator"), len(fn.Conns()), p.Conns),
		partRow("fcoe_tasks", "", fn.Tasks(), p.Tasks),
		textRow("fcoe_mtu", "%d, payloads up to %d", p.MTU, p.MaxPayload()))
	rows = append(rows, ringRows("fcoe_", fn.Queues())...)
	for _, c := range fn.Conns() {
		s, sq, name := c.Session(), c.SQ(), fmt.Sprintf("fcoe_conn %#x", c.CID())
		rows = append(rows, textRow(name, "%s, %v to %v, queue %d, payload %d", c.State(), s.SID, s.DID, c.Queue(),
			s.TxPayload), useRow(name+" sq", sq.Used(), sq.Size, sq.Peak),
			partRow(name+" tasks", "", c.Tasks(), p.ConnTasks))
	}
	names, values := traffics(t)
	for i, n := range values {
		rows = append(rows, countRow("fcoe_stat", names[i], n))
	}
	events, errors := fn.Events()
	rows = append(rows, countRows("fcoe_drop", t.Drops[:], func(i int) string { return fcoe.Drop(i).String() })...)
	rows = append(rows, countRows("fcoe_event", events[:], func(i int) string { return fcoe.Event(i).String() })...)
	return append(rows, countRows("fcoe_error", errors[:], func(i int) string { return node.Error(i).String() })...)
}
