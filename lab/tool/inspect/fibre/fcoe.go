package fibre

import (
	"bytes"
	"errors"
	"fmt"

	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
)

// pair is two N_Ports, the lower first.
type pair struct{ a, b fc.ID }

func pairOf(a, b fc.ID) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b}
}

// login is what two N_Ports have agreed on.
type login struct{ port, process bool }

// exchange is one, by its originator, on one hop: a forwarder sends its frames again.
type exchange struct {
	hop      hop
	from, to fc.ID
	ox       uint16
}

// hop is two MAC addresses, the lower first.
type hop struct{ a, b ether.Addr }

func hopOf(h ether.Header) hop {
	if bytes.Compare(h.Src[:], h.Dst[:]) > 0 {
		return hop{h.Dst, h.Src}
	}
	return hop{h.Src, h.Dst}
}

// task is an exchange that is open.
type task struct {
	typ    fc.Type
	name   string
	els    fc.ELS
	seq    [2]sequence // the latest of the originator, of the responder
	cmd    fc.SCSICommand
	is     bool // a SCSI command
	vague  bool // frames are missing
	begins bool // the frame in hand begins a sequence
	moved  uint32
	to     uint32 // end of the written data that is asked for
}

type sequence struct {
	any  bool // one has been seen
	open bool // its end is to come
	id   uint8
	next uint16
}

var services = map[fc.ELS]string{
	fc.LSRJT: "LS_RJT", fc.LSACC: "LS_ACC", fc.PLOGI: "PLOGI", fc.FLOGI: "FLOGI", fc.LOGO: "LOGO", fc.RTV: "RTV",
	fc.ECHO: "ECHO", fc.RRQ: "RRQ", fc.REC: "REC", fc.PRLI: "PRLI", fc.PRLO: "PRLO", fc.PDISC: "PDISC",
	fc.FDISC: "FDISC", fc.ADISC: "ADISC", fc.FAN: "FAN", fc.RSCN: "RSCN", fc.SCR: "SCR", fc.RNID: "RNID",
}

var kinds = map[fc.RCtl]string{
	fc.UnsolicitedCtl: "CT request", fc.SolicitedCtl: "CT reply", fc.SolicitedData: "FCP_DATA",
	fc.DataDescriptor: "FCP_XFER_RDY", fc.UnsolicitedCmd: "FCP_CMND", fc.CommandStatus: "FCP_RSP",
	fc.Abort: "ABTS", fc.AbortAccept: "BA_ACC", fc.AbortReject: "BA_RJT", fc.PortReject: "P_RJT",
	fc.FabricReject: "F_RJT", fc.PortBusy: "P_BSY",
}

// FCoE judges a frame of FCoE: its Ethernet header and what follows.
func (f *Fabric) FCoE(eh ether.Header, body []byte) {
	s, e, b, err := fcoe.Parse(body)
	switch {
	case errors.Is(err, fcoe.ErrCRC):
		f.bad(frameCRC, "")
		return
	case errors.Is(err, fcoe.ErrDelimiter):
		f.bad(frameDelimiter, "%#x, %#x", uint8(s), uint8(e))
		return
	case err != nil:
		f.bad(frameShort, "%d octets", len(body))
		return
	}
	h, payload, err := fc.Parse(b)
	if err != nil {
		f.bad(frameHeader, "")
		return
	}
	name := kinds[h.RCtl]
	if h.RCtl == fc.ELSRequest || h.RCtl == fc.ELSReply {
		name = services[fc.Command(payload)]
	}
	if name == "" {
		name = fmt.Sprintf("R_CTL 0x%02x", uint8(h.RCtl))
	}
	f.to.Frame(h.S.String(), h.D.String(), name, fmt.Sprintf("OX_ID 0x%04x, SEQ_ID %d, SEQ_CNT %d, %d octets", h.OXID,
		h.SeqID, h.SeqCnt, len(payload)), len(payload))
	if (e == fcoe.EOFt) != (h.FCtl&fc.End != 0) {
		f.bad(frameEOF, "%s", name)
	}
	f.address(eh, &h, name, len(payload))
	f.exchange(hopOf(eh), &h, name, payload, s)
}

// address judges who has sent a frame, and to whom.
func (f *Fabric) address(eh ether.Header, h *fc.Header, name string, n int) {
	src := fip.Map(uint32(eh.Src[0])<<16 | uint32(eh.Src[1])<<8 | uint32(eh.Src[2]))
	if (f.maps[src] || src == fip.DefaultMap || src == fip.VN2VNMap) && src.MAC(h.S) != eh.Src && h.S != 0 {
		f.bad(frameSource, "%v of %v", eh.Src, h.S)
	}
	if p := f.ports[h.S]; p != nil && !p.in && src.MAC(h.S) == eh.Src { // not what a forwarder has taken before
		f.bad(frameLogin, "%v: %s", h.S, name)
	}
	if p := f.ports[h.D]; n > fc.MaxPayload || p != nil && p.size > 0 && n > int(p.size) {
		f.bad(frameLong, "%d octets", n)
	}
}

