package sw

import (
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/ptp/clock"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// pool makes frames and counts those that are out.
type pool struct{ out int }

func (p *pool) Get(size int) *frame.Frame {
	p.out++
	return frame.New(make([]byte, frame.DefaultHeadroom+size+64), p)
}

func (p *pool) Put(*frame.Frame) { p.out-- }

// left is a frame that left the switch.
type left struct {
	at frame.Time
	b  string
}

// wire is the link of one port.
type wire struct {
	bed  *bed
	room int
	got  []left
}

func (w *wire) Room() int { return w.room }

func (w *wire) Transmit(f *frame.Frame) {
	w.got = append(w.got, left{w.bed.now, string(f.Bytes())})
	id := f.ID
	f.Release()
	w.bed.s.TxDone(id, w.bed.now, w.bed.now)
}

// take empties a wire.
func (w *wire) take() []left {
	g := w.got
	w.got = nil
	return g
}

// bed is a switch in virtual time.
type bed struct {
	t     *testing.T
	s     *Switch
	pool  pool
	wires []*wire
	now   frame.Time
}

func newBed(t *testing.T, ports int, cfg swconf.Config) *bed {
	t.Helper()
	b := &bed{t: t}
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	env := Env{Pool: &b.pool, Clock: phc}
	for range ports {
		w := &wire{bed: b, room: 1000}
		b.wires = append(b.wires, w)
		env.Links = append(env.Links, w)
		cfg.Ports = append(cfg.Ports, swconf.PortConfig{})
	}
	if b.s, err = New(cfg, env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.s.Close()
		if b.pool.out != 0 {
			t.Errorf("%d frames are not released", b.pool.out)
		}
	})
	return b
}

// send lets a frame in.
func (b *bed) send(port int, bytes string) {
	f := b.pool.Get(len(bytes))
	f.Append([]byte(bytes))
	b.s.Receive(frame.Port(port), []*frame.Frame{f}, b.now)
}

// run lets d pass.
func (b *bed) run(d time.Duration) {
	b.t.Helper()
	end := b.now.Add(d)
	for steps := 0; ; steps++ {
		next := b.s.Poll(b.now)
		if steps > 1_000_000 {
			b.t.Fatal("the switch does not come to rest")
		}
		if next > end {
			b.now = end
			return
		}
		b.now = max(b.now, next)
	}
}

// eth is an Ethernet frame with a text.
func eth(dst, src ether.Addr, text string) string {
	h := ether.Header{Dst: dst, Src: src, Type: 0x88b5}
	b := make([]byte, h.Len())
	h.Put(b)
	return string(b) + text
}

func host(n byte) ether.Addr { return ether.Addr{2, 0, 0, 0, 0, n} }

var anyone = ether.Addr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
