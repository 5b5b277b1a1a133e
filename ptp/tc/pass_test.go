package tc

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// carriages are all ways in which a message crosses a switch.
var carriages = map[string]struct {
	port transport.Port
	dst  transport.Addr
}{
	"L2":           {port: transport.Port{}},
	"L2 VLAN":      {port: transport.Port{Tagged: true, Tag: ether.Tag{TPID: ether.TypeVLAN, TCI: 0x6007}}},
	"L2 unicast":   {dst: transport.Addr{MAC: ether.Addr{2, 0, 0, 0, 0, 5}}},
	"UDPv4":        {port: transport.Port{Kind: transport.UDPv4, IP: netip.MustParseAddr("10.0.0.1")}},
	"UDPv4 VLAN":   {port: transport.Port{Kind: transport.UDPv4, IP: netip.MustParseAddr("10.0.0.1"), Tagged: true, Tag: ether.Tag{TPID: ether.TypeVLAN, TCI: 9}}},
	"UDPv4 unicat": {port: transport.Port{Kind: transport.UDPv4, IP: netip.MustParseAddr("10.0.0.1")}, dst: transport.Addr{IP: netip.MustParseAddr("10.0.0.2")}},
	"UDPv6":        {port: transport.Port{Kind: transport.UDPv6, IP: netip.MustParseAddr("fe80::1")}},
}

// encode is m as a frame of carriage name.
func encode(name string, m *msg.Message) []byte {
	c := carriages[name]
	c.port.MAC = ether.Addr{2, 0, 0, 0, 0, 1}
	return c.port.Append(nil, m.Append(nil), c.dst, ether.Addr{2, 0, 0, 0, 0, 5})
}

// onlyCorrected checks that got is was with another correctionField, and still
// a good frame, and returns the difference.
func onlyCorrected(t *testing.T, was, got []byte) msg.TimeInterval {
	t.Helper()
	p, err := transport.Decapsulate(got)
	if err != nil {
		t.Fatalf("the frame is not good any more: %v", err)
	}
	q, _ := transport.Find(was)
	read := func(p transport.Packet) msg.TimeInterval {
		return msg.TimeInterval(binary.BigEndian.Uint64(p.Body[msg.CorrectionAt:]))
	}
	d := read(p) - read(q)
	back := bytes.Clone(got)
	p, _ = transport.Find(back)
	p.AddCorrection(-d)
	if !bytes.Equal(back, was) {
		t.Fatalf("more than the correction was changed\n%x\n%x", was, back)
	}
	return d
}

// unknownTLV is what nobody knows.
var unknownTLV = msg.AppendTLV(nil, 0x3abc, []byte{1, 2, 3, 4, 5, 6})

func withTLV(m *msg.Message) { m.TLVs = unknownTLV }

// one is the only frame, of port 1.
func one(t *testing.T, s []sent) []byte {
	t.Helper()
	if len(s) != 1 || s[0].port != 1 {
		t.Fatalf("%d frames: %+v", len(s), s)
	}
	return s[0].b
}

func ns(n int64) msg.TimeInterval { return msg.TimeInterval(n) << 16 }

