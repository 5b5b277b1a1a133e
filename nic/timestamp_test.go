package nic

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tapir/nic/ptp"
	"tapir/ptp/msg"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// syncFrame is a Sync over Ethernet, from the port 1 of the clock 2.
func syncFrame(seq uint16) ([]byte, ptp.ID) {
	b := ether.Header{Dst: ether.Addr{1, 0x1b, 0x19}, Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: ether.TypePTP}.AppendTo(nil)
	m := make([]byte, 46)
	m[1], m[27], m[29] = 2, 2, 1
	binary.BigEndian.PutUint16(m[30:], seq)
	return append(b, m...), ptp.ID{Sequence: seq, Source: msg.PortIdentity{Clock: msg.ClockIdentity{7: 2}, Port: 1}}
}

// stamped is a NIC with a host TAP, whose clock is 37 ppm fast and whose
// observer does as watch says.
func stamped(t *testing.T, watch func(on bool) error) (*world, *node, *hostSide) {
	t.Helper()
	w := newWorld(t)
	h := &hostSide{w: w, room: 64}
	n := &node{w: w, room: 64}
	w.attach(n, Config{Name: "nic0", PHC: PHC{PPB: 37000}}, Env{Pool: w.pool, Wire: n, Host: h, Reserver: h, Observe: watch})
	return w, n, h
}

var stampAll = ptp.HWConfig{TxType: ptp.TxOn, Filter: ptp.FilterV2Event}

// fromHost has the operating system send b.
func (n *node) fromHost(b []byte) {
	f := n.w.pool.Get(len(b))
	f.Append(b)
	n.dev.Receive(frame.Host, []*frame.Frame{f}, n.w.now)
}

// fromWire has b arrive, seen at an earlier time if seen is not 0.
func (n *node) fromWire(b []byte, seen frame.Time) {
	f := n.w.pool.Get(len(b))
	f.Append(b)
	f.Seen = seen
	n.dev.Receive(frame.Wire, []*frame.Frame{f}, n.w.now)
	n.dev.Poll(n.w.now)
}

// isFast tells whether a clock that began at 0 showed s at t, as closely as its
// frequency is kept.
func isFast(s frame.Stamp, t frame.Time) bool {
	d := s - frame.Stamp(t) - frame.Stamp(t)*37/1_000_000
	return d >= -1 && d <= 1
}

// Event messages of the host function get the hardware clock's time at the
// wire, at which the observer saw them.
func TestHardwareStamps(t *testing.T) {
	var watched []bool
	w, n, h := stamped(t, func(on bool) error { watched = append(watched, on); return nil })
	b, id := syncFrame(7)
	n.fromWire(b, 0)
	if _, ok := n.dev.PTP.RxStamp(id); ok || watched != nil {
		t.Error("stamped without having been asked")
	}
	if got, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); err != nil || got != stampAll || n.dev.PTP.HWTimestamps() != got {
		t.Fatalf("%+v, %v", got, err)
	}
	for seq, seen := range map[uint16]frame.Time{1: 0, 2: w.now - 3000} {
		b, id := syncFrame(seq)
		n.fromWire(b, seen)
		at := w.now
		if seen != 0 {
			at = seen
		}
		if s, ok := n.dev.PTP.RxStamp(id); !ok || !isFast(s, at) {
			t.Errorf("seen %d: %d, %v", at, s, ok)
		}
	}
	b, id = syncFrame(3)
	n.fromWire(b, frame.Never)
	if _, ok := n.dev.PTP.RxStamp(id); ok || len(h.got) != 4 {
		t.Errorf("missed by the observer: stamped %v; %d frames reached the host", ok, len(h.got))
	}
	if counter(t, n.dev, "ptp_rx_unseen") != 1 || counter(t, n.dev, "ptp_rx_missed") != 1 || counter(t, n.dev, "ptp_rx_stamps") != 2 {
		t.Errorf("%+v", n.dev.PTP.Counters())
	}
	w.now += 1000
	n.fromHost(b)
	sent := w.now
	w.run(time.Millisecond)
	if s, ok, waiting := n.dev.PTP.TxStamp(id); !ok || waiting || !isFast(s, sent) {
		t.Errorf("sent at %d: %d %v %v", sent, s, ok, waiting)
	}
	if _, err := n.dev.PTP.SetHWTimestamps(ptp.HWConfig{}, w.now); err != nil || n.dev.PTP.Owner() != "" {
		t.Errorf("owner %q, %v", n.dev.PTP.Owner(), err)
	}
	if len(watched) != 2 || !watched[0] || watched[1] {
		t.Errorf("observed %v", watched)
	}
}

func TestSetHWTimestampsFails(t *testing.T) {
	broken := errors.New("no CAP_NET_RAW")
	w, n, _ := stamped(t, func(bool) error { return broken })
	if _, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); !errors.Is(err, broken) || n.dev.PTP.Owner() != "" {
		t.Errorf("%v, owner %q", err, n.dev.PTP.Owner())
	}
	if _, err := n.dev.PTP.SetHWTimestamps(ptp.HWConfig{TxType: ptp.TxOneStepSync}, w.now); !errors.Is(err, ptp.ErrRange) || n.dev.PTP.Owner() != "" {
		t.Errorf("%v, owner %q", err, n.dev.PTP.Owner())
	}
}

