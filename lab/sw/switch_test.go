package sw

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/wire/drop"
	"tapir/wire/ether"
)

// reached are the ports at which exactly this one frame came out.
func (b *bed) reached(bytes string) (ports []int) {
	b.t.Helper()
	b.run(0)
	for i, w := range b.wires {
		for _, l := range w.take() {
			if l.b != bytes {
				b.t.Errorf("port %d: %q", i, l.b)
			}
			ports = append(ports, i)
		}
	}
	return ports
}

func TestLearning(t *testing.T) {
	b := newBed(t, 4, Config{Ageing: 10 * time.Second})
	expect := func(in int, f string, want ...int) {
		t.Helper()
		b.send(in, f)
		if got := b.reached(f); !slices.Equal(got, want) {
			t.Errorf("reached ports %v, want %v", got, want)
		}
	}
	hello := eth(host(2), host(1), "hello")
	answer := eth(host(1), host(2), "answer")
	expect(0, hello, 1, 2, 3)
	expect(1, answer, 0)
	expect(0, hello, 1)
	expect(0, eth(anyone, host(1), "all"), 1, 2, 3)
	expect(0, eth(ether.Addr{1, 0, 0x5e, 0, 1, 129}, host(1), "group"), 1, 2, 3)
	// 802.1Q tags pass, and VLANs share the table.
	expect(0, string(append(append([]byte(hello[:12]), 0x81, 0, 0x20, 7), hello[12:]...)), 1)
	// A station that moves.
	expect(2, answer, 0)
	expect(0, hello, 2)
	expect(2, hello) // behind the port it came from
	rows := b.s.MACs(b.now)
	if len(rows) != 2 || rows[0].MAC != host(1) || rows[0].Port != "port2" || rows[1].Port != "port2" {
		t.Errorf("%+v", rows)
	}
	if b.s.macs.moves != 2 {
		t.Errorf("%d moves", b.s.macs.moves)
	}
	b.run(11 * time.Second)
	expect(0, hello, 1, 2, 3)
	if n := len(b.s.MACs(b.now)); n != 1 {
		t.Errorf("%d addresses after ageing", n)
	}
	c := b.s.Counts(2)
	if c.RxFrames != 2 || c.TxFrames != 5 || c.RxDrops[DropSamePort] != 1 || c.RxDrops.Total() != 1 {
		t.Errorf("port 2: %+v", c)
	}
	if c := b.s.Counts(0); c.Flooded != 4 || c.RxOctets == 0 || c.TxOctets == 0 {
		t.Errorf("port 0: %+v", c)
	}
}

func TestFullTable(t *testing.T) {
	b := newBed(t, 3, Config{MACs: 2, Ageing: time.Second})
	for n := range byte(3) {
		b.send(0, eth(anyone, host(n+1), ""))
	}
	if b.run(0); len(b.s.MACs(b.now)) != 2 || b.s.macs.full != 1 {
		t.Errorf("%+v, %d refused", b.s.MACs(b.now), b.s.macs.full)
	}
	b.run(time.Second)
	b.send(0, eth(anyone, host(9), ""))
	if rows := b.s.MACs(b.now); len(rows) != 1 || rows[0].MAC != host(9) {
		t.Errorf("%+v", rows)
	}
	b.run(0)
}

func TestLinkLocal(t *testing.T) {
	for mask, want := range map[uint16]string{0: "", 0x4000: "0e", 0xfff8: "03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"} {
		b := newBed(t, 2, Config{GroupFwdMask: mask})
		for n := range byte(16) {
			b.send(0, eth(ether.Addr{1, 0x80, 0xc2, 0, 0, n}, host(1), ""))
		}
		b.send(0, eth(ether.Addr{1, 0x80, 0xc2, 0, 0, 0x10}, host(1), ""))
		b.run(0)
		var passed []string
		for _, l := range b.wires[1].take() {
			passed = append(passed, ether.Addr([]byte(l.b[:6])).String()[15:])
		}
		if got := strings.Join(passed, " "); got != strings.TrimSpace(want+" 10") {
			t.Errorf("mask %#x: passed %s", mask, got)
		}
		if got := b.s.Counts(0).RxDrops[DropLinkLocal]; got != uint64(17-len(passed)) {
			t.Errorf("mask %#x: %d dropped", mask, got)
		}
	}
}

