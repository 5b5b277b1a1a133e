package relay

import (
	"strings"
	"testing"
)

const someMaps = `00400000-00402000 r-xp 00000000 fe:00 1 /bin/x
00402000-00404000 rw-p 00000000 fe:00 1 /bin/x
00404000-00405000 r--p 00000000 00:00 0
00406000-00408000 rw-p 00000000 00:00 0 [heap]
7ffc00000000-7ffc00001000 ---p 00000000 00:00 0
7ffc00001000-7ffc00003000 rw-s 00000000 00:00 0
`

func TestCovered(t *testing.T) {
	for _, c := range []struct {
		from, to    uint64
		read, write bool
	}{
		{0x400000, 0x400001, true, false},
		{0x402000, 0x404000, true, true},
		{0x402fff, 0x404001, true, false},
		{0x400000, 0x405000, true, false},
		{0x404000, 0x406001, false, false}, // a hole
		{0x405000, 0x405001, false, false},
		{0x406000, 0x408000, true, true},
		{0x3fffff, 0x400001, false, false},
		{0x407000, 0x408001, false, false},
		{0x7ffc00000fff, 0x7ffc00001001, false, false},
		{0x7ffc00001000, 0x7ffc00003000, true, true},
		{0x7ffc00002000, 0x7ffc00004000, false, false},
	} {
		for _, write := range []bool{false, true} {
			want := c.read
			if write {
				want = c.write
			}
			if got := covered(strings.NewReader(someMaps), c.from, c.to, write); got != want {
				t.Errorf("[%#x, %#x) write %v: %v", c.from, c.to, write, got)
			}
		}
	}
}
