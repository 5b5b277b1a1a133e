package verbs

import (
	"fmt"
	"strconv"

	"tapir/nic/msglog"
)

// SetLog gives the device a log for the topics obj, mm, wr and data; nil takes it
// back.
func (d *Device) SetLog(l *msglog.Log) { d.log = l }

// Log is what SetLog was given, for the layers above.
func (d *Device) Log() *msglog.Log { return d.log }

func (d *Device) logObject(what string, k kind, num uint32) {
	if d.log.On(msglog.Obj) {
		d.log.Addf(msglog.Obj, "%s %s %d, %d exist", what, kindNames[k], num, d.objects[k])
	}
}

// logRegion says what is done to the memory behind m's STag.
func (m *MR) logRegion(what string) {
	if l := m.pd.dev.log; l.On(msglog.MM) {
		l.Addf(msglog.MM, "%s MR %d PD %d STag %#08x addr %#x len %d access %v", what, m.num, m.pd.num, m.stag, m.addr,
			m.length, m.access)
	}
}

// logWindow says what is done to w.
func (w *MW) logWindow(what string) {
	if l := w.pd.dev.log; l.On(msglog.MM) {
		l.Addf(msglog.MM, "%s MW %d type %v MR %d STag %#08x addr %#x len %d access %v", what, w.num, w.kind, w.mr.num,
			w.stag, w.addr, w.length, w.access)
	}
}

// dataShown is how many octets of a piece of memory its line shows.
const dataShown = 16

// logData says which octets at off were written to the region, or read.
func (r *Region) logData(p []byte, off uint64, write bool) {
	r.pd.dev.log.Append(msglog.Data, func(b []byte) []byte {
		verb := "read"
		if write {
			verb = "write"
		}
		b = fmt.Appendf(b, "%s MR %d STag %#08x offset %d len %d: % x", verb, r.mr.num, r.stag, off, len(p),
			p[:min(len(p), dataShown)])
		if len(p) > dataShown {
			b = append(b, "..."...)
		}
		return b
	})
}

// logSend says what was posted to the send queue.
func (q *QP) logSend(w *SendWQE) {
	q.dev.log.Append(msglog.WR, func(b []byte) []byte {
		b = number(b, "QP ", uint64(q.num))
		b = number(b, " post WR ", w.ID)
		b = append(append(b, ' '), w.Opcode.String()...)
		b = number(b, " SGEs ", uint64(len(w.SGEs)))
		return number(b, " len ", w.Length)
	})
}

// logRecv says what was posted to the receive queue of owner num.
func (d *Device) logRecv(k kind, num uint32, wr *RecvWR) {
	if !d.log.On(msglog.WR) {
		return
	}
	d.log.Append(msglog.WR, func(b []byte) []byte {
		b = number(append(append(b, kindNames[k]...), ' '), "", uint64(num))
		b = number(b, " post WR ", wr.ID)
		b = number(b, " receive SGEs ", uint64(len(wr.SGEs)))
		return number(b, " len ", sgeLength(wr.SGEs))
	})
}

// logDone says what has completed.
func (c *CQ) logDone(wc *WC) {
	c.dev.log.Append(msglog.WR, func(b []byte) []byte {
		b = number(b, "QP ", uint64(wc.QP.num))
		b = number(b, " done WR ", wc.ID)
		b = append(append(b, ' '), wc.Opcode.String()...)
		b = append(append(b, ": "...), wc.Status.String()...)
		b = number(b, " len ", uint64(wc.ByteLen))
		return number(b, " CQ ", uint64(c.num))
	})
}

// number appends a name and a number.
func number(b []byte, name string, n uint64) []byte {
	return strconv.AppendUint(append(b, name...), n, 10)
}
