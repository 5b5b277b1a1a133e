package crc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// InfiniBand's sample packet, whose ICRC the architecture prints: LRH, BTH
// with the fields masked, payload. As a 9B packet the masks fall on octets
// that are ones already, but for the VL in octet 0.
func TestOPA9BOfInfiniBandSample(t *testing.T) {
	b, err := hex.DecodeString("f012375c000e17d20a202487ff87b1b3000dec2a01710a1c015d400238f27a050000000ebb884d85fd5cfba4728bc0690ed40000")
	if err != nil {
		t.Fatal(err)
	}
	b[0], b[12] = 0x70, 0xff
	was := bytes.Clone(b)
	if got := binary.LittleEndian.AppendUint32(nil, OPA9B(b)); !bytes.Equal(got, []byte{0x96, 0x25, 0xb7, 0x5a}) {
		t.Errorf("ICRC % x", got)
	}
	if !bytes.Equal(b, was) {
		t.Error("packet altered")
	}
}

func TestOPA16BLeavesThePacket(t *testing.T) {
	b := make([]byte, 100)
	for i := range b {
		b[i] = byte(i)
	}
	was := bytes.Clone(b)
	OPA16B(b)
	if !bytes.Equal(b, was) {
		t.Error("packet altered")
	}
}
