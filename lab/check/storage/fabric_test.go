package storage

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/node/sw"
	"tapir/lab/tool/tshark"
	"tapir/nic/fcoe"
	"tapir/nic/scsi"
	"tapir/ptp/clock"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// fabric is a switch with an FCF and end nodes at its ports, in virtual time.
type fabric struct {
	t        *testing.T
	s        *sw.Switch
	now, due frame.Time
	ends     []*fcEnd
	wire     []fcEvent
	file     []byte // capture of the first frames
	captured int
	// spoil changes a frame on its way to the switch.
	spoil func(b []byte)
	out   int // frames of the pool that are in use
}

// fcEnd is a node at a port.
type fcEnd struct {
	*fcoe.Node
	f      *fabric
	port   int
	mac    ether.Addr
	wanted []ether.Addr
	due    frame.Time
	room   int
	cut    bool
	remote []*fcoe.Remote
}

// fcEvent is a frame on its way: to the switch, or to the node.
type fcEvent struct {
	at       frame.Time
	end      *fcEnd
	toSwitch bool
	b        []byte
}

const (
	read16, write16 = 0x88, 0x8a

	cableDelay = 5 * time.Microsecond
	capturedAt = 1500 // frames at most
)

func (f *fabric) Get(size int) *frame.Frame {
	f.out++
	return frame.New(make([]byte, frame.DefaultHeadroom+size+64), f)
}

func (f *fabric) Put(*frame.Frame) { f.out-- }

func (e *fcEnd) Room() int { return 1000 }

// Transmit takes a frame from the switch to the node.
func (e *fcEnd) Transmit(x *frame.Frame) {
	e.put(bytes.Clone(x.Bytes()), false)
	x.Release()
}

func (e *fcEnd) put(b []byte, toSwitch bool) {
	if e.cut {
		return
	}
	if e.f.captured++; e.f.captured <= capturedAt {
		e.f.file = (&pcapng.Packet{Data: b, OrigLen: uint32(len(b)), Stamp: int64(e.f.now)}).AppendTo(e.f.file)
	}
	e.f.wire = append(e.f.wire, fcEvent{e.f.now.Add(cableDelay), e, toSwitch, b})
}

// newFabric starts nodes at the ports of a switch.
func newFabric(t *testing.T, cfg swconf.FCF, nodes ...[]fcoe.PortConfig) *fabric {
	t.Helper()
	f := &fabric{t: t, file: (&pcapng.Interface{LinkType: 1}).AppendTo((&pcapng.Section{}).AppendTo(nil))}
	phc, err := clock.New(clock.Config{})
	must(t, err)
	env := sw.Env{Pool: f, Clock: phc}
	c := swconf.Config{FCF: cfg}
	for i, ports := range nodes {
		e := &fcEnd{f: f, port: i, mac: ether.Addr{2, 0, 0, 0, 0, byte(i + 1)}}
		for n := range ports {
			ports[n].Port, ports[n].Node = fc.FromMAC(0x2000+uint16(n), e.mac), fc.FromMAC(0x1000, e.mac)
		}
		e.Node = fcoe.New(fcoe.Config{MAC: e.mac, MaxPayload: fc.MaxPayload, Ports: ports}, fcoe.Env{
			Send: func(h ether.Header, body []byte, _ frame.Time) {
				e.room--
				e.put(append(h.AppendTo(nil), body...), true)
			},
			Room: func() int { return e.room }, Stations: func(_ uint16, l []ether.Addr) { e.wanted = slices.Clone(l) },
			Wake: func() { e.due = 0 }, Random: rand.New(rand.NewPCG(uint64(i), 1)),
			Changed: func(r *fcoe.Remote, _ frame.Time) {
				if !slices.Contains(e.remote, r) {
					e.remote = append(e.remote, r)
				}
			}})
		f.ends = append(f.ends, e)
		env.Links = append(env.Links, e)
		c.Ports = append(c.Ports, swconf.PortConfig{})
	}
	f.s, err = sw.New(c, env)
	must(t, err)
	t.Cleanup(func() {
		f.s.Close()
		if f.out != 0 {
			t.Errorf("%d frames are not released", f.out)
		}
	})
	for _, e := range f.ends {
		e.Start(f.now)
	}
	return f
}

