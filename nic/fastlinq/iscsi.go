package fastlinq

import (
	"fmt"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/iscsi"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/nic/fastlinq/storage"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"

	errs "tapir/nic/iscsi"
)

// iscsiFunction is the iSCSI function on the leading hwfn: the driver's half, and the
// firmware.
type iscsiFunction struct {
	d      *Device
	tcp    *toe.Engine
	fw     iscsi.Firmware
	driver *iscsi.Function // nil: the function is not started
	inside bool            // the firmware executes a ramrod
}

// compose makes the firmware.
func (i *iscsiFunction) compose() {
	d := i.d
	i.fw = iscsi.Firmware{
		Context: func(cid int) []byte { return d.contexts.manager().Context(cid) },
		TCP:     func(t *toe.TCB, h toe.Handler) (*toe.Conn, error) { return i.tcp.Offload(t, h, d.now()) },
		Station: func(c *toe.Conn, a ether.Addr) { i.tcp.SetStation(c, a) },
		Notify:  d.Notify, Event: i.event,
	}
}

// execute is the firmware of iSCSI.
func (i *iscsiFunction) execute(el spq.Element) (code uint8, _ uint64) {
	if i == nil {
		return codeUnknown, 0
	}
	i.inside = true
	code = i.fw.Execute(iscsi.Command(el.Cmd), el.CID, el.Data)
	i.inside = false
	return code, 0
}

// event has the firmware tell of a connection by the event queue.
func (i *iscsiFunction) event(e iscsi.Event, code uint8, cid int) {
	i.d.told(cxt.ISCSI, uint8(e), code, cid, i.inside)
}

// start starts the function after the load.
func (i *iscsiFunction) start() (err error) {
	if i == nil {
		return nil
	}
	d := i.d
	if err = d.core.dev.Lead().RegisterAsync(cxt.ISCSI, i.heard); err != nil {
		return err
	}
	i.driver, err = iscsi.Start(d.cfg.ISCSI.Values(), storageCore[iscsi.Command](d, cxt.ISCSI), &i.fw, i.tcp.Stations())
	return err
}

// stop ends all connections and the function, before it is unloaded.
func (i *iscsiFunction) stop() {
	if i == nil || i.driver == nil {
		return
	}
	i.d.management.note(i.driver.Close())
	i.driver = nil
	i.d.core.dev.Lead().UnregisterAsync(cxt.ISCSI)
}

// heard takes an event out of the event queue: it is logged and counted.
func (i *iscsiFunction) heard(e spq.Event, _ frame.Time) error {
	event, cid := iscsi.Event(e.Opcode), int(e.Data)
	if i.driver == nil || event >= iscsi.NumEvents {
		return status.NoEnt.Errorf("event %v about iSCSI connection %#x", event, cid)
	}
	switch {
	case event == iscsi.ISCSIError:
		i.d.log.Say(msglog.Notice, msglog.Storage, "iSCSI connection %#x: %v: %s", cid, event,
			errs.Error(e.Code).String())
	case event > iscsi.StartOfErrors && event != iscsi.CloseReceived:
		i.d.log.Say(msglog.Notice, msglog.Storage, "iSCSI connection %#x: %v", cid, event)
	default:
		i.d.log.Say(msglog.Info, msglog.Storage, "iSCSI connection %#x: %v", cid, event)
	}
	i.driver.Heard(event, e.Code, cid)
	return nil
}

// serve has the driver look at a completion queue.
func (i *iscsiFunction) serve(queue int) {
	if i.driver != nil && queue < i.driver.Params().Queues {
		i.driver.Serve(queue, i.d.now())
	}
}

// ISCSIFunction is an iSCSI function as its driver uses it, ISCSIConn a connection of it.
type (
	ISCSIFunction = iscsi.Function
	ISCSIConn     = iscsi.Conn
)

// ISCSI is the iSCSI function; nil: the personality is another one, or the driver is not
// loaded.
func ISCSI(d *Device) *iscsi.Function {
	if d.iscsi == nil {
		return nil
	}
	return d.iscsi.driver
}

// tlvs are what the management firmware is told of the function.
func (i *iscsiFunction) tlvs() map[tlv.Type]uint64 {
	if i == nil || i.driver == nil {
		return nil
	}
	f := i.driver
	var flags iscsi.Flags // of any session
	for _, c := range f.Conns() {
		flags |= c.Flags()
	}
	p, t := f.Params(), f.Totals()
	return map[tlv.Type]uint64{tlv.HeaderDigest: b2n(flags&iscsi.HeaderDigest != 0),
		tlv.DataDigest: b2n(flags&iscsi.DataDigest != 0), tlv.MaxFrameSize: uint64(i.d.cfg.MTU),
		tlv.PDUTxQueue: uint64(p.SQPages * storage.PerPage), tlv.PDURxQueue: uint64(p.CQEntries),
		tlv.PDUsReceived: t.RxPDUs, tlv.PDUBytesReceived: t.RxBytes, tlv.PDUsSent: t.TxPDUs,
		tlv.PDUBytesSent: t.TxBytes}
}

// stats are the function's statistics by their names.
func stats(t iscsi.Stats) []view.Counter {
	return []view.Counter{view.Count("rx_bytes", t.RxBytes), view.Count("tx_bytes", t.TxBytes),
		view.Count("rx_pdus", t.RxPDUs), view.Count("tx_pdus", t.TxPDUs), view.Count("rq_full", t.RQFull),
		view.Count("cmdq_full", t.CmdQFull), view.Count("cq_full", t.CQFull)}
}

// counters are those of ethtool -S: the statistics, and how often a connection has had an error of
// iSCSI, and another station leads to its peer.
func (i *iscsiFunction) counters() (list []view.Counter) {
	if i == nil {
		return nil
	}
	var t iscsi.Stats
	var events [iscsi.NumEvents]uint64
	if i.driver != nil {
		t = i.driver.Totals()
		events, _ = i.driver.Events()
	}
	list = append(stats(t), view.Count("conn_errors", events[iscsi.ISCSIError]),
		view.Count("tcp_errors", events[iscsi.TCPError]), view.Count("mac_updates", events[iscsi.EventMACUpdate]))
	for k := range list {
		list[k].Name = "iscsi_fn_" + list[k].Name
	}
	return list
}

// rows describe the function, its connections and what the firmware has told of.
func (i *iscsiFunction) rows() (rows []view.DeviceRow) {
	if i == nil || i.driver == nil {
		return nil
	}
	f := i.driver
	p := f.Params()
	rows = append(rows, partRow("iscsi_connections", word(p.Target, "target", "initiator"), len(f.Conns()), p.Conns),
		partRow("iscsi_tasks", "", f.Tasks(), p.Tasks))
	rows = append(rows, ringRows("iscsi_", f.Queues())...)
	for _, c := range f.Conns() {
		sq, uhq := c.Rings()
		name := fmt.Sprintf("iscsi_conn %#x", c.CID())
		rows = append(rows, textRow(name, "%s, queue %d, flags %#x", c.State(), c.Queue(), uint8(c.Flags())),
			useRow(name+" sq", sq.Used(), sq.Size, sq.Peak), useRow(name+" uhq", uhq.Used(), uhq.Size, uhq.Peak))
	}
	for _, n := range stats(f.Totals()) {
		rows = append(rows, countRow("iscsi_stat", n.Name, n.Value))
	}
	events, errors := f.Events()
	rows = append(rows, countRows("iscsi_event", events[:], func(e int) string { return iscsi.Event(e).String() })...)
	return append(rows, countRows("iscsi_error", errors[:], func(e int) string { return errs.Error(e).String() })...)
}
