package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The store is a table of slots in the server's memory, one per key. A get is
// an RDMA Read of the slot: the server's program has no part in it. A put is a
// Send with key and slot; the server stores it and answers with a Send of key
// and version. Numbers are big-endian. The server's address, STag and number
// of slots are the private data of its answer to a connection request.
const (
	valueLen  = 240
	slotLen   = 16 + valueLen // version, checksum, four octets spare, value
	putLen    = 8 + slotLen   // key, then the slot
	answerLen = 16            // key, version
	helloLen  = 16            // address, STag, slots
)

var errTorn = errors.New("a slot does not match its checksum")

// fillValue makes the value that version of key must have.
func fillValue(value []byte, key int, version uint64) {
	x := uint64(key)<<32 ^ version*0x9e3779b97f4a7c15
	for i := range value {
		x = x*6364136223846793005 + 1442695040888963407
		value[i] = byte(x >> 56)
	}
}

func putSlot(b []byte, key int, version uint64) {
	binary.BigEndian.PutUint64(b, version)
	fillValue(b[16:slotLen], key, version)
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[16:slotLen]))
}

// checkSlot returns the version that a slot holds, 0 if it was never written.
func checkSlot(b []byte, key int) (version uint64, err error) {
	version = binary.BigEndian.Uint64(b)
	if version == 0 {
		return 0, nil
	}
	var want [slotLen]byte
	putSlot(want[:], key, version)
	if string(want[:]) != string(b[:slotLen]) {
		return version, errTorn
	}
	return version, nil
}