// run lets time pass until a condition holds, at most for a time.
func (f *fabric) run(what string, limit time.Duration, until func() bool) {
	f.t.Helper()
	for end := f.now.Add(limit); !until(); {
		next := frame.Never
		for _, e := range f.ends {
			if e.due <= f.now {
				e.due, e.room = frame.Never, 64
				due, waits := e.Poll(f.now)
				if waits {
					due = f.now.Add(time.Microsecond)
				}
				e.due = min(e.due, due)
			}
			next = min(next, e.due)
		}
		if f.due <= f.now {
			f.due = f.s.Poll(f.now)
		}
		next = min(next, f.due)
		if len(f.wire) > 0 {
			next = min(next, f.wire[0].at)
		}
		if next > end {
			f.t.Fatalf("%s: not within %v", what, limit)
		}
		f.now = max(f.now, next)
		for len(f.wire) > 0 && f.wire[0].at <= f.now {
			v := f.wire[0]
			f.wire = f.wire[1:]
			f.deliver(v)
		}
	}
}

func (f *fabric) deliver(v fcEvent) {
	if v.toSwitch {
		if f.spoil != nil {
			f.spoil(v.b)
		}
		x := f.Get(len(v.b))
		x.Append(v.b)
		f.s.Receive(frame.Port(v.end.port), []*frame.Frame{x}, f.now)
		f.due = 0
		return
	}
	h, n, err := ether.Parse(v.b)
	must(f.t, err)
	if h.Dst == v.end.mac || slices.Contains(v.end.wanted, h.Dst) {
		v.end.Receive(h, v.b[n:], f.now)
		v.end.due = 0
	}
}

// targets are sessions with targets that are ready.
func (e *fcEnd) targets() (all []*fcoe.Remote) {
	for _, r := range e.remote {
		if r.Target() && r.State() == fcoe.Ready {
			all = append(all, r)
		}
	}
	return all
}

// copy writes octets to a target, or reads them, in commands of 64 KiB of which eight are outstanding.
func (e *fcEnd) copy(r *fcoe.Remote, op byte, data []byte) {
	e.f.t.Helper()
	const size, block = 64 << 10, 512
	next, outstanding := 0, 1
	r.Submit(&fcoe.Request{Done: func(*fcoe.Request, frame.Time) { outstanding-- }}, e.f.now) // TEST UNIT READY gets the unit attention
	e.due = 0
	e.f.run("unit attention", time.Minute, func() bool { return outstanding == 0 })
	var submit func()
	submit = func() {
		for ; next < len(data) && outstanding < 8; next += size {
			q := &fcoe.Request{}
			lba := next / block
			q.CDB = [16]byte{0: op, 6: byte(lba >> 24), 7: byte(lba >> 16), 8: byte(lba >> 8), 9: byte(lba), 13: size / block}
			if op == write16 {
				q.Out = data[next : next+size]
			} else {
				q.In = data[next : next+size]
			}
			q.Done = func(q *fcoe.Request, _ frame.Time) {
				outstanding--
				if q.Err != nil || q.Status != scsi.Good || q.Residual != 0 {
					e.f.t.Fatalf("command %x: %v, status %v, residual %d", q.CDB, q.Err, q.Status, q.Residual)
				}
				submit()
			}
			outstanding++
			r.Submit(q, e.f.now)
		}
	}
	submit()
	e.due = 0
	e.f.run("commands", 10*time.Minute, func() bool { return outstanding == 0 })
}

