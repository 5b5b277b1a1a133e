package l2

import (
	"testing"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// paced is a port that counts octets by the station that sent them.
type paced struct {
	octets map[byte]int
	at     []frame.Time
	now    frame.Time
	room   int
}

func (p *paced) Room() int { return p.room }
func (p *paced) Transmit(f *frame.Frame) {
	p.octets[f.Bytes()[11]] += f.Len()
	p.at = append(p.at, p.now)
	f.Release()
}

// flood keeps queues full for a time, their frames with the number of the queue
// as source, and returns what left.
func (w *world) flood(d time.Duration, from frame.Time, queues ...*TxQueue) *paced {
	w.t.Helper()
	p := &paced{octets: map[byte]int{}, room: 1000, now: from}
	end := from.Add(d)
	for p.now < end {
		for i, q := range queues {
			for q.Len() < 4 {
				b := packet4(addr(9), ip.ProtoUDP, 1, 1, 2, 946) // 1000 octets with its headers
				b[11] = byte(i)
				if len(b) != 1000 {
					w.t.Fatalf("%d octets", len(b))
				}
				q.Post(w.frame(b), TxBD{})
				q.Doorbell()
			}
		}
		w.tree.Begin(p.now)
		if w.Transmit(p) {
			w.t.Fatalf("no room")
		}
		if w.tree.Next() <= p.now {
			w.t.Fatalf("held until %v, it is %v", w.tree.Next(), p.now)
		}
		if w.tree.Next() != frame.Never { // else more may leave at once
			p.now = w.tree.Next()
		}
	}
	return p
}

// eachQueue starts n vports, each with a queue pair.
func (w *world) eachQueue(n int) (list []*TxQueue) {
	for i := range n {
		w.start(StartParams{Vport: i}, i)
		list = append(list, w.txq(i, i))
		w.run(i, Regular)
	}
	return list
}

// A limiter lets exactly its rate pass, whatever the rate.
//
// L2-25
func TestRateLimit(t *testing.T) {
	for _, rate := range []int{1, 7, 100, 999, 25_000} {
		w := newWorld(t, Config{})
		q := w.eachQueue(1)[0]
		start := frame.Time(time.Second)
		w.tree.Begin(start)
		w.ok(w.SetVportRate(0, rate))
		p := w.flood(time.Second/10, start, q)
		for n, at := range p.at { // 8000 bits each
			if want := start.Add(time.Duration(n * 8_000_000 / rate)); at != want {
				t.Fatalf("%d Mb/s: frame %d at %v, want %v", rate, n, at, want)
			}
		}
		for q.Len() > 0 { // a pause
			w.tree.Begin(w.tree.Next())
			w.Transmit(&paced{octets: map[byte]int{}, room: 1000})
		}
		later := p.now.Add(time.Minute)
		w.tree.Begin(later)
		p = w.flood(1, later, q)
		if n := len(p.at); n != 1 {
			t.Errorf("%d Mb/s: %d frames after a pause, want one", rate, n)
		}
		w.ok(w.SetVportRate(0, MaxRate))
		w.tree.Begin(later)
		p = &paced{octets: map[byte]int{}, room: 1000}
		if w.Transmit(p) || q.Len() != 0 || w.tree.Next() != frame.Never {
			t.Errorf("%d Mb/s: %d frames stay without a limit", rate, q.Len())
		}
	}
}

// The function's limit holds for all vports together; they share it alike, or
// by WFQ, and what one leaves is the others'.
//
// L2-25
func TestWFQ(t *testing.T) {
	w := newWorld(t, Config{})
	queues := w.eachQueue(4)
	w.ok(w.SetPFRates(800, 1000))
	now := frame.Time(0)
	share := func(queues ...*TxQueue) (percent [4]int) {
		start := now.Add(10 * time.Second)
		w.tree.Begin(start)
		w.ok(w.SetPFRates(800, 0))
		w.ok(w.SetPFRates(800, 1000)) // an empty bucket
		p := w.flood(time.Second/10, start, queues...)
		sum := 0
		for _, n := range p.octets {
			sum += n
		}
		if sum < 12_499_000 || sum > 12_501_000 {
			t.Errorf("%d octets in 0.1 s of 1000 Mb/s", sum)
		}
		for i, n := range p.octets {
			percent[i] = (100*n + sum/2) / sum
		}
		p.now = p.now.Add(time.Second)
		for _, q := range queues {
			for q.Len() > 0 {
				p.now = p.now.Add(time.Second)
				w.tree.Begin(p.now)
				w.Transmit(p)
			}
		}
		now = p.now
		return percent
	}
	if got := share(queues...); got != [4]int{25, 25, 25, 25} {
		t.Errorf("alike: %v", got)
	}
	w.ok(w.SetVportWFQ(0, 400))
	w.ok(w.SetVportWFQ(1, 240))
	if got := share(queues...); got != [4]int{50, 30, 10, 10} {
		t.Errorf("400, 240 and two of 80: %v", got)
	}
	if got := share(queues[1], queues[2]); got != [4]int{75, 25} {
		t.Errorf("240 and 80: %v", got)
	}
	if got := share(queues[3]); got != [4]int{100} {
		t.Errorf("one alone: %v", got)
	}
	w.ok(w.SetVportWFQ(0, 0))
	w.ok(w.SetPFRates(80, 0)) // the rate of vport 1 is now 24
	if low, high := w.PFRates(); low != 80 || high != 0 || w.minRate(1) != 24 {
		t.Errorf("%d and %d, vport 1 %d", low, high, w.minRate(1))
	}
}

// minRate is the minimal rate of a vport.
func (w *world) minRate(id int) int { return w.vports[id].minRate }

// Rates that cannot be change nothing.
//
// L2-25
func TestRatesRefused(t *testing.T) {
	w := newWorld(t, Config{})
	w.eachQueue(3)
	w.ok(w.SetPFRates(1000, 2000))
	w.ok(w.SetVportWFQ(0, 500))
	for _, c := range [][2]int{{-1, 0}, {0, -1}, {0, MaxRate + 1}, {MaxRate + 1, 0}, {20, 10}} {
		w.want(status.Inval, w.SetPFRates(c[0], c[1]))
	}
	w.want(status.Inval, w.SetVportRate(0, -1))
	w.want(status.Inval, w.SetVportRate(0, MaxRate+1))
	w.want(status.Inval, w.SetVportRate(3, 1))
	w.want(status.Inval, w.SetVportWFQ(3, 100))
	w.want(status.Inval, w.SetVportWFQ(1, 9))   // below a hundredth
	w.want(status.Inval, w.SetVportWFQ(1, 491)) // vport 2 keeps 10
	w.want(status.Inval, w.SetVportWFQ(1, -1))
	w.ok(w.SetVportWFQ(1, 490))
	w.want(status.Inval, w.SetVportWFQ(2, 11))
	if low, high := w.PFRates(); low != 1000 || high != 2000 || w.minRate(0) != 500 || w.minRate(1) != 490 || w.minRate(2) != 0 {
		t.Errorf("%d, %d", low, high)
	}
	cmt := newWorld(t, Config{Engines: 2})
	cmt.eachQueue(2)
	cmt.ok(cmt.SetPFRates(1000, 2000))
	cmt.want(status.NotImpl, cmt.SetVportWFQ(0, 500))
}
