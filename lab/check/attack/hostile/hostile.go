// Package hostile is programs under `tapir run` that do harm on purpose.
package hostile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ready is what a program says when it begins.
const Ready = "fuzzing"

func procDir(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// program writes to device files what chance says.
type program struct {
	rng   *rand.Rand
	mem   []byte // of its own, for answers
	rings [][]byte
	n     int
}

func newProgram(seed string) (*program, error) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return nil, err
	}
	h := &program{rng: rand.New(rand.NewPCG(n, 1))}
	const size = 1 << 20
	if h.mem, err = unix.Mmap(-1, 0, size+4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON); err == nil {
		err = unix.Mprotect(h.mem[size:], unix.PROT_NONE)
	}
	h.mem = h.mem[:size]
	return h, err
}

// Fuzz opens the devices again and again and writes commands, until the time is
// over. args are a seed and the time.
func Fuzz(args []string) error {
	h, err := newProgram(args[0])
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	fmt.Println(Ready)
	for end := time.Now().Add(d); ; {
		verbs, err := unix.Open("/dev/infiniband/uverbs0", unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("open the verbs device: %w", err)
		}
		cm, err := unix.Open("/dev/infiniband/rdma_cm", unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("open the connection manager: %w", err)
		}
		h.usual(verbs)
		for range 1 + h.rng.IntN(2000) {
			h.act(verbs, cm)
			if time.Now().After(end) {
				break
			}
		}
		for _, m := range h.rings {
			_ = unix.Munmap(m)
		}
		h.rings = nil
		_, _ = unix.Close(verbs), unix.Close(cm)
		if time.Now().After(end) {
			fmt.Println("commands:", h.n)
			return nil
		}
	}
}

// command writes one: what follows its header, n octets for the answer.
func (h *program) command(fd int, nr uint32, answer int, body []byte) error {
	b := binary.LittleEndian.AppendUint32(nil, nr)
	b = binary.LittleEndian.AppendUint16(b, uint16(4+len(body)/4))
	b = binary.LittleEndian.AppendUint16(b, uint16(answer/4))
	h.n++
	_, err := unix.Write(fd, append(binary.LittleEndian.AppendUint64(b, h.answer()), body...))
	return err
}

// answer is where an answer goes: its own memory, mostly, or where there is none.
func (h *program) answer() uint64 {
	own := uint64(uintptr(unsafe.Pointer(&h.mem[0])))
	switch h.rng.IntN(32) {
	case 0:
		return []uint64{h.rng.Uint64() | 1<<63, uint64(h.rng.IntN(1 << 16))}[h.rng.IntN(2)]
	case 1:
		return own + uint64(len(h.mem)) - uint64(h.rng.IntN(16)) // no other memory follows
	}
	return own
}

