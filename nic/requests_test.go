package nic

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/settings"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// stat is a row of tapir show NIC stats.
func (n *node) stat(t *testing.T, name string) view.StatInfo {
	t.Helper()
	for _, s := range n.dev.ShowStats() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no statistics of %s", name)
	return view.StatInfo{}
}

// Work requests count from the time they are posted to that of their completion, and
// those of queues that are gone still count as having been; TCP sockets likewise.
//
// SIW-9-03
func TestWorkRequestStatistics(t *testing.T) {
	w, a, b := twoNICs(t, Config{TCP: toe.Config{TimeWait: time.Minute}})
	c, s := dial(w, a, b, peer4, 1<<16)
	check := func(n *node, name string, now int, ever uint64) {
		t.Helper()
		if got := n.stat(t, name); got.Now != now || got.Ever != ever {
			t.Errorf("%s: %d now, %d ever; want %d, %d", name, got.Now, got.Ever, now, ever)
		}
	}
	check(a, "tcp_socket", 1, 1)
	sent, received := a.stat(t, "wr_sq").Ever, b.stat(t, "wr_rq").Ever
	for range 2 {
		if _, err := s.qp.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: 100, LKey: s.mr.LKey()}}}); err != nil {
			t.Fatal(err)
		}
	}
	check(b, "wr_rq", 2, received+2)
	for range 3 {
		c.post(verbs.OpWrite, 40_000, s)
	}
	check(a, "wr_sq", 3, sent+3)
	w.until(time.Second, func() bool { return c.completions() == 3 })
	check(a, "wr_sq", 0, sent+3)
	if err := c.id.Disconnect(false, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Second)
	check(b, "wr_rq", 0, received+2)
	check(a, "tcp_socket", 0, 1) // nor does TIME-WAIT count
	if err := c.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	check(a, "wr_sq", 0, sent+3)
}

// With zcopy_tx a long Write without CRC is sent again from the memory region, so that
// it completes with its acknowledgement, and a lost segment brings what is in the region
// by then; without, from a copy: it completes when it is sent, and what was posted
// arrives.
//
// SIW-7-04
func TestZeroCopyParameter(t *testing.T) {
	for _, zcopy := range []string{"1", "0"} {
		w, a, b := twoNICs(t, Config{})
		for _, n := range []*node{a, b} {
			if err := n.dev.Set(Setting{"mpa_crc_required", "0"}, Setting{"zcopy_tx", zcopy}); err != nil {
				t.Fatal(err)
			}
		}
		c, s := dial(w, a, b, peer4, 1<<16)
		w.run(time.Second)
		lost := w.losesOne(a)
		for i := range c.mem {
			c.mem[i] = 1
		}
		c.post(verbs.OpWrite, 8192, s)
		w.run(15 * time.Microsecond) // sent, and not acknowledged
		early := c.completions() == 1
		for i := range c.mem {
			c.mem[i] = 2
		}
		w.until(5*time.Second, func() bool { return c.completions() == 1 && s.mem[8191] != 0 && s.mem[0] != 0 })
		if want := zcopy == "0"; early != want {
			t.Errorf("zcopy_tx=%s: completed before the acknowledgement: %v", zcopy, early)
		}
		if again := bytes.Contains(s.mem, []byte{2}); !*lost || again != (zcopy == "1") {
			t.Errorf("zcopy_tx=%s: lost %v, changed octets arrived: %v", zcopy, *lost, again)
		}
	}
}

