package script

import (
	"net/netip"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/verbs"
)

// rdmaCommands are what the application of a whole NIC does, by name.
var rdmaCommands = map[string]func(l *line) action{
	"mr":         parseMR,
	"qp":         parseQP,
	"srq":        parseSRQ,
	"post":       parsePost,
	"invalidate": onRegion(func(g *region) error { g.mr.Invalidate(); return nil }),
	"deregister": onRegion(func(g *region) error { return g.mr.Dereg() }),
	"listen":     parseRDMAListen,
	"unlisten":   simple(unlisten),
	"connect":    parseAnswer((*endpoint).connect),
	"accept":     parseAnswer((*endpoint).accept),
	"reject":     parseAnswer((*endpoint).reject),
	"disconnect": simple(func(r *runner, p *peer) string { return p.end.disconnect(false) }),
	"abort":      simple(func(r *runner, p *peer) string { return p.end.disconnect(true) }),
	"modify":     parseModify,
	"establish":  parseEstablish,
	"resend":     parseResend,
	"expect":     parseExpect(rdmaExpects),
}

// text of an error, "" without one.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// parseRDMAListen reads: listen [backlog N].
func parseRDMAListen(l *line) action {
	backlog := int64(16)
	if l.accept("backlog") {
		backlog, _ = l.integer("a backlog", 1, 1<<20)
	}
	return &command{func(r *runner, _ *peer) string { return r.world.listen(int(backlog)) }}
}

func (w *world) listen(backlog int) string {
	l, err := w.machine.listen(backlog)
	w.listener = l
	return errorText(err)
}

func unlisten(r *runner, _ *peer) string {
	if r.world.listener == nil {
		return "nothing listens"
	}
	r.world.listener.Close()
	r.world.listener = nil
	return ""
}

// endpointAt is the connection of the peer with that address, nil if there is
// none.
func (w *world) endpointAt(remote netip.AddrPort) *endpoint {
	for _, p := range w.r.conns() {
		if p.remote == remote {
			return p.end
		}
	}
	return nil
}

// queuePair returns the queue pair of the connection, new at its first use.
func (e *endpoint) queuePair() (queuePair, error) {
	if e.qp != nil {
		return e.qp, nil
	}
	return e.newQP("1", verbs.QPConfig{MaxSGE: 4, MaxInline: 256, MaxSend: 64, MaxRecv: 64}, false)
}

func (e *endpoint) newQP(pd string, cfg verbs.QPConfig, shared bool) (queuePair, error) {
	qp, err := e.w.machine.newQP(e, pd, cfg, shared)
	if err == nil {
		e.qp = qp
	}
	return qp, err
}

// answer is what the application says of a connection.
type answer struct {
	ird, ord int64 // -1: not given
	private  payload
}

// parseAnswer reads: [ird N] [ord N] [private OCTETS].
func parseAnswer(run func(e *endpoint, p cm.Params) error) func(*line) action {
	return func(l *line) action {
		a := answer{ird: -1, ord: -1}
		l.options(readers{
			"ird":     signed(&a.ird, "an IRD", 0, 65534),
			"ord":     signed(&a.ord, "an ORD", 0, 65534),
			"private": a.private.reader("private data", false),
		}, "ird N, ord N, private OCTETS or the end of the line")
		return &command{func(_ *runner, p *peer) string { return a.run(p.end, run) }}
	}
}

// depth is n as the connection manager wants it.
func depth(n int64) uint16 {
	switch n {
	case -1:
		return 0
	case 0:
		return cm.NoReads
	}
	return uint16(n)
}

func (a *answer) run(e *endpoint, run func(e *endpoint, p cm.Params) error) string {
	private, wrong := a.private.bytes(e.w, 0)
	if wrong != nil {
		return wrong.name
	}
	return errorText(run(e, cm.Params{IRD: depth(a.ird), ORD: depth(a.ord), PrivateData: private}))
}

