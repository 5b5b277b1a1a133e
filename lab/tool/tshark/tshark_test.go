package tshark

import (
	"context"
	"testing"
	"time"
)

// A capture of two Linux siw guests with the MPA CRC on: what tshark says of
// it is known, so it judges the judge.
func TestVerdictOnKnownCapture(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v, err := IWARP(ctx, "testdata/siw-crc.pcap", Options{Disable: []string{"rpcordma"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Malformed) != 0 || len(v.Checksum) != 0 || v.BadCRC != 0 {
		t.Errorf("malformed %v, checksum %v, bad CRCs %d", v.Malformed, v.Checksum, v.BadCRC)
	}
	if v.Frames != 42 || v.GoodCRC != 22 {
		t.Errorf("%d frames with %d good CRCs, want 42 with 22", v.Frames, v.GoodCRC)
	}
	if want := [16]uint64{0: 8, 1: 3, 2: 3, 3: 4}; v.Messages != want {
		t.Errorf("messages by opcode %v, want %v", v.Messages, want)
	}
	if want := [16]uint64{0: 4119, 1: 3 * 28, 2: 4033, 3: 33}; v.Payload != want {
		t.Errorf("payload by opcode %v, want %v", v.Payload, want)
	}
}

func TestVerdictNamesMissingFile(t *testing.T) {
	if _, err := IWARP(context.Background(), "testdata/none.pcap", Options{}); err == nil {
		t.Fatal("a missing capture got a verdict")
	}
}

// 0xffff and 0 are one number in ones' complement.
func TestChecksumOfAllOnes(t *testing.T) {
	v, err := IWARP(t.Context(), "testdata/ffff.pcap", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Frames != 2 || len(v.Checksum) != 1 || v.Checksum[0] != "1" {
		t.Errorf("%d frames, wrong checksums in %v, want it in the first of 2", v.Frames, v.Checksum)
	}
}
