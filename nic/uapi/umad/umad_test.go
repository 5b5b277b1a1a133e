package umad

import (
	"context"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// opened is a file of a port whose agents echo requests to LID 1 as responses.
func opened(t *testing.T) (f *file, program int) {
	t.Helper()
	port := &Port{Exchange: func(ctx context.Context, to Address, b []byte) []byte {
		if to.LID != 1 {
			return nil
		}
		b = append([]byte(nil), b...)
		b[offMethod] |= responseBit
		return b
	}}
	of, err := node{port}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	f = of.(*file)
	program, _ = f.Descriptor()
	t.Cleanup(func() {
		f.Release()
		unix.Close(program)
	})
	return f, program
}

func (f *file) do(record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.send(record)
}

// record is a request of an agent.
func (f *file) record(agent uint32, lid uint16, timeout, retries uint32) []byte {
	b := make([]byte, f.header+mostMAD)
	native.PutUint32(b, agent)
	native.PutUint32(b[offTimeout:], timeout)
	native.PutUint32(b[offRetries:], retries)
	binary.BigEndian.PutUint16(b[offLID:], lid)
	b[f.header+offMethod], b[f.header+15] = 1, 9
	return b
}

func TestRegister(t *testing.T) {
	f, _ := opened(t)
	for name, r := range map[string]request2{
		"queue pair 2":           {QP: 2},
		"no class":               {QP: 1, Version: 1},
		"class 0x50":             {QP: 1, Class: 0x50, Version: 1},
		"a vendor's without OUI": {QP: 1, Class: 0x32, Version: 1},
		"subnet on queue pair 1": {QP: 1, Class: 1, Version: 1},
		"others on queue pair 0": {QP: 0, Class: 4, Version: 1},
		"subnet in segments":     {QP: 0, Class: 0x81, Version: 1, RMPP: 1},
		"version 0x83":           {QP: 1, Class: 4, Version: 0x83},
	} {
		if _, err := f.register(r); err != unix.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.enablePKey(); err != nil || f.header != headerLen {
		t.Errorf("the longer header: %v", err)
	}
	for id := range uint32(maxAgents) {
		if got, err := f.register(request2{QP: 1, Class: 0x32, Version: 1, OUI: 0x1405}); got != id || err != nil {
			t.Fatalf("agent %d: %d, %v", id, got, err)
		}
	}
	if _, err := f.register(request2{QP: 1}); err != unix.ENOMEM {
		t.Errorf("one too many: %v", err)
	}
	if err := f.enablePKey(); err != unix.EINVAL {
		t.Errorf("the longer header after an agent: %v", err)
	}
	if err := f.unregister(7); err != nil || f.unregister(7) != unix.EINVAL || f.unregister(maxAgents) != unix.EINVAL {
		t.Errorf("unregister: %v", err)
	}
	if id, err := f.register(request2{QP: 1}); id != 7 || err != nil {
		t.Errorf("a free place: %d, %v", id, err)
	}
}

// Answers are records of their own, with a transaction id of the agent's; a program
// that does not read gets no more than there is room for, and one that gives no
// time for an answer gets none.
func TestSend(t *testing.T) {
	f, program := opened(t)
	if err := f.do(f.record(0, 1, 1, 0)); err != unix.EINVAL {
		t.Errorf("no agent: %v", err)
	}
	for range 2 {
		if _, err := f.register(request2{QP: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var b [4096]byte
	for _, c := range []struct {
		lid    uint16
		status uint32
		octets int
	}{{1, 0, mostMAD}, {2, uint32(unix.ETIMEDOUT), madHeaderLen}} {
		if err := f.do(f.record(1, c.lid, 1, 2)); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Read(program, b[:])
		if err != nil || n != oldHeaderLen+c.octets || native.Uint32(b[offStatus:]) != c.status || native.Uint32(b[:]) != 1 ||
			native.Uint32(b[offLength:]) != uint32(n) || binary.BigEndian.Uint32(b[oldHeaderLen+offTID:]) != f.agents[1].tid || b[oldHeaderLen+15] != 9 {
			t.Errorf("LID %d: %d octets, %x: %v", c.lid, n, b[:max(n, 0)], err)
		}
	}
	sent := 0
	for ; f.do(f.record(0, 1, 1000, 0)) == nil; sent++ {
	}
	if sent < maxUnread-2 || sent > maxUnread {
		t.Errorf("%d requests without a look at the answers", sent)
	}
	for range sent {
		if n, err := unix.Read(program, b[:]); n != oldHeaderLen+mostMAD || err != nil {
			t.Fatalf("%d octets: %v", n, err)
		}
	}
	if err := f.do(f.record(0, 1, 0, 0)); err != nil {
		t.Errorf("after all is read: %v", err)
	}
	if err := f.do(f.record(1, 1, 1000, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(program, b[:]); n != oldHeaderLen+mostMAD || err != nil || native.Uint32(b[:]) != 1 {
		t.Errorf("an answer that nobody waits for: %d octets to agent %d, %v", n, native.Uint32(b[:]), err)
	}
}
