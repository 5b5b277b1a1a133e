package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/wire/frame"
)

// A capture that begins while the SYN waits for its neighbor shows it once, when
// it passes.
func TestReplayLeavesOutWhatWaits(t *testing.T) {
	for _, addr := range []string{"10.0.0.2", "fd00::2"} {
		w, a, b := twoNICs(t, Config{})
		client, server := newEnd(t, a, 64), newEnd(t, b, 64)
		to := netip.AddrPortFrom(netip.MustParseAddr(addr), rdmaPort)
		if _, err := b.dev.CM.Listen(to, 1, server.handle, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.dev.CM.NewID(client.handle, nil).Connect(to, cm.Params{QP: client.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		w.poll()
		var early, late traces
		a.dev.Replay(&early)
		w.run(time.Millisecond) // the question, its answer, the SYN
		a.dev.Replay(&late)
		if station := a.dev.IP.Station(to.Addr()); len(early) != 0 || len(late) == 0 || late[0].Dir != frame.Outbound || [6]byte(late[0].Data) != station {
			t.Errorf("%s: replayed %d packets before the SYN passed, %d after: %v", addr, len(early), len(late), late)
		}
	}
}
