package trap

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// judge runs a filter on a system call as the kernel does.
func judge(t *testing.T, prog []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64) // struct seccomp_data
	binary.LittleEndian.PutUint32(data, nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; ; pc++ {
		in := prog[pc]
		taken := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			taken = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			taken = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			taken = acc > in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			taken = acc&in.K != 0
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d: code %#x", pc, in.Code)
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	both := []Cond{{Arg: 1, Mask: 0xffffffff, Value: 1}, {Arg: 2, Mask: 0xffffffff, Value: 37}}
	rules := append(Always(700, 3), Rule{Nr: 5, When: both}, Rule{Nr: 5, When: []Cond{{Arg: 5, Mask: 0xff00, Value: 0x3d00}}}, Rule{Nr: 3, When: both})
	for i := range uint32(200) { // long programs, beyond what one jump reaches
		rules = append(rules, Rule{Nr: 5, When: []Cond{{Arg: 0, Mask: 0xffffffff, Value: 1000 + i}}})
	}
	rules = append(rules, Rule{Nr: 8, When: []Cond{Range{900, 963}.Cond(2), {Arg: 0, Mask: 0xf, Value: 3, Last: 5}}})
	prog := filter(rules)
	for _, c := range []struct {
		nr      uint32
		args    []uint64
		trapped bool
	}{
		{700, nil, true}, {699, nil, false}, {3, nil, true}, {0, nil, false}, {6, []uint64{1000, 1, 37}, false},
		{5, nil, false},
		{5, []uint64{0, 1, 37}, true},
		{5, []uint64{0, 1, 38}, false},
		{5, []uint64{0, 2, 37}, false},
		{5, []uint64{0, 7<<32 | 1, 37}, true}, // an int's upper half may hold anything
		{5, []uint64{0, 0, 0, 0, 0, 0xabcd3d99}, true},
		{5, []uint64{0, 0, 0, 0, 0, 0x3e00}, false},
		{8, []uint64{3, 0, 900}, true}, {8, []uint64{0x15, 0, 1<<32 | 963}, true}, {8, []uint64{4, 0, 950}, true},
		{8, []uint64{2, 0, 900}, false}, {8, []uint64{6, 0, 900}, false}, {8, []uint64{3, 0, 899}, false}, {8, []uint64{3, 0, 964}, false},
		{5, []uint64{1000}, true}, {5, []uint64{1199}, true}, {5, []uint64{1200}, false},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.trapped {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		if got := judge(t, prog, nativeArch, c.nr, c.args...); got != want {
			t.Errorf("call %d %v: %#x", c.nr, c.args, got)
		}
	}
	for _, foreign := range [][2]uint32{{0x40000003, 3}, {nativeArch, 3 | foreignBit}} {
		if got := judge(t, prog, foreign[0], foreign[1]); got != unix.SECCOMP_RET_USER_NOTIF {
			t.Errorf("foreign call %v: %#x", foreign, got)
		}
	}
	if len(encodeFilter(prog)) != 8*len(prog) {
		t.Error("struct sock_filter has 8 octets")
	}
}

// What writes to a descriptor of the reserved range, takes it out of it, or can
// put another file there is trapped; the same calls on other numbers are not.
func TestReservedCalls(t *testing.T) {
	t.Parallel()
	in, out := uint64(Reserved().First), uint64(Reserved().Last)+1
	prog := filter(writeRules())
	for _, c := range []struct {
		nr      uint32
		args    []uint64
		trapped bool
	}{
		{unix.SYS_WRITE, []uint64{in}, true}, {unix.SYS_WRITE, []uint64{out}, false}, {unix.SYS_WRITE, []uint64{0, in}, false},
		{unix.SYS_READ, []uint64{in}, false}, {unix.SYS_CLOSE, []uint64{in}, false},
		{unix.SYS_DUP, []uint64{out - 1}, true}, {unix.SYS_DUP, []uint64{in - 1}, false},
		{unix.SYS_DUP3, []uint64{5, in}, true}, {unix.SYS_DUP3, []uint64{in, 5}, false},
		{unix.SYS_FCNTL, []uint64{in, unix.F_DUPFD, 0}, true}, {unix.SYS_FCNTL, []uint64{in, unix.F_GETFD, 0}, false},
		{unix.SYS_FCNTL, []uint64{5, unix.F_DUPFD, in}, true}, {unix.SYS_FCNTL, []uint64{5, unix.F_DUPFD_CLOEXEC, out - 1}, true},
		{unix.SYS_FCNTL, []uint64{5, unix.F_DUPFD, 3}, false}, {unix.SYS_FCNTL, []uint64{5, unix.F_SETFD, in}, false},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.trapped {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		if got := judge(t, prog, nativeArch, c.nr, c.args...); got != want {
			t.Errorf("call %d %v: %#x", c.nr, c.args, got)
		}
	}
}
