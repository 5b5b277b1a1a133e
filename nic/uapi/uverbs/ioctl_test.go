package uverbs

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/wire/ether"
)

// byIoctl has the tests make their commands by INVOKE_WRITE of ioctl(2).
var byIoctl = os.Getenv("UVERBS_TEST_IOCTL") != ""

// TestByIoctl runs the package's tests again, with commands that come by ioctl(2).
// Left out are those of write(2)'s own headers and fuzzing.
func TestByIoctl(t *testing.T) {
	if byIoctl {
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.short",
		"-test.skip=TestHeaders|TestByIoctl|Fuzz|TestHotCommands")
	cmd.Env = append(os.Environ(), "UVERBS_TEST_IOCTL=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A as the program fills it in.
func inOctets(id uint16, b []byte) abi.Attr { // 8 or fewer
	return abi.Attr{ID: id, Len: uint16(len(b)), Flags: abi.AttrMandatory, Data: body(append(slices.Clone(b), zeros[:]...)).u64(0)}
}

func at(id uint16, addr uint64, n int) abi.Attr {
	return abi.Attr{ID: id, Len: uint16(n), Flags: abi.AttrMandatory, Data: addr}
}

func ref(id uint16, data uint64) abi.Attr {
	return abi.Attr{ID: id, Flags: abi.AttrMandatory, Data: data}
}

func u32of(v uint32) []byte { return native.AppendUint32(nil, v) }
func u64of(v uint64) []byte { return native.AppendUint64(nil, v) }

// ioctlOf lays a request out.
func ioctlOf(object, method uint16, attrs ...abi.Attr) []byte {
	h := abi.IoctlHeader{Length: uint16(abi.IoctlHeaderLen + len(attrs)*abi.AttrLen), Object: object, Method: method,
		Attrs: uint16(len(attrs)), Driver: driverRXE}
	b := slices.Clone(abi.Octets(&h))
	for i := range attrs {
		b = append(b, abi.Octets(&attrs[i])...)
	}
	return b
}

// call makes a request and returns its attributes afterwards.
func (c *client) call(object, method uint16, attrs ...abi.Attr) ([]abi.Attr, error) {
	b := ioctlOf(object, method, attrs...)
	addr, mem := c.prog.Map(len(b))
	defer c.prog.Unmap(addr)
	copy(mem, b)
	err := c.file.Ioctl(c.prog, addr, b)
	for i := range attrs {
		attrs[i] = abi.Get[abi.Attr](mem[abi.IoctlHeaderLen+i*abi.AttrLen:])
	}
	return attrs, err
}

// calls is call for what cannot fail.
func (c *client) calls(object, method uint16, attrs ...abi.Attr) []abi.Attr {
	c.tb.Helper()
	got, err := c.call(object, method, attrs...)
	if err != nil {
		c.tb.Fatalf("method %d of object %d: %v", method, object, err)
	}
	return got
}

// invoke makes what would be written a request, as libibverbs does.
func (c *client) invoke(b []byte) error {
	number := native.Uint32(b)
	in, out, head := len(b), int(native.Uint16(b[6:]))*4, headerLen
	answerAt := uint64(0)
	uhwIn, uhwOut := 0, 0
	if number&extendedFlag != 0 {
		head, in, out = extendedHeaderLen, extendedHeaderLen+int(native.Uint16(b[4:]))*8, out*2
		answerAt, uhwIn, uhwOut = native.Uint64(b[8:]), int(native.Uint16(b[16:]))*8, int(native.Uint16(b[18:]))*8
	} else if cmd, _, err := commandOf(uint64(number)); err == nil {
		if cmd.out > 0 && len(b) >= head+8 {
			answerAt = native.Uint64(b[head:])
		}
		if cmd.uhw && in-head >= cmd.in {
			uhwIn, in = in-head-cmd.in, head+cmd.in
		}
		if cmd.uhw && out >= cmd.out && cmd.out > 0 {
			uhwOut, out = out-cmd.out, cmd.out
		}
	}
	addr, mem := c.prog.Map(len(b) + 1)
	defer c.prog.Unmap(addr)
	copy(mem, b)
	attrs := []abi.Attr{inOctets(2, u64of(uint64(number)))}
	add := func(id uint16, off, n int) {
		if n > 0 && n <= 8 {
			attrs = append(attrs, inOctets(id, b[off:off+n]))
		} else if n > 0 {
			attrs = append(attrs, at(id, addr+uint64(off), n))
		}
	}
	add(attrCoreIn, head, in-head)
	add(attrUHWIn, in, uhwIn)
	if out > 0 {
		attrs = append(attrs, at(attrCoreOut, answerAt, out))
	}
	if uhwOut > 0 {
		attrs = append(attrs, at(attrUHWOut, answerAt+uint64(out), uhwOut))
	}
	_, err := c.call(objectDevice, 0, attrs...)
	return err
}

// newFile opens another file, without a context.
func (w *world) newFile() *client {
	w.Helper()
	c := &client{tb: w.TB, prog: w.prog}
	var err error
	c.file, c.fd, err = w.server.OpenAs(View{IPGIDs: true, Netdev: 7})(c.prog, syscall.O_RDWR)
	ok(w.TB, err)
	c.addr, c.mem = c.prog.Map(8192)
	w.Cleanup(func() {
		c.file.Close()
		_ = unix.Close(c.fd)
	})
	return c
}

// The way of newest libibverbs: the probe, a context without events, the channel of
// events, objects made by methods of their own, and their ends.
func TestMethods(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	c := w.newFile()
	if _, err := c.call(objectDevice, 0, inOctets(2, u64of(abi.CmdQueryDevice))); err != syscall.ENOSPC {
		t.Errorf("the probe of INVOKE_WRITE: %v", err)
	}
	got := c.calls(objectDevice, 3, at(0, c.addr, 4), at(1, c.addr+8, 8))
	if vectors, support := body(c.mem).u32(0), body(c.mem).u64(8); vectors == 0 || support != 1 || got[0].Flags&abi.AttrValidOutput == 0 {
		t.Errorf("GET_CONTEXT: %d vectors, support %d, %+v", vectors, support, got)
	}
	if _, err := c.call(objectDevice, 3); err != syscall.EINVAL {
		t.Errorf("a second context: %v", err)
	}
	async := int(c.calls(objectAsyncEvent, 0, ref(0, 0))[0].Data)
	second := c.calls(objectAsyncEvent, 0, ref(0, 0))[0].Data
	channel := c.calls(objectCompChannel, 0, ref(0, 0))[0].Data
	pd := uint64(c.pd())
	mk := c.calls(objectCQ, 0, ref(0, 0), inOctets(1, u32of(16)), inOctets(2, u64of(11)), ref(3, channel),
		inOctets(4, u32of(0)), at(6, c.addr, 4), at(attrUHWOut, c.addr+16, ringLen))
	cq := mk[0].Data
	if n, size := body(c.mem).u32(0), body(c.mem).u32(24); n < 16 || size == 0 {
		t.Errorf("CQ of %d entries, ring of %d octets", n, size)
	}
	srq := c.calls(objectSRQ, 0, ref(0, 0), ref(1, pd), inOctets(4, u64of(12)), inOctets(5, u32of(8)), inOctets(6, u32of(2)),
		inOctets(7, u32of(0)), inOctets(9, u64of(0)), at(11, c.addr, 4), at(12, c.addr+4, 4), at(13, c.addr+8, 4),
		at(attrUHWOut, c.addr+16, srqUHWLen))[0].Data
	caps := abi.QPCaps{SendWR: 4, RecvWR: 4, SendSGE: 2, RecvSGE: 2, Inline: 64}
	capsAt, capsMem := c.prog.Map(20)
	copy(capsMem, abi.Octets(&caps))
	makeQP := func(more ...abi.Attr) (handle uint64, number uint32) {
		t.Helper()
		qp := c.calls(objectQP, 0, append([]abi.Attr{ref(0, 0), ref(2, pd), ref(4, cq), ref(5, cq), inOctets(7, u64of(13)), at(8, capsAt, 20),
			inOctets(9, u64of(typeRC)), inOctets(10, u32of(qpSignalAll)), at(13, c.addr, 20), at(14, c.addr+20, 4),
			at(attrUHWOut, c.addr+32, 2*ringLen)}, more...)...)
		return qp[0].Data, body(c.mem).u32(20)
	}
	qp, number := makeQP(ref(12, second))
	if caps := abi.Get[abi.QPCaps](c.mem); number == 0 || caps.SendWR < 4 {
		t.Errorf("queue pair %d, %+v", number, caps)
	}
	shared, _ := makeQP(ref(attrQPSRQ, srq))
	// What happens to a queue pair comes by its own channel, or by the first.
	for i, h := range []uint64{qp, shared} {
		c.must(26, toState(uint32(h), verbs.Err), 0)
		q := c.file.(*File).handles.slots[h].(*qpObject)
		pushAsync(q.to, &q.async, q.user, 1)
		w.countRead()
		fd := []int{int(second), async}[i]
		if ev := c.read(fd, asyncEventLen); ev == nil || body(ev).u64(0) != 13 {
			t.Errorf("queue pair %d: event %x", i, ev)
		}
	}
	for _, h := range []uint64{qp, shared} {
		c.calls(objectQP, 1, ref(0, h), at(1, c.addr, 4))
		if n := body(c.mem).u32(0); n != 1 {
			t.Errorf("%d events of the queue pair were read, one was", n)
		}
	}
	c.calls(objectSRQ, 1, ref(0, srq), at(1, c.addr, 4))
	c.calls(objectCQ, 1, ref(0, cq), at(1, c.addr, 8))
	if _, err := c.call(objectCQ, 1, ref(0, cq), at(1, c.addr, 8)); err != syscall.ENOENT {
		t.Errorf("a CQ destroyed twice: %v", err)
	}
	memAt, _ := c.prog.Map(100)
	mr := c.must(9, fields(memAt, uint64(100), memAt, uint32(pd), 1), 12)
	c.calls(objectMR, 3, ref(0, uint64(mr.u32(0))), at(1, c.addr, 4), at(2, c.addr+4, 4), at(3, c.addr+8, 8), at(4, c.addr+16, 8))
	if b := body(c.mem); b.u32(0) != mr.u32(4) || b.u32(4) != mr.u32(8) || b.u64(8) != 100 || b.u64(16) != memAt {
		t.Errorf("QUERY_MR: %x", b[:24])
	}
	c.calls(objectMR, 1, ref(0, uint64(mr.u32(0))))
	mw := c.must(14, fields(uint32(pd), uint8(1), make([]byte, 3)), 8).u32(0)
	c.calls(objectMW, 0, ref(0, uint64(mw)))
	c.calls(objectPD, 0, ref(0, pd))
}

// Port and GID table: those of IP addresses, as the view of the program says.
func TestGIDMethods(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	ip := verbs.GID{15: 9}
	w.dev.SetAddrs([]verbs.GID{verbs.GIDFromMAC(ether.Addr{2, 0, 0, 0, 0, 1}), ip})
	c := w.newFile()
	c.calls(objectDevice, 3)
	c.calls(objectDevice, 2, inOctets(0, u64of(1)), at(1, c.addr, portAttrExLen))
	if state := abi.Get[abi.PortAttr](c.mem).State; state == 0 {
		t.Errorf("QUERY_PORT: state %d", state)
	}
	c.calls(objectDevice, 5, inOctets(0, u64of(gidEntryLen)), inOctets(1, u32of(0)), at(2, c.addr, 8*gidEntryLen), at(3, c.addr+1024, 8))
	if e, n := abi.Get[gidEntry](c.mem), body(c.mem).u64(1024); n != 1 || e != (gidEntry{ip, 0, 1, 0, 7}) {
		t.Errorf("QUERY_GID_TABLE: %d entries, %+v", n, e)
	}
	clear(c.mem[:64])
	c.calls(objectDevice, 6, inOctets(0, u64of(1)), inOctets(1, u64of(0)), inOctets(2, u32of(0)), at(3, c.addr, gidEntryLen))
	if e := abi.Get[gidEntry](c.mem); e.GID != ip {
		t.Errorf("QUERY_GID_ENTRY: %+v", e)
	}
	for name, x := range map[string]struct {
		index, port uint64
		flags       uint32
		want        error
	}{
		"not in use": {5, 1, 0, syscall.ENODATA}, "beyond": {gidTable, 1, 0, syscall.EINVAL},
		"negative": {1 << 31, 1, 0, syscall.EINVAL}, "no such port": {0, 2, 0, syscall.EINVAL}, "flags": {0, 1, 1, syscall.EINVAL},
	} {
		if _, err := c.call(objectDevice, 6, inOctets(0, u64of(x.port)), inOctets(1, u64of(x.index)), inOctets(2, u32of(x.flags)),
			at(3, c.addr, gidEntryLen)); err != x.want {
			t.Errorf("QUERY_GID_ENTRY, %s: %v", name, err)
		}
	}
	for _, x := range []struct{ size, room int }{{0, 64}, {24, 64}, {32, 0}} {
		if _, err := c.call(objectDevice, 5, inOctets(0, u64of(uint64(x.size))), at(2, c.addr, x.room), at(3, c.addr, 8)); err != syscall.EINVAL {
			t.Errorf("entries of %d octets, room for %d: %v", x.size, x.room, err)
		}
	}
}

// What the kernel refuses, with its errnos.
func TestIoctlErrors(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	c := w.newFile()
	if _, err := c.call(objectAsyncEvent, 0, ref(0, 0)); err != syscall.EINVAL {
		t.Errorf("events before a context: %v", err)
	}
	if _, err := c.call(objectDevice, 0, inOctets(2, u64of(abi.CmdAllocPD)), at(attrCoreIn, c.addr, 8), at(attrCoreOut, c.addr, 4)); err != syscall.EINVAL {
		t.Errorf("ALLOC_PD before a context: %v", err)
	}
	c.calls(objectDevice, 3)
	port := func(more ...abi.Attr) []byte {
		return ioctlOf(objectDevice, 2, append([]abi.Attr{inOctets(0, u64of(1))}, more...)...)
	}
	answer := at(1, c.addr, portAttrExLen)
	change := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	optionalAttr := abi.Attr{ID: 99, Data: 5}
	big := at(1, c.addr, portAttrExLen+8)
	reserved := answer
	reserved.Reserved = 1
	for name, x := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":               {nil, syscall.EINVAL},
		"half a header":         {make([]byte, 10), syscall.EINVAL},
		"length that is wrong":  {change(port(answer), 0, 24), syscall.EINVAL},
		"too many attributes":   {change(port(answer), 6, 9), syscall.EINVAL},
		"reserved 1":            {change(port(answer), 8, 1), syscall.EPROTONOSUPPORT},
		"reserved 2":            {change(port(answer), 20, 1), syscall.EPROTONOSUPPORT},
		"another driver":        {change(port(answer), 16, 18), syscall.EINVAL},
		"no such object":        {change(port(answer), 2, 99), syscall.EPROTONOSUPPORT},
		"no such method":        {change(port(answer), 4, 99), syscall.EPROTONOSUPPORT},
		"unknown attribute":     {port(answer, ref(99, 0)), syscall.EPROTONOSUPPORT},
		"optional, unknown":     {port(answer, optionalAttr), nil},
		"attribute twice":       {port(answer, answer), syscall.EINVAL},
		"attribute missing":     {port(), syscall.EINVAL},
		"answer too short":      {port(at(1, c.addr, 8)), syscall.EINVAL},
		"answer that has grown": {port(big), nil},
		"answer nowhere":        {port(at(1, 0, portAttrExLen)), syscall.EFAULT},
		"reserved octet":        {port(reserved), syscall.EINVAL},
		"port 2":                {ioctlOf(objectDevice, 2, inOctets(0, u64of(2)), answer), syscall.EINVAL},
		"port 257":              {ioctlOf(objectDevice, 2, inOctets(0, u64of(257)), answer), syscall.EINVAL},
		"constant too short":    {ioctlOf(objectDevice, 2, inOctets(0, u32of(1)), answer), syscall.EINVAL},
		"no such PD":            {ioctlOf(objectPD, 0, ref(0, 77)), syscall.ENOENT},
		"handle of 64 bits":     {ioctlOf(objectPD, 0, ref(0, 1<<40)), syscall.EINVAL},
		"handle with a length":  {ioctlOf(objectPD, 0, inOctets(0, u32of(1))), syscall.EINVAL},
		"CQ flags":              {ioctlOf(objectCQ, 0, newCQ16(c.addr, cqTimestamps)...), syscall.EOPNOTSUPP},
		"unknown CQ flags":      {ioctlOf(objectCQ, 0, newCQ16(c.addr, 8)...), syscall.EINVAL},
		"no such channel":       {ioctlOf(objectCQ, 0, append(newCQ16(c.addr, 0), ref(3, 55))...), syscall.EBADF},
		"no such events":        {ioctlOf(objectCQ, 0, append(newCQ16(c.addr, 0), ref(7, 55))...), syscall.EBADF},
		"no such command":       {ioctlOf(objectDevice, 0, inOctets(2, u64of(200))), syscall.EOPNOTSUPP},
		"unknown flag":          {ioctlOf(objectDevice, 0, inOctets(2, u64of(0x100))), syscall.EINVAL},
	} {
		addr, mem := c.prog.Map(len(x.b) + 1)
		copy(mem, x.b)
		if err := c.file.Ioctl(c.prog, addr, x.b); err != x.want {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	// A program that cannot be told of what was made does not have it.
	b := ioctlOf(objectCQ, 0, newCQ16(c.addr, 0)...)
	if err := c.file.Ioctl(c.prog, 0x1000, b); err != syscall.EFAULT {
		t.Errorf("attributes nowhere: %v", err)
	}
	if n := len(w.dev.Objects()); n != 2 {
		t.Errorf("%d objects, want two contexts: %v", n, w.dev.Objects())
	}
	c.file.Close()
	if _, err := c.call(objectDevice, 3); err != syscall.EIO {
		t.Errorf("a closed file: %v", err)
	}
}

// newCQ16 asks for a CQ with these flags.
func newCQ16(addr uint64, flags uint32) []abi.Attr {
	return []abi.Attr{ref(0, 0), inOctets(1, u32of(16)), inOctets(2, u64of(1)), inOctets(4, u32of(0)), inOctets(5, u32of(flags)),
		at(6, addr, 4), at(attrUHWOut, addr+64, ringLen)}
}

// qpObject names qp where a variable has its name.
type qpObject = qp

// FuzzIoctl makes requests of whatever input says: none is served otherwise than by
// an errno, none leaves anything behind.
func FuzzIoctl(f *testing.F) {
	f.Add(ioctlOf(objectDevice, 3))
	f.Add(ioctlOf(objectCQ, 0, newCQ16(0x7f0000000000, 0)...))
	f.Add(ioctlOf(objectDevice, 0, inOctets(2, u64of(abi.CmdAllocPD)), inOctets(0, u64of(0)), at(1, 0x7f0000000000, 4)))
	f.Fuzz(func(t *testing.T, in []byte) {
		w := newWorld(t, verbs.Limits{MaxCQ: 8, MaxQP: 8})
		defer w.prog.CloseFiles()
		for range 64 {
			n := abi.IoctlLen(in)
			if n < abi.IoctlHeaderLen || n > len(in) {
				break
			}
			addr, mem := w.prog.Map(n)
			copy(mem, in[:n])
			if err := w.file.Ioctl(w.prog, addr, mem); err != nil {
				if _, errno := err.(syscall.Errno); !errno {
					t.Errorf("%v is no errno", err)
				}
			}
			in = in[n:]
		}
	})
}

// REQ_NOTIFY_CQ, which comes once for each event, allocates nothing.
func TestInvokedAllocatesNothing(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	cq := w.cq(1, 16, int32(w.channel()))
	b := ioctlOf(objectDevice, 0, inOctets(2, u64of(abi.CmdReqNotifyCQ)), inOctets(0, fields(cq, 0)))
	if n := testing.AllocsPerRun(100, func() { ok(t, w.file.Ioctl(w.prog, w.addr, b)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
