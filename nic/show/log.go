package show

import (
	"fmt"
	"time"

	"tapir/nic/cm"
	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// Log is what the NIC's layers have to say, as the settings ask for.
func (v *View) Log() *msglog.Log { return &v.Common.Log }

// System is the system's time of day at engine time t.
func (v *View) System(t frame.Time) frame.Stamp { return v.Common.System.At(t) }

// LogEvent says what happens to a connection.
func (v *View) LogEvent(e *cm.Entry) {
	if !v.Common.Log.On(msglog.CM) {
		return
	}
	v.Common.Log.Append(msglog.CM, func(b []byte) []byte {
		b = fmt.Appendf(b, "%v status %s", e.Event, e.Reason.Status())
		if e.Reason != (cm.Reason{}) {
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
func (v *View) logAsync(ev *verbs.AsyncEvent) {
	v.Common.Log.Append(msglog.WR, func(b []byte) []byte {
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

// NoteAsync says which asynchronous event there is, and logs that of a shared
// receive queue, which belongs to no connection, among theirs.
func (v *View) NoteAsync(ev verbs.AsyncEvent) {
	if v.Common.Log.On(msglog.WR) {
		v.logAsync(&ev)
	} else if ev.Err != nil {
		v.Common.Log.Say(msglog.Notice, msglog.WR, "async %v: %v", ev.Type, ev.Err)
	}
	if ev.Type == verbs.EventSRQLimit {
		v.CM.Note(cm.EvSRQLimit, nil, nil, cm.Reason{}, fmt.Errorf("SRQ %d: %d receives left", ev.SRQ.Num(),
			ev.SRQ.Len()))
	}
}

// timeOf is what the hardware clock shows at engine time t.
func (v *View) timeOf(t frame.Time) string {
	return time.Unix(0, int64(v.Common.PHC.At(t))).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// ShowEvents describes the events of the connection manager that are kept,
// from number seq on, in order.
func (v *View) ShowEvents(seq uint64) []view.EventInfo {
	return each(v.CM.Log().Since(seq), func(e cm.Entry) view.EventInfo {
		i := view.EventInfo{Seq: e.Seq, Time: v.timeOf(e.At), Event: string(e.Event), ID: e.ID, QP: e.QP,
			State: e.State,
			Local: e.Local, Remote: e.Remote, Status: e.Reason.Status(), Reason: e.Reason.String(),
			IRD: e.IRD, ORD: e.ORD, Private: e.PrivateLen}
		if e.Err != nil {
			i.Err = e.Err.Error()
		}
		return i
	})
}

// ShowLog describes the log's lines that are kept, from number seq on, in
// order.
func (v *View) ShowLog(seq uint64) []view.LineInfo {
	return each(v.Common.Log.Since(seq), func(l msglog.Line) view.LineInfo {
		return view.LineInfo{Seq: l.Seq, Time: v.timeOf(l.At), Level: l.Level.String(), Topic: l.Topic.String(),
			Text: l.Text}
	})
}
