package script

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"tapir/nic/verbs"
)

// roceCommands are what the application does.
var roceCommands = map[string]func(l *line) action{
	"recv":       parseRoCERecv,
	"post":       parseRoCEPost,
	"state":      parseRoCEState,
	"listen":     bareError(roceHost.listen),
	"connect":    bareError(roceHost.connect),
	"accept":     bareError(roceHost.accept),
	"reject":     bareError(roceHost.reject),
	"disconnect": bareError(roceHost.disconnect),
	"dereg":      bareError(roceHost.dereg),
	"expect":     func(l *line) action { return parseExpect(roceExpects)(l) },
}

// roceExpects are what can be expected.
var roceExpects = map[string]expectReader{
	"completion": parseRoCECompletion,
	"event":      parseRoCEEvent,
	"state": func(e *expectation, l *line) {
		w := l.next("a state of the queue pair: " + strings.Join(roceStates(), ", "))
		e.mark(w)
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have := hyphens(r.bench.(*roceBench).host.state().String())
			return have == w.text, "state " + have
		}
	},
	"written":   parseRoCEMemory(true),
	"untouched": parseRoCEMemory(false),
	"dropped": counted(func(b *roceBench) map[string]uint64 {
		drops, _ := b.host.counters()
		return drops
	}),
	"counter": counted(func(b *roceBench) map[string]uint64 {
		_, all := b.host.counters()
		return all
	}),
	"quiet": quiet(unclaimed),
}

// bareError is a command without words that can fail.
func bareError(run func(h roceHost) error) func(*line) action {
	return func(*line) action { return do(func(b *roceBench) string { return errorText(run(b.host)) }) }
}

func roceStates() (list []string) {
	for s := verbs.Reset; s <= verbs.Err; s++ {
		list = append(list, hyphens(s.String()))
	}
	return list
}

// roceCompletion describes a completion.
func roceCompletion(wc *verbs.WC) string {
	t := fmt.Sprintf("completion %d %s %s", wc.ID, hyphens(wc.Opcode.String()), hyphens(wc.Status.String()))
	if wc.Status == verbs.StatusSuccess && wc.Opcode >= verbs.WCRecv {
		t += fmt.Sprintf(" len %d", wc.ByteLen)
	}
	if wc.WithImm {
		t += fmt.Sprintf(" imm %d", wc.Imm)
	}
	return t
}

// parseTold reads the rest of a line: what must be the next that has happened.
func parseTold(e *expectation, l *line) {
	words := []string{e.word.text}
	for !l.done() {
		words = append(words, l.next("").text)
	}
	want := strings.Join(words, " ")
	e.word = word{want, e.word.col}
	e.holds = func(r *runner, _ *peer) (bool, string) {
		b := r.bench.(*roceBench)
		if len(b.told) == 0 {
			return false, "nothing has happened"
		}
		i := b.first(want)
		if b.told[i].text != want {
			return false, b.told[i].text
		}
		b.told = slices.Delete(b.told, i, i+1)
		return true, ""
	}
}

// first is where the first happening of the kind that text begins with lies: in virtual time
// their order counts, but a live machine tells of each kind in a way of its own.
func (b *roceBench) first(text string) int {
	kind, _, _ := strings.Cut(text, " ")
	i := slices.IndexFunc(b.told, func(h happening) bool { return h.is(kind) })
	if b.r.live == nil || i < 0 {
		return 0
	}
	return i
}

// parseRoCECompletion reads: completion ID OPERATION STATUS [len N] [imm N].
func parseRoCECompletion(e *expectation, l *line) { parseTold(e, l) }

// parseRoCEEvent reads: event NAME, of the device or of connections.
func parseRoCEEvent(e *expectation, l *line) { parseTold(e, l) }

// parseRoCEMemory reads: written OFFSET LENGTH, or untouched OFFSET LENGTH.
func parseRoCEMemory(written bool) expectReader {
	return func(e *expectation, l *line) {
		off, w := l.unsigned("an offset in memory", roceMem)
		n, _ := l.unsigned("a number of octets", roceMem-off)
		e.mark(w)
		want := make([]byte, n)
		if written {
			pattern(want, peerSalt, 0)
		}
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have := r.bench.(*roceBench).host.memory(off, n)
			return bytes.Equal(have, want), fmt.Sprintf("memory %x", have[:min(8, n)])
		}
	}
}

// parseRoCERecv reads: recv ID OFFSET LENGTH.
func parseRoCERecv(l *line) action {
	id, _ := l.unsigned("a number of the work request", 1<<32)
	off, _ := l.unsigned("an offset in memory", roceMem)
	n, _ := l.unsigned("a number of octets", roceMem-off)
	return do(func(b *roceBench) string { return errorText(b.host.recv(id, off, n)) })
}

// rocePosts are the operations that can be posted.
var rocePosts = map[string]verbs.Opcode{"send": verbs.OpSend, "send-imm": verbs.OpSendImm, "send-inv": verbs.OpSendInv,
	"write": verbs.OpWrite, "write-imm": verbs.OpWriteImm, "read": verbs.OpRead, "cmp-swap": verbs.OpCompSwap,
	"fetch-add": verbs.OpFetchAdd}

// parseRoCEPost reads: post OPERATION ID LENGTH [fence]. Its octets come from, or go to, the
// second half of memory.
func parseRoCEPost(l *line) action {
	w := l.next("an operation: " + sortedNames(rocePosts))
	op, ok := rocePosts[w.text]
	if !ok {
		panic(l.at(w, "%q: expected an operation: %s", w.text, sortedNames(rocePosts)))
	}
	id, _ := l.unsigned("a number of the work request", 1<<32)
	n, _ := l.unsigned("a number of octets", roceFull)
	flags := verbs.Signaled
	if l.accept("fence") {
		flags |= verbs.Fence
	}
	return do(func(b *roceBench) string {
		wr := verbs.SendWR{ID: id, Opcode: op, Flags: flags, RKey: 0x777, RemoteAddr: 0x1000, Imm: 5,
			SGEs: []verbs.SGE{{Addr: roceFull, Length: uint32(n)}}, Invalidate: 0x777}
		wr.Atomic = verbs.Operands{CompareAdd: 3, Swap: 4}
		return errorText(b.host.post(wr))
	})
}

// parseRoCEState reads: state NAME: the application moves the queue pair.
func parseRoCEState(l *line) action {
	names := roceStates()
	i, _ := l.oneOf("a state", names)
	return do(func(b *roceBench) string { return errorText(b.host.move(verbs.Reset + verbs.State(i))) })
}

// is tells whether a happening is of a kind: the first word of its text.
func (h *happening) is(kind string) bool { return strings.HasPrefix(h.text, kind+" ") }
