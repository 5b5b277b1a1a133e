package iscsi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// InitiatorConfig says who logs in, and where.
type InitiatorConfig struct {
	Name    string
	Target  string // empty: a discovery session
	CHAP    CHAP   // User and Secret prove the initiator; MySecret is what the target has to know
	Digests bool   // ask for both
	Random  interface{ Uint64() uint64 }
	// Ready is called when the session is there, Failed at most once when there is none, or
	// none any more.
	Ready  func(now frame.Time)
	Failed func(err error, now frame.Time)
	// Notes are those of the NIC's capture; nil: none.
	Notes *frame.Notes
}

// Request is a SCSI command of an initiator. Its memory is the initiator's until Done.
type Request struct {
	LUN  uint64
	CDB  [16]byte
	Out  []byte // data for the target
	In   []byte // memory for the target's data
	Done func(r *Request, now frame.Time)

	Status   scsi.Status
	Sense    []byte // as it came
	Residual int    // octets of Out or In that did not move; negative: octets that had no room

	// Region is what RDMA knows the memory by, nil at first.
	Region any

	itt    uint32
	got    int    // octets of In
	asked  int    // octets of Out that R2Ts have asked for, or that were sent at once
	dataSN uint32 // of the next Data-In or R2T
	until  uint64 // octets of the stream when all is sent that the last R2T has asked for
}

// Error of sessions. Others say what the target did.
var (
	ErrAuthentication = errors.New("iscsi: the target does not prove who it is")
	ErrClosed         = errors.New("iscsi: the target has closed the connection")
)

// LoginError is the status that a target refuses a login with (RFC 7143 section 11.13.5).
type LoginError uint16

// Error names the status.
func (e LoginError) Error() string {
	return fmt.Sprintf("iscsi: login: %s (status %04x)", cmp.Or(loginErrors[e], "refused"), uint16(e))
}

var loginErrors = map[LoginError]string{
	notAuthenticated: "authentication failed", notAuthorized: "this initiator may not log in",
	noSuchTarget: "there is no target of that name", wrongVersion: "version", missingParameter: "missing parameter",
	tooManyConnections: "too many connections", wrongSessionType: "kind of session",
	noSuchSession: "no such session", invalidRequest: "invalid request",
	unavailable: "the target is not available", outOfResources: "out of resources",
}

// Initiator is a session of one connection.
type Initiator struct {
	cfg InitiatorConfig
	offloaded
	link Link
	rdma RDMA // nil: a stream
	out  output
	rd   iscsi.Reader
	over bool

	stage       byte
	loginText   []byte
	auth        keys.Auth
	par         keys.Params
	agreed      iscsi.Digests // once the login has ended
	isid        uint64
	tsih        uint16
	cmdSN       uint32
	maxCmdSN    uint32
	statSN      uint32 // the next that is expected
	header      iscsi.BHS
	outgoing    Outgoing // the command that is being sent, with its header
	itt         uint32
	requests    map[uint32]*Request
	waiting     []*Request // for the window
	borrowed    int        // commands that hardware had no task for when it took the session over
	targets     func([]iscsi.Pair, frame.Time)
	targetsText []byte
}

// NewInitiator begins a login on a connection that has been made.
func NewInitiator(cfg InitiatorConfig, link Link) *Initiator {
	i := &Initiator{cfg: cfg, link: link, par: keys.Defaults(), cmdSN: 1, maxCmdSN: 1,
		isid: 2<<46 | cfg.Random.Uint64()>>18, requests: map[uint32]*Request{}} // RFC 7143 section 11.12.5: random
	i.rd.Max = loginSegment
	i.out.notes = cfg.Notes
	i.rdma, _ = link.(RDMA)
	text := iscsi.AppendText(nil, "InitiatorName", cfg.Name)
	if cfg.Target == "" {
		text = iscsi.AppendText(text, "SessionType", "Discovery")
	} else {
		text = iscsi.AppendText(iscsi.AppendText(text, "SessionType", "Normal"), "TargetName", cfg.Target)
	}
	if cfg.CHAP.User != "" {
		i.sendLogin(security<<2, iscsi.AppendText(text, "AuthMethod", "CHAP"))
		return i
	}
	i.sendLogin(iscsi.Transit|security<<2|operational, iscsi.AppendText(text, "AuthMethod", "None"))
	return i
}