// So is a long Read Response: what the responder changes in the region before the
// acknowledgement of a lost segment arrives changed, but with a CRC, with zcopy_tx 0, or
// when the region was deregistered meanwhile.
//
// SIW-7-04
func TestZeroCopyOfReadResponses(t *testing.T) {
	for _, c := range []struct {
		crc, zcopy string
		dereg      bool
		changed    bool
	}{{"0", "1", false, true}, {"0", "0", false, false}, {"1", "1", false, false}, {"0", "1", true, false}} {
		w, a, b := twoNICs(t, Config{})
		for _, n := range []*node{a, b} {
			if err := n.dev.Set(Setting{"mpa_crc_required", c.crc}, Setting{"zcopy_tx", c.zcopy}); err != nil {
				t.Fatal(err)
			}
		}
		client, server := dial(w, a, b, peer4, 1<<16)
		w.run(time.Second)
		lost := w.losesOne(b)
		for i := range server.mem {
			server.mem[i] = 1
		}
		client.post(verbs.OpRead, 12_000, server)
		for !*lost {
			w.run(time.Microsecond)
		}
		if c.dereg {
			if err := server.mr.Dereg(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range server.mem {
			server.mem[i] = 2
		}
		w.until(10*time.Second, func() bool { return client.completions() == 1 })
		if client.wcs[0].Status != verbs.StatusSuccess || bytes.Contains(client.mem[:12_000], []byte{0}) ||
			bytes.Contains(client.mem, []byte{2}) != c.changed {
			t.Errorf("%+v: %v, changed octets arrived: %v", c, client.wcs[0].Status, bytes.Contains(client.mem, []byte{2}))
		}
	}
}

// losesOne has the cable lose the next long frame of a node.
func (w *world) losesOne(from *node) (lost *bool) {
	lost = new(bool)
	w.lose = func(n *node, b []byte) bool {
		if *lost || n != from || len(b) < 1000 {
			return false
		}
		*lost = true
		return true
	}
	return lost
}

// A NIC with the defaults of siw asks for no CRC, refuses who demands one, offers 128
// Reads each way, places nothing out of order, and takes 80 octets inline. Two such NICs
// work with each other.
func TestSiwProfile(t *testing.T) {
	profile := func() (c Config) {
		if err := settings.Profile("siw", c.Params(), new(Config).Params()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	w, a, b := twoNICs(t, profile())
	c, s := dial(w, a, b, peer4, 1<<16)
	exercise(w, c, s, 20_000)
	request := []byte("MPA ID Req Frame")
	i := slices.IndexFunc(a.all, func(r frame.Record) bool { return r.Dir == frame.Outbound && bytes.Contains(r.Data, request) })
	if i < 0 {
		t.Fatal("no MPA request")
	}
	flags := a.all[i].Data[bytes.Index(a.all[i].Data, request)+len(request)]
	if flags&0x40 != 0 {
		t.Errorf("the MPA request has flags %#x: it asks for CRC", flags)
	}
	if d := a.dev.Verbs.Limits(); d.MaxIRD != 128 || d.MaxORD != 128 || d.MaxInline != 80 {
		t.Errorf("%+v", d)
	}
	w.lose = nil
	lost := w.losesOne(a)
	clear(s.mem)
	for i := range c.mem {
		c.mem[i] = 1
	}
	c.post(verbs.OpWrite, 40_000, s)
	w.run(25 * time.Microsecond)
	if !*lost || bytes.Contains(s.mem, []byte{1}) {
		t.Errorf("lost %v; something was placed out of order: %v", *lost, bytes.Contains(s.mem, []byte{1}))
	}
	w.until(5*time.Second, func() bool { return s.mem[39_999] == 1 })

	w = newWorld(t)
	cfg := profile()
	cfg.Name, cfg.Addrs = "nic0", prefixes("10.0.0.1/24")
	a = w.nic(cfg)
	b = w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.2/24")})
	a.dev.LinkUp(w.now)
	b.dev.LinkUp(w.now)
	for _, from := range []*node{a, b} {
		to := a
		if from == a {
			to = b
		}
		x, err := dialQuietly(w, from, to, to.dev.IP.Addrs()[0].Addr())
		if err == nil && x.saw(cm.ActiveComplete) && x.events[len(x.events)-1].Err == nil {
			t.Errorf("%s connected to who demands a CRC, or refuses it", from.dev.cfg.Name)
		}
	}
}
