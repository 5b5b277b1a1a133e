package script

import (
	"errors"
	"strings"

	"tapir/nic/verbs"
)

var errNoID = errors.New("there is no connection yet")

// accessBits are the rights of a region by name; lr is none of them.
var accessBits = map[string]verbs.Access{
	"lr": 0, "lw": verbs.LocalWrite, "rw": verbs.RemoteWrite | verbs.LocalWrite, "rr": verbs.RemoteRead,
	"ra": verbs.RemoteAtomic | verbs.LocalWrite,
}

// parseMR reads: mr NAME LENGTH [RIGHTS] [pd NAME] [addr N].
func parseMR(l *line) action {
	name := l.next("a name for the region")
	if m := (&pdu{kind: &pduKinds[0]}); !isName(name.text) || m.isWord(name.text) || name.text == "untouched" {
		panic(l.at(name, "%q: expected a name for the region, of letters and digits and none of the words of messages",
			name.text))
	}
	size, _ := l.integer("a length in octets", 0, maxPayload)
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	pd, addr := "1", uint64(0)
	l.options(readers{
		"pd":   domain(&pd),
		"addr": unsigned(&addr, "an address", 1<<64-1),
		"":     func(l *line) { access = parseAccess(l, l.next("")) },
	}, "")
	return &command{func(r *runner, _ *peer) string {
		return r.world.register(name.text, int(size), access, pd, addr)
	}}
}

// domain is the name of a protection domain.
func domain(name *string) reader {
	return func(l *line) { *name = l.next("the name of a protection domain").text }
}

func parseAccess(l *line, w word) (a verbs.Access) {
	for name := range strings.SplitSeq(w.text, ",") {
		bit, ok := accessBits[name]
		if !ok {
			panic(l.at(w, "%q: expected rights such as lw,rw,rr out of %s, or pd NAME, addr N", w.text,
				sortedNames(accessBits)))
		}
		a |= bit
	}
	return a
}

// register makes a region; addr 0 lets the machine choose.
func (w *world) register(name string, n int, access verbs.Access, pd string, addr uint64) string {
	if w.find(name) != nil {
		return "there is a region of that name"
	}
	g := newRegion(name, n)
	var err error
	if g.mr, err = w.machine.register(g, access, pd, addr); err != nil {
		return err.Error()
	}
	w.regions = append(w.regions, g)
	return ""
}

// onRegion is a command about a region.
func onRegion(run func(g *region) error) func(*line) action {
	return func(l *line) action {
		name := l.next("the name of a region")
		return &command{func(r *runner, _ *peer) string {
			g := r.world.find(name.text)
			if g == nil {
				return "no region is called " + name.text
			}
			return errorText(run(g))
		}}
	}
}

// parseQP reads: qp [pd NAME] [send N] [recv N] [sge N] [inline N] [srq].
func parseQP(l *line) action {
	cfg := verbs.QPConfig{MaxSGE: 4, MaxInline: 256, MaxSend: 64, MaxRecv: 64}
	pd, shared := "1", false
	l.options(readers{
		"pd":     domain(&pd),
		"srq":    sets(&shared, true),
		"send":   signed(&cfg.MaxSend, "a number", 1, 1<<15),
		"recv":   signed(&cfg.MaxRecv, "a number", 1, 1<<15),
		"sge":    signed(&cfg.MaxSGE, "a number", 1, 1<<15),
		"inline": signed(&cfg.MaxInline, "a number", 1, 1<<15),
	}, "pd NAME, send N, recv N, sge N, inline N or srq")
	return &command{func(_ *runner, p *peer) string {
		if shared && p.end.w.srq == nil {
			return "there is no shared receive queue; expected an srq line before"
		}
		if p.end.qp != nil {
			return "the connection has a queue pair"
		}
		_, err := p.end.newQP(pd, cfg, shared)
		return errorText(err)
	}}
}

// parseSRQ reads: srq N [limit N].
func parseSRQ(l *line) action {
	n, _ := l.integer("a number of receives", 1, 1<<15)
	limit := int64(0)
	if l.accept("limit") {
		limit, _ = l.integer("a limit", 1, 1<<15)
	}
	return &command{func(r *runner, _ *peer) string {
		q, err := r.world.machine.newSRQ(int(n))
		if err != nil {
			return err.Error()
		}
		r.world.srq = q
		return errorText(q.SetLimit(int(limit)))
	}}
}

// request is a work request as a script writes it:
//
//	post write 7 buf+100 len 64 stag 0x99 to 0x1000
type request struct {
	op        string
	id        uint64
	sges      []element
	stag, to  numeral
	inv       numeral
	operands  map[string]uint64 // of atomic operations, and imm
	flags     verbs.SendFlags
	unsignal  bool
	inlineRaw []byte
}

// element is part of a region.
type element struct {
	at numeral
	n  uint64
}

// postOps are the operations of post by name.
var postOps = map[string]verbs.Opcode{
	"recv": 0, "srq-recv": 0, "send": verbs.OpSend, "send-inv": verbs.OpSendInv, "write": verbs.OpWrite,
	"read":     verbs.OpRead,
	"send-imm": verbs.OpSendImm, "write-imm": verbs.OpWriteImm, "fetch-add": verbs.OpFetchAdd,
	"cmp-swap": verbs.OpCompSwap,
	"swap":     verbs.OpSwap,
}

