package uverbs

import (
	"slices"
	"syscall"
	"testing"

	"tapir/nic/verbs"
)

// sendWR is a struct ib_uverbs_send_wr: union holds what follows octet 24.
func sendWR(id uint64, sges, opcode, flags, ex int, union ...any) []byte {
	b := fields(id, sges, opcode, flags, ex, fields(union...))
	return append(b, make([]byte, sendWRLen-len(b))...)
}

func (c *client) post(number int, handle uint32, size int, sges []byte, wrs ...[]byte) (bad uint32, err error) {
	in := fields(handle, len(wrs), len(sges)/sgeLen, size)
	for _, wr := range wrs {
		in = append(in, wr...)
	}
	out, err := c.do(number, append(in, sges...), 4)
	return out.u32(0), err
}

func TestPostSend(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(1, 16, -1)
	qp, _ := w.qp(2, pd, cq)
	v := w.dev.QPs()[0]
	w.must(26, toState(qp, verbs.Init), 0)
	if _, err := w.post(28, qp, sendWRLen, nil); err != syscall.EINVAL {
		t.Errorf("doorbell in INIT: %v", err)
	}
	v.Transition(verbs.RTS)
	if _, err := w.post(28, qp, sendWRLen, nil); err != nil || w.null.posted == 0 {
		t.Errorf("doorbell: %v, the transport was rung %d times", err, w.null.posted)
	}
	addr, mem := w.prog.Map(100)
	copy(mem, "inline data")
	sge := fields(addr, 6, 0)
	bad, err := w.post(28, qp, sendWRLen, append(sge, append(sge, sge...)...),
		sendWR(11, 1, 2, 2|4, 0), // signalled, solicited Send
		sendWR(12, 1, 2, 8, 0),   // inline
		sendWR(13, 1, 5, 1, 0, uint64(0x1000), uint64(7), uint64(8), uint32(0xbeef))) // fenced compare and swap
	if err == nil || bad != 3 { // 6 octets are no operand
		t.Errorf("bad request %d, %v", bad, err)
	}
	if n := v.SendsPending(); n != 2 {
		t.Fatalf("%d requests are posted", n)
	}
	if wr := v.SendWQE(0); wr.ID != 11 || wr.Opcode != verbs.OpSend || wr.Flags != verbs.Signaled|verbs.Solicited || wr.SGEs[0].Addr != addr || wr.Length != 6 {
		t.Errorf("%+v", wr)
	}
	if wr := v.SendWQE(1); wr.ID != 12 || wr.Flags != verbs.Inline || string(wr.Inline) != "inline" {
		t.Errorf("%+v", wr)
	}
	bad, err = w.post(28, qp, sendWRLen+8, fields(addr, 8, 5),
		append(sendWR(14, 1, 6, 0, 0, uint64(0x1000), uint64(7), uint64(8), uint32(0xbeef)), make([]byte, 8)...))
	if wr := v.SendWQE(2); err != nil || bad != 0 || wr.RKey != 0xbeef || wr.RemoteAddr != 0x1000 || wr.Atomic.CompareAdd != 7 || wr.SGEs[0].LKey != 5 {
		t.Errorf("%v, bad request %d: %+v", err, bad, wr)
	}
	big := fields(addr, 65, 0)
	for name, c := range map[string]struct {
		size int
		sges []byte
		wr   []byte
		want error
	}{
		"more elements than there are": {sendWRLen, sge, sendWR(1, 2, 2, 0, 0), syscall.EINVAL},
		"unknown opcode":               {sendWRLen, nil, sendWR(1, 0, 14, 0, 0), syscall.EINVAL},
		"bind by command":              {sendWRLen, nil, sendWR(1, 0, 8, 0, 0), syscall.EINVAL},
		"short requests":               {40, nil, make([]byte, 40), syscall.EINVAL},
		"requests that are missing":    {1 << 30, nil, nil, nil},
		"too much inline":              {sendWRLen, big, sendWR(1, 1, 2, 8, 0), syscall.EINVAL},
		"inline from nowhere":          {sendWRLen, fields(uint64(4096), 6, 0), sendWR(1, 1, 2, 8, 0), syscall.EFAULT},
	} {
		var err error
		if c.wr == nil {
			_, err = w.do(28, fields(qp, 5, 1<<28, c.size), 4)
			c.want = syscall.ENOSPC
		} else {
			_, err = w.post(28, qp, c.size, c.sges, c.wr)
		}
		if err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestPostRecv(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	qp, _ := w.qp(2, pd, w.cq(1, 16, -1))
	w.must(26, toState(qp, verbs.Init), 0)
	srq := w.must(32, fields(uint64(3), pd, 4, 2, 0), srqAnswerLen+srqUHWLen).u32(0)
	wr := func(id uint64, sges int) []byte { return fields(id, sges, 0) }
	sge := fields(uint64(0x1000), 8, 5)
	for number, handle := range map[int]uint32{29: qp, 36: srq} {
		bad, err := w.post(number, handle, recvWRLen, append(sge, sge...), wr(1, 2), wr(2, 0))
		if err != nil || bad != 0 {
			t.Errorf("command %d: %v, bad request %d", number, err, bad)
		}
		bad, err = w.post(number, handle, recvWRLen, nil, wr(3, 0), wr(4, 0), wr(5, 0))
		if err != syscall.ENOMEM || bad != 3 {
			t.Errorf("command %d: %v, bad request %d", number, err, bad)
		}
		w.fails(syscall.ENOENT, number, fields(99, 0, 0, recvWRLen), 4)
	}
	if n := w.dev.QPs()[0].RecvsPending(); n != 4 {
		t.Errorf("%d receives wait", n)
	}
	if q := w.must(34, fields(srq, 0), 16); q.u32(0) != 4 {
		t.Errorf("% x", q)
	}
}

// What a program does all the time costs the loop no memory.
func TestHotCommandsAllocateNothing(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	cq := w.cq(1, 16, int32(w.channel()))
	qp, _ := w.qp(2, w.pd(), cq)
	w.must(26, toState(qp, verbs.Init), 0)
	w.dev.QPs()[0].Transition(verbs.RTS)
	for name, b := range map[string][]byte{
		"doorbell":      w.plain(28, fields(qp, 0, 0, sendWRLen), 4),
		"REQ_NOTIFY_CQ": w.plain(23, fields(cq, 0), 0),
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := w.write(b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDoorbell(b *testing.B) {
	w := newWorld(b, verbs.Limits{})
	qp, _ := w.qp(2, w.pd(), w.cq(1, 16, -1))
	w.must(26, toState(qp, verbs.Init), 0)
	w.dev.QPs()[0].Transition(verbs.RTS)
	ring := w.plain(28, fields(qp, 0, 0, sendWRLen), 4)
	for b.Loop() {
		ok(b, w.write(ring))
	}
}

// Whatever octets a program writes, it gets an answer, and its file goes with
// all that it made.
func FuzzCommands(f *testing.F) {
	add := func(b []byte) { f.Add(b) }
	seed := &client{addr: 0x7f00_0000_0000}
	add(seed.plain(3, nil, 4))
	add(seed.plain(18, fields(uint64(1), 8, 0, ^uint32(0), 0), 8+ringLen))
	add(seed.plain(24, qpRequest(1, 0, 1, typeRC), createQPAnswerLen+2*ringLen))
	add(seed.plain(32, fields(uint64(3), 0, 10, 2, 0), srqAnswerLen+srqUHWLen))
	add(seed.plain(33, fields(uint32(3), 3, 100, 5, uint64(0x7f00_0000_0000)), 0))
	add(seed.plain(26, toState(2, verbs.Err), 0))
	add(seed.plain(21, fields(uint32(1), 100), 8+4*wcLen))
	add(append(seed.plain(28, append(fields(2, 1, 1, sendWRLen), append(sendWR(1, 1, 2, 8, 0), fields(uint64(0x7f00_0000_0000), 6, 0)...)...), 4), 0))
	add(slices.Concat(
		seed.wide(24, append(qpRequest(1, 0, 1, typeRC), make([]byte, 16)...), nil, 40, 32),
		seed.wide(1, make([]byte, 8), nil, extendedDeviceAttrLen, 0),
		seed.wide(18, fields(uint64(6), 10, 0, ^uint32(0), 0, 0, 0), nil, 16, 16),
		seed.wide(26, append(toState(2, verbs.Init), make([]byte, 8)...), nil, 8, 0),
		seed.plain(20, fields(uint32(1), 0), 8),
	))
	addr := uint64(0x7f00_0000_0000)
	add(slices.Concat(
		seed.plain(9, fields(addr, uint64(100), addr, uint32(0), uint32(verbs.LocalWrite)), 12),
		seed.plain(11, fields(uint32(4), uint32(7), addr, uint64(200), addr, uint32(0), uint32(0)), 8),
		seed.plain(14, fields(uint32(0), uint8(2), make([]byte, 3)), 8),
		seed.plain(13, fields(uint32(4)), 0),
	))
	add(slices.Concat(seed.plain(19, fields(uint32(1), 100), 8+ringLen), seed.plain(27, fields(uint32(2), 0), 4), seed.plain(35, fields(uint32(3), 0), 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t, verbs.Limits{MaxCQE: 1 << 10, MaxQPWR: 1 << 10, MaxSRQWR: 1 << 10})
		w.pd()                          // handle 0
		w.cq(1, 16, int32(w.channel())) // 1
		w.qp(2, 0, 1)                   // 2
		w.must(32, fields(uint64(3), 0, 10, 2, 0), srqAnswerLen+srqUHWLen)
		for len(b) > 0 { // commands of the length that each header says
			n := len(b)
			switch {
			case n >= extendedHeaderLen && native.Uint32(b)&extendedFlag != 0:
				n = min(n, extendedHeaderLen+8*(int(native.Uint16(b[4:]))+int(native.Uint16(b[16:]))))
			case n >= headerLen:
				n = min(n, max(headerLen, 4*int(native.Uint16(b[4:]))))
			}
			_ = w.write(b[:n])
			w.countRead()
			b = b[n:]
		}
	})
}