// Next is how many octets there are to send at off, at most limit.
func (i *Initiator) Next(off uint64, limit int) int { return i.out.next(off, limit) }

// Render writes octets that Next has told of to p.
func (i *Initiator) Render(off uint64, p []byte) { i.out.render(off, p) }

// Acked says that the target has everything before off.
func (i *Initiator) Acked(off uint64) {
	if i.out.acked(off, nil); i.hw != nil {
		i.submit()
	}
}

// Gone says that the connection has ended.
func (i *Initiator) Gone(now frame.Time) { i.fail(ErrClosed, now) }

// fail ends the session. Requests that are not done never will be.
func (i *Initiator) fail(err error, now frame.Time) {
	if i.over {
		return
	}
	i.over = true
	i.link.Abort()
	i.cfg.Failed(err, now)
}

// Receive takes what the target has sent (borrowed), in order.
func (i *Initiator) Receive(data []byte, now frame.Time) {
	for !i.over {
		n, ev, err := i.rd.Next(data)
		data = data[n:]
		switch {
		case err != nil:
			if errors.Is(err, iscsi.ErrHeaderDigest) {
				noteBad(i.cfg.Notes, "header", &i.rd.BHS)
				i.violation(ErrHeaderDigest)
			} else {
				i.violation(ErrSegmentLength)
			}
			i.fail(err, now)
		case ev == iscsi.More:
			return
		case ev == iscsi.Head:
			note(i.cfg.Notes, &i.rd.BHS)
			i.place(&i.rd.BHS)
		case i.rd.DataBad:
			noteBad(i.cfg.Notes, "data", &i.rd.BHS)
			i.violation(ErrUnknown)
			i.fail(errors.New("iscsi: data digest is wrong"), now) // RFC 7143 section 7.8: session recovery
		default:
			i.taken(now)
		}
	}
}

// taken has a whole PDU taken: data and requests for it where they come, others by the
// completion queue.
func (i *Initiator) taken(now frame.Time) {
	h, data := &i.rd.BHS, i.rd.Data
	bad := NoError
	if i.stage == full {
		bad = i.check(h, data)
	}
	op := h.Opcode()
	switch {
	case bad != NoError:
	case i.hw != nil && (op == iscsi.R2T || op == iscsi.DataIn && h[1]&iscsi.Status == 0):
		i.hw.Received()
		i.pdu(h, data, now)
	default:
		bad = i.complete(h, data, now, i.pdu)
	}
	if bad != NoError {
		i.violation(bad)
		i.fail(bad, now)
	}
}

// send sends a PDU. data stays where it is until it is acknowledged.
func (i *Initiator) send(h *iscsi.BHS, data []byte) {
	h.Put(iscsi.ExpStatSN, i.statSN)
	if i.rdma != nil {
		i.message(&Outgoing{BHS: h, Data: data})
		return
	}
	i.out.add(h, data, nil, i.par.Digests)
	i.link.Kick()
}

// place gives the data of a Data-In its place.
func (i *Initiator) place(h *iscsi.BHS) {
	if h.Opcode() != iscsi.DataIn {
		return
	}
	r, off := i.requests[h.U32(iscsi.ITT)], int(h.U32(iscsi.Offset))
	if r != nil && off == r.got && off+h.DataLen() <= len(r.In) {
		i.rd.Into(r.In[off:])
	}
}