// A two-step clock leaves Sync and Delay_Req alone and corrects Follow_Up and
// Delay_Resp, whatever carries them.
func TestTwoStepEndToEnd(t *testing.T) {
	for name := range carriages {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			for seq := range uint16(3) {
				stay := time.Duration(1000+seq) * time.Microsecond
				sync := encode(name, make1588(msg.Sync, masterPort, seq, withTLV))
				if d := onlyCorrected(t, sync, one(t, b.cross(0, 1, bytes.Clone(sync), stay))); d != 0 {
					t.Errorf("Sync corrected by %v", d)
				}
				up := encode(name, make1588(msg.FollowUp, masterPort, seq, withTLV, func(m *msg.Message) { m.Correction = ns(77) }))
				if d := onlyCorrected(t, up, one(t, b.cross(0, 1, bytes.Clone(up), 5*time.Millisecond))); d != ns(int64(stay)) {
					t.Errorf("Follow_Up corrected by %v, want %v", d, stay)
				}
				req := encode(name, make1588(msg.DelayReq, slavePort, seq))
				stay *= 3
				if s := b.cross(1, 0, bytes.Clone(req), stay); len(s) != 1 || onlyCorrected(t, req, s[0].b) != 0 {
					t.Fatalf("Delay_Req: %+v", s)
				}
				resp := encode(name, make1588(msg.DelayResp, masterPort, seq, withTLV, func(m *msg.Message) { m.Port = slavePort }))
				if d := onlyCorrected(t, resp, one(t, b.cross(0, 1, bytes.Clone(resp), time.Second))); d != ns(int64(stay)) {
					t.Errorf("Delay_Resp corrected by %v, want %v", d, stay)
				}
			}
			if c := b.c.Counts(); c.Corrected != 6 || c.Unmatched+c.Unstamped+c.HeldFrames+c.Made+c.Malformed != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestOneStep(t *testing.T) {
	for name := range carriages {
		b := newBed(t, func(c *Config) { c.OneStep = true })
		for typ, source := range map[msg.Type]msg.PortIdentity{msg.Sync: masterPort, msg.DelayReq: slavePort, msg.PdelayReq: slavePort, msg.PdelayResp: masterPort} {
			m := encode(name, make1588(typ, source, 1, func(m *msg.Message) { m.Correction = -5 }))
			if d := onlyCorrected(t, m, one(t, b.cross(0, 1, bytes.Clone(m), time.Millisecond))); d != ns(1e6) {
				t.Errorf("%s: %v corrected by %v", name, typ, d)
			}
		}
		up := encode(name, make1588(msg.FollowUp, masterPort, 1))
		if d := onlyCorrected(t, up, one(t, b.cross(0, 1, bytes.Clone(up), time.Millisecond))); d != 0 {
			t.Errorf("%s: Follow_Up corrected by %v", name, d)
		}
	}
}

// Each egress port has a residence of its own.
func TestResidencePerPort(t *testing.T) {
	b := newBed(t, nil)
	sync, up := encode("L2", make1588(msg.Sync, masterPort, 1)), encode("L2", make1588(msg.FollowUp, masterPort, 1))
	st, _ := b.c.Receive(0, sync, b.clock.At(0), true, 0)
	ut, _ := b.c.Receive(0, up, b.clock.At(0), true, 0)
	depart := func(port int, bytes []byte, tag Tag) {
		f := b.pool.Get(len(bytes))
		f.Append(bytes)
		b.c.Depart(port, f, tag, b.now)
	}
	b.now = 1000
	depart(1, sync, st)
	b.now = 3000
	depart(2, sync, st)
	depart(2, up, ut)
	depart(1, up, ut)
	s := b.take()
	if len(s) != 4 || message(t, s[2].b).Correction != ns(3000) || message(t, s[3].b).Correction != ns(1000) {
		t.Fatalf("%+v", s)
	}
}

// A one-step Sync that passes a two-step clock becomes two-step.
func TestOneStepMessagesGetFollowUps(t *testing.T) {
	for name := range carriages {
		b := newBed(t, nil)
		sync := encode(name, make1588(msg.Sync, masterPort, 9, withTLV, func(m *msg.Message) {
			m.Flags, m.Correction, m.Timestamp = msg.FlagUnicast, ns(5), msg.Timestamp{Seconds: 3, Nanoseconds: 4}
		}))
		s := b.cross(0, 1, sync, time.Millisecond)
		if len(s) != 2 || s[1].port != 1 {
			t.Fatalf("%s: %d frames", name, len(s))
		}
		for _, f := range s {
			if _, err := transport.Decapsulate(f.b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		m, up := message(t, s[0].b), message(t, s[1].b)
		if !m.Flags.Has(msg.FlagTwoStep|msg.FlagUnicast) || m.Correction != ns(5) || m.Timestamp.Seconds != 3 || !bytes.Equal(m.TLVs, unknownTLV) {
			t.Errorf("%s: Sync %+v", name, m)
		}
		want := make1588(msg.FollowUp, masterPort, 9)
		if up.Type != want.Type || up.Control != want.Control || up.Source != masterPort || up.Sequence != 9 || up.Flags != msg.FlagUnicast ||
			up.Correction != ns(1e6) || up.Timestamp != (msg.Timestamp{Seconds: 3, Nanoseconds: 4}) || len(up.TLVs) != 0 {
			t.Errorf("%s: Follow_Up %+v", name, up)
		}
		if p, _ := transport.Find(s[1].b); p.Event && p.Kind != transport.Ethernet || p.Dst != carriageDst(name) {
			t.Errorf("%s: Follow_Up to %v", name, p.Dst)
		}
		if c := b.c.Counts(); c.Made != 1 {
			t.Errorf("%s: %+v", name, c)
		}
		if b.pool.out != 0 {
			t.Errorf("%s: %d frames are left", name, b.pool.out)
		}
	}
}

func carriageDst(name string) transport.Addr {
	p, _ := transport.Find(encode(name, make1588(msg.FollowUp, masterPort, 1)))
	return p.Dst
}

// Peer delay messages cross an end-to-end clock; the residences of request and
// response meet in the response's Follow_Up.
func TestPdelayAcrossEndToEnd(t *testing.T) {
	respond := func(m *msg.Message) { m.Port = slavePort }
	for _, oneStep := range []bool{false, true} {
		b := newBed(t, nil)
		b.cross(1, 0, encode("UDPv4", make1588(msg.PdelayReq, slavePort, 4)), time.Millisecond)
		resp := make1588(msg.PdelayResp, masterPort, 4, respond)
		if oneStep {
			resp.Flags, resp.Correction = 0, ns(123) // turnaround
		}
		s := b.cross(0, 1, encode("UDPv4", resp), 3*time.Millisecond)
		var sum msg.TimeInterval
		if oneStep {
			if len(s) != 2 || !message(t, s[0].b).Flags.Has(msg.FlagTwoStep) || message(t, s[1].b).Type != msg.PdelayRespFollowUp || message(t, s[1].b).Port != slavePort {
				t.Fatalf("%+v", s)
			}
			sum = message(t, s[0].b).Correction + message(t, s[1].b).Correction - ns(123)
		} else {
			up := one(t, b.cross(0, 1, encode("UDPv4", make1588(msg.PdelayRespFollowUp, masterPort, 4, respond)), time.Second))
			sum = message(t, one(t, s)).Correction + message(t, up).Correction
		}
		if sum != ns(4e6) {
			t.Errorf("one step %v: corrected by %v", oneStep, sum)
		}
	}
	b := newBed(t, nil)
	if s := b.cross(0, 1, encode("UDPv4", make1588(msg.PdelayResp, masterPort, 4, respond)), 0); s != nil || b.c.Counts().Unmatched != 1 {
		t.Error("a Pdelay_Resp passes whose request did not")
	}
}

// A Follow_Up waits until the stamp of its Sync is known, however they come.
func TestFollowUpWaits(t *testing.T) {
	b := newBed(t, nil)
	b.late = true
	sync := b.cross(0, 1, encode("L2", make1588(msg.Sync, masterPort, 1)), time.Millisecond)
	left := b.clock.At(b.now)
	if s := b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 1)), time.Millisecond); len(s) != 0 {
		t.Fatal("the Follow_Up did not wait")
	}
	b.c.TxStamp(sync[0].id, left, true)
	b.c.TxStamp(sync[0].id, left+5, true) // twice: nobody listens
	b.c.Poll(b.now)
	if m := message(t, one(t, b.take())); m.Correction != ns(1e6) {
		t.Errorf("corrected by %v", m.Correction)
	}
	// Before its Sync.
	up := encode("L2", make1588(msg.FollowUp, masterPort, 2))
	if s := b.cross(0, 1, up, 0); len(s) != 0 {
		t.Fatal("the Follow_Up did not wait for its Sync")
	}
	sync = b.cross(0, 1, encode("L2", make1588(msg.Sync, masterPort, 2)), 2*time.Millisecond)
	b.c.TxStamp(sync[0].id, b.clock.At(b.now), true)
	b.c.Poll(b.now)
	if m := message(t, one(t, b.take())); m.Correction != ns(2e6) {
		t.Errorf("corrected by %v", m.Correction)
	}
	// A lost stamp.
	sync = b.cross(0, 1, encode("L2", make1588(msg.Sync, masterPort, 3)), time.Millisecond)
	b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 3)), 0)
	b.c.TxStamp(sync[0].id, 0, false)
	b.c.Poll(b.now)
	if c := b.c.Counts(); len(b.take()) != 0 || c.LostStamps != 1 || c.Unmatched != 1 || c.HeldFrames != 3 {
		t.Errorf("%+v", c)
	}
	if b.pool.out != 0 {
		t.Errorf("%d frames are left", b.pool.out)
	}
}

