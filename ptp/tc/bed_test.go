package tc

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// pool makes frames and counts those that are out.
type pool struct{ out int }

func (p *pool) Get(size int) *frame.Frame {
	p.out++
	return frame.New(make([]byte, frame.DefaultHeadroom+size), p)
}

func (p *pool) Put(*frame.Frame) { p.out-- }

// steady shows engine time on a scale of its own: 10 s ahead, ppm too fast.
type steady struct{ ppm int64 }

func (s steady) At(now frame.Time) frame.Stamp {
	return frame.Stamp(now) + frame.Stamp(now)/1_000_000*frame.Stamp(s.ppm) + 10_000_000_000
}

// sent is a frame that left a port.
type sent struct {
	port int
	id   uint64
	b    []byte
}

// bed is a transparent clock of three ports with the test as its switch.
type bed struct {
	t     testing.TB
	c     *Clock
	pool  pool
	clock steady
	out   []sent
	now   frame.Time
	late  bool // the test reports stamps, instead of Send
}

func newBed(t testing.TB, change func(*Config)) *bed {
	b := &bed{t: t}
	ports := make([]PortConfig, 3)
	for i := range ports {
		ports[i].Carriage = transport.Port{MAC: ether.Addr{2, 0, 0, 0, 9, byte(i)}}
	}
	cfg := DefaultConfig(msg.ClockIdentity{2, 0, 0, 0xff, 0xfe, 0, 9, 0}, ports)
	if change != nil {
		change(&cfg)
	}
	var err error
	if b.c, err = New(cfg, Env{Pool: &b.pool, Clock: &b.clock, Lower: b}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) Send(port int, f *frame.Frame) {
	b.out = append(b.out, sent{port, f.ID, append([]byte(nil), f.Bytes()...)})
	id := f.ID
	f.Release()
	if id != 0 && !b.late {
		b.c.TxStamp(id, b.clock.At(b.now), true)
	}
}

// take empties what was sent.
func (b *bed) take() []sent {
	s := b.out
	b.out = nil
	return s
}

// cross takes a frame from one port to another, in which it stays for d. What
// leaves by then is returned.
func (b *bed) cross(in, out int, bytes []byte, d time.Duration) []sent {
	b.t.Helper()
	tag, verdict := b.c.Receive(in, bytes, b.clock.At(b.now), true, b.now)
	if verdict != Forward {
		return nil
	}
	b.now = b.now.Add(d)
	if tag.IsZero() {
		return []sent{{out, 0, bytes}}
	}
	f := b.pool.Get(len(bytes))
	f.Append(bytes)
	b.c.Depart(out, f, tag, b.now)
	b.c.Poll(b.now)
	return b.take()
}

// message reads the PTP message of a frame.
func message(t testing.TB, b []byte) (m msg.Message) {
	t.Helper()
	p, ok := transport.Find(b)
	if !ok {
		t.Fatalf("no PTP message: %x", b)
	}
	if err := m.Parse(p.Body); err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	masterPort = msg.PortIdentity{Clock: msg.ClockIdentity{2, 0, 0, 0xff, 0xfe, 0, 0, 1}, Port: 1}
	slavePort  = msg.PortIdentity{Clock: msg.ClockIdentity{2, 0, 0, 0xff, 0xfe, 0, 0, 2}, Port: 1}
)

// make is a message of a clock.
func make1588(typ msg.Type, source msg.PortIdentity, seq uint16, change ...func(*msg.Message)) *msg.Message {
	m := &msg.Message{Header: msg.Header{Type: typ, MinorVersion: 1, Source: source, Sequence: seq, Control: typ.Control()}}
	if typ == msg.Sync || typ == msg.PdelayResp {
		m.Flags = msg.FlagTwoStep
	}
	for _, f := range change {
		f(m)
	}
	return m
}
