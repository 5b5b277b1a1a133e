package umad

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/opa/rmpp"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// opened is a file of a port whose agents echo requests to LID 1 as responses.
func opened(t *testing.T) (f *file, program int) {
	t.Helper()
	port := &Port{Open: Local(func(ctx context.Context, to Address, b []byte) []byte {
		if to.LID != 1 {
			return nil
		}
		b = append([]byte(nil), b...)
		b[offMethod] |= ib.ResponseBit
		return b
	})}
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
	b := make([]byte, f.header+ib.MADLen)
	native.PutUint32(b, agent)
	native.PutUint32(b[offTimeout:], timeout)
	native.PutUint32(b[offRetries:], retries)
	binary.BigEndian.PutUint16(b[offLID:], lid)
	b[f.header], b[f.header+offMethod], b[f.header+15] = 1, 1, 9
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
	}{{1, 0, ib.MADLen}, {2, uint32(unix.ETIMEDOUT), madHeaderLen}} {
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
	for ; f.do(f.record(0, 1, 60000, 0)) == nil; sent++ {
	}
	if sent < maxUnread-2 || sent > maxUnread {
		t.Errorf("%d requests without a look at the answers", sent)
	}
	for range sent {
		if n, err := unix.Read(program, b[:]); n != oldHeaderLen+ib.MADLen || err != nil {
			t.Fatalf("%d octets: %v", n, err)
		}
	}
	if err := f.do(f.record(0, 1, 0, 0)); err != nil {
		t.Errorf("after all is read: %v", err)
	}
	if err := f.do(f.record(1, 1, 60000, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(program, b[:]); n != oldHeaderLen+ib.MADLen || err != nil || native.Uint32(b[:]) != 1 {
		t.Errorf("an answer that nobody waits for: %d octets to agent %d, %v", n, native.Uint32(b[:]), err)
	}
}

// fabric is a port whose far ends are the test.
type fabric struct {
	receive func(Address, []byte)
	sent    chan []byte
}

func (l *fabric) Session() uint16                            { return 0x1234 }
func (l *fabric) Send(_ Address, b []byte)                   { l.sent <- append([]byte(nil), b...) }
func (l *fabric) Close()                                     {}
func (l *fabric) open(r func(Address, []byte)) (Link, error) { l.receive = r; return l, nil }

// opened is a file of the port.
func (l *fabric) file(t *testing.T) (f *file, program int) {
	t.Helper()
	of, err := node{&Port{Open: l.open}}.Open(0)
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

// Requests reach the agent of their class, version, method and vendor, and no other;
// what it sends back is not answered.
func TestUnsolicited(t *testing.T) {
	l := &fabric{sent: make(chan []byte, 8)}
	f, program := l.file(t)
	for _, r := range []request2{{QP: 1, Class: 0x32, Version: 1, OUI: 0x1406, Methods: [2]uint64{1 << 1}},
		{QP: 1, Class: 0x32, Version: 1, OUI: 0x1405, Methods: [2]uint64{1 << 1}}} {
		if _, err := f.register(r); err != nil {
			t.Fatal(err)
		}
	}
	ping := func(method uint8, oui byte) []byte {
		b := make([]byte, ib.MADLen)
		b[0], b[1], b[2], b[3], b[38], b[39] = 1, 0x32, 1, method, 0x14, oui
		return b
	}
	l.receive(Address{QP: 1, LID: 9}, ping(2, 5))
	l.receive(Address{QP: 1, LID: 9}, ping(1, 7))
	l.receive(Address{QP: 1, LID: 9}, ping(1|ib.ResponseBit, 5))
	l.receive(Address{QP: 1, LID: 9}, []byte{1, 0x32})
	l.receive(Address{QP: 1, LID: 0x21}, ping(1, 5))
	var b [4096]byte
	n, err := unix.Read(program, b[:])
	if err != nil || n != oldHeaderLen+ib.MADLen || native.Uint32(b[:]) != 1 || binary.BigEndian.Uint16(b[offLID:]) != 0x21 {
		t.Fatalf("%d octets to agent %d from %#x: %v", n, native.Uint32(b[:]), binary.BigEndian.Uint16(b[offLID:]), err)
	}
	answer := append([]byte(nil), b[:n]...)
	answer[oldHeaderLen+3] |= ib.ResponseBit
	answer[oldHeaderLen+offTID] = 77
	if err := f.do(answer); err != nil {
		t.Fatal(err)
	}
	if sent := <-l.sent; sent[3] != 1|ib.ResponseBit || sent[offTID] != 77 {
		t.Errorf("sent % x", sent[:16])
	}
}

// A response in segments is acknowledged, put together, and read whole; a message of
// a program's leaves in segments.
func TestSegments(t *testing.T) {
	l := &fabric{sent: make(chan []byte, 64)}
	f, _ := l.file(t)
	if _, err := f.register(request2{QP: 1, Class: ib.ClassSA, Version: 2, RMPP: 1}); err != nil {
		t.Fatal(err)
	}
	query := f.record(0, 1, 60000, 0)
	query[oldHeaderLen+1], query[oldHeaderLen+2], query[oldHeaderLen+3] = ib.ClassSA, 2, ib.MethodGetTable
	if err := f.do(query); err != nil {
		t.Fatal(err)
	}
	asked := <-l.sent
	if asked[8] != 0x12 || asked[9] != 0x34 {
		t.Errorf("transaction % x", asked[8:16])
	}
	table := append(asked[:56:56], make([]byte, 5000)...)
	table[3] = ib.MethodGetTableResp
	for i := range 5000 {
		table[56+i] = byte(i)
	}
	s := rmpp.NewSender(table)
	for now := frame.Time(1); !s.Done(); {
		s.Poll(now, func(b []byte) { l.receive(Address{QP: 1, LID: 1}, b) })
		s.Take(<-l.sent)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		f.mu.Lock()
		n := len(f.unread)
		f.mu.Unlock()
		if n == 1 || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	f.mu.Lock()
	if len(f.unread) != 1 || !bytes.Equal(f.unread[0].b[oldHeaderLen+56:], table[56:]) {
		t.Errorf("%d records", len(f.unread))
	}
	f.mu.Unlock()

	table[3], table[26] = ib.MethodGetTableResp, ib.RMPPActive
	if err := f.do(append(f.record(0, 1, 0, 0)[:oldHeaderLen], table...)); err != nil {
		t.Fatal(err)
	}
	r := new(rmpp.Receiver)
	for done := false; !done; {
		var ack []byte
		ack, done = r.Take(<-l.sent)
		l.receive(Address{QP: 1, LID: 1}, ack)
	}
	if !bytes.Equal(r.Message()[56:], table[56:]) {
		t.Errorf("%d octets arrived", len(r.Message()))
	}
}