// What waits is bounded in number and time.
func TestHeldIsBounded(t *testing.T) {
	b := newBed(t, func(c *Config) { c.Held, c.HoldTime = 3, 10*time.Millisecond })
	for seq := range uint16(5) {
		b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, seq)), 0)
	}
	if c := b.c.Counts(); c.HeldFrames != 3 || c.HoldFull != 2 || c.Unmatched != 2 || b.pool.out != 3 {
		t.Errorf("%+v, %d frames", c, b.pool.out)
	}
	if next := b.c.Poll(b.now); next != b.now.Add(10*time.Millisecond) {
		t.Errorf("deadline %v", next)
	}
	b.now = b.now.Add(10 * time.Millisecond)
	if next := b.c.Poll(b.now); next != frame.Never || b.c.Counts().Unmatched != 5 || b.pool.out != 0 {
		t.Errorf("deadline %v, %+v", next, b.c.Counts())
	}
	if s := b.cross(0, 1, encode("L2", make1588(msg.DelayResp, masterPort, 1)), 0); len(s) != 0 || b.c.Counts().Unmatched != 6 {
		t.Error("a Delay_Resp passes whose request did not")
	}
	b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 1)), 0)
	b.c.Close()
	if b.pool.out != 0 {
		t.Errorf("%d frames are left after the end", b.pool.out)
	}
}