// pdu takes a whole PDU.
func (i *Initiator) pdu(h *iscsi.BHS, data []byte, now frame.Time) {
	op := h.Opcode()
	if i.over {
		return // it has waited in a completion queue
	}
	if i.stage != full && op != iscsi.LoginRsp {
		i.fail(fmt.Errorf("iscsi: PDU %#x during the login", op), now)
		return
	}
	r := i.requests[h.U32(iscsi.ITT)]
	if i.stage != full {
		i.statSN = h.U32(iscsi.StatSN) + 1
	}
	if last := h.U32(iscsi.MaxCmdSN); iscsi.Less(i.maxCmdSN, last) {
		i.maxCmdSN = last
	}
	switch {
	case op == iscsi.LoginRsp:
		i.loginRsp(h, data, now)
	case op == iscsi.TextRsp:
		i.textRsp(h, data, now)
	case op == iscsi.NopIn && h.U32(iscsi.TTT) != iscsi.Unassigned:
		i.pong(h)
	case op == iscsi.Async:
		i.fail(fmt.Errorf("iscsi: the target ends the session (event %d)", h[36]), now)
	case op == iscsi.LogoutRsp:
		i.link.CloseBoth()
	case op == iscsi.NopIn:
	case op == iscsi.Reject && h[2] == rejectDigest && len(data) > 0 && iscsi.Opcode(data[0]&0x3f) == iscsi.DataOut:
		// The status of the command follows (RFC 7143 section 7.8).
	case r == nil, op == iscsi.Reject:
		i.fail(fmt.Errorf("iscsi: PDU %#x for no task, or a Reject (reason %d)", op, h[2]), now)
	case op == iscsi.DataIn:
		i.dataIn(r, h, data, now)
	case op == iscsi.R2T:
		i.r2t(r, h)
	case op == iscsi.Response:
		i.response(r, h, data, now)
	default:
		i.fail(fmt.Errorf("iscsi: unexpected PDU %#x", op), now)
	}
	i.submit()
}

// Submit sends a command as soon as the target's window allows.
func (i *Initiator) Submit(r *Request) {
	r.got, r.asked, r.dataSN, r.until, r.Residual, r.Sense, r.Status = 0, 0, 0, 0, 0, nil, 0
	i.waiting = append(i.waiting, r)
	i.submit()
}

func (i *Initiator) submit() {
	for len(i.waiting) > 0 && !i.over && i.stage == full && !iscsi.Less(i.maxCmdSN, i.cmdSN) && !i.out.full() &&
		(i.rdma == nil || len(i.requests) < window) { // answers need receives
		if i.hw != nil && !i.hw.TakeTask(i.submit) {
			return
		}
		r := i.waiting[0]
		i.waiting = slices.Delete(i.waiting, 0, 1)
		i.command(r)
	}
}

// newITT makes an initiator task tag.
func (i *Initiator) newITT() uint32 {
	if i.itt++; i.itt == iscsi.Unassigned {
		i.itt = 1
	}
	return i.itt
}

// command sends a command with as much immediate data as it may.
func (i *Initiator) command(r *Request) {
	h, m := &i.header, &i.outgoing
	*h = iscsi.BHS{}
	h[0], h[1] = byte(iscsi.Command), iscsi.Final|1 // simple
	immediate := 0
	switch {
	case len(r.Out) > 0:
		h[1] |= iscsi.Write
		h.Put(iscsi.Expected, uint32(len(r.Out)))
		if i.par.ImmediateData && (i.rdma == nil || i.par.Tagged) {
			immediate = min(len(r.Out), i.par.First, i.par.Send)
		}
	case len(r.In) > 0:
		h[1] |= iscsi.Read
		h.Put(iscsi.Expected, uint32(len(r.In)))
	}
	r.itt, r.asked = i.newITT(), immediate
	i.requests[r.itt] = r
	h[8], h[9] = byte(r.LUN>>56), byte(r.LUN>>48)
	h.Put(iscsi.ITT, r.itt)
	h.Put(iscsi.CmdSN, i.cmdSN)
	i.cmdSN++
	copy(h.CDB(), r.CDB[:])
	if i.rdma == nil {
		i.send(h, r.Out[:immediate])
		return
	}
	*m = Outgoing{BHS: h, Data: r.Out[:immediate]}
	if immediate < len(r.Out) || len(r.In) > 0 {
		var err error
		if m.Advert, err = i.rdma.Advertise(r, r.Out[immediate:]); err != nil {
			i.link.Abort()
			return
		}
	}
	i.message(m)
}

// r2t sends the data that a target asks for.
func (i *Initiator) r2t(r *Request, to *iscsi.BHS) {
	off, n := int(to.U32(iscsi.Offset)), int(to.U32(iscsi.Desired))
	for sn, end := uint32(0), off+n; off < end; sn++ {
		k := min(end-off, i.par.Send)
		var h iscsi.BHS
		h[0] = byte(iscsi.DataOut)
		if off+k == end {
			h[1] = iscsi.Final
		}
		copy(h[8:16], to[8:16])
		h.Put(iscsi.ITT, r.itt)
		h.Put(iscsi.TTT, to.U32(iscsi.TTT))
		h.Put(iscsi.DataSN, sn)
		h.Put(iscsi.Offset, uint32(off))
		i.send(&h, r.Out[off:off+k])
		off += k
	}
	r.until = i.out.end
}