// maskedOps are the operations that take masks.
var maskedOps = map[verbs.Opcode]verbs.Opcode{verbs.OpFetchAdd: verbs.OpMaskedFetchAdd,
	verbs.OpCompSwap: verbs.OpMaskedCompSwap}

const postForms = "REGION len N, stag X, to X, inv X, imm N, add N, mask N, compare N, compare-mask N, se, fence, " +
	"unsignalled, or inline with hex or text"

// parsePost reads: post OPERATION ID ....
func parsePost(l *line) action {
	op := l.next("an operation: " + sortedNames(postOps))
	if _, ok := postOps[op.text]; !ok {
		panic(l.at(op, "%q: expected an operation: %s", op.text, sortedNames(postOps)))
	}
	q := &request{op: op.text, operands: map[string]uint64{}}
	q.id, _ = l.unsigned("the id of the work request", 1<<64-1)
	number := func(name string) reader {
		return func(l *line) { q.operands[name], _ = l.unsigned(name, 1<<64-1) }
	}
	l.options(readers{
		"imm":  number("imm"),
		"add":  number("add"), // of a swap its data, as in an Atomic Request
		"mask": number("mask"), "compare": number("compare"), "compare-mask": number("compare-mask"),
		"stag":        symbol(&q.stag, "stag", 32, true),
		"to":          symbol(&q.to, "to", 64, true),
		"inv":         symbol(&q.inv, "inv", 32, true),
		"se":          func(*line) { q.flags |= verbs.Solicited },
		"fence":       func(*line) { q.flags |= verbs.Fence },
		"unsignalled": sets(&q.unsignal, true),
		"inline":      q.parseInline,
		"":            q.parseElement,
	}, postForms)
	return &command{q.post}
}

func (q *request) parseInline(l *line) {
	var d payload
	w := l.next("hex DIGITS or text \"...\"")
	if w.text != "hex" && w.text != "text" {
		panic(l.at(w, "%q: expected hex DIGITS or text \"...\"", w.text))
	}
	d.parse(l, w, false)
	q.inlineRaw = d.raw
	q.flags |= verbs.Inline
}

// parseElement reads: REGION len N.
func (q *request) parseElement(l *line) {
	w := l.peek()
	at := l.numeral(postForms, 64, true)
	if at.name == "" {
		panic(l.at(w, "%q: expected %s", w.text, postForms))
	}
	l.expect("len", "len N behind a region")
	n, _ := l.unsigned("a length in octets", 1<<32-1)
	q.sges = append(q.sges, element{at, n})
}

// post gives the request to the queue pair.
func (q *request) post(r *runner, p *peer) string {
	w := r.world
	var sges []verbs.SGE
	for i := range q.sges {
		at := &q.sges[i].at
		key := numeral{name: at.name, word: at.word}
		stag, wrong := key.stag(w)
		to, _ := at.to(w)
		if wrong != nil {
			return wrong.name
		}
		sges = append(sges, verbs.SGE{Addr: to, Length: uint32(q.sges[i].n), LKey: uint32(stag)})
	}
	if q.op == "srq-recv" {
		if w.srq == nil {
			return "there is no shared receive queue"
		}
		_, err := w.srq.PostRecv(verbs.RecvWR{ID: q.id, SGEs: sges})
		return errorText(err)
	}
	qp, err := p.end.queuePair()
	if err != nil {
		return err.Error()
	}
	if q.op == "recv" {
		_, err = qp.PostRecv(verbs.RecvWR{ID: q.id, SGEs: sges})
		return errorText(err)
	}
	wr, bad := q.work(w, sges)
	if bad != "" {
		return bad
	}
	_, err = qp.PostSend(wr)
	return errorText(err)
}

// atomic fills in the operands of an atomic operation.
func (q *request) atomic(wr *verbs.SendWR) {
	v := q.operands
	a := &wr.Atomic
	if _, masked := v["mask"]; masked {
		wr.Opcode = maskedOps[wr.Opcode]
	}
	switch wr.Opcode {
	case verbs.OpFetchAdd, verbs.OpMaskedFetchAdd:
		a.CompareAdd, a.CompareAddMask = v["add"], v["mask"]
	case verbs.OpCompSwap, verbs.OpMaskedCompSwap, verbs.OpSwap:
		a.Swap, a.SwapMask, a.CompareAdd, a.CompareAddMask = v["add"], v["mask"], v["compare"], v["compare-mask"]
	}
}

func (q *request) work(w *world, sges []verbs.SGE) (verbs.SendWR, string) {
	stag, wrong1 := q.stag.stag(w)
	to, wrong2 := q.to.to(w)
	inv, wrong3 := q.inv.stag(w)
	for _, wrong := range []*difference{wrong1, wrong2, wrong3} {
		if wrong != nil {
			return verbs.SendWR{}, wrong.name
		}
	}
	wr := verbs.SendWR{ID: q.id, Opcode: postOps[q.op], Flags: q.flags, SGEs: sges, Inline: q.inlineRaw,
		RKey: uint32(stag), RemoteAddr: to, Invalidate: uint32(inv), Imm: q.operands["imm"]}
	q.atomic(&wr)
	if !q.unsignal {
		wr.Flags |= verbs.Signaled
	}
	return wr, ""
}
