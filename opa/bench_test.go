package opa

import (
	"hash/crc32"
	"testing"
	"time"

	"tapir/wire/frame"
)

// BenchmarkPacket measures what a packet with an Ethernet frame of 1,514
// octets costs beside the CRC-32 of that frame alone: to encapsulate it, to
// check it, and to carry it in an NSH besides. The ratios are those of the
// fastest rounds of one run, taken in turns.
func BenchmarkPacket(b *testing.B) {
	const n, rounds = 1514, 2000
	f := holding(make([]byte, n))
	h := Header{SLID: 5, DLID: 6, VESW: 2, PKey: 0x8001, Entropy: 0x5a}
	var sum uint32
	steps := []struct {
		name string
		do   func()
		best time.Duration
	}{
		{name: "CRC-32", do: func() { sum ^= crc32.ChecksumIEEE(f.Bytes()) }},
		{name: "encapsulate", do: func() {
			Encapsulate(f, &h, ICRCv1)
			f.TrimFront(HeaderLen)
			f.Truncate(n)
		}},
		{name: "check", do: func() {
			f.Prepend(HeaderLen)
			f.Extend(padding(n) + TrailerLen)
			if _, drop := Parse(f.Bytes(), ICRCv1); drop != frame.DropNone {
				b.Fatal(drop)
			}
			Decapsulate(f)
		}},
		{name: "wrap", do: func() {
			f.Prepend(HeaderLen)
			FramingNSH.Wrap(f, 1)
			if _, drop := Unwrap(f); drop != frame.DropNone {
				b.Fatal(drop)
			}
			f.TrimFront(HeaderLen)
		}},
	}
	for i := range steps {
		steps[i].best = time.Hour
	}
	b.SetBytes(n * rounds)
	for b.Loop() {
		for i := range steps {
			start := time.Now()
			for range rounds {
				steps[i].do()
			}
			steps[i].best = min(steps[i].best, time.Since(start))
		}
	}
	crc := float64(steps[0].best)
	for i := range steps {
		b.ReportMetric(float64(steps[i].best)/rounds, "ns/"+steps[i].name)
	}
	b.ReportMetric(crc/float64(steps[1].best), "encapsulate-ratio")
	b.ReportMetric(crc/float64(steps[2].best), "check-ratio")
	b.ReportMetric(2*crc/float64(steps[1].best+steps[2].best+steps[3].best), "all-ratio")
}
