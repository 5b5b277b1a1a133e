package nic

import (
	"fmt"
	"time"

	"tapir/nic/cm"
	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// Log is what the NIC's layers have to say, as Config.Msglvl asks for.
func (d *Device) Log() *msglog.Log { return &d.common.Log }

// System is the system's time of day at engine time t.
func (d *Device) System(t frame.Time) frame.Stamp { return d.common.System.At(t) }

// logEvent says what happens to a connection.
func (d *Device) logEvent(e *cm.Entry) {
	if !d.common.Log.On(msglog.CM) {
		return
	}
	d.common.Log.Append(msglog.CM, func(b []byte) []byte {
		b = fmt.Appendf(b, "%v status %s", e.Event, e.Reason.Status())
		if e.Reason != cm.NoReason {
			b = fmt.Appendf(b, " %v", e.Reason)
		}
		if e.ID != 0 {
			b = fmt.Appendf(b, " id %d", e.ID)
		}
		if e.QP != 0 {
			b = fmt.Appendf(b, " QP %d %s", e.QP, e.State)
		}
		if e.Local.IsValid() {
			b = fmt.Appendf(b, " %v", e.Local)
		}
		if e.Remote.IsValid() {
			b = fmt.Appendf(b, " > %v", e.Remote)
		}
		return b
	})
}

// logAsync says which asynchronous event an application gets.
func (d *Device) logAsync(ev *verbs.AsyncEvent) {
	d.common.Log.Append(msglog.WR, func(b []byte) []byte {
		b = fmt.Appendf(b, "async %v", ev.Type)
		switch {
		case ev.QP != nil:
			b = fmt.Appendf(b, " QP %d", ev.QP.Num())
		case ev.CQ != nil:
			b = fmt.Appendf(b, " CQ %d", ev.CQ.Num())
		case ev.SRQ != nil:
			b = fmt.Appendf(b, " SRQ %d", ev.SRQ.Num())
		}
		if ev.Err != nil {
			b = fmt.Appendf(b, ": %v", ev.Err)
		}
		return b
	})
}

// timeOf is what the hardware clock shows at engine time t.
func (d *Device) timeOf(t frame.Time) string {
	return time.Unix(0, int64(d.common.PHC.At(t))).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// ShowEvents describes the events of the connection manager that are kept,
// from number seq on, in order.
func (d *Device) ShowEvents(seq uint64) []view.EventInfo {
	entries := d.CM.Log().Since(seq)
	list := make([]view.EventInfo, len(entries))
	for i, e := range entries {
		list[i] = view.EventInfo{Seq: e.Seq, Time: d.timeOf(e.At), Event: e.Event.String(), ID: e.ID, QP: e.QP,
			State: e.State,
			Local: e.Local, Remote: e.Remote, Status: e.Reason.Status(), Reason: e.Reason.String(),
			IRD: e.IRD, ORD: e.ORD, Private: e.PrivateLen}
		if e.Err != nil {
			list[i].Err = e.Err.Error()
		}
	}
	return list
}

// ShowLog describes the log's lines that are kept, from number seq on, in
// order.
func (d *Device) ShowLog(seq uint64) []view.LineInfo {
	lines := d.common.Log.Since(seq)
	list := make([]view.LineInfo, len(lines))
	for i, l := range lines {
		list[i] = view.LineInfo{Seq: l.Seq, Time: d.timeOf(l.At), Level: l.Level.String(), Topic: l.Topic.String(),
			Text: l.Text}
	}
	return list
}
