package crc

import "golang.org/x/sys/cpu"

// foldMin is what fold and foldCopy need at least.
const foldMin = 256

// folds tells whether the processor can fold. An FPDU of 1,460 octets then
// takes two fifths of the time that the standard library needs, which goes
// through its last 436 octets 8 at a time.
var folds = cpu.X86.HasSSE42 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// fold continues crc, not inverted, over at least foldMin octets.
//
//go:noescape
func fold(crc uint32, p []byte) uint32

// foldCopy continues crc over the first at octets of dst, then over src, at
// least foldMin octets, which it puts behind them. It goes through the copied
// octets once.
//
//go:noescape
func foldCopy(crc uint32, dst []byte, at int, src []byte) uint32

// foldIEEE folds p, a multiple of 64 octets and at least foldMin, behind octets whose
// CRC-32 is crc, not inverted: the CRC-32 of all is that of the 16 octets returned.
//
//go:noescape
func foldIEEE(crc uint32, p []byte) (lower, upper uint64)

// foldIEEECopy is foldIEEE of src, which it copies to dst. It goes through the octets
// once.
//
//go:noescape
func foldIEEECopy(crc uint32, dst, src []byte) (lower, upper uint64)
