package uverbs

import (
	"bytes"
	"slices"
	"syscall"
	"testing"

	"tapir/nic/msglog"
	"tapir/nic/verbs"
)

func TestHeaders(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	plain := func(number uint32, in, out uint16, body ...byte) []byte {
		b := native.AppendUint32(nil, number)
		b = native.AppendUint16(b, in)
		return append(native.AppendUint16(b, out), body...)
	}
	eight := make([]byte, 8)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"shorter than a header":      {[]byte{1, 2, 3}, syscall.EINVAL},
		"unknown flag":               {plain(0x100, 2, 0), syscall.EINVAL},
		"no such command":            {plain(200, 2, 0), syscall.EOPNOTSUPP},
		"a gap in the table":         {plain(6, 2, 0), syscall.EOPNOTSUPP},
		"no such extended command":   {plain(3|extendedFlag, 0, 0), syscall.EOPNOTSUPP},
		"length that is not true":    {plain(4, 4, 0, 0, 0, 0, 0), syscall.EINVAL},
		"request too short":          {plain(13, 2, 0), syscall.ENOSPC},
		"no room for the answer":     {plain(1, 4, 43, eight...), syscall.ENOSPC},
		"extended: header too short": {plain(1|extendedFlag, 0, 0, eight...), syscall.EINVAL},
		"extended: request short":    {w.wide(24, make([]byte, 48), nil, 40, 32), syscall.ENOSPC},
		"extended: unknown fields":   {w.wide(1, append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0), nil, 304, 0), syscall.EOPNOTSUPP},
		"extended: zero extension":   {w.wide(1, make([]byte, 64), nil, 304, 0), nil},
		"extended: no room":          {w.wide(1, make([]byte, 8), nil, 176, 0), syscall.ENOSPC},
		"extended: comp_mask":        {w.wide(1, append([]byte{1}, make([]byte, 7)...), nil, 304, 0), syscall.EINVAL},
		"answer at no address":       {append(plain(1, 4, 44), eight...), syscall.EFAULT},
	} {
		if err := w.write(c.b); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestContextFirstAndOnce(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	w.fails(syscall.EINVAL, 0, nil, 8)
	f, fd, err := w.server.Open(w.prog, 0)
	ok(t, err)
	if err := f.Command(w.prog, w.plain(3, nil, 4)); err != syscall.EINVAL {
		t.Errorf("ALLOC_PD before GET_CONTEXT: %v", err)
	}
	w.prog.Max = 4 // one descriptor, which is taken
	if err := f.Command(w.prog, w.plain(0, nil, 8)); err != syscall.EMFILE {
		t.Errorf("GET_CONTEXT without a free descriptor: %v", err)
	}
	f.Close()
	f.Close()
	_ = syscall.Close(fd)
}

func TestQueryDevice(t *testing.T) {
	w := newWorld(t, verbs.Limits{MaxQP: 17, MaxQPWR: 99, MaxSGE: 5, MaxIRD: 9, MaxORD: 11})
	base := w.must(1, nil, deviceAttrLen)
	a := w.dev.Attr()
	if got := base.u64(0); got != 1<<32|2<<16|3 {
		t.Errorf("firmware %#x", got)
	}
	if !bytes.Equal(base[8:16], a.GUID[:]) || base.u64(32) != 0xfffff000 || base.u32(40) != verbs.VendorID || base.u32(44) != 7 || base.u32(48) != 3 {
		t.Errorf("identity % x", base[:52])
	}
	for off, want := range map[int]int{
		52: 17, 56: 99, 64: 5, 72: a.MaxCQ, 76: a.MaxCQE, 80: a.MaxMR, 84: a.MaxPD, 88: 9, 96: 17 * 9, 100: 11,
		108: 1, 120: a.MaxMW, 144: 0, 156: a.MaxSRQ, 160: a.MaxSRQWR, 164: 5,
	} {
		if got := base.u32(off); got != uint32(want) {
			t.Errorf("word at %d is %d, want %d", off, got, want)
		}
	}
	if flags := base.u32(60); flags&(1<<17|1<<24|1<<13|1<<10|1<<0) != 1<<17|1<<24|1<<13|1<<10 {
		t.Errorf("flags %#x", flags)
	}
	if base.u16(168) != verbs.MaxPKeys || base[171] != 1 {
		t.Errorf("PKeys %d, ports %d", base.u16(168), base[171])
	}
	ok(t, w.write(w.wide(1, make([]byte, 8), nil, extendedDeviceAttrLen, 0)))
	wide := body(w.mem[:extendedDeviceAttrLen])
	if !bytes.Equal(wide[:deviceAttrLen], base) || wide.u32(180) != extendedDeviceAttrLen || wide.u64(224) != uint64(base.u32(60)) {
		t.Errorf("extended: response length %d, flags %#x", wide.u32(180), wide.u64(224))
	}
	if many := newWorld(t, verbs.Limits{MaxIRD: 300, MaxORD: 256}).must(1, nil, deviceAttrLen); many.u32(88) != 255 || many.u32(100) != 255 {
		t.Errorf("%d, %d Reads at a time: an octet has no room for them", many.u32(88), many.u32(100))
	}
	w.mem[184] = 0xaa
	ok(t, w.write(w.wide(1, make([]byte, 8), nil, 184, 0)))
	if wide.u32(180) != 184 || wide[184] != 0xaa {
		t.Errorf("an older program is told of %d octets", wide.u32(180))
	}
}

// There are as many objects of each kind as QUERY_DEVICE says, then ENOMEM, also
// for other programs; one that goes makes room.
func TestLimits(t *testing.T) {
	w := newWorld(t, verbs.Limits{MaxPD: 3, MaxMR: 4, MaxMW: 5, MaxCQ: 6, MaxQP: 7, MaxSRQ: 8, MaxContext: 2})
	said := w.must(1, nil, deviceAttrLen)
	pd, cq := w.pd(), w.cq(1, 8, -1)
	addr, _ := w.prog.Map(100)
	other := w.open(200)
	defer other.file.Close()
	for name, c := range map[string]struct {
		at, have        int // of the answer to QUERY_DEVICE; made already
		create, destroy int
		in              []byte
		room            int
	}{
		"PD":  {84, 1, 3, 4, nil, 4},
		"MR":  {80, 0, 9, 13, fields(addr, uint64(100), addr, pd, 0), 12},
		"MW":  {120, 0, 14, 16, fields(pd, uint8(1), make([]byte, 3)), 8},
		"CQ":  {72, 1, 18, 20, fields(uint64(1), 8, 0, ^uint32(0), 0), 8 + ringLen},
		"QP":  {52, 0, 24, 27, qpRequest(0, pd, cq, typeRC), createQPAnswerLen + 2*ringLen},
		"SRQ": {156, 0, 32, 35, fields(uint64(3), pd, 4, 1, 0), srqAnswerLen + srqUHWLen},
	} {
		last := uint32(0)
		for range int(said.u32(c.at)) - c.have {
			last = w.must(c.create, c.in, c.room).u32(0)
		}
		if _, err := w.do(c.create, c.in, c.room); err != syscall.ENOMEM {
			t.Errorf("%s: one more than %d: %v", name, said.u32(c.at), err)
		}
		if name == "PD" || name == "CQ" {
			other.fails(syscall.ENOMEM, c.create, c.in, c.room)
		}
		in, room := fields(last), 0
		if c.destroy == 20 || c.destroy == 27 || c.destroy == 35 {
			in, room = fields(last, 0), 8
		}
		w.must(c.destroy, in, room)
		w.must(c.create, c.in, c.room)
	}
	f, fd, err := w.server.Open(w.prog, 0)
	ok(t, err)
	defer func() { _ = syscall.Close(fd) }()
	defer f.Close()
	if err := f.Command(w.prog, w.plain(0, nil, 8)); err != syscall.ENOMEM {
		t.Errorf("a context more than there may be: %v", err)
	}
	w.prog.Max = 1000
	for range 6 {
		w.channel()
	}
	w.fails(syscall.ENOMEM, 17, nil, 4)
	for pid := range 10 * manyProcesses {
		w.file.(*File).note(1<<30 + pid) // as no process is called
	}
	if n := len(w.file.(*File).pids); n > 2*manyProcesses {
		t.Errorf("%d processes are remembered", n)
	}
}

func TestQueryPort(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	p := w.must(2, fields(uint8(1), make([]byte, 7)), portAttrLen)
	if p.u32(16) != verbs.MaxGIDs || p.u16(20) != verbs.MaxPKeys || p.u8(26) != uint8(verbs.PortActive) ||
		p.u8(27) != 3 || p.u8(36) != uint8(verbs.PhysLinkUp) || p.u8(37) != linkLayerEthernet {
		t.Errorf("% x", p)
	}
	for _, port := range []uint8{0, 2} {
		w.fails(syscall.EINVAL, 2, fields(port, make([]byte, 7)), portAttrLen)
	}
}

// What a program names must be its own, alive and of the right kind.
func TestHandles(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	cq := w.cq(1, 8, -1)
	other := w.open(200)
	defer other.file.Close()
	w.fails(syscall.ENOENT, 4, fields(uint32(99)), 0)
	w.fails(syscall.ENOENT, 4, fields(^uint32(0)), 0)
	w.fails(syscall.EINVAL, 4, fields(cq), 0)
	other.fails(syscall.ENOENT, 4, fields(pd), 0)
	w.must(4, fields(pd), 0)
	w.fails(syscall.ENOENT, 4, fields(pd), 0)
	if again := w.pd(); again != pd {
		t.Errorf("handle %d is not used again, %d is", pd, again)
	}
}

func TestUnsupported(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	cq := w.cq(1, 8, -1)
	w.fails(syscall.EOPNOTSUPP, 5, fields(uint64(0), pd, 0, make([]byte, 32)), 4)
	w.fails(syscall.EOPNOTSUPP, 30, make([]byte, 24), 0)
	w.fails(syscall.EOPNOTSUPP, 37, fields(0, 0), 4)
	w.fails(syscall.EOPNOTSUPP, 39, fields(uint64(0), 1, pd, 4, 1, 0, 0, 0, 0), srqAnswerLen+srqUHWLen)
	for _, typ := range []uint8{typeUC, typeUD, typeRawPacket, typeXRCSend} {
		w.fails(syscall.EOPNOTSUPP, 24, qpRequest(0, pd, cq, typ), createQPAnswerLen+2*ringLen)
	}
	w.fails(syscall.EINVAL, 24, qpRequest(0, pd, cq, 77), createQPAnswerLen+2*ringLen)
}

// A program that cannot be told of an object has none.
func TestNoObjectWithoutAnswer(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd := w.pd()
	cq := w.cq(1, 8, -1)
	before := len(w.dev.Objects())
	addr := w.addr
	w.addr = 4096 // not mapped
	w.fails(syscall.EFAULT, 3, nil, 4)
	w.fails(syscall.EFAULT, 18, fields(uint64(1), 8, 0, ^uint32(0), 0), 8+ringLen)
	w.fails(syscall.EFAULT, 24, qpRequest(0, pd, cq, typeRC), createQPAnswerLen+2*ringLen)
	w.fails(syscall.EFAULT, 32, fields(uint64(0), pd, 4, 1, 0), srqAnswerLen+srqUHWLen)
	w.addr = addr
	w.fails(syscall.EINVAL, 18, fields(uint64(1), 8, 0, ^uint32(0), 0), 8) // no room for the ring's place
	w.fails(syscall.EINVAL, 24, qpRequest(0, pd, cq, typeRC), createQPAnswerLen+ringLen)
	if after := len(w.dev.Objects()); after != before {
		t.Errorf("%d objects, %d before", after, before)
	}
}

func TestTrace(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	var steps []Step
	w.server.OnTrace(func(p TracePoint) {
		if failed := len(steps) > len(stepNames); p.Command != "CREATE_CQ" || p.Process != 100 || failed != (p.Err == syscall.EINVAL) {
			t.Errorf("%+v", p)
		}
		steps = append(steps, p.Step)
	})
	log := &msglog.Log{Mask: msglog.Cmd}
	w.dev.SetLog(log)
	w.cq(1, 8, -1)
	w.fails(syscall.EINVAL, 18, fields(uint64(1), 0, 0, ^uint32(0), 0), 8+ringLen)
	w.server.OnTrace(nil)
	want := []Step{StepProxy, StepAccess, StepDriver, StepCreated, StepTracked, StepAnswered, StepProxy, StepAnswered}
	if !slices.Equal(steps, want) {
		t.Fatalf("steps %v", steps)
	}
	var lines []string
	for _, l := range log.Since(0) {
		lines = append(lines, l.Text)
	}
	if want := []string{
		"process 100 CREATE_CQ 3 proxy", "process 100 CREATE_CQ 4 access layer", "process 100 CREATE_CQ 5 driver",
		"process 100 CREATE_CQ 6 created", "process 100 CREATE_CQ 7 tracked", "process 100 CREATE_CQ 8 answered",
		"process 100 CREATE_CQ 3 proxy", "process 100 CREATE_CQ 8 answered: invalid argument",
	}; !slices.Equal(lines, want) {
		t.Errorf("log %q", lines)
	}
}