// A stamp that gets lost is given up after two seconds, by the NIC itself; the
// message behind it goes without.
func TestLostTxStamp(t *testing.T) {
	w, n, _ := stamped(t, nil)
	if _, err := n.dev.PTP.SetHWTimestamps(stampAll, w.now); err != nil {
		t.Fatal(err)
	}
	if err := n.dev.Set(Setting{"ptp_tx_lose", "1"}); err != nil {
		t.Fatal(err)
	}
	for seq := range uint16(2) {
		b, _ := syncFrame(seq)
		n.fromHost(b)
	}
	_, first := syncFrame(0)
	w.run(ptp.GiveUp - time.Millisecond)
	if _, ok, waiting := n.dev.PTP.TxStamp(first); ok || !waiting || n.dev.PTP.Unit().Stats().TxSkipped != 1 {
		t.Errorf("stamp %v, waiting %v, %+v", ok, waiting, n.dev.PTP.Unit().Stats())
	}
	w.run(2 * time.Millisecond)
	if _, ok, waiting := n.dev.PTP.TxStamp(first); ok || waiting || n.dev.PTP.Unit().Stats().TxSkipped != 2 {
		t.Errorf("stamp %v, waiting %v, %+v", ok, waiting, n.dev.PTP.Unit().Stats())
	}
	if err := n.dev.Set(Setting{"ptp_tx_lose", "0"}, Setting{"ptp_tx_delay", "1"}, Setting{"ptp_tx_delay_by", "5ms"}); err != nil {
		t.Fatal(err)
	}
	b, id := syncFrame(9)
	n.fromHost(b)
	w.run(4 * time.Millisecond)
	if _, ok, waiting := n.dev.PTP.TxStamp(id); ok || !waiting {
		t.Error("the late stamp is early")
	}
	w.run(2 * time.Millisecond)
	if _, ok, _ := n.dev.PTP.TxStamp(id); !ok {
		t.Error("the late stamp never came")
	}
	if err := n.dev.Set(Setting{"ptp_tx_delay", "0"}, Setting{"ptp_tx_duplicate", "1"}); err != nil {
		t.Fatal(err)
	}
	before := n.dev.PTP.Unit().Stats()
	for seq := range uint16(3) {
		b, id := syncFrame(20 + seq)
		n.fromHost(b)
		w.run(time.Millisecond)
		if _, ok, _ := n.dev.PTP.TxStamp(id); !ok {
			t.Error("a stamp that comes twice is lost")
		}
	}
	if after := n.dev.PTP.Unit().Stats(); after.TxStamps != before.TxStamps+3 || after.TxStale != before.TxStale+2 {
		t.Errorf("%+v, before %+v", after, before)
	}
	if counter(t, n.dev, "ptp_skip_txts") != 2 {
		t.Errorf("%+v", n.dev.PTP.Counters())
	}
}

// The oscillator and the resolution of stamps are as configured.
func TestPHCParameters(t *testing.T) {
	read := func(settings ...Setting) frame.Stamp {
		w := newWorld(t)
		var cfg Config
		for _, s := range settings {
			if err := cfg.Param(s.Name).Set(s.Value); err != nil {
				t.Fatal(err)
			}
		}
		phc := w.nic(cfg).dev.PTP.PHC()
		if err := phc.AdjFine(0, 10*65536); err != nil { // 10 ppm
			t.Fatal(err)
		}
		return phc.At(frame.Time(1_000_000_000_001))
	}
	if got := read(Setting{"phc_drift_register", "0"}); got != 1_000_010_000_001 {
		t.Errorf("exact: %d", got)
	}
	if got := read(); got == 1_000_010_000_001 || got < 1_000_009_990_000 || got > 1_000_010_010_000 {
		t.Errorf("in steps of the drift register: %d", got)
	}
	if got := read(Setting{"phc_drift_register", "0"}, Setting{"phc_quantum", "16ns"}); got != 1_000_010_000_000 {
		t.Errorf("in steps of 16 ns: %d", got)
	}
	if got := read(Setting{"phc_drift_register", "0"}, Setting{"phc_ppb", "-10000"}); got != 1_000_000_000_001-100 {
		t.Errorf("10 ppm slow, corrected: %d", got)
	}
	if got := read(Setting{"phc_oscillator", "xo"}) - read(); got < 36_900_000 || got > 37_100_000 {
		t.Errorf("a crystal gains %d ns in 1000 s", got)
	}
	if a, b := read(Setting{"phc_jitter", "500ns"}), read(); a == b || a < b-5000 || a > b+5000 {
		t.Errorf("jitter: %d instead of %d", a, b)
	}
}