// counter is one of the switch.
func (f *fabric) counter(name string) uint64 {
	for _, c := range f.s.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

func fcUnit(t *testing.T, size int64) *scsi.Unit {
	t.Helper()
	u, err := scsi.New(scsi.Config{Size: size, Block: 512, Physical: 512, Thin: true, Serial: "fabric", Store: scsi.NewMemory(size)})
	must(t, err)
	return u
}

func noise(octets int) []byte {
	b := make([]byte, octets)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // it never fails
	return b
}

// TestFabric: an initiator finds a target by the name server of the FCF, writes 16 MiB and verifies
// them. The target's link is cut: the initiator hears of it, and the session ends. With the link
// back the target, whose login is gone, hears that too, and the session begins again.
func TestFabric(t *testing.T) {
	f := newFabric(t, swconf.FCF{On: true}, []fcoe.PortConfig{{Initiator: true}}, []fcoe.PortConfig{{Units: []*scsi.Unit{fcUnit(t, 16<<20)}}})
	a, b := f.ends[0], f.ends[1]
	ready := func() bool { return len(a.targets()) == 1 }
	f.run("a session", 10*time.Second, ready)
	data, got := noise(16<<20), make([]byte, 16<<20)
	a.copy(a.targets()[0], write16, data)
	a.copy(a.targets()[0], read16, got)
	if !bytes.Equal(got, data) {
		t.Error("the octets differ")
	}
	if n := f.counter("fcf_frames"); n < 2*16<<20/fc.MaxPayload {
		t.Errorf("the FCF forwarded %d frames", n)
	}
	f.s.SetLink(b.port, false, f.now)
	b.cut, f.due = true, 0
	cut := f.now
	f.run("the end of the session", 30*time.Second, func() bool { return !ready() })
	t.Logf("the session ended after %v", f.now.Sub(cut))
	if n := f.counter("fcf_logins"); n != 1 || f.counter("fcf_rscn") == 0 {
		t.Errorf("%d logins, %d RSCNs", n, f.counter("fcf_rscn"))
	}
	f.s.SetLink(b.port, true, f.now)
	b.cut, f.due = false, 0
	f.run("a session again", time.Minute, ready)
	clear(got)
	a.copy(a.targets()[0], read16, got)
	if !bytes.Equal(got, data) {
		t.Error("the octets differ after the cut")
	}
	if tshark.Available() != nil {
		return
	}
	name := filepath.Join(t.TempDir(), "fabric.pcapng")
	must(t, os.WriteFile(name, f.file, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rows, err := tshark.Fields(ctx, name, tshark.Options{Filter: "_ws.malformed || fcoe.crc.status == 0"}, "frame.number", "_ws.col.Info")
	if err != nil || len(rows) > 0 {
		t.Errorf("malformed, or with a wrong CRC: %q, %v", rows, err)
	}
}

// TestFabricWithErrors: of 1 % of the frames the CRC is wrong. The FCF drops them, commands are
// repeated, and no octet is wrong.
func TestFabricWithErrors(t *testing.T) {
	f := newFabric(t, swconf.FCF{On: true}, []fcoe.PortConfig{{Initiator: true}}, []fcoe.PortConfig{{Units: []*scsi.Unit{fcUnit(t, 2<<20)}}})
	a := f.ends[0]
	f.run("a session", 10*time.Second, func() bool { return len(a.targets()) == 1 })
	r := rand.New(rand.NewPCG(3, 4))
	f.spoil = func(b []byte) {
		if r.IntN(100) == 0 && len(b) > 80 {
			b[40+r.IntN(len(b)-60)] ^= 1 << r.IntN(8)
		}
	}
	data, got := noise(2<<20), make([]byte, 2<<20)
	a.copy(a.targets()[0], write16, data)
	a.copy(a.targets()[0], read16, got)
	if !bytes.Equal(got, data) {
		t.Error("the octets differ")
	}
	if n := f.counter("port0_rx_drop_fc_crc") + f.counter("port1_rx_drop_fc_crc"); n < 10 {
		t.Errorf("%d frames with a wrong CRC", n)
	}
}

// TestFabricNPIV: each of the 64 ports of a node, its own and 63 virtual ones, logs in and finds
// the target, but for one that a zone keeps from it.
func TestFabricNPIV(t *testing.T) {
	zone := swconf.Zone{fc.FromMAC(0x2000, [6]byte{2, 0, 0, 0, 0, 2})}
	ports := make([]fcoe.PortConfig, fcoe.MaxPorts)
	for n := range ports {
		ports[n].Initiator = true
		if n != 5 {
			zone = append(zone, fc.FromMAC(0x2000+uint16(n), [6]byte{2, 0, 0, 0, 0, 1}))
		}
	}
	f := newFabric(t, swconf.FCF{On: true, Zones: []swconf.Zone{zone}}, ports, []fcoe.PortConfig{{Units: []*scsi.Unit{fcUnit(t, 1<<20)}}})
	a := f.ends[0]
	f.run("64 sessions", time.Minute, func() bool { return len(a.targets()) == fcoe.MaxPorts-1 })
	if n := f.counter("fcf_logins"); n != fcoe.MaxPorts+1 {
		t.Errorf("%d logins", n)
	}
	data, got := noise(1<<20), make([]byte, 1<<20)
	all := a.targets()
	a.copy(all[0], write16, data)
	a.copy(all[len(all)-1], read16, got)
	if !bytes.Equal(got, data) {
		t.Error("the octets differ")
	}
	a.Stop(f.now)
	a.due = 0
	f.run("logouts", time.Minute, func() bool { return f.counter("fcf_logins") == 1 })
}