// dataIn takes data, which place has put where it belongs.
func (i *Initiator) dataIn(r *Request, h *iscsi.BHS, data []byte, now frame.Time) {
	if r.got += len(data); h[1]&iscsi.Status != 0 {
		i.done(r, h, scsi.Status(h[3]), now)
	}
}

// response takes the status of a command.
func (i *Initiator) response(r *Request, h *iscsi.BHS, data []byte, now frame.Time) {
	if len(data) >= 2 {
		r.Sense = append([]byte(nil), data[2:min(len(data), 2+int(data[0])<<8+int(data[1]))]...)
	}
	if h[2] != 0 {
		i.fail(fmt.Errorf("iscsi: the target could not do a command (response %d)", h[2]), now)
		return
	}
	i.done(r, h, scsi.Status(h[3]), now)
}

func (i *Initiator) done(r *Request, h *iscsi.BHS, s scsi.Status, now frame.Time) {
	delete(i.requests, r.itt)
	switch {
	case i.rdma != nil:
		i.rdma.Withdraw(r)
		r.got = len(r.In) // as far as it says itself
	case i.borrowed > 0:
		i.borrowed--
	case i.hw != nil:
		i.hw.GiveTask()
	}
	r.Status = s
	switch {
	case h[1]&iscsi.Underflow != 0:
		r.Residual = int(h.U32(iscsi.Residual))
	case h[1]&iscsi.Overflow != 0:
		r.Residual = -int(h.U32(iscsi.Residual))
	}
	if s == scsi.Good && len(r.In) > 0 && r.got+max(r.Residual, 0) < len(r.In) {
		i.fail(errors.New("iscsi: data is missing"), now)
		return
	}
	r.Done(r, now)
}

// pong answers a ping.
func (i *Initiator) pong(to *iscsi.BHS) {
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.NopOut)|0x40, iscsi.Final
	copy(h[8:16], to[8:16])
	h.Put(iscsi.ITT, iscsi.Unassigned)
	h.Put(iscsi.TTT, to.U32(iscsi.TTT))
	h.Put(iscsi.CmdSN, i.cmdSN)
	i.send(&h, nil)
}

// Logout ends the session in order.
func (i *Initiator) Logout() {
	i.over = i.over || i.stage != full
	if i.over {
		i.link.Abort()
		return
	}
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.LogoutReq)|0x40, iscsi.Final
	h.Put(iscsi.ITT, i.newITT())
	h.Put(iscsi.CmdSN, i.cmdSN)
	i.send(&h, nil)
}

// Targets asks a discovery session for targets and their addresses.
func (i *Initiator) Targets(done func(list []iscsi.Pair, now frame.Time)) {
	i.targets, i.targetsText = done, nil
	i.askTargets(iscsi.Unassigned, iscsi.AppendText(nil, "SendTargets", "All"))
}

func (i *Initiator) askTargets(ttt uint32, text []byte) {
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.TextReq)|0x40, iscsi.Final
	h.Put(iscsi.ITT, i.newITT())
	h.Put(iscsi.TTT, ttt)
	h.Put(iscsi.CmdSN, i.cmdSN)
	i.send(&h, text)
}

// textRsp takes part of a list of targets.
func (i *Initiator) textRsp(h *iscsi.BHS, data []byte, now frame.Time) {
	if i.targetsText = append(i.targetsText, data...); len(i.targetsText) > maxTargets || i.targets == nil {
		i.fail(errors.New("iscsi: too much text"), now)
		return
	}
	if h[1]&iscsi.Final == 0 {
		i.askTargets(h.U32(iscsi.TTT), nil)
		return
	}
	list, err := iscsi.ParseText(i.targetsText)
	if err != nil {
		i.fail(err, now)
		return
	}
	i.targets(list, now)
}

// maxTargets is how many octets a list of targets has at most.
const maxTargets = 1 << 20
