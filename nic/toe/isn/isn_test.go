package isn

import (
	"net/netip"
	"testing"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

var (
	local = netip.MustParseAddrPort("10.0.0.1:1")
	peer  = netip.MustParseAddrPort("10.0.0.2:2")
)

// TestInitialSequenceNumbers checks RFC 6528: a clock, and a secret offset
// for each 4-tuple.
func TestInitialSequenceNumbers(t *testing.T) {
	one, other := Secret{1}, Secret{2}
	x := one.Number(local, peer, 0)
	if x == one.Number(local, netip.AddrPortFrom(peer.Addr(), 3), 0) || x == other.Number(local, peer, 0) || x == one.Hash(local, peer, "ts") {
		t.Fatal("numbers can be guessed")
	}
	if d := one.Number(local, peer, frame.Time(4*time.Second)) - x; d != 1_000_000 {
		t.Fatalf("the clock moved by %d in 4 s", d)
	}
}

// TestCookies makes cookies for all kinds of SYN and takes them back.
func TestCookies(t *testing.T) {
	secret := Secret{1}
	for i := range 1 << 12 {
		syn := tcp.Header{Seq: tcp.Seq(i * 77777), Opts: tcp.Options{MSS: uint16(i * 16)}}
		syn.Opts.HasWS, syn.Opts.WS, syn.Opts.SACKPermitted = i&1 != 0, uint8(i>>1&15), i&32 != 0
		ecn, clock := i&64 != 0, uint32(i*0x0fff_fff1)
		at := frame.Time(i) * frame.Time(time.Second)
		ts := CookieTimestamp(&syn, ecn, clock)
		if d := int32(clock - ts); d < 0 || d > 64 {
			t.Fatalf("timestamp %d ahead of the clock", -d)
		}
		ack := tcp.Header{Seq: syn.Seq + 1, Ack: secret.Cookie(local, peer, &syn, at) + 1, Opts: tcp.Options{HasTS: true, TSEcr: ts}}
		for _, after := range []time.Duration{0, CookieLife / 2, CookieLife + time.Second} {
			got, ok := secret.TakeCookie(local, peer, &ack, at.Add(after))
			if ok != (after < CookieLife) {
				t.Fatalf("after %v: taken %v", after, ok)
			}
			if !ok {
				continue
			}
			o := got.Opts
			if got.Seq != syn.Seq || o.SACKPermitted != syn.Opts.SACKPermitted || o.HasWS != syn.Opts.HasWS ||
				o.HasWS && o.WS != min(syn.Opts.WS, 14) || got.Flags.Has(tcp.ECE|tcp.CWR) != ecn || o.MSS > max(syn.Opts.MSS, cookieMSS[0]) {
				t.Fatalf("SYN %+v came back as %+v", syn.Opts, got)
			}
		}
		if _, ok := secret.TakeCookie(peer, local, &ack, at); ok {
			t.Fatal("taken for another connection")
		}
	}
}