func TestBadFrames(t *testing.T) {
	b := newBed(t, 2, Config{})
	b.send(0, "short")
	b.send(0, eth(anyone, anyone, "from a group"))
	b.send(0, eth(anyone, ether.Addr{}, "from nobody"))
	b.run(0)
	if d := b.s.Counts(0).RxDrops; d[drop.Truncated] != 1 || d[drop.Source] != 2 || len(b.wires[1].got) != 0 {
		t.Errorf("%v, %d passed", d, len(b.wires[1].got))
	}
}

// An egress queue is bounded and keeps the order of its frames.
func TestQueue(t *testing.T) {
	b := newBed(t, 2, Config{Queue: 5, Delay: Delay{Uniform, time.Microsecond, 500 * time.Microsecond}})
	var want []string
	for i := range 7 {
		f := eth(anyone, host(1), string(rune('a'+i)))
		b.send(0, f)
		want = append(want, f)
	}
	b.run(time.Millisecond)
	var got []string
	for _, l := range b.wires[1].take() {
		got = append(got, l.b)
	}
	if !slices.Equal(got, want[:5]) {
		t.Errorf("%q", got)
	}
	if c := b.s.Counts(1); c.TxDrops[drop.TxQueue] != 2 || c.QueueMost != 5 {
		t.Errorf("%+v", c)
	}
	b.wires[1].room = 0
	b.send(0, want[0])
	b.run(time.Second)
	if len(b.wires[1].got) != 0 {
		t.Error("a frame left by a link without room")
	}
	b.wires[1].room = 1
	b.run(0)
	if len(b.wires[1].take()) != 1 {
		t.Error("the frame is lost")
	}
}

// Delays have the distribution that was asked for, the same for one seed.
func TestDelays(t *testing.T) {
	for text, want := range map[string]struct{ min, max, mean time.Duration }{
		"0":             {},
		"250us":         {250 * time.Microsecond, 250 * time.Microsecond, 250 * time.Microsecond},
		"0-500us":       {0, 500 * time.Microsecond, 250 * time.Microsecond},
		"100us-300us":   {100 * time.Microsecond, 300 * time.Microsecond, 200 * time.Microsecond},
		"exp:10us":      {0, math.MaxInt64, 10 * time.Microsecond},
		"exp:5us+100us": {5 * time.Microsecond, math.MaxInt64, 105 * time.Microsecond},
		"gauss:10us":    {0, 80 * time.Microsecond, 7979 * time.Nanosecond}, // root of 2/pi
	} {
		d, err := ParseDelay(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseDelay(d.String()); err != nil || again != d {
			t.Errorf("%s: %v is read as %v", text, d, again)
		}
		const n = 20000
		var sum time.Duration
		beyond := 0 // twice the mean
		rng, twin := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
		for range n {
			v := d.Draw(rng)
			if v < want.min || v > want.max || v != d.Draw(twin) {
				t.Fatalf("%s: %v", text, v)
			}
			if v-d.Min > 2*(want.mean-d.Min) {
				beyond++
			}
			sum += v
		}
		if mean := sum / n; (mean - want.mean).Abs() > want.mean/40 {
			t.Errorf("%s: mean %v", text, mean)
		}
		// e^-2 of exponential delays are that long, and what is beyond 1.596
		// deviations of a normal distribution.
		tail := map[Distribution]float64{Exponential: 0.1353, Gaussian: 0.1105}
		if share := float64(beyond) / n; tail[d.Dist] > 0 && math.Abs(share-tail[d.Dist]) > 0.01 {
			t.Errorf("%s: %v beyond twice the mean", text, share)
		}
	}
	for _, bad := range []string{"", "x", "5", "-1us", "5us-1us", "exp:", "exp:0s", "exp:-1us", "exp:1us+", "log:1us", "1us-2us-3us"} {
		if d, err := ParseDelay(bad); err == nil {
			t.Errorf("%q is read as %v", bad, d)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	two := []PortConfig{{TAP: "tap0"}, {TAP: "tap1"}}
	for want, c := range map[string]Config{
		"2 to 4096":    {Ports: two[:1]},
		"called tap0":  {Ports: append(two[:1:1], two[0])},
		"another mode": {Ports: two, OneStep: true},
		"follows its":  {Ports: two, Mode: Boundary, Syntonize: true},
		"never":        {Ports: two, GroupFwdMask: 1},
		"queue":        {Ports: two, Queue: 1 << 17},
		"at most 15":   {Ports: append(two[:1:1], PortConfig{TAP: "a-name-that-is-too-long"})},
		"mode 9":       {Ports: two, Mode: 9},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := New(Config{}, Env{}); err == nil {
		t.Error("a switch without ports")
	}
}