// The table forgets the oldest, and what is too old.
func TestTableIsBounded(t *testing.T) {
	b := newBed(t, func(c *Config) { c.Entries = 8 })
	for seq := range uint16(20) {
		b.cross(0, 1, encode("L2", make1588(msg.DelayReq, slavePort, seq, func(m *msg.Message) { m.Flags = 0 })), time.Microsecond)
	}
	resp := func(seq uint16) int {
		return len(b.cross(1, 0, encode("L2", make1588(msg.DelayResp, masterPort, seq, func(m *msg.Message) { m.Port = slavePort })), 0))
	}
	if resp(11) != 0 || resp(12) != 1 || resp(19) != 1 || b.c.Counts().Evicted != 12 || len(b.c.table.index) != 8 {
		t.Errorf("%+v, %d entries", b.c.Counts(), len(b.c.table.index))
	}
	b.now = b.now.Add(5 * time.Second)
	if resp(19) != 0 {
		t.Error("a residence outlives its time")
	}
	// The same sequenceId again.
	b.cross(0, 1, encode("L2", make1588(msg.DelayReq, slavePort, 19)), 7*time.Microsecond)
	s := b.cross(1, 0, encode("L2", make1588(msg.DelayResp, masterPort, 19, func(m *msg.Message) { m.Port = slavePort })), 0)
	if len(s) != 1 || message(t, s[0].b).Correction != ns(7000) {
		t.Errorf("%+v", s)
	}
}

// Messages with the same numbers of other domains, clocks and types are not
// mixed up.
func TestKeys(t *testing.T) {
	b := newBed(t, nil)
	b.cross(0, 1, encode("L2", make1588(msg.Sync, masterPort, 1)), time.Microsecond)
	for i, change := range []func(*msg.Message){
		func(m *msg.Message) { m.Domain = 1 },
		func(m *msg.Message) { m.SdoID = 0x100 },
		func(m *msg.Message) { m.Source.Port = 2 },
		func(m *msg.Message) { m.Source = slavePort },
		func(m *msg.Message) { m.Sequence = 2 },
	} {
		if s := b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 1, change)), 0); len(s) != 0 {
			t.Errorf("case %d: it passes", i)
		}
	}
	if s := b.cross(0, 2, encode("L2", make1588(msg.FollowUp, masterPort, 1)), 0); len(s) != 0 {
		t.Error("it passes by a port that the Sync did not take")
	}
	if s := b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 1)), 0); len(s) != 1 {
		t.Error("the right one does not pass")
	}
}

func TestAsymmetry(t *testing.T) {
	b := newBed(t, func(c *Config) { c.Ports[0].DelayAsymmetry, c.Ports[1].DelayAsymmetry = ns(100), ns(-30) })
	b.cross(0, 1, encode("L2", make1588(msg.Sync, masterPort, 1)), time.Microsecond)
	up := b.cross(0, 1, encode("L2", make1588(msg.FollowUp, masterPort, 1)), 0)
	b.cross(1, 0, encode("L2", make1588(msg.DelayReq, slavePort, 1)), time.Microsecond)
	resp := b.cross(0, 1, encode("L2", make1588(msg.DelayResp, masterPort, 1, func(m *msg.Message) { m.Port = slavePort })), 0)
	if u, r := message(t, one(t, up)).Correction, message(t, one(t, resp)).Correction; u != ns(1100) || r != ns(900) {
		t.Errorf("Follow_Up %v, Delay_Resp %v", u, r)
	}
}

