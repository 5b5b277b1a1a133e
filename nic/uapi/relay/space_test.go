package relay

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/procmaps"
	"tapir/nic/verbs"
)

const watchedOctets = 64 // at the end of what is written

// What is written is all there, whatever its length, and the end of it is not
// there if the rest could not be written.
func TestMove(t *testing.T) {
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	own := &memFile{devices: procmaps.NewFilesystems(os.Getpid())}
	for name, f := range map[string]**os.File{"/proc/self/mem": &own.mem, "/proc/self/maps": &own.maps} {
		if *f, err = os.OpenFile(name, map[string]int{"/proc/self/mem": os.O_RDWR}[name], 0); err != nil {
			t.Fatal(err)
		}
		defer (*f).Close()
	}
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	byList := func(addr uint64, p []byte, write bool) error { // as with older kernels
		if err := own.checkList(addr, uint64(len(p)), write); err != nil {
			return err
		}
		return own.copy(addr, p, write)
	}
	long := &memFile{mem: own.mem, maps: own.maps, devices: own.devices, bulk: newBulk(os.Getpid())}
	ways := map[string]func(uint64, []byte, bool) error{"list": byList, "query": own.move, "bulk": long.move}
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
	own.forget() // what was mapped is believed for a while
	long.forget()
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
	if own.check(addr, page, true) != nil || own.check(addr+page, 1, false) != unix.EFAULT {
		t.Error("what the kernel says of pages")
	}
	for n, before := range map[int]int{1: 0, watchedOctets: 0, watchedOctets + 1: 1, 1000: 1000 - watchedOctets} {
		if k := beforeEnd(n); k != before {
			t.Errorf("%d of %d octets before the end", k, n)
		}
	}
}

// Short pieces go to their places, the later ones over the earlier ones, whether the
// kernel takes them all together or not.
func TestWriteScattered(t *testing.T) {
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 32*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	defer unix.Munmap(mem)
	list, err := os.Open("/proc/self/maps")
	must(t, err)
	defer list.Close()
	file, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	places := []verbs.Place{{Off: 70, N: 8}, {Off: 9, N: 3}, {Off: 72, N: 2}, {Off: 2 * page, N: 1}}
	for i := range 200 {
		places = append(places, verbs.Place{Off: uint64(page + i), N: 2})
	}
	for name, c := range map[string]struct {
		touched, together bool
		far               uint64
	}{"together": {true, true, 0}, "a page is not there": {false, false, 0}, "too far apart": {true, false, 20 * page}} {
		must(t, unix.Madvise(mem, unix.MADV_DONTNEED))
		for at := 0; c.touched && at < len(mem); at += page {
			mem[at] = 0
		}
		places := append(places[:len(places):len(places)], verbs.Place{Off: 2*page + 5 + c.far, N: 4})
		want := make([]byte, len(mem))
		var p []byte
		for i, at := range places {
			piece := bytes.Repeat([]byte{byte(i + 1)}, at.N)
			p = append(p, piece...)
			copy(want[at.Off:], piece)
		}
		f := &memFile{mem: file, maps: list, devices: procmaps.NewFilesystems(os.Getpid()), bulk: newBulk(os.Getpid())}
		addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
		r := &region{space: &space{memFile: f}, addr: addr, n: uint64(len(mem))}
		if done := f.bulk.scatter(addr, p, places); done != c.together {
			t.Errorf("%s: the kernel took them all: %v", name, done)
		}
		if err := r.WriteScattered(p, places); err != nil || !bytes.Equal(mem, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, unix.Mprotect(mem[page:2*page], unix.PROT_READ))
	r := &region{space: &space{memFile: &memFile{mem: file, maps: list, devices: procmaps.NewFilesystems(os.Getpid()),
		bulk: newBulk(os.Getpid())}}, addr: uint64(uintptr(unsafe.Pointer(&mem[0]))), n: uint64(len(mem))}
	if err := r.WriteScattered([]byte("ab"), []verbs.Place{{Off: 0, N: 1}, {Off: page, N: 1}}); err != unix.EFAULT {
		t.Errorf("to a read-only page: %v", err)
	}
}

// Before a long read the pages behind are looked at, too, as far as they are there.
func TestLookAhead(t *testing.T) {
	const page = 4096
	mem, err := unix.Mmap(-1, 0, 8*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	defer unix.Munmap(mem)
	must(t, unix.Madvise(mem, unix.MADV_NOHUGEPAGE))
	for at := 0; at < 6*page; at += page {
		mem[at] = 1
	}
	b, addr := newBulk(os.Getpid()), uint64(uintptr(unsafe.Pointer(&mem[0])))
	if !b.readable(addr+5, page) || b.from != addr || b.to != addr+6*page {
		t.Errorf("[%#x, %#x) is there, want [%#x, %#x)", b.from, b.to, addr, addr+6*page)
	}
	seen := b.seen
	if b.seen = time.Now(); !b.readable(addr+2*page, 4*page) || b.seen.Equal(seen) {
		t.Error("what was seen is not believed")
	}
	if b.readable(addr+5*page, 2*page) {
		t.Error("a page that is not there is readable")
	}
	b.seen = b.seen.Add(-queryFor)
	if before := b.seen; !b.readable(addr, page) || b.seen.Equal(before) {
		t.Error("what was seen is believed for ever")
	}
	if top := ^uint64(0) - 2*page + 1; b.readable(top, page) {
		t.Error("the end of the address space is readable")
	}
}

// Only a supervisor that has all rights of the NIC's process has that use its own.
func TestRights(t *testing.T) {
	start := func(as *syscall.SysProcAttr) int {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = as
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it was killed
		return cmd.Process.Pid
	}
	if !hasOurRights(start(nil)) {
		t.Error("a child has fewer")
	}
	if os.Getuid() == 0 && hasOurRights(start(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})) {
		t.Error("another user has them")
	}
	if hasOurRights(start(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}})) {
		t.Error("one in another user namespace has them")
	}
}

func BenchmarkMove(b *testing.B) {
	mem := make([]byte, 64<<10)
	own := &memFile{devices: procmaps.NewFilesystems(os.Getpid())}
	own.mem, _ = os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	own.maps, _ = os.Open("/proc/self/maps")
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	p := make([]byte, len(mem))
	for _, n := range []int{64, 1448, 16 << 10, 64 << 10} {
		for name, write := range map[string]bool{"read": false, "write": true} {
			b.Run(name+strconv.Itoa(n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := own.move(addr, p[:n], write); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
