package relay

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/uapi/ipc"
	"tapir/nic/umode/proxy"
	"tapir/wire/frame"
)

// still is a thread that polls nothing.
type still struct{}

func (still) Do(fn func(now frame.Time))                                      { fn(0) }
func (still) AddSource(int, func(now frame.Time, hungUp bool), func()) func() { return func() {} }
func (still) AddBell(int, proxy.Doorbells) func()                             { return func() {} }
func (still) AtEnd(fn func())                                                 { fn() }

// FuzzSession: a supervisor says anything, with and without a descriptor. Each
// message begins with an octet for its length, of which the lowest bit tells
// whether one comes along: memory that holds what follows in the input.
func FuzzSession(f *testing.F) {
	for k := range foreign {
		b, err := binary.Append([]byte{0}, binary.NativeEndian, &message{Kind: k + 1, ID: 1, Call: 1, File: 1, Thread: 1})
		if err != nil {
			f.Fatal(err)
		}
		for _, tail := range []string{"", "toy", "{}"} {
			one := append(b, tail...)
			one[0] = uint8(len(one)-1) << 1
			f.Add(one)
			with := append([]byte{one[0] | 1}, one[1:]...)
			f.Add(append(with, one...))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, theirs := abitest.SocketPair(t)
		for n := 0; len(in) > 0 && n < 32; n++ {
			size := min(int(in[0]>>1), len(in)-1)
			m, fd := in[1:1+size], -1
			if in[0]&1 != 0 {
				fd = memfd(t, in[1+size:])
			}
			in = in[1+size:]
			if _, _, err := theirs.WriteMsgUnix(m, ipc.Rights(fd), nil); err != nil {
				t.Fatal(err)
			}
			ipc.Close(fd)
		}
		theirs.Close()
		open := func(abi.Caller, int) (abi.File, int, error) { return nil, -1, unix.ENODEV }
		newSession(newLink(ours), Ask{}, map[string]Device{"toy": {open, still{}}}, 0, func(int) {}).run()
		ours.Close()
	})
}

// memfd is a descriptor of memory with text.
func memfd(t *testing.T, text []byte) int {
	fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fd, text); err != nil {
		t.Fatal(err)
	}
	return fd
}
