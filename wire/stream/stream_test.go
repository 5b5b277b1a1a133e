package stream

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"tapir/wire/tcp"
)

func TestEndsOf(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:9"), netip.MustParseAddrPort("10.0.0.2:8")
	if EndsOf(a, b) != (Ends{a, b}) || EndsOf(b, a) != (Ends{a, b}) {
		t.Errorf("%v, %v", EndsOf(a, b), EndsOf(b, a))
	}
}

// Segments that come in any order, overlap and come again make the stream, also
// where sequence numbers wrap.
func TestOrder(t *testing.T) {
	want := make([]byte, 5000)
	for i := range want {
		want[i] = byte(i * 7)
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		isn := tcp.Seq(0xfffffff0)
		o := Order[int]{Next: isn}
		var all []Segment[int]
		for at := 0; at < len(want); {
			n := min(1+r.IntN(400), len(want)-at)
			from := max(0, at-r.IntN(50))
			all = append(all, Segment[int]{isn.Add(from), want[from : at+n], at})
			at += n
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = append(all, all[:3]...)
		var got []byte
		for _, s := range all {
			if o.Next.Less(s.Seq) {
				o.Wait(s)
				continue
			}
			got = append(got, o.Advance(s)...)
			for {
				s, ok := o.Due()
				if !ok {
					break
				}
				got = append(got, o.Advance(s)...)
			}
		}
		if !bytes.Equal(got, want) || len(o.Gap) != 0 || o.Waiting != 0 || o.Next != isn.Add(len(want)) {
			t.Fatalf("seed %d: %d octets of %d, %d segments and %d octets wait", seed, len(got), len(want), len(o.Gap), o.Waiting)
		}
	}
}

// Of segments with the same beginning the one that came first is first.
func TestOrderIsStable(t *testing.T) {
	o := Order[int]{Next: 5}
	for n, at := range []tcp.Seq{9, 7, 9, 7, 8} {
		b := []byte{byte(n)}
		o.Wait(Segment[int]{at, b, n})
		b[0] = 99
	}
	var got []byte
	for len(o.Gap) > 0 {
		s := o.Pop()
		got = append(got, s.Data[0], byte(s.Note))
	}
	if want := []byte{1, 1, 3, 3, 4, 4, 0, 0, 2, 2}; !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