func words32(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// usual makes objects as programs do, so that handles mean something.
func (h *program) usual(fd int) {
	own := uint64(uintptr(unsafe.Pointer(&h.mem[0])))
	at := words32(uint32(own), uint32(own>>32))
	_ = h.command(fd, 3, 4, nil) // a PD
	region := append(append(append([]byte(nil), at...), words32(1<<16, 0)...), at...)
	_ = h.command(fd, 9, 12, append(region, words32(0, 7)...))
	for range 2 {
		_ = h.command(fd, 18, 24, words32(1, 0, 16, 0, ^uint32(0), 0))
		h.rings = h.mapped(fd, h.rings)
	}
	qp := append(words32(1, 0, 0, 2, 3, 0, 16, 16, 4, 4, 0), 0, 2, 0, 0)
	_ = h.command(fd, 24, 200, qp)
	h.rings = h.mapped(fd, h.rings)
}

// mapped maps what an answer may offer.
func (h *program) mapped(fd int, rings [][]byte) [][]byte {
	for at := 0; at < 256 && len(rings) < 16; at += 4 {
		offset := binary.LittleEndian.Uint64(h.mem[at:])
		if offset == 0 || offset%4096 != 0 || offset > 1<<40 {
			continue
		}
		if m, err := unix.Mmap(fd, int64(offset), 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			rings = append(rings, m)
		}
	}
	return rings
}

// number is a handle, a length, an address or anything.
func (h *program) number() uint32 {
	switch h.rng.IntN(8) {
	case 0:
		return h.rng.Uint32()
	case 1:
		return []uint32{0xffffffff, 0x7fffffff, 0x80000000, 0x10000, 4096, 65535}[h.rng.IntN(6)]
	case 2:
		return uint32(h.rng.IntN(256))
	}
	return uint32(h.rng.IntN(12))
}

// act does one thing.
func (h *program) act(verbs, cm int) {
	if len(h.rings) > 0 && h.rng.IntN(3) == 0 {
		m := h.rings[h.rng.IntN(len(h.rings))]
		at := 4 * h.rng.IntN(len(m)/4)
		if h.rng.IntN(2) == 0 {
			at = []int{0, 4, 128, 256}[h.rng.IntN(4)]
		}
		binary.LittleEndian.PutUint32(m[at:], h.number())
		return
	}
	h.n++
	body := h.body(h.rng.IntN(64))
	if h.rng.IntN(3) == 0 {
		b := words32(uint32(h.rng.IntN(26)), uint32(8+len(body))|uint32(h.rng.IntN(400))<<16)
		_, _ = unix.Write(cm, append(binary.LittleEndian.AppendUint64(b, h.answer()), body...))
		return
	}
	nr := uint32(h.rng.IntN(42))
	if h.rng.IntN(3) > 0 {
		nr = []uint32{28, 26, 24, 25, 9, 11, 13, 14, 19, 21, 33, 18, 20}[h.rng.IntN(13)]
	}
	if h.rng.IntN(6) == 0 { // an extended one
		b := words32(nr|1<<31, uint32(len(body)/8)|uint32(h.rng.IntN(64))<<16)
		b = binary.LittleEndian.AppendUint64(b, h.answer())
		b = append(b, words32(uint32(h.rng.IntN(8))|uint32(h.rng.IntN(8))<<16, 0)...)
		_, _ = unix.Write(verbs, append(b, body...))
		return
	}
	if nr == 28 {
		body = words32(h.number()%6, 0, 0, 128) // a doorbell
	}
	_ = h.command(verbs, nr, 4*h.rng.IntN(64), body)
	if nr == 18 || nr == 19 || nr == 24 || nr == 32 || nr == 33 {
		h.rings = h.mapped(verbs, h.rings)
	}
}

func (h *program) body(n int) (b []byte) {
	for range n {
		if h.rng.IntN(8) == 0 && len(b)%8 == 0 {
			b = binary.LittleEndian.AppendUint64(b, h.answer())
		} else {
			b = binary.LittleEndian.AppendUint32(b, h.number())
		}
	}
	return b
}

// Steal starts a program, takes its descriptors, and writes commands to them and
// octets into the queues that it has mapped, again and again. args are those of
// Fuzz, and the program.
func Steal(args []string) error {
	h, err := newProgram(args[0])
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	fmt.Println(Ready)
	for end := time.Now().Add(d); ; {
		if err := h.rob(args[2:],
			time.Now().Add(50*time.Millisecond+time.Duration(h.rng.IntN(400))*time.Millisecond)); err != nil {
			return err
		}
		if time.Now().After(end) {
			fmt.Println("commands:", h.n)
			return nil
		}
	}
}

// rob is one life of the program.
func (h *program) rob(argv []string, end time.Time) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := os.OpenFile(procDir(cmd.Process.Pid)+"/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	calm := time.Now().Add(time.Until(end) / 2) // until it is connected
	time.Sleep(time.Until(calm))
	stolen := steal(cmd.Process.Pid, fd)
	defer func() {
		for _, fd := range stolen {
			_ = unix.Close(fd)
		}
	}()
	for time.Now().Before(end) && len(stolen) > 0 {
		for range 20 {
			h.act(stolen[h.rng.IntN(len(stolen))], stolen[h.rng.IntN(len(stolen))])
		}
		for _, r := range shared(cmd.Process.Pid) {
			at := r[0] + uint64(4*h.rng.IntN(int(r[1]-r[0])/4))
			if h.rng.IntN(2) == 0 {
				at = r[0] + []uint64{0, 4, 128, 256}[h.rng.IntN(4)]
			}
			_, _ = mem.WriteAt(words32(h.number()), int64(at)) // it may have unmapped it
		}
	}
	return nil
}

// steal duplicates the descriptors of another process.
func steal(pid, pidfd int) (fds []int) {
	names, _ := os.ReadDir(procDir(pid) + "/fd")
	for _, n := range names {
		number, err := strconv.Atoi(n.Name())
		if err != nil || number < 3 {
			continue
		}
		if fd, err := unix.PidfdGetfd(pidfd, number, 0); err == nil {
			_ = unix.SetNonblock(fd, true)
			fds = append(fds, fd)
		}
	}
	return fds
}

// shared are the shared writable mappings of a process: its queues.
func shared(pid int) (ranges [][2]uint64) {
	f, err := os.Open(procDir(pid) + "/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(sc.Text(), "%x-%x %s", &from, &to, &rights); err == nil && rights == "rw-s" {
			ranges = append(ranges, [2]uint64{from, to})
		}
	}
	return ranges
}
