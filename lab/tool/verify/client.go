package verify

import (
	"cmp"
	"fmt"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// proof is what the success of a step needs in addition to its completion.
type proof uint8

const (
	nothing  proof = iota
	answered       // an answer with length and sum
	echoed         // the same octets again
	compared       // octets read that are those of the model
)

// client works through the steps of one connection.
type client struct {
	c     *conn
	peer  offer
	model []byte // what the server's memory must hold

	at       int // index of the current step
	step     step
	proof    proof
	wr       verbs.SendWR
	due      int // completions, answers outstanding
	answers  int
	started  frame.Time
	timer    func()
	over     bool // all is done, or one step failed
	hasEnded bool // the connection
	lastID   uint64
}

func newClient(c *conn) *client {
	k := &client{c: c, model: make([]byte, half), timer: func() {}}
	fillServer(k.model)
	return k
}

func (k *client) cancel() { k.timer() }

// begin follows the server's answer.
func (k *client) begin(private []byte, now frame.Time) {
	var ok bool
	if k.peer, ok = parse[offer](private); !ok || k.peer.Magic != magic {
		k.finish(fmt.Sprintf("the server is no verifier: its private data %s are not the %d octets of an offer, "+
			"which begin with %x", octets(private), offerLen, render(uint32(magic))), now)
		return
	}
	k.after(k.c.run.job.Settle, k.next, now)
}

// after calls fn later, in place of what the timer was for.
func (k *client) after(d time.Duration, fn func(now frame.Time), now frame.Time) {
	k.timer()
	k.timer = k.c.run.dev.Schedule(now.Add(d), fn)
}

// next starts the current step, or ends the connection behind the last one.
func (k *client) next(now frame.Time) {
	if k.over {
		return
	}
	if k.at == len(k.c.run.steps) {
		k.quit(now)
		return
	}
	k.step, k.started = k.c.run.steps[k.at], now
	pause := time.Duration(k.step.size) * time.Millisecond
	switch k.step.name {
	case "sleep":
		k.after(pause, func(now frame.Time) { k.finish("", now) }, now)
	case "gone":
		if k.hasEnded {
			k.finish("", now)
			return
		}
		k.after(pause, func(now frame.Time) { k.finish("still connected", now) }, now)
	case "abort":
		_ = k.c.id.Disconnect(true, now) // one that has ended already is fine, too
		k.finish("", now)
	default:
		k.after(k.c.run.job.Patience, func(now frame.Time) { k.finish("timeout", now) }, now)
		k.post(now)
	}
}

// post fills the source and posts the step's work requests.
func (k *client) post(now frame.Time) {
	c, n := k.c, k.step.size
	src := c.buf[:n]
	fillStep(src, k.at+1)
	base := c.mrs[all].Addr()
	sge := verbs.SGE{Addr: base, Length: uint32(n), LKey: c.mrs[all].LKey()}
	k.wr = verbs.SendWR{RemoteAddr: k.peer.Addr, RKey: k.peer.RW, SGEs: []verbs.SGE{sge}}
	k.prepare()
	switch {
	case k.wr.Opcode == verbs.OpRead:
		k.wr.SGEs[0].Addr = base + half
		clear(c.buf[half : half+n])
	case k.proof == echoed:
		copy(src, echoMark)
	}
	if k.wr.Flags&verbs.Inline != 0 {
		k.wr.Inline, k.wr.SGEs = src, nil
	}
	k.due, k.answers = k.step.count, 0
	if k.proof == answered || k.proof == echoed {
		k.answers = k.step.count
	}
	for i := range k.step.count {
		k.lastID++
		wr := k.wr
		wr.ID = k.lastID
		if k.step.name != "burst" || i == k.step.count-1 {
			wr.Flags |= verbs.Signaled
		} else {
			k.due--
		}
		if _, err := c.qp.PostSend(wr); err != nil {
			k.finish("post: "+err.Error(), now)
			return
		}
	}
}

// complete handles a completion.
func (k *client) complete(wc *verbs.WC, now frame.Time) {
	switch {
	case k.over || wc.ID >= recvID && wc.Status != verbs.StatusSuccess:
	case wc.ID >= recvID:
		k.answer(wc, now)
	case wc.Status != verbs.StatusSuccess:
		k.finish(wc.Status.String(), now)
	default:
		k.due--
		k.settle(now)
	}
}

// answer compares what the server answers with what was sent.
func (k *client) answer(wc *verbs.WC, now frame.Time) {
	i := int(wc.ID - recvID)
	got, sent := k.c.slot(i)[:wc.ByteLen], k.c.buf[:k.step.size]
	wrong := differs(got, sent)
	switch {
	case k.answers == 0:
		wrong = fmt.Sprintf("the server sends %s unasked", octets(got))
	case k.proof == answered:
		wrong = wrongAnswer(got, sent)
	}
	_ = k.c.postRecv(i) // fails only when the connection has ended
	if wrong != "" {
		k.finish(wrong, now)
		return
	}
	k.answers--
	k.settle(now)
}

// wrongAnswer says how got differs from the answer to a Send of sent.
func wrongAnswer(got, sent []byte) string {
	a, _ := parse[answer](got)
	switch {
	case len(got) != answerLen || a.Magic != magic:
		return fmt.Sprintf("the answer, %s, is none of a verifier: want %d octets that begin with %x", octets(got),
			answerLen, render(uint32(magic)))
	case int(a.Length) != len(sent):
		return fmt.Sprintf("the server has received %d octets instead of %d", a.Length, len(sent))
	case a.Sum != sum(sent):
		return fmt.Sprintf("the server has received other octets: FNV-1a sum %08x instead of %08x", a.Sum, sum(sent))
	}
	return ""
}

// differs says where got is not want.
func differs(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d octets came back instead of %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("octet %d came back as %#02x instead of %#02x", i, got[i], want[i])
		}
	}
	return ""
}

