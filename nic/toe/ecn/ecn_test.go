package ecn

import (
	"testing"

	"tapir/wire/tcp"
)

// TestNegotiation is the table of RFC 3168 section 6.1.1.
func TestNegotiation(t *testing.T) {
	const ask, grant = tcp.SYN | tcp.ECE | tcp.CWR, tcp.SYN | tcp.ACK | tcp.ECE
	for _, c := range []struct {
		a, b   Mode
		lost   bool // a's first SYN
		on     bool
		syn    tcp.Flags
		synAck tcp.Flags
	}{
		{Ask, Accept, false, true, ask, grant},
		{Ask, Ask, false, true, ask, grant},
		{Ask, Off, false, false, ask, tcp.SYN | tcp.ACK},
		{Accept, Ask, false, false, tcp.SYN, tcp.SYN | tcp.ACK},
		{Off, Accept, false, false, tcp.SYN, tcp.SYN | tcp.ACK},
		{Ask, Accept, true, false, tcp.SYN, tcp.SYN | tcp.ACK},
	} {
		var a, b State
		syn := a.Syn(c.a, tcp.SYN, false)
		if c.lost {
			syn = a.Syn(c.a, tcp.SYN, true)
		}
		b.TakeSyn(c.b, syn)
		synAck := b.Syn(c.b, tcp.SYN|tcp.ACK, false)
		a.TakeSyn(c.a, synAck)
		if a.On != c.on || b.On != c.on || syn != c.syn || synAck != c.synAck || Granted(c.b, syn) != c.on {
			t.Errorf("%+v: on %v %v, flags %v %v", c, a.On, b.On, syn, synAck)
		}
	}
	reflected := State{asked: true} // a SYN-ACK that only mirrors the flags
	if reflected.TakeSyn(Ask, tcp.SYN|tcp.ACK|tcp.ECE|tcp.CWR); reflected.On {
		t.Error("mirrored flags are taken for consent")
	}
}

// TestMarkAndReaction follows one mark from its arrival to the reaction.
func TestMarkAndReaction(t *testing.T) {
	rx, tx := State{On: true}, State{On: true}
	if f, tos := tx.Segment(tcp.ACK, 0xb9, true); f != tcp.ACK || tos != 0xb8|ECT0 {
		t.Errorf("new data leaves with %v, %#x", f, tos)
	}
	if _, tos := tx.Segment(tcp.ACK, 0xb9, false); tos != 0xb8 {
		t.Errorf("an acknowledgement leaves with %#x", tos)
	}
	if !rx.Arrived(tcp.ACK, true) || rx.Arrived(tcp.ACK, true) {
		t.Error("the first mark is answered at once, the second with the rest")
	}
	f, _ := rx.Segment(tcp.ACK, 0, false)
	if !f.Has(tcp.ECE) || !tx.React(f, 100) {
		t.Fatalf("%v", f)
	}
	tx.Reduced(500)
	if tx.React(f, 499) || !tx.React(f, 500) {
		t.Error("one reaction per window")
	}
	f, _ = tx.Segment(tcp.ACK, 0, true)
	if !f.Has(tcp.CWR) || !tx.MustTell() {
		t.Fatal("the reaction is not told")
	}
	if tx.Sent(f); tx.MustTell() {
		t.Error("it is told twice")
	}
	rx.Arrived(f, false)
	if f, _ := rx.Segment(tcp.ACK, 0, false); f.Has(tcp.ECE) {
		t.Error("the echo does not end")
	}
}
