package relay

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

const watchedOctets = 64 // at the end of what is written

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

// What is written is all there, whatever its length, and the end of it is not
// there if the rest could not be written.
func TestMove(t *testing.T) {
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	own := &memFile{}
	for name, f := range map[string]**os.File{"/proc/self/mem": &own.mem, "/proc/self/maps": &own.maps} {
		if *f, err = os.OpenFile(name, map[string]int{"/proc/self/mem": os.O_RDWR}[name], 0); err != nil {
			t.Fatal(err)
		}
		defer (*f).Close()
	}
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	byVM := func(addr uint64, p []byte, write bool) error { return ipc.Move(os.Getpid(), addr, p, write) }
	ways := map[string]func(uint64, []byte, bool) error{"process_vm": byVM, "file": own.move}
	for name, move := range ways {
		for _, n := range []int{1, watchedOctets, watchedOctets + 1, 2 * page, 3*page + 7} {
			want, got := bytes.Repeat([]byte{byte(n), 3, 5}, n)[:n], make([]byte, n)
			if err := move(addr+9, want, true); err != nil || !bytes.Equal(mem[9:9+n], want) {
				t.Errorf("%s: write of %d: %v", name, n, err)
			}
			if err := move(addr+9, got, false); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: read of %d: %v", name, n, err)
			}
		}
	}
	clear(mem)
	if err := errors.Join(unix.Mprotect(mem[page:2*page], unix.PROT_NONE), unix.Mprotect(mem[3*page:], unix.PROT_READ)); err != nil {
		t.Fatal(err)
	}
	ones := bytes.Repeat([]byte{1}, page+page/2)
	for name, move := range ways {
		for what, at := range map[string]int{"over a hole": page / 2, "to read-only pages": 3 * page, "into them": 2*page + page/2 + 100} {
			if err := move(addr+uint64(at), ones[:min(len(ones), 4*page-at)], true); err != unix.EFAULT {
				t.Errorf("%s: write %s: %v", name, what, err)
			}
		}
		if err := move(addr+page/2, make([]byte, page), false); err != unix.EFAULT {
			t.Errorf("%s: read of pages that are not readable: %v", name, err)
		}
		if err := move(addr+2*page, make([]byte, 2*page), false); err != nil {
			t.Errorf("%s: read of read-only pages: %v", name, err)
		}
		if bytes.Contains(mem[3*page:], []byte{1}) {
			t.Errorf("%s: read-only pages have changed", name)
		}
	}
	if !own.allows(addr, page, true) || own.allows(addr+page, 1, false) {
		t.Error("what the kernel says of pages")
	}
	list, err := os.ReadFile("/proc/self/maps") // which older kernels are asked
	if err != nil || !covered(bytes.NewReader(list), addr, addr+page, true) || covered(bytes.NewReader(list), addr+page, addr+page+1, false) {
		t.Errorf("what the list says of pages: %v", err)
	}
	for n, before := range map[int]int{1: 0, watchedOctets: 0, watchedOctets + 1: 1, 1000: 1000 - watchedOctets} {
		if k := ipc.BeforeEnd(n); k != before {
			t.Errorf("%d of %d octets before the end", k, n)
		}
	}
}

func BenchmarkMove(b *testing.B) {
	mem := make([]byte, 64<<10)
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	p := make([]byte, len(mem))
	for _, n := range []int{64, 1448, 16 << 10, 64 << 10} {
		for name, write := range map[string]bool{"read": false, "write": true} {
			b.Run(name+strconv.Itoa(n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := ipc.Move(os.Getpid(), addr, p[:n], write); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
