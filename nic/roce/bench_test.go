package roce

import (
	"fmt"
	"testing"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// direct is an Output whose frames the other engine takes at once, in the next round.
type direct struct {
	sent []*frame.Frame
}

func (d *direct) Room() int                                     { return 64 }
func (d *direct) Transmit(f *frame.Frame, _ *Hop, _ frame.Time) { d.sent = append(d.sent, f) }

// bench is two engines with nothing between them.
type bench struct {
	*sim
	out  [2]direct
	a, b *verbs.QP
	wr   [3]verbs.SendWR
	recv verbs.RecvWR
	wcs  [8]verbs.WC
}

func newBench(t testing.TB, octets, segments int) *bench {
	r := &bench{sim: newSim(t, 9, false, false)}
	r.segments, r.mtu = segments, 1024
	if octets > 64<<10 {
		r.mtu = 4096
	}
	for i, s := range r.end {
		s.e.env.Out = &r.out[i]
	}
	r.a, r.b = r.pair(qpattr.RC)
	from, to := r.end[0], r.end[1]
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
		r.wr[i] = verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: from.sge(0, octets), RKey: to.mr.RKey(),
			RemoteAddr: to.mr.Addr()}
	}
	r.recv.SGEs = to.sge(0, octets)
	return r
}

// turn polls both and hands over what they have sent.
func (r *bench) turn() {
	r.now++
	for i, s := range r.end {
		s.e.Poll(r.now)
		d := &r.out[i]
		for _, f := range d.sent {
			r.end[1-i].e.Receive(f.Bytes(), int(f.GSOSize), ether.Tag{}, r.now)
			f.Release()
		}
		d.sent = d.sent[:0]
	}
}

// do carries out one request.
func (r *bench) do(wr *verbs.SendWR) {
	if _, err := r.a.PostSend(*wr); err != nil {
		r.t.Fatal(err)
	}
	for n := 0; r.end[0].cq.Poll(r.wcs[:]) == 0; n++ {
		if r.turn(); n > 10_000 {
			r.t.Fatal("no completion")
		}
	}
}

// round carries out each kind of request.
func (r *bench) round() {
	if _, err := r.b.PostRecv(r.recv); err != nil {
		r.t.Fatal(err)
	}
	for i := range r.wr {
		r.do(&r.wr[i])
	}
	r.end[1].cq.Poll(r.wcs[:])
}

// BenchmarkWrite sends Writes from one engine to the other on one processor; segments a second
// are the row "segments a second and core".
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct{ octets, segments int }{{8, 1}, {1024, 1}, {64 << 10, 1}, {64 << 10, 62}, {256 << 10, 15}} {
		b.Run(fmt.Sprintf("octets=%d/segments=%d", c.octets, c.segments), func(b *testing.B) {
			r := newBench(b, c.octets, c.segments)
			b.SetBytes(int64(c.octets))
			before := r.end[0].e.stats.PacketsOut
			for b.Loop() {
				r.do(&r.wr[0])
			}
			b.ReportMetric(float64(r.end[0].e.stats.PacketsOut-before)/b.Elapsed().Seconds(), "segments/s")
		})
	}
}

// BenchmarkSmallWrites sends many Writes of 8 octets at a time, which share super-frames.
func BenchmarkSmallWrites(b *testing.B) {
	r := newBench(b, 8, 256)
	wrs := make([]verbs.SendWR, 256)
	for i := range wrs {
		wrs[i] = r.wr[0]
	}
	wcs := make([]verbs.WC, len(wrs))
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(wrs) {
		if _, err := r.a.PostSend(wrs...); err != nil {
			b.Fatal(err)
		}
		for done, turns := 0, 0; done < len(wrs); turns++ {
			if r.turn(); turns > 10_000 {
				b.Fatal("no completion")
			}
			done += r.end[0].cq.Poll(wcs)
		}
	}
}
