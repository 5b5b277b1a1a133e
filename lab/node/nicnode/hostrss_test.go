package nicnode

import (
	"net"
	"testing"
	"time"
)

// echoes opens n TCP connections from the peer to a server on the host that
// sends back what it gets.
func (w *hostWorld) echoes(n int) (list []net.Conn) {
	var l net.Listener
	must(w.t, w.pair.A.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", hostAddr+":0")
		return err
	}))
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 64)
				for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
					_, _ = c.Write(b[:n]) // the next Read tells
				}
			}()
		}
	}()
	for range n {
		must(w.t, w.pair.B.NS.Do(func() error {
			c, err := net.DialTimeout("tcp", l.Addr().String(), 30*time.Second)
			if err == nil {
				list = append(list, c)
				w.t.Cleanup(func() { c.Close() })
				err = c.SetDeadline(time.Now().Add(2 * time.Minute))
			}
			return err
		}))
	}
	return list
}

// Table and number of queues change under traffic: from then on frames come by
// the queues that there are, and every connection goes on.
func TestHostQueuesChangeUnderTraffic(t *testing.T) {
	w := newHostWorld(t, Config{})
	conns := w.echoes(48)
	round := func() (share [4]uint64) {
		before := w.queues()
		for range 4 {
			for i, c := range conns {
				_, err := c.Write([]byte("hello"))
				must(t, err)
				if _, err := c.Read(make([]byte, 64)); err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
			}
		}
		for i, q := range w.queues() {
			share[i] = q.RxPackets - before[i].RxPackets
		}
		return share
	}
	if n := round(); n[0] == 0 || n[1] == 0 || n[2] == 0 || n[3] == 0 {
		t.Errorf("four queues: %v", n)
	}
	w.set("rss_table", "0,0,0,3") // weight 3 0 0 1
	if n := round(); n[0] <= n[3] || n[3] == 0 || n[1]+n[2] > n[3] {
		t.Errorf("weights 3 and 1 of queues 0 and 3: %v", n)
	}
	w.set("rx_hash", "0")
	if n := round(); n[0] == 0 || n[1]+n[2]+n[3] > n[0]/10 {
		t.Errorf("without a hash: %v", n)
	}
	w.set("rx_hash", "1")
	w.set("rss_table", "equal")
	w.set("channels", "2")
	if got := w.queues(); len(got) != 2 {
		t.Fatalf("%d queues", len(got))
	}
	if n := round(); n[0] == 0 || n[1] == 0 {
		t.Errorf("two queues: %v", n)
	}
}
