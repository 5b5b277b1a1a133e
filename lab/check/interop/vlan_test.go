package interop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/toe"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// tags counts the TCP frames of a NIC's port, and those among them that do not
// bear the one tag that they should.
type tags struct {
	mu                    sync.Mutex
	frames, wrong, supers int
}

const vlan = 100

// Trace implements nic.Tracer.
func (c *tags) Trace(r *frame.Record) {
	h, n, err := ether.Parse(r.Data)
	if err != nil || h.Type != ether.TypeIPv4 || r.Data[n+9] != ip.ProtoTCP {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames++
	if h.NTags != 1 || h.Tags[0].VID() != vlan {
		c.wrong++
	}
	if r.Offload.GSO != frame.GSONone {
		c.supers++
	}
}

// TestTaggedStreams has two NICs of one VLAN exchange verified streams over
// two bridges of the kernel: in true frames, and in super-frames.
func TestTaggedStreams(t *testing.T) {
	for _, frames := range []string{"wire", "gso"} {
		t.Run(frames, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := testenv.Pair(t, 1500, frames == "gso")
			var nodes [2]*nicnode.Node
			var err error
			count := &tags{}
			for i, side := range []*link.Space{p.A, p.B} {
				nodes[i], err = nicnode.Start(ctx, nicconf.Config{Name: fmt.Sprint("nic", i), TAP: link.PairTAP, Frames: frames, VLAN: vlan,
					IP: []netip.Prefix{[]netip.Prefix{nic4, Peer4}[i]},
				}, node.Env{NS: side.NS})
				if err != nil {
					t.Fatal(err)
				}
				defer nodes[i].Close()
			}
			const octets = 8 << 20
			left, right := newPattern(1), newPattern(2)
			ended := [2]chan end{make(chan end, 1), make(chan end, 1)}
			at := netip.AddrPortFrom(Peer4.Addr(), port)
			var failed [2]error
			err = errors.Join(nodes[1].DoWait(func(frame.Time) {
				_, failed[1] = nodes[1].Device.TCP().Listen(at, 1, func(*toe.Conn, frame.Time) toe.Handler { return newStream(right, octets, 2, ended[1]) })
			}), nodes[0].DoWait(func(now frame.Time) {
				nodes[0].Device.SetTracer(count)
				s := newStream(left, octets, 1, ended[0])
				s.conn, failed[0] = nodes[0].Device.TCP().Connect(netip.AddrPortFrom(nic4.Addr(), 0), at, s, now)
			}))
			if err := errors.Join(err, failed[0], failed[1]); err != nil {
				t.Fatal(err)
			}
			for i, from := range []pattern{right, left} {
				select {
				case e := <-ended[i]:
					err = errors.Join(err, e.check(nodes[i].Name(), from, octets))
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			count.mu.Lock()
			defer count.mu.Unlock()
			if count.frames == 0 || count.wrong > 0 || (count.supers > 0) != (frames == "gso") {
				t.Errorf("%d TCP frames, %d super-frames, %d without the tag", count.frames, count.supers, count.wrong)
			}
		})
	}
}
