package rmpp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"tapir/wire/frame"
	"tapir/wire/ib"
)

// message is one of class SA with so many octets of data.
func message(n int) []byte {
	b := make([]byte, 56+n)
	b[0], b[1], b[2], b[3], b[15] = 1, ib.ClassSA, ib.SAVersion, ib.MethodGetTableResp, 7
	for i := range n {
		b[56+i] = byte(i*7 + i/256)
	}
	return b
}

// Messages of all lengths arrive whole, also where datagrams are lost, and both
// ends notice the end.
func TestTransfer(t *testing.T) {
	for _, c := range []struct {
		data int
		loss float64
	}{{0, 0}, {1, 0}, {199, 0}, {200, 0}, {201, 0}, {108 * 40, 0}, {20_000, 0.1}, {60_000, 0.02}} {
		rng := rand.New(rand.NewPCG(1, uint64(c.data)))
		want := message(c.data)
		s, r := NewSender(want), new(Receiver)
		done := false
		for now := frame.Time(1); !s.Done() && now < 1000e9; {
			var acks [][]byte
			now = s.Poll(now, func(mad []byte) {
				if rng.Float64() < c.loss {
					return
				}
				ack, whole := r.Take(mad)
				done = done || whole
				if ack != nil && rng.Float64() >= c.loss {
					acks = append(acks, ack)
				}
			})
			for _, a := range acks {
				s.Take(a)
				now = 0
			}
			if now == 0 {
				now = 1
			}
		}
		got := r.Message()
		if !s.Delivered() || !done || !bytes.Equal(got[56:], want[56:]) || !bytes.Equal(got[:24], want[:24]) {
			t.Errorf("%d octets, loss %v: delivered %v, received %v, %d octets", c.data, c.loss, s.Delivered(), done, len(got)-56)
		}
	}
}

// A receiver that is silent, or aborts, ends the sender.
func TestFails(t *testing.T) {
	s := NewSender(message(1000))
	sent := 0
	for now := frame.Time(1); now != frame.Never; {
		now = s.Poll(now, func([]byte) { sent++ })
	}
	if !s.Done() || s.Delivered() || sent != maxTries {
		t.Errorf("silent receiver: %d sent, done %v", sent, s.Done())
	}
	s = NewSender(message(1000))
	s.Poll(1, func([]byte) {})
	abort := make([]byte, ib.MADLen)
	(&ib.RMPP{Type: ib.RMPPAbort, Flags: ib.RMPPActive}).Put(abort)
	if s.Take(abort); !s.Done() || s.Delivered() {
		t.Error("an aborted message goes on")
	}
}

// No datagram makes the receiver fail, or keep more than a message may have.
func FuzzReceiver(f *testing.F) {
	f.Add(message(200)[:256])
	f.Fuzz(func(t *testing.T, b []byte) {
		mad := make([]byte, ib.MADLen)
		copy(mad, b)
		r, s := new(Receiver), NewSender(message(900))
		s.Poll(1, func([]byte) {})
		for i := range 4 {
			mad[31] = byte(i)
			r.Take(mad)
			s.Take(mad)
		}
		if len(r.Message()) > MaxMessage+ib.MADLen {
			t.Errorf("%d octets", len(r.Message()))
		}
	})
}
