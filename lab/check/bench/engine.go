package main

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/nic/buf"
	"tapir/nic/toe"
	"tapir/nic/toe/isn"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// engineCase is the TCP engine alone, without a system call: two engines in
// virtual time, one segment per frame, both on this processor.
func engineCase(name string) *testCase {
	return &testCase{name: name, run: func(_ context.Context, m *measurement) (sample, error) {
		p, err := newEnginePair()
		if err != nil {
			return sample{}, err
		}
		return p.measure(m.duration)
	}}
}

// enginePair hands frames from one engine to the other without a copy.
type enginePair struct {
	now     frame.Time
	ends    [2]*engineEnd
	out, in *stream
}

// engineEnd is an engine with the frames that it has sent.
type engineEnd struct {
	engine *toe.Engine
	sent   []*frame.Frame
}

const enginePort = 5005

// Room implements toe.Output.
func (e *engineEnd) Room() int { return cap(e.sent) - len(e.sent) }

// Transmit implements toe.Output.
func (e *engineEnd) Transmit(f *frame.Frame, _ netip.Addr, _ frame.Time) { e.sent = append(e.sent, f) }

func newEnginePair() (*enginePair, error) {
	p := &enginePair{now: 1, out: newStream(nil), in: newStream(nil)}
	pool := buf.NewPool(4096, 0)
	for i := range p.ends {
		p.ends[i] = &engineEnd{sent: make([]*frame.Frame, 0, 64)}
		p.ends[i].engine = toe.New(toe.Config{Secret: isn.Secret{byte(i)}}, pool, p.ends[i], nil)
	}
	local, remote := netip.MustParseAddr(nicAddresses[0]), netip.AddrPortFrom(netip.MustParseAddr(nicAddresses[1]),
		enginePort)
	if _, err := p.ends[1].engine.Listen(remote, 1, func(*toe.Conn, frame.Time) toe.Handler {
		return p.in
	}); err != nil {
		return nil, err
	}
	_, err := p.ends[0].engine.Connect(netip.AddrPortFrom(local, 0), remote, p.out, p.now)
	return p, err
}

// step lets 10 microseconds pass, and each end send and receive once.
func (p *enginePair) step() {
	p.now += 10_000
	for i, e := range p.ends {
		e.engine.Poll(p.now)
		for _, f := range e.sent {
			if h, seg, err := ip.Parse(f.Bytes()); err == nil {
				p.ends[1-i].engine.Segment(&h, seg, f.Offload, p.now)
			}
			f.Release()
		}
		e.sent = e.sent[:0]
	}
}

// send moves n octets.
func (p *enginePair) send(n uint64) error {
	p.out.limit += n
	p.out.conn.Kick()
	for steps := 0; p.in.got < p.out.limit; steps++ {
		if p.step(); steps > 1_000_000 {
			return errors.New("the engines do not go on")
		}
	}
	return nil
}

// measure sends for d, once the window is open.
func (p *enginePair) measure(d time.Duration) (s sample, err error) {
	for range 4 {
		p.step()
	}
	if p.out.conn == nil {
		return s, errors.New("the engines do not connect")
	}
	p.out.conn.SaveContext(false)
	if err := p.send(16 * mebi); err != nil {
		return s, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	segments := p.out.conn.Info().SegsOut
	begun := result.Thread()
	for wall := time.Now(); time.Since(wall) < d; {
		if err := p.send(4 * mebi); err != nil {
			return s, err
		}
	}
	took := result.Thread() - begun
	runtime.ReadMemStats(&after)
	sent := float64(p.out.conn.Info().SegsOut - segments)
	s.rate = sent / took.Seconds()
	s.allocs = float64(after.Mallocs-before.Mallocs) / sent
	if p.in.wrong {
		err = errors.New("the stream is not what was sent")
	}
	return s, err
}