// exchange judges a frame in its sequence and exchange.
func (f *Fabric) exchange(on hop, h *fc.Header, name string, payload []byte, s fcoe.SOF) {
	if h.RCtl == fc.Abort || h.RCtl == fc.AbortAccept || h.RCtl == fc.AbortReject || h.RCtl.LinkControl() {
		f.abort(on, h)
		return
	}
	k, side := exchange{on, h.S, h.D, h.OXID}, 0
	if h.FCtl&fc.FromResponder != 0 {
		k, side = exchange{on, h.D, h.S, h.OXID}, 1
	}
	t := f.open[k]
	opens := side == 0 && h.FCtl&fc.First != 0 && h.SeqCnt == 0
	if opens {
		again := t != nil && t.els != 0 && t.typ == h.Type // link services are sent again after a while
		if t != nil && !t.vague && !f.lacking && !again {
			f.bad(exchInUse, "0x%04x: %s in %s", h.OXID, name, t.name)
		}
		t = &task{typ: h.Type, name: name}
		f.open[k] = t
	}
	if t == nil {
		f.pairs[pairOf(h.S, h.D)] = &login{port: true, process: true} // as far as anybody knows
		f.lacking = true
		f.to.Part("an exchange is under way whose beginning the capture does not have")
		return
	}
	f.sequence(h, t, side, s)
	switch {
	case h.Type == fc.TypeELS:
		f.service(on, h, t, payload)
	case h.Type == fc.TypeFCP:
		f.fcp(h, t, payload, opens)
	}
	if h.FCtl&(fc.Last|fc.End) == fc.Last|fc.End {
		delete(f.open, k)
	}
}

// abort ends what is known of an exchange.
func (f *Fabric) abort(on hop, h *fc.Header) {
	for _, k := range []exchange{{on, h.S, h.D, h.OXID}, {on, h.D, h.S, h.OXID}} {
		if h.RCtl == fc.Abort {
			if t := f.open[k]; t != nil {
				t.vague = true
			}
		} else {
			delete(f.open, k)
		}
	}
}

// sequence judges SEQ_CNT and the delimiter that goes with it. It goes on through the
// sequences of an exchange, or begins with 0 in each.
func (f *Fabric) sequence(h *fc.Header, t *task, side int, s fcoe.SOF) {
	q := &t.seq[side]
	begins := !q.open || q.id != h.SeqID // also behind one whose end is missing
	switch {
	case begins:
		switch {
		case q.open || h.SeqCnt != 0 && h.SeqCnt != q.next || s != fcoe.SOFi3:
			f.lacks(t)
		case h.SeqID != q.id+1 && (q.any || h.SeqID != 0): // not all count so
			t.vague = true
		}
	case s == fcoe.SOFi3:
		f.bad(frameSOF, "SEQ_CNT %d", h.SeqCnt)
		t.vague = true
	case int16(h.SeqCnt-q.next) < 0:
		f.bad(seqCount, "%d instead of %d", h.SeqCnt, q.next)
		t.vague = true
	case h.SeqCnt != q.next:
		f.lacks(t)
	}
	t.begins = begins
	*q = sequence{true, h.FCtl&fc.End == 0, h.SeqID, h.SeqCnt + 1}
}

// lacks notes that frames of an exchange are missing.
func (f *Fabric) lacks(t *task) {
	t.vague, f.lacking = true, true
	f.to.Part("frames are missing: SEQ_CNT is not the next of its sequence")
}

// service takes a link service: logins of ports and processes.
func (f *Fabric) service(on hop, h *fc.Header, t *task, payload []byte) {
	cmd := fc.Command(payload)
	if h.RCtl == fc.ELSRequest {
		t.els, t.name = cmd, services[cmd]
	}
	k := pairOf(h.S, h.D)
	l := f.pairs[k]
	if l == nil {
		l = &login{}
		f.pairs[k] = l
	}
	switch {
	case cmd == fc.LOGO || t.els == fc.LOGO:
		delete(f.pairs, k)
		if h.D == fc.FabricPort {
			f.leave(h.S)
		}
	case t.els == fc.PLOGI && (cmd == fc.PLOGI || cmd == fc.LSACC):
		l.port = true
		if cmd == fc.PLOGI { // FC-LS-2 section 6.3: it ends what was open between the two
			f.drop(func(x exchange) bool { return x.hop == on && pairOf(x.from, x.to) == k && f.open[x] != t })
		}
		if x, err := fc.ParseLogin(payload); err == nil && f.ports[h.S] != nil {
			f.ports[h.S].size = x.MaxPayload
			if x.Class3 && x.Class3Size > 0 {
				f.ports[h.S].size = min(x.MaxPayload, x.Class3Size)
			}
		}
	case t.els == fc.PRLI && (cmd == fc.PRLI || cmd == fc.LSACC):
		l.process = true
	case t.els == fc.PRLO:
		l.process = false
	}
}