// What is no event or its general message is none of the clock's business.
func TestOtherTrafficIsUntouched(t *testing.T) {
	b := newBed(t, nil)
	frames := [][]byte{
		{}, []byte("short"), make([]byte, 60),
		encode("L2", make1588(msg.Announce, masterPort, 1)),
		encode("UDPv4", make1588(msg.Signaling, masterPort, 1)),
		encode("UDPv6", make1588(msg.Management, masterPort, 1)),
		append((&ether.Header{Dst: ether.Broadcast, Src: ether.Addr{2}, Type: ether.TypePTP}).AppendTo(nil), 0x10, 0x02, 0, 99),
	}
	for _, f := range frames {
		tag, verdict := b.c.Receive(0, f, 0, false, 0)
		if verdict != Forward || !tag.IsZero() {
			t.Errorf("%x: tag %+v, verdict %v", f, tag, verdict)
		}
	}
	if b.c.Counts().Malformed != 1 {
		t.Errorf("%+v", b.c.Counts())
	}
	if _, v := b.c.Receive(0, encode("L2", make1588(msg.Sync, masterPort, 1)), 0, false, 0); v != Discard || b.c.Counts().Unstamped != 1 {
		t.Error("a Sync without stamp passes")
	}
}

func TestNoAllocation(t *testing.T) {
	b := newBed(t, nil)
	sync, up := encode("UDPv4", make1588(msg.Sync, masterPort, 1)), encode("UDPv4", make1588(msg.FollowUp, masterPort, 1))
	f := frame.New(make([]byte, 256), nil)
	b.c.env.Lower = quiet{b.c}
	pass := func(bytes []byte) {
		tag, _ := b.c.Receive(0, bytes, 0, true, 0)
		f.Reset()
		f.Append(bytes)
		b.c.Depart(1, f, tag, 0)
	}
	pass(sync)
	if n := testing.AllocsPerRun(1000, func() { pass(sync); pass(up) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c := b.c.Counts(); c.Corrected < 1000 {
		t.Errorf("%+v", c)
	}
}

// quiet sends nothing.
type quiet struct{ c *Clock }

func (q quiet) Send(_ int, f *frame.Frame) {
	if f.ID != 0 {
		q.c.TxStamp(f.ID, 5, true)
	}
}

func BenchmarkSyncAndFollowUp(b *testing.B) {
	bed := newBed(b, nil)
	bed.c.env.Lower = quiet{bed.c}
	sync, up := encode("L2", make1588(msg.Sync, masterPort, 1)), encode("L2", make1588(msg.FollowUp, masterPort, 1))
	f := frame.New(make([]byte, 256), nil)
	for b.Loop() {
		for _, bytes := range [][]byte{sync, up} {
			tag, _ := bed.c.Receive(0, bytes, 0, true, 0)
			f.Reset()
			f.Append(bytes)
			bed.c.Depart(1, f, tag, 0)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for i, change := range []func(*Config){
		func(c *Config) { c.Ports = c.Ports[:1] }, func(c *Config) { c.Identity = msg.AllClocks }, func(c *Config) { c.SdoID = 0x1000 },
		func(c *Config) { c.LogPdelayInterval = 6 }, func(c *Config) { c.Held = 0 },
		func(c *Config) { c.PeerDelay, c.Ports = true, make([]PortConfig, 2) },
	} {
		ports := make([]PortConfig, 3)
		for i := range ports {
			ports[i].Carriage.MAC = ether.Addr{2}
		}
		cfg := DefaultConfig(masterPort.Clock, ports)
		change(&cfg)
		if _, err := New(cfg, Env{}); err == nil {
			t.Errorf("case %d is accepted", i)
		}
	}
}

// Whatever comes, nothing panics, no frame is lost sight of, and frames that
// are no messages stay what they are.
func FuzzFrames(f *testing.F) {
	for name := range carriages {
		for typ := msg.Type(0); typ < 14; typ++ {
			if typ.Len() > 0 {
				f.Add(encode(name, make1588(typ, masterPort, 1)), uint8(typ))
			}
		}
	}
	f.Fuzz(func(t *testing.T, bytes []byte, mode uint8) {
		b := newBed(t, func(c *Config) { c.PeerDelay, c.OneStep, c.Syntonize = mode&1 != 0, mode&2 != 0, mode&4 != 0 })
		b.late = mode&8 != 0
		for i := range 3 {
			b.cross(i%2, 1, append([]byte(nil), bytes...), time.Millisecond)
			b.c.Poll(b.now)
		}
		b.c.Close()
		if b.pool.out != 0 {
			t.Fatalf("%d frames are left", b.pool.out)
		}
	})
}
