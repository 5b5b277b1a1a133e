package uverbs

import (
	"bytes"
	"slices"
	"syscall"
	"testing"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

func TestMemoryRegion(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	addr, mem := w.prog.Map(4096)
	reg := func(start, length, iova uint64, pd, access uint32) []byte {
		return fields(start, length, iova, pd, access)
	}
	all := uint32(verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic)
	got := w.must(9, reg(addr, 4096, addr, pd, all|accessOptional), 12)
	r := w.dev.Lookup(got.u32(4))
	if r == nil || got.u32(4) != got.u32(8) || r.Addr() != addr || r.Len() != 4096 || r.Access() != verbs.Access(all) {
		t.Fatalf("region %+v, keys %#x, %#x", r, got.u32(4), got.u32(8))
	}
	ok(t, r.Place([]byte("tapir"), addr+100))
	if !bytes.Equal(mem[100:105], []byte("tapir")) {
		t.Error("the program does not see what was placed")
	}
	w.prog.Unmap(addr)
	if err := r.Place([]byte("tapir"), addr); err == nil {
		t.Error("memory that the program has unmapped takes data")
	}
	w.fails(syscall.EFAULT, 9, reg(addr, 4096, addr, pd, all), 12)
	w.fails(syscall.EBUSY, 4, fields(pd), 0)
	w.must(13, fields(got.u32(0)), 0)

	ro, _ := w.prog.Map(4096)
	w.prog.Protect(ro)
	w.fails(syscall.EFAULT, 9, reg(ro, 10, ro, pd, uint32(verbs.LocalWrite)), 12)
	got = w.must(9, reg(ro, 10, ro, pd, uint32(verbs.RemoteRead)), 12)
	w.must(13, fields(got.u32(0)), 0)
	for name, in := range map[string][]byte{
		"no octets":                reg(ro, 0, ro, pd, 0),
		"wraps":                    reg(ro, ^uint64(0), ro, pd, 0),
		"other offset in the page": reg(ro, 10, ro+1, pd, 0),
		"write without own write":  reg(ro, 10, ro, pd, uint32(verbs.RemoteWrite)),
		"atomic without own write": reg(ro, 10, ro, pd, uint32(verbs.RemoteAtomic)),
		"unknown right":            reg(ro, 10, ro, pd, 1<<9),
	} {
		if _, err := w.do(9, in, 12); err != syscall.EINVAL && err != syscall.EFAULT {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.fails(syscall.EOPNOTSUPP, 9, reg(ro, 10, ro, pd, accessOnDemand), 12)
	if n := len(w.dev.MRs()); n != 0 {
		t.Errorf("%d regions are left", n)
	}
}

func TestReregister(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, pd2 := w.pd(), w.pd()
	a, _ := w.prog.Map(4096)
	b, _ := w.prog.Map(4096)
	got := w.must(9, fields(a, uint64(100), a, pd, uint32(verbs.RemoteRead)), 12)
	mr, key := got.u32(0), got.u32(4)
	rereg := func(flags int, start, length, iova uint64, pd uint32, access verbs.Access) []byte {
		return fields(mr, flags, start, length, iova, pd, uint32(access))
	}
	w.fails(syscall.EINVAL, 11, rereg(0, 0, 0, 0, 0, 0), 8)
	w.fails(syscall.EOPNOTSUPP, 11, rereg(8, 0, 0, 0, 0, 0), 8)
	w.fails(syscall.EINVAL, 11, rereg(reregAccess, 0, 0, 0, 0, verbs.RemoteWrite), 8)
	w.fails(syscall.ENOENT, 11, rereg(reregPD, 0, 0, 0, 99, 0), 8)
	w.fails(syscall.EFAULT, 11, rereg(reregTranslation, 4096, 100, 4096, 0, 0), 8)
	if w.dev.Lookup(key) == nil {
		t.Fatal("a refused change ended the region")
	}
	got = w.must(11, rereg(reregTranslation|reregPD, b, 200, 2<<32, pd2, 0), 8)
	r := w.dev.Lookup(got.u32(0))
	if w.dev.Lookup(key) != nil || r == nil || r.Addr() != 2<<32 || r.Len() != 200 || r.Access() != verbs.RemoteRead {
		t.Fatalf("region %+v", r)
	}
	w.must(4, fields(pd), 0) // nothing of it is left
	got = w.must(11, rereg(reregAccess, 0, 0, 0, 0, verbs.LocalWrite), 8)
	if r = w.dev.Lookup(got.u32(0)); r == nil || r.Addr() != 2<<32 || r.Len() != 200 || r.Access() != verbs.LocalWrite {
		t.Fatalf("region %+v", r)
	}
	ok(t, r.Place([]byte{1}, r.Addr()))
	w.prog.Protect(b)
	got = w.must(11, rereg(reregAccess, 0, 0, 0, 0, 0), 8)
	if r = w.dev.Lookup(got.u32(0)); r.Access() != 0 {
		t.Errorf("access %v", r.Access())
	}
}

// Whatever of a region is changed together, that changes and the rest stays; the
// old key is void.
func TestReregisterFlags(t *testing.T) {
	for flags := uint32(1); flags <= reregTranslation|reregPD|reregAccess; flags++ {
		w := newWorld(t, verbs.Limits{})
		pds := []uint32{w.pd(), w.pd()}
		var addrs [2]uint64
		for i := range addrs {
			addrs[i], _ = w.prog.Map(4096)
		}
		got := w.must(9, fields(addrs[0], uint64(100), addrs[0], pds[0], uint32(verbs.RemoteRead)), 12)
		mr, old := got.u32(0), got.u32(4)
		got = w.must(11, fields(mr, flags, addrs[1], uint64(200), addrs[1], pds[1], uint32(verbs.LocalWrite|verbs.RemoteWrite)), 8)
		r := w.dev.Lookup(got.u32(0))
		if w.dev.Lookup(old) != nil || r == nil || got.u32(0) != got.u32(4) {
			t.Fatalf("flags %d: keys %#x, %#x after %#x", flags, got.u32(0), got.u32(4), old)
		}
		moved, granted := flags&reregTranslation != 0, flags&reregAccess != 0
		if (r.Addr() == addrs[1]) != moved || (r.Len() == 200) != moved || (r.Access() == verbs.LocalWrite|verbs.RemoteWrite) != granted {
			t.Errorf("flags %d: %#x, %d octets, access %v", flags, r.Addr(), r.Len(), r.Access())
		}
		if granted {
			ok(t, r.Place([]byte{1}, r.Addr()))
		}
		free := pds[0] // of which nothing is left
		if flags&reregPD == 0 {
			free = pds[1]
		}
		w.must(4, fields(free), 0)
	}
}

func TestMemoryWindow(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	for typ, kind := range mwKinds {
		got := w.must(14, fields(pd, typ, make([]byte, 3)), 8)
		win := w.dev.Window(got.u32(4))
		if win == nil || win.Kind() != kind {
			t.Errorf("type %d: %+v", typ, win)
		}
		w.fails(syscall.EBUSY, 4, fields(pd), 0)
		w.must(16, fields(got.u32(0)), 0)
	}
	w.fails(syscall.EINVAL, 14, fields(pd, uint8(3), make([]byte, 3)), 8)
}

func TestCompletionQueue(t *testing.T) {
	w := newWorld(t, verbs.Limits{MaxCQE: 1000, MaxCNQ: 2})
	create := func(entries, vector int, channel uint32) []byte {
		return fields(uint64(5), entries, vector, channel, 0)
	}
	for _, in := range [][]byte{create(0, 0, ^uint32(0)), create(1001, 0, ^uint32(0)), create(10, 2, ^uint32(0)), create(10, -1, ^uint32(0))} {
		w.fails(syscall.EINVAL, 18, in, 8+ringLen)
	}
	w.fails(syscall.EBADF, 18, create(10, 0, 77), 8+ringLen)
	got := w.must(18, create(10, 1, ^uint32(0)), 8+ringLen)
	cq := w.dev.CQs()[0]
	if got.u32(4) < 10 || cq.Cap() != int(got.u32(4)) || got.u32(16) < 10*64 {
		t.Errorf("%d entries, ring of %d octets", got.u32(4), got.u32(16))
	}
	resized := w.must(19, fields(got.u32(0), 500), 8+ringLen)
	if resized.u32(0) < 500 || cq.Cap() != int(resized.u32(0)) || resized.u32(16) < 500*64 {
		t.Errorf("resized to %d entries, ring of %d octets", resized.u32(0), resized.u32(16))
	}
	w.fails(syscall.EINVAL, 19, fields(got.u32(0), 1001), 8+ringLen)
	w.fails(syscall.EINVAL, 19, fields(got.u32(0), 0), 8+ringLen)

	ok(t, w.write(w.wide(18, fields(uint64(6), 10, 0, ^uint32(0), 0, 0, 0), nil, 16, 16)))
	wide := body(w.mem[:32])
	if wide.u32(4) < 10 || wide.u32(12) != 16 || wide.u32(24) < 10*64 {
		t.Errorf("extended: % x", wide)
	}
	if err := w.write(w.wide(18, fields(uint64(6), 10, 0, ^uint32(0), 0, 1, 0), nil, 16, 16)); err != syscall.EOPNOTSUPP {
		t.Errorf("time stamps: %v", err)
	}
	if err := w.write(w.wide(18, fields(uint64(6), 10, 0, ^uint32(0), 1, 0, 0), nil, 16, 16)); err != syscall.EINVAL {
		t.Errorf("comp_mask: %v", err)
	}
	gone := w.must(20, fields(got.u32(0), 0), 8)
	if gone.u64(0) != 0 {
		t.Errorf("events % x of a queue that had none", gone)
	}
}

func TestQueuePair(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(1, 16, -1)
	got := w.must(24, qpRequest(9, pd, cq, typeRC), createQPAnswerLen+2*ringLen)
	qp := w.dev.QPs()[0]
	if got.u32(4) != qp.Num() || got.u32(8) != 4 || got.u32(12) != 4 || got.u32(16) != 2 || got.u32(20) != 2 || got.u32(24) != 64 {
		t.Errorf("% x", got[:32])
	}
	if got.u64(32) == got.u64(48) || got.u32(40) == 0 || got.u32(56) == 0 {
		t.Errorf("rings % x", got[32:])
	}
	if w.server.QP(100, qp.Num()) != qp || w.server.QP(101, qp.Num()) != nil || w.server.QP(100, qp.Num()+1) != nil {
		t.Error("QP by number")
	}
	wide := append(qpRequest(9, pd, cq, typeRC), make([]byte, 16)...)
	ok(t, w.write(w.wide(24, wide, nil, 40, 32)))
	if a := body(w.mem[:72]); a.u32(4) != w.dev.QPs()[1].Num() || a.u32(36) != 40 || a.u32(48) == 0 || a.u32(64) == 0 {
		t.Errorf("extended: % x", a)
	}
	for off, want := range map[int]syscall.Errno{48: syscall.EOPNOTSUPP, 49: syscall.EINVAL, 52: syscall.EOPNOTSUPP} {
		bad := append([]byte(nil), wide...)
		bad[off] = 1
		if err := w.write(w.wide(24, bad, nil, 40, 32)); err != want {
			t.Errorf("octet %d: %v, want %v", off, err, want)
		}
	}
	plain := qpRequest(9, pd, cq, typeRC)
	native.PutUint32(plain[40:], 0)
	if a := w.must(24, plain, createQPAnswerLen+2*ringLen); a.u32(24) != 32 {
		t.Errorf("%d octets of inline data in the room of 2 elements", a.u32(24))
	}
	for _, off := range []int{24, 28, 32, 36, 40} { // send and receive requests, elements, inline octets
		bad := qpRequest(9, pd, cq, typeRC)
		native.PutUint32(bad[off:], 1<<20)
		w.fails(syscall.EINVAL, 24, bad, createQPAnswerLen+2*ringLen)
	}
	w.fails(syscall.EBUSY, 20, fields(cq, 0), 8)
	if gone := w.must(27, fields(got.u32(0), 0), 4); gone.u32(0) != 0 {
		t.Errorf("events % x", gone)
	}
}

// modify is the request of MODIFY_QP with one value.
func modify(qp uint32, mask, off int, v uint8) []byte {
	b := make([]byte, modifyQPLen)
	native.PutUint32(b[64:], qp)
	native.PutUint32(b[68:], uint32(mask))
	b[off] = v
	return b
}

func toState(qp uint32, s verbs.State) []byte { return modify(qp, maskState, 96, uint8(s)) }

// A program leads the queue pair to where the CM takes over, and away.
func TestModify(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	qp, _ := w.qp(9, w.pd(), w.cq(1, 16, -1))
	v := w.dev.QPs()[0]
	state := func(to, want verbs.State, errno error) {
		t.Helper()
		was := v.State()
		if _, err := w.do(26, toState(qp, to), 0); err != errno {
			t.Errorf("%v to %v: %v, want %v", was, to, err, errno)
		}
		if v.State() != want {
			t.Errorf("%v to %v: state %v, want %v", was, to, v.State(), want)
		}
	}
	state(verbs.RTR, verbs.Reset, syscall.EINVAL)
	state(verbs.SQD, verbs.Reset, nil)
	state(verbs.Init, verbs.Init, nil)
	state(verbs.Init, verbs.Init, nil)
	state(verbs.RTR, verbs.Init, nil)
	state(verbs.SQD, verbs.Init, nil)
	state(verbs.RTS, verbs.Init, syscall.EINVAL)
	state(verbs.SQE, verbs.Init, syscall.EINVAL)
	v.Transition(verbs.RTS)
	state(verbs.RTR, verbs.RTS, nil)
	state(verbs.RTS, verbs.RTS, nil)
	state(verbs.Init, verbs.RTS, syscall.EINVAL)
	state(verbs.SQD, verbs.SQD, nil)
	state(verbs.Err, verbs.Err, nil)
	state(verbs.RTR, verbs.Err, syscall.EINVAL)
	state(verbs.SQD, verbs.Err, nil)
	state(verbs.Reset, verbs.Reset, nil)
	for name, in := range map[string][]byte{
		"RTR towards a number": modify(qp, maskState|maskDestQPN, 96, uint8(verbs.RTR)),
		"address vector":       modify(qp, maskAV, 0, 0),
		"alternate path":       modify(qp, maskAltPath, 0, 0),
		"port 2":               modify(qp, maskPort, 104, 2),
		"state 7":              toState(qp, 7),
		"current state 7":      modify(qp, maskCurState, 97, 7),
	} {
		if _, err := w.do(26, in, 0); err != syscall.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.fails(syscall.EOPNOTSUPP, 26, modify(qp, 1<<25, 0, 0), 0)
	ok(t, w.write(w.wide(26, append(toState(qp, verbs.Init), make([]byte, 8)...), nil, 8, 0)))
	if v.State() != verbs.Init || body(w.mem).u32(4) != 8 {
		t.Errorf("extended: state %v, answer of %d octets", v.State(), body(w.mem).u32(4))
	}
}

func TestQueryQueuePair(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(1, 16, -1)
	in := qpRequest(9, pd, cq, typeRC)
	in[44] = 1 // every send is signalled
	qp := w.must(24, in, createQPAnswerLen+2*ringLen).u32(0)
	if got := w.must(25, fields(qp, -1), qpAttrLen); got.u8(108) != uint8(verbs.Init) || got.u8(109) != uint8(verbs.Init) {
		t.Errorf("state %d of a new queue pair", got.u8(108))
	}
	set := modify(qp, maskState|maskAccess|maskPort|maskPKeyIndex|maskMaxRead|maskMaxDest|maskMinRNR|maskTimeout|maskRetries|maskRNRRetry|maskSQPSN|maskRQPSN|maskQKey, 96, uint8(verbs.Init))
	native.PutUint32(set[72:], 0x11)
	native.PutUint32(set[76:], 0x22)
	native.PutUint32(set[80:], 0x33)
	native.PutUint32(set[88:], uint32(verbs.LocalWrite|verbs.RemoteRead))
	set[92] = 5
	copy(set[101:], []byte{3, 4, 12, 1, 14, 7, 6})
	w.must(26, set, 0)
	got := w.must(25, fields(qp, -1), qpAttrLen)
	for off, want := range map[int]uint32{
		64: 4, 68: 4, 72: 2, 76: 2, 80: 64, 84: 0x11, 88: 0x22, 92: 0x33, 100: uint32(verbs.LocalWrite | verbs.RemoteRead),
	} {
		if got.u32(off) != want {
			t.Errorf("word at %d is %#x, want %#x", off, got.u32(off), want)
		}
	}
	init := uint8(verbs.Init)
	if want := []byte{5, 0, 0, 0, init, init, 3, 0, 0, 3, 4, 12, 1, 14, 7, 6, 0, 0, 1, 0, 0, 0, 0, 0}; !bytes.Equal(got[104:], want) {
		t.Errorf("octets % x, want % x", got[104:], want)
	}
}

func TestSharedReceiveQueue(t *testing.T) {
	w := newWorld(t, verbs.Limits{MaxSRQWR: 1000})
	pd := w.pd()
	create := func(wr, sge, limit int) []byte { return fields(uint64(3), pd, wr, sge, limit) }
	for _, in := range [][]byte{create(0, 1, 0), create(1001, 1, 0), create(10, 99, 0), create(10, 1, 11)} {
		w.fails(syscall.EINVAL, 32, in, srqAnswerLen+srqUHWLen)
	}
	got := w.must(32, create(10, 2, 0), srqAnswerLen+srqUHWLen)
	srq, number := got.u32(0), got.u32(12)
	if got.u32(4) != 10 || got.u32(8) != 2 || got.u32(24) == 0 || got.u32(32) != number {
		t.Errorf("% x", got)
	}
	basic := w.must(39, fields(uint64(4), 0, pd, 10, 2, 5, 0, 0, 0), srqAnswerLen+srqUHWLen)
	if q := w.must(34, fields(basic.u32(0), 0), 16); q.u32(0) != 10 || q.u32(4) != 2 || q.u32(8) != 5 {
		t.Errorf("% x", q)
	}
	change := func(mask, wr, limit int, tell uint64) []byte { return fields(srq, mask, wr, limit, tell) }
	w.must(33, change(srqMaxWR|srqLimit, 100, 50, w.addr+512), 0)
	if q := w.must(34, fields(srq, 0), 16); q.u32(0) != 100 || q.u32(8) != 50 {
		t.Errorf("% x", q)
	}
	if mi := body(w.mem[512:]); mi.u32(8) < 100*40 {
		t.Errorf("new ring % x", mi[:16])
	}
	w.fails(syscall.EINVAL, 33, change(srqMaxWR, 1001, 0, w.addr), 0)
	w.fails(syscall.EINVAL, 33, change(srqLimit, 0, 101, w.addr), 0)
	w.fails(syscall.EINVAL, 33, change(8, 0, 0, w.addr), 0)

	in := qpRequest(9, pd, w.cq(1, 16, -1), typeRC)
	in[46] = 1
	native.PutUint32(in[20:], srq)
	qp := w.must(24, in, createQPAnswerLen+2*ringLen)
	if qp.u32(12) != 0 || qp.u32(40) != 0 || qp.u32(56) == 0 {
		t.Errorf("queue pair with an SRQ: % x", qp)
	}
	w.fails(syscall.EBUSY, 35, fields(srq, 0), 4)
	w.must(27, fields(qp.u32(0), 0), 4)
	w.must(35, fields(srq, 0), 4)
}

// Whatever a program leaves behind goes with the file.
func TestCloseReclaims(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	c := w.open(200)
	pd := c.pd()
	ch := c.channel()
	cq := c.cq(1, 16, int32(ch))
	c.qp(2, pd, cq)
	addr, _ := c.prog.Map(100)
	c.must(9, fields(addr, uint64(100), addr, pd, 0), 12)
	c.must(14, fields(pd, uint8(1), make([]byte, 3)), 8)
	c.must(32, fields(uint64(3), pd, 10, 2, 0), srqAnswerLen+srqUHWLen)
	if n := len(w.dev.Objects()); n != 8 {
		t.Fatalf("%d objects: %v", n, w.dev.Objects())
	}
	c.file.Close()
	if left := w.dev.Objects(); len(left) != 1 { // the other file's context
		t.Errorf("left behind: %v", left)
	}
	if _, err := c.do(3, nil, 4); err != syscall.EIO {
		t.Errorf("a command on a closed file: %v", err)
	}
	if w.server.QP(200, 1) != nil {
		t.Error("its queue pair is still found")
	}
}

func TestDeviceGoes(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	w.qp(2, pd, w.cq(1, 16, -1))
	done := false
	w.ca.Fail(verbs.ErrRemoved, nil)
	w.countRead()
	w.ca.Deregister(func(frame.Time) { done = true })
	w.countRead()
	if left := w.dev.Objects(); len(left) != 0 || !done {
		t.Errorf("left behind: %v, deregistered %v", left, done)
	}
	w.fails(syscall.EIO, 3, nil, 4)
	var types []uint32
	for ev := body(w.read(asyncFD, asyncEventLen)); ev != nil; ev = w.read(asyncFD, asyncEventLen) {
		types = append(types, ev.u32(8))
	}
	if len(types) == 0 || types[0] != 8 {
		t.Errorf("events %v, want DEVICE_FATAL first", types)
	}
}

// The HCA driver kit's commands beside the kernel's check every handle, address
// and right, and leave nothing when they refuse.
func TestKitCommands(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(1, 16, -1)
	at, _ := w.prog.Map(8192)
	ro := w.must(abi.CmdRegMR, fields(at, uint64(8192), at, pd, uint32(verbs.RemoteRead)), 12).u32(0)
	before := w.dev.Objects()
	pages := func(pd, access, size int, octets uint64, list ...uint64) []byte {
		b := fields(at, uint64(8192), uint64(0), pd, access, size, 0, octets, uint64(0))
		for _, p := range list {
			b = native.AppendUint64(b, p)
		}
		return b
	}
	const all = int(verbs.LocalWrite | verbs.RemoteWrite)
	for name, c := range map[string]struct {
		command int
		in      []byte
		want    syscall.Errno
	}{
		"reliable datagrams":          {abi.CmdAllocRDD, fields(pd, 0), syscall.EOPNOTSUPP},
		"of no domain":                {abi.CmdAllocRDD, fields(99, 0), syscall.ENOENT},
		"pages of no domain":          {abi.CmdRegPages, pages(int(cq), all, 4096, 1, 0), syscall.EINVAL},
		"pages with strange rights":   {abi.CmdRegPages, pages(int(pd), 0x100, 4096, 1, 0), syscall.EINVAL},
		"pages outside":               {abi.CmdRegPages, pages(int(pd), all, 4096, 1, 8192), syscall.EINVAL},
		"no pages":                    {abi.CmdRegPages, pages(int(pd), all, 4096, 1), syscall.EINVAL},
		"half a page":                 {abi.CmdRegPages, append(pages(int(pd), all, 4096, 1, 0), 1, 0, 0, 0), syscall.EINVAL},
		"shared of no region":         {abi.CmdRegShared, fields(uint64(0), pd, cq, all, 0), syscall.EINVAL},
		"shared with rights it lacks": {abi.CmdRegShared, fields(uint64(0), pd, ro, all, 0), syscall.EINVAL},
	} {
		if _, err := w.do(c.command, c.in, 12); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if after := w.dev.Objects(); !slices.Equal(before, after) {
			t.Errorf("%s left %v", name, after)
		}
	}
	again := w.must(abi.CmdRegShared, fields(uint64(0), pd, ro, uint32(verbs.RemoteRead), 0), 12).u32(0)
	w.fails(syscall.EOPNOTSUPP, abi.CmdReregMR, fields(again, 4, uint64(0), uint64(0), uint64(0), 0, 0), 8)
	w.must(abi.CmdDeregMR, fields(ro), 0)
	w.must(abi.CmdDeregMR, fields(again), 0)
}
