package mfw

import (
	"testing"

	"pgregory.net/rapid"
)

// The words of the shared memory and of the mailboxes come back as they went.
func TestWordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		on := func() bool { return rapid.Bool().Draw(rt, "bit") }
		s := LinkStatus{Up: on(), Autoneg: on(), AutonegDone: on(), ParallelDetection: on(), PFC: on(), SFPFault: on(), TxPause: on(),
			RxPause: on(), Signal: on(), LocalFault: on(), UnsupportedSpeed: on(), Partner: PartnerSpeeds(rapid.Uint32Range(0, 255).Draw(rt, "partner")),
			PartnerPause: uint8(rapid.IntRange(0, 3).Draw(rt, "pause"))}
		if s.Up {
			s.Speed = rapid.SampledFrom([]uint32{1000, 10000, 20000, 25000, 40000, 50000, 100000}).Draw(rt, "speed")
			s.HalfDuplex = s.Speed == 1000 && on()
		}
		if got := DecodeLinkStatus(s.encode()); got != s {
			rt.Fatalf("%+v, want %+v", got, s)
		}
		c := PHYConfig{rapid.Uint32().Draw(rt, "mbps"), Pause(rapid.Uint32().Draw(rt, "p")), Speeds(rapid.Uint32().Draw(rt, "adv")),
			Loopback(rapid.Uint32().Draw(rt, "loop")), EEEConfig(rapid.Uint32().Draw(rt, "eee"))}
		var b [PHYConfigLen]byte
		if c.Encode(b[:]); DecodePHYConfig(b[:]) != c {
			rt.Fatalf("%+v", c)
		}
		e := EEEStatus{on(), EEECaps(rapid.IntRange(0, 15).Draw(rt, "a")), EEECaps(rapid.IntRange(0, 15).Draw(rt, "b")), EEECaps(rapid.IntRange(0, 15).Draw(rt, "c"))}
		if DecodeEEEStatus(e.encode()) != e {
			rt.Fatalf("%+v", e)
		}
	})
}

// The bits are those that drivers of FastLinQ know.
func TestLinkStatusBits(t *testing.T) {
	s := LinkStatus{Up: true, Speed: 25000, Autoneg: true, AutonegDone: true, TxPause: true, RxPause: true, Signal: true,
		Partner: Partner25G | Partner100G | Partner1GHalf, PartnerPause: 3}
	if got, want := s.encode(), uint32(1|8<<1|0x20|0x40|0x10000|0x8000|0x400|3<<18|0x200000|0x400000|0x800000); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
	if c := EEEConfig(EEEEnabled | EEEAdv10G).WithTimer(EEETimerLatency); c != 0x60009 || c.Timer() != 0x6000 {
		t.Errorf("%#x", c)
	}
}
