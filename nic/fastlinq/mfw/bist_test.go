package mfw

import (
	"slices"
	"strings"
	"testing"

	"tapir/nic/fastlinq/status"
)

// The firmware writes to the registers of both engines, notices what is wrong
// with any of them, and gives all their values back.
//
// ST-03
func TestBISTRegisters(t *testing.T) {
	var words [2][]uint32
	writes := [2]int{}
	engine := func(e int) (list []Register) {
		for i := range words[e] {
			list = append(list, Register{Name: "r", Mask: 0xffff, Read: func() uint32 { return words[e][i] },
				Write: func(v uint32) { writes[e]++; words[e][i] = v&0xffff | words[e][i]&^0xffff }})
		}
		return list
	}
	for what, c := range map[string]struct {
		spoil func(lists [][]Register) [][]Register
		want  string
	}{
		"whole": {func(l [][]Register) [][]Register { return l }, ""},
		"a bit is stuck": {func(l [][]Register) [][]Register {
			read := l[1][1].Read
			l[1][1].Read = func() uint32 { return read() &^ 4 }
			return l
		}, "engine 1: r: 0xfffb after 0xffffffff was written, not 0xffff"},
		"two are one": {func(l [][]Register) [][]Register {
			l[0][2].Read, l[0][2].Write = l[0][0].Read, l[0][0].Write
			return l
		}, "engine 0: r: "},
		"an engine has none": {func(l [][]Register) [][]Register { return [][]Register{l[0], nil} }, "engine 1: there are no registers"},
		"one does not go back": {func(l [][]Register) [][]Register {
			write, n := l[0][0].Write, 0
			l[0][0].Write = func(v uint32) {
				if n++; n < 6 {
					write(v)
				}
			}
			return l
		}, "after it was restored"},
		"no board": {nil, "the board has no engine"},
	} {
		words = [2][]uint32{{1, 2, 0xabcd1234}, {5, 2}}
		before := [2][]uint32{slices.Clone(words[0]), slices.Clone(words[1])}
		cfg := Config{Funcs: []FuncConfig{{}}, Ports: []PortConfig{{}}}
		if c.spoil != nil {
			cfg.Registers = func(test func([]Register)) {
				for _, list := range c.spoil([][]Register{engine(0), engine(1)}) {
					test(list)
				}
			}
		}
		f := New(cfg)
		r := request{param: BISTRegister}
		f.bist(&r)
		outcome := r.value
		err := f.BISTError()
		if (outcome == BISTPassed) != (c.want == "") || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, outcome %d", what, err, outcome)
		}
		if what != "one does not go back" && (!slices.Equal(words[0], before[0]) || !slices.Equal(words[1], before[1])) {
			t.Errorf("%s: %x are left", what, words)
		}
		if err != nil && status.Of(err) == status.Success {
			t.Errorf("%s: no status", what)
		}
	}
	if writes[0] == 0 || writes[1] == 0 {
		t.Error("an engine was not written to")
	}
}
