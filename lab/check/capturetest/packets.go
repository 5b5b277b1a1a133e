// Package capturetest reads captures for tests.
package capturetest

import (
	"bytes"
	"io"
	"os"
	"testing"

	"tapir/lab/tool/capture"
	"tapir/wire/pcapng"
)

// Packets are those of a capture in pcapng or pcap, in order.
func Packets(t testing.TB, file string) (all []*pcapng.Packet) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	next, err := capture.Blocks(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := b.(*pcapng.Packet); ok {
			p.Data = bytes.Clone(p.Data)
			all = append(all, p)
		}
	}
}
