package nic

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// sent is how many frames of 1000 octets, of more than fit, leave in a time.
func (e *ethernetHost) sent(d time.Duration) int {
	e.Helper()
	e.s.take()
	e.offer(d, 50)
	return len(e.s.take())
}

// offer has the operating system send frames of 1000 octets, so that so many wait, by
// two queues in turn.
func (e *ethernetHost) offer(d time.Duration, wait int) {
	b := append(e.frame(e.s.mac, 0, 9), make([]byte, 1000)...)[:1000]
	e.n.room = 4096
	queue := uint16(0)
	for end := e.w.now.Add(d); e.w.now < end; e.w.run(100 * time.Microsecond) {
		var batch []*frame.Frame
		for range wait - e.n.dev.os.Waiting() {
			f := e.w.pool.Get(len(b))
			f.Append(b)
			queue ^= 1 // of both engines, if there are two
			f.Queue = queue
			batch = append(batch, f)
		}
		e.n.dev.Receive(frame.Host, batch, e.w.now)
	}
}

// What the operating system sends is shaped: to the rate that is set, and to the
// function's share of the port.
//
// L2-25
func TestTxRate(t *testing.T) {
	e := newEthernetHost(t, Config{})
	within := func(what string, got, want int) {
		t.Helper()
		if got < want-1 || got > want+want/10+1 { // a millisecond's worth more
			t.Errorf("%s: %d frames, want %d", what, got, want)
		}
	}
	if free := e.sent(10 * time.Millisecond); free < 1000 {
		t.Errorf("%d frames without a limit", free)
	}
	e.w.run(time.Millisecond)
	e.set("tx_maxrate", "80")
	within("80 Mb/s", e.sent(20*time.Millisecond), 200)
	if v := e.n.dev.ShowVport()[0]; v.TxMaxRate != 80 {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{"-1", "100001", "fast"} {
		if err := e.n.dev.Set(Setting{"tx_maxrate", bad}); err == nil || e.n.dev.ShowVport()[0].TxMaxRate != 80 {
			t.Errorf("%s is accepted", bad)
		}
	}
	// The share of the port: of 1000 Mb/s a tenth.
	e.set("tx_maxrate", "0")
	e.set("link_speed", "1G")
	e.set("bw_max", "10")
	e.w.run(10 * time.Millisecond)
	if v := e.n.dev.ShowVport()[0]; v.TxMaxRate != 100 {
		t.Fatalf("%+v: %+v", v, e.n.dev.MCP().LinkState())
	}
	within("a tenth of 1G", e.sent(20*time.Millisecond), 250)
	e.set("tx_maxrate", "40")
	within("40 Mb/s of 100", e.sent(20*time.Millisecond), 100)
	e.set("tx_maxrate", "0")
	e.set("bw_max", "100")
	e.w.run(10 * time.Millisecond)
	if free := e.sent(10 * time.Millisecond); free < 1000 {
		t.Errorf("%d frames when the limits have gone", free)
	}
}

// Each queue has a rate of its own, beside that of all together.
//
// L2-25
func TestQueueRates(t *testing.T) {
	e := newEthernetHost(t, Config{})
	e.set("queue_maxrate", "40,80")
	sent := func() (n [2]uint64) {
		for i, q := range e.n.dev.ShowQueues()[:2] {
			n[i] = q.TxPackets
		}
		return n
	}
	for _, c := range []struct {
		set  [2]string
		want [2]uint64 // frames of 1000 octets in 20 ms
	}{{[2]string{"tx_maxrate", "0"}, [2]uint64{100, 200}}, {[2]string{"queue_maxrate", "20"}, [2]uint64{50, 2000}},
		{[2]string{"tx_maxrate", "80"}, [2]uint64{50, 150}}} {
		e.set(c.set[0], c.set[1])
		e.w.run(50 * time.Millisecond)
		before := sent()
		e.offer(20*time.Millisecond, 400)
		after := sent()
		for i, want := range c.want {
			if n := after[i] - before[i]; n < want*9/10 || want < 2000 && n > want*11/10+2 {
				t.Errorf("%v: queue %d sent %d frames, want %d", c.set, i, n, want)
			}
		}
	}
	for _, bad := range []string{"1,2,3,4,5", "-1", "100001", "x"} {
		if err := e.n.dev.Set(Setting{"queue_maxrate", bad}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
