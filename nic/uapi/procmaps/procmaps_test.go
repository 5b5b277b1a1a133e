package procmaps

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
7ffd00000000-7ffd00001000 rw-p 00000000 00:31 7 /mnt/fuse/x
7ffd00001000-7ffd00002000 rw-p 00000000 00:77 7 /of/no/mount
7ffd00002000-7ffd00003000 rw-p 00000000 00:32 7 /tmp/x
`

const someMounts = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:49 / /mnt/fuse rw,nosuid - fuse.sshfs host rw,user_id=0
24 22 0:50 / /tmp rw,nosuid shared:3 - tmpfs tmpfs rw
`

// someFilesystems are those of someMounts; no process has them.
func someFilesystems() *Filesystems {
	f := NewFilesystems(-1)
	f.read(strings.NewReader(someMounts))
	return f
}

func TestCovered(t *testing.T) {
	list, devices := Read(strings.NewReader(someMaps)), someFilesystems()
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
		{0x7ffd00000000, 0x7ffd00000001, false, false}, // another process serves it
		{0x7ffd00001000, 0x7ffd00001001, false, false}, // nobody knows who serves it
		{0x7ffd00002000, 0x7ffd00003000, true, true},
	} {
		for _, write := range []bool{false, true} {
			want := c.read
			if write {
				want = c.write
			}
			if got := Covered(list, c.from, c.to, write, devices); got != want {
				t.Errorf("[%#x, %#x) write %v: %v", c.from, c.to, write, got)
			}
		}
	}
}
