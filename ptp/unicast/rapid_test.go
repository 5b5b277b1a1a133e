package unicast

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Over a wire that loses, repeats and delays messages, with offers and wishes
// that change, requester and grantor never disagree for longer than a grant
// lasts, nothing is granted beyond the limits, and in quiet times every wish
// that can be granted is.
func TestNegotiation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const duration = 20
		limits := Limits{Clients: 1, MaxDuration: 3600, MinLog: -4, MaxLog: 2, Rate: 40}
		var out, in mailbox
		r, err := NewRequester(RequesterConfig{Masters: []transport.Addr{theMaster}, Duration: duration, Log: [numServices]int8{1, -3, -3, 0}}, &out)
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGrantor(limits, Announce|Sync|DelayResp, &in)
		if err != nil {
			t.Fatal(err)
		}
		offered, wanted := Announce|Sync|DelayResp, Announce
		lossy, now := true, frame.Time(0)
		copies := func() int {
			if !lossy {
				return 1
			}
			return rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "copies")
		}
		step := func() frame.Time {
			next := r.Poll(now)
			for _, s := range out.take() {
				for range copies() {
					g.Signaling(theSlave, identity(2), s.tlvs, now)
				}
			}
			for n := 0; ; n++ {
				_, typ, _, ok := g.Due(now)
				if !ok {
					break
				}
				if s := ServiceOf(typ); s != Announce && s != Sync || offered&s == 0 || n > 8 {
					t.Fatalf("%v is due, offered %v", typ, offered)
				}
			}
			next = min(next, g.Poll(now))
			for _, s := range in.take() {
				for range copies() {
					r.Signaling(theMaster, identity(1), s.tlvs, now)
				}
			}
			return min(next, r.Poll(now))
		}
		pass := func(d time.Duration) {
			for end := now.Add(d); now < end; {
				now = min(end, max(now+1, step()))
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				wanted = Services(rapid.IntRange(0, 15).Draw(t, "wanted"))
				r.Want(0, wanted)
			case 1:
				offered = Services(rapid.IntRange(0, 7).Draw(t, "offered"))
				g.Offer(offered)
			}
			pass(time.Duration(rapid.IntRange(0, 30000).Draw(t, "ms")) * time.Millisecond)
			if g.load > int64(limits.Rate)<<10 || g.Clients() > 1 || g.schedule.Len() > numServices {
				t.Fatalf("load %d, %d clients, %d grants", g.load, g.Clients(), g.schedule.Len())
			}
			if over := g.Granted(theSlave, identity(2)) &^ offered; over != 0 {
				t.Fatalf("grants %v, which it does not offer", over)
			}
		}
		lossy = false
		pass((duration + 40) * time.Second)
		if got, want := r.Granted(0), wanted&offered; got != want || g.Granted(theSlave, identity(2)) != want {
			t.Fatalf("granted %v by %v, want %v", got, g.Granted(theSlave, identity(2)), want)
		}
		load := int64(0)
		for gr := range g.schedule.All() {
			load += gr.load
		}
		if load != g.load {
			t.Fatalf("load %d, booked %d", load, g.load)
		}
	})
}
