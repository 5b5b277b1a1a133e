package ptp_test

import (
	"fmt"
	"log"
	"time"

	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// wire carries the messages of one instance to the other, 500 ns away.
type wire struct {
	*ptp.Instance
	clock *clock.PHC
	now   *frame.Time
	far   *wire
	queue [][]byte
}

// Send is the lower half: it stamps and keeps the message.
func (w *wire) Send(port int, m ptp.Outgoing) {
	w.queue = append(w.queue, append([]byte(nil), m.Body...))
	if m.ID != 0 {
		w.TxStamp(port, m.ID, w.clock.At(*w.now), nil, *w.now)
	}
}

// deliver gives the far end what was sent.
func (w *wire) deliver(now frame.Time) {
	for _, b := range w.queue {
		w.far.Receive(0, b, ptp.Meta{Stamp: w.far.clock.At(now), Stamped: true, Now: now})
	}
	w.queue = w.queue[:0]
}

// A slave whose clock is 37 ppm fast and a millisecond ahead follows a master
// for twenty seconds of virtual time.
func Example() {
	var now frame.Time
	join := func(id byte, ppb float64, ahead frame.Stamp) *wire {
		phc, err := clock.New(clock.Config{Oscillator: clock.Oscillator{PPB: ppb}, Initial: 1_700_000_000_000_000_000 + ahead})
		if err != nil {
			log.Fatal(err)
		}
		w := &wire{clock: phc, now: &now}
		cfg := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{7: id}, 1)
		cfg.Ports[0].LogSyncInterval = -3
		if w.Instance, err = ptp.New(cfg, phc, w); err != nil {
			log.Fatal(err)
		}
		return w
	}
	master, slave := join(1, 0, 0), join(2, 37_000, 1_000_000)
	master.far, slave.far = slave, master

	for end := frame.Time(20 * time.Second); now < end; now += frame.Time(time.Millisecond) {
		for _, w := range []*wire{master, slave} {
			w.Poll(now)
		}
		now += 500
		master.deliver(now)
		slave.deliver(now)
	}
	s := slave.Snapshot()
	fmt.Println(s.Ports[0].StateName, "of", s.Parent.Port, "servo", s.Servo.State)
	fmt.Printf("delay %v, correction %.3f ppm\n", s.Current.MeanDelay, s.Servo.Freq/1000)
	fmt.Println("off by", slave.clock.At(now)-master.clock.At(now), "ns")
	// Output:
	// SLAVE of 000000.0000.000001-1 servo s2
	// delay 500ns, correction -36.999 ppm
	// off by 1 ns
}