// octets is a short form of b.
func octets(b []byte) string {
	switch {
	case len(b) == 0:
		return "(none)"
	case len(b) > 8:
		return fmt.Sprintf("(%d octets: %x...)", len(b), b[:8])
	}
	return fmt.Sprintf("(%d octets: %x)", len(b), b)
}

// settle ends the step when nothing is outstanding.
func (k *client) settle(now frame.Time) {
	if k.due > 0 || k.answers > 0 {
		return
	}
	n := k.step.size
	if k.wr.Opcode == verbs.OpWrite && k.wr.RemoteAddr == k.peer.Addr &&
		(k.wr.RKey == k.peer.RW || k.wr.RKey == k.peer.WO) {
		copy(k.model, k.c.buf[:n])
	}
	wrong := ""
	if k.proof == compared {
		wrong = differs(k.c.buf[half:half+n], k.model[:n])
	}
	k.finish(wrong, now)
}

// finish books the step; the next follows, or after a failure the end.
func (k *client) finish(failure string, now frame.Time) {
	if k.over {
		return
	}
	k.timer()
	r := &k.c.report
	if k.step.name == "" { // none has begun
		r.End = failure
		k.quit(now)
		return
	}
	r.Steps = append(r.Steps, StepReport{Step: k.step.String(), Elapsed: now.Sub(k.started), Error: failure})
	k.at++
	if failure != "" {
		k.quit(now)
		return
	}
	k.after(0, k.next, now)
}

// gone follows the end of the connection.
func (k *client) gone(now frame.Time) {
	k.hasEnded = true
	switch {
	case k.over:
	case k.step.name == "gone":
		k.finish("", now)
	case k.at < len(k.c.run.steps):
		k.finish(cmp.Or(k.c.report.End, "disconnected"), now)
	}
}

// quit ends the connection in order.
func (k *client) quit(now frame.Time) {
	k.over = true
	k.timer()
	if !k.hasEnded {
		_ = k.c.id.Disconnect(false, now) // one that is ending needs none
	}
}

// kinds are the work requests of steps that are right; the others are in
// mistakes.
var kinds = map[string]struct {
	opcode verbs.Opcode
	flags  verbs.SendFlags
	proof  proof
}{
	"write":     {opcode: verbs.OpWrite},
	"burst":     {opcode: verbs.OpWrite},
	"writei":    {verbs.OpWrite, verbs.Inline, nothing},
	"read":      {verbs.OpRead, 0, compared},
	"readn":     {verbs.OpRead, 0, compared},
	"echo":      {verbs.OpSend, 0, echoed},
	"send":      {verbs.OpSend, 0, answered},
	"sendi":     {verbs.OpSend, verbs.Inline, answered},
	"sendse":    {verbs.OpSend, verbs.Solicited, answered},
	"sendinv":   {verbs.OpSendInv, 0, answered},
	"sendseinv": {verbs.OpSendInv, verbs.Solicited, answered},
}

// mistakes point a Write or Read of n octets at what is wrong. Their steps are
// called after them, behind w or r.
var mistakes = map[string]func(w *verbs.SendWR, o *offer, n int){
	"bad":    func(w *verbs.SendWR, _ *offer, _ int) { w.RKey ^= 0x00555500 },
	"key":    func(w *verbs.SendWR, _ *offer, _ int) { w.RKey ^= 1 },
	"bounds": func(w *verbs.SendWR, o *offer, n int) { w.RemoteAddr += uint64(o.Length) - uint64(n/2) },
	"low":    func(w *verbs.SendWR, _ *offer, _ int) { w.RemoteAddr -= 8 },
	"ro":     func(w *verbs.SendWR, o *offer, _ int) { w.RKey = o.RO },
	"wo":     func(w *verbs.SendWR, o *offer, _ int) { w.RKey = o.WO },
	"pd":     func(w *verbs.SendWR, o *offer, _ int) { w.RKey = o.Other },
	"wrap":   func(w *verbs.SendWR, _ *offer, _ int) { w.RemoteAddr = ^uint64(7) },
}

// prepare turns the name of the step into a work request to the server's
// buffer.
func (k *client) prepare() {
	w, name := &k.wr, k.step.name
	kind, right := kinds[name]
	w.Opcode, w.Flags, k.proof = kind.opcode, kind.flags, kind.proof
	if kind.opcode == verbs.OpSendInv {
		w.Invalidate = k.peer.WO
	}
	if !right {
		w.Opcode = map[byte]verbs.Opcode{'w': verbs.OpWrite, 'r': verbs.OpRead}[name[0]]
		mistakes[name[1:]](w, &k.peer, k.step.size)
	}
}
