package crc

// wideMin is the length from which updateWide works.
const wideMin = 256

// updateWide continues the inverted CRC32C crc over p, at least wideMin
// octets. It needs what hasWide tells.
//
//go:noescape
func updateWide(crc uint32, p []byte) uint32

func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
func xgetbv() uint32

var hasWide = detectWide()

// detectWide tells whether processor and operating system have AVX-512 and
// its carry-less multiplication.
func detectWide() bool {
	const (
		sse42, osxsave = 1 << 20, 1 << 27 // leaf 1, ecx
		avx512f        = 1 << 16          // leaf 7, ebx
		vpclmulqdq     = 1 << 10          // leaf 7, ecx
		states         = 0xe6             // XCR0: XMM, YMM, opmask and both halves of ZMM
	)
	leaves, _, _, _ := cpuid(0, 0)
	if leaves < 7 {
		return false
	}
	if _, _, c, _ := cpuid(1, 0); c&(sse42|osxsave) != sse42|osxsave || xgetbv()&states != states {
		return false
	}
	_, b, c, _ := cpuid(7, 0)
	return b&avx512f != 0 && c&vpclmulqdq != 0
}
