package uverbs

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/al"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// null is a transport that finishes nothing by itself.
type null struct{ posted int }

func (n *null) Opcodes() verbs.OpSet {
	return verbs.LocalOps | verbs.Ops(verbs.OpSend, verbs.OpSendInv, verbs.OpWrite, verbs.OpRead, verbs.OpCompSwap, verbs.OpFetchAdd)
}
func (n *null) NewEndpoint(*verbs.QP) verbs.Endpoint { return n }
func (n *null) Reclaim(*verbs.MR)                    {}
func (n *null) Posted()                              { n.posted++ }
func (n *null) Modified(verbs.State)                 {}
func (n *null) Destroyed()                           {}

// world is a device with its server and one program that has a file open.
type world struct {
	testing.TB
	dev    *verbs.Device
	ca     *al.CA
	server *Server
	null   *null
	*client
}

// client is a program with an open file and room for a command's answer.
type client struct {
	maps [][]byte // of its rings
	tb   testing.TB
	prog *abitest.Program
	file abi.File
	fd   int // of the rings
	addr uint64
	mem  []byte
}

func newWorld(t testing.TB, limits verbs.Limits) *world {
	t.Helper()
	w := &world{TB: t, dev: verbs.NewDevice(limits, rand.NewPCG(0, 1)), null: &null{}}
	w.dev.SetIdentity(verbs.Identity{
		Name: "rxe0", GUID: verbs.GUIDFromMAC(ether.Addr{2, 0, 0, 0, 0, 1}), VendorPartID: 7, HWVersion: 3, Firmware: "1.2.3",
	})
	w.dev.SetTransport(w.null)
	var err error
	w.ca, err = al.New(nil).RegisterCI(al.CI{Verbs: w.dev})
	ok(t, err)
	w.server = New(w.ca)
	w.client = w.open(100)
	t.Cleanup(func() {
		w.client.file.Close()
		if left := w.dev.Objects(); len(left)+len(w.server.qps) != 0 {
			t.Errorf("left behind: %v, %d queue pairs by number", left, len(w.server.qps))
		}
	})
	return w
}

// open makes a client in a process of its own, with a context.
func (w *world) open(pid int) *client {
	w.Helper()
	c := &client{tb: w.TB, prog: &abitest.Program{PID: pid}}
	var err error
	c.file, c.fd, err = w.server.Open(c.prog, syscall.O_RDWR)
	ok(w.TB, err)
	c.addr, c.mem = c.prog.Map(8192)
	w.Cleanup(func() {
		for _, mem := range c.maps {
			_ = unix.Munmap(mem)
		}
		c.prog.CloseFiles()
		_ = unix.Close(c.fd)
	})
	c.must(0, nil, 8)
	return c
}

// settle runs the handlers that wait.
func (w *world) countRead() {
	for w.dev.Dispatch(frame.Time(1)) {
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fields lays values out one after the other: uint64, uint32, uint8 and octets.
func fields(values ...any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			b = native.AppendUint64(b, v)
		case uint32:
			b = native.AppendUint32(b, v)
		case int:
			b = native.AppendUint32(b, uint32(v))
		case uint8:
			b = append(b, v)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return b
}

// write sends octets as they are.
func (c *client) write(b []byte) error {
	if byIoctl {
		return c.invoke(b)
	}
	return c.file.Command(c.prog, b)
}

// plain makes a command of the plain form. With room for an answer the request
// begins with its address.
func (c *client) plain(number int, in []byte, out int) []byte {
	if out > 0 {
		in = append(native.AppendUint64(nil, c.addr), in...)
	}
	for len(in)%4 != 0 {
		in = append(in, 0)
	}
	b := native.AppendUint32(nil, uint32(number))
	b = native.AppendUint16(b, uint16((len(in)+headerLen)/4))
	b = native.AppendUint16(b, uint16(out/4))
	return append(b, in...)
}

// wide makes a command of the extended form.
func (c *client) wide(number int, in, uhw []byte, out, uhwOut int) []byte {
	b := native.AppendUint32(nil, uint32(number)|extendedFlag)
	b = native.AppendUint16(b, uint16(len(in)/8))
	b = native.AppendUint16(b, uint16(out/8))
	b = native.AppendUint64(b, c.addr)
	b = native.AppendUint16(b, uint16(len(uhw)/8))
	b = native.AppendUint16(b, uint16(uhwOut/8))
	return append(append(b, 0, 0, 0, 0), append(append([]byte(nil), in...), uhw...)...)
}

// do sends a plain command and returns out octets of answer.
func (c *client) do(number int, in []byte, out int) (body, error) {
	for i := range c.mem[:out] {
		c.mem[i] = 0xee
	}
	err := c.write(c.plain(number, in, out))
	return append(body(nil), c.mem[:out]...), err
}

// must is do for what cannot fail.
func (c *client) must(number int, in []byte, out int) body {
	c.tb.Helper()
	got, err := c.do(number, in, out)
	if err != nil {
		c.tb.Fatalf("command %d: %v", number, err)
	}
	return got
}

// fails is do for what must fail.
func (c *client) fails(want syscall.Errno, number int, in []byte, out int) {
	c.tb.Helper()
	if _, err := c.do(number, in, out); err != want {
		c.tb.Errorf("command %d: %v, want %v", number, err, want)
	}
}

// Handles and numbers of new objects.

func (c *client) pd() uint32 { return c.must(3, nil, 4).u32(0) }

func (c *client) cq(user uint64, entries int, channel int32) uint32 {
	c.tb.Helper()
	return c.must(18, fields(user, entries, 0, uint32(channel), 0), 8+ringLen).u32(0)
}

// qpRequest is what CREATE_QP sends for a queue pair of 4 requests each way.
func qpRequest(user uint64, pd, cq uint32, typ uint8) []byte {
	return fields(user, pd, cq, cq, uint32(0), 4, 4, 2, 2, 64, uint8(0), typ, uint8(0), uint8(0))
}

func (c *client) qp(user uint64, pd, cq uint32) (handle, number uint32) {
	c.tb.Helper()
	got := c.must(24, qpRequest(user, pd, cq, typeRC), createQPAnswerLen+2*ringLen)
	return got.u32(0), got.u32(4)
}

func (c *client) channel() (number int) {
	c.tb.Helper()
	return int(c.must(17, nil, 4).u32(0))
}

// read fetches an event from a descriptor of the program, nil if there is none.
func (c *client) read(number, size int) []byte {
	c.tb.Helper()
	fd := c.prog.Files[number]
	ok(c.tb, unix.SetNonblock(fd, true))
	b := make([]byte, size)
	n, err := unix.Read(fd, b)
	switch {
	case err == unix.EAGAIN:
		return nil
	case err != nil || n != size:
		c.tb.Fatalf("read %d octets, %v", n, err)
	}
	return b
}

const asyncFD = 3 // the first descriptor that a program gets