func (e *endpoint) connect(p cm.Params) error {
	if _, err := e.queuePair(); err != nil {
		return err
	}
	e.id = e.w.machine.newID(e)
	return e.id.connect(p)
}

func (e *endpoint) accept(p cm.Params) error {
	if e.id == nil {
		return errNoID
	}
	if _, err := e.queuePair(); err != nil {
		return err
	}
	return e.id.accept(p)
}

func (e *endpoint) reject(p cm.Params) error {
	if e.id == nil {
		return errNoID
	}
	return e.id.reject(p.PrivateData)
}

func (e *endpoint) disconnect(abortive bool) string {
	if e.id == nil {
		return errNoID.Error()
	}
	return errorText(e.id.disconnect(abortive))
}

// parseModify reads: modify STATE.
func parseModify(l *line) action {
	states := []verbs.State{verbs.Reset, verbs.Init, verbs.SQD, verbs.Err}
	var names []string
	for _, s := range states {
		names = append(names, s.String())
	}
	i, _ := l.oneOf("a state", names)
	return &command{func(_ *runner, p *peer) string {
		qp, err := p.end.queuePair()
		if err != nil {
			return err.Error()
		}
		return errorText(qp.Modify(states[i]))
	}}
}

// parseResend reads: resend [N].
func parseResend(l *line) action {
	n := int64(0)
	if !l.done() {
		n, _ = l.integer("the number of a lost segment", 1, 1<<20)
	}
	return &command{func(_ *runner, p *peer) string { return p.end.resend(int(n)) }}
}

// establishment is the start-up of a connection in one line.
type establishment struct {
	active bool
	frame  startupFrame // of the peer
}

// parseEstablish reads: establish passive|active FIELDS, with the fields of
// the peer's start-up frame.
func parseEstablish(l *line) action {
	i, w := l.oneOf("the NIC's part", []string{"passive", "active"})
	a := &establishment{active: i == 1, frame: startupFrame{kind: mpa.Kind(i), word: w}}
	a.frame.fields(l, false)
	return a
}

func (a *establishment) do(r *runner, s *step) *Error {
	p := r.peer(s.conn)
	bad := ""
	if a.active {
		bad = a.connect(r, p)
	} else {
		bad = a.await(r, p)
	}
	if bad != "" {
		return r.fail(s, a.frame.word, bad, r.world.unclaimed())
	}
	return nil
}

// await lets the peer connect and the application accept.
func (a *establishment) await(r *runner, p *peer) string {
	if r.world.listener == nil {
		if bad := r.world.listen(16); bad != "" {
			return bad
		}
	}
	if bad := a.send(r, p); bad != "" {
		return bad
	}
	if !p.end.soonClaim("event request") {
		return "the NIC has not told of the request"
	}
	if err := p.end.accept(cm.Params{}); err != nil {
		return err.Error()
	}
	if !r.soon(func() bool { return a.took(r, p) }) {
		return "the NIC has not sent its reply"
	}
	if !a.frame.words.P2P && !p.end.soonClaim("event established") {
		return "the NIC has not told that the connection is up"
	}
	return ""
}

// connect lets the application connect and the peer accept.
func (a *establishment) connect(r *runner, p *peer) string {
	if err := p.end.connect(cm.Params{}); err != nil {
		return err.Error()
	}
	if !r.soon(func() bool { return a.took(r, p) }) {
		return "the NIC has not sent its request"
	}
	if bad := a.send(r, p); bad != "" {
		return bad
	}
	if !p.end.soonClaim("event established") {
		return "the NIC has not told that the connection is up"
	}
	return ""
}

func (a *establishment) send(r *runner, p *peer) string {
	_, wrong := a.frame.send(r, p)
	if wrong != nil {
		return wrong.name
	}
	return ""
}

// took takes the NIC's start-up frame out of what it has sent.
func (a *establishment) took(r *runner, p *peer) bool {
	if len(r.queue) == 0 || r.queue[0].peer != p || r.queue[0].unit == nil || r.queue[0].unit.frame == nil {
		return false
	}
	r.queue = r.queue[1:]
	return true
}
