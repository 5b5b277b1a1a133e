package iwarp

import (
	"testing"

	"tapir/nic/toe"
	"tapir/nic/verbs"
)

// Sections 5, 5.3 and 5.4 of RFC 7306 (7306-5-1, 7306-5.3-1, 7306-5.4-2):
// operations of several streams on one value do not meet: each finds what
// exactly one other has left.
func TestAtomicsOfSeveralStreams(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	mem, mr := x.counters(t, 64)
	c2, _ := another(t, x.world, x.c.id.Remote(), x.s.pd)
	x.bad(3, 30)
	const n = 50
	for i := range n {
		for _, c := range []*end{x.c, c2} {
			c.post(t, verbs.SendWR{Opcode: verbs.OpFetchAdd, Flags: verbs.Signaled, Atomic: verbs.Operands{CompareAdd: 1},
				SGEs: c.sge(8*i, 8), RemoteAddr: mr.Addr() + 16, RKey: mr.RKey()})
		}
	}
	x.must("all", func() bool { return len(x.c.poll()) == n && len(c2.poll()) == n })
	seen := map[uint64]bool{}
	for i := range n {
		seen[word(x.c.mem[8*i:])], seen[word(c2.mem[8*i:])] = true, true
	}
	if len(seen) != 2*n || !seen[0] || !seen[2*n-1] || word(mem[16:]) != 2*n {
		t.Errorf("%d different values found, left %d", len(seen), word(mem[16:]))
	}
}
