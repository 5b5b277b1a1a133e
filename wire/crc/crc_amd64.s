#include "textflag.h"

// CRC32C by carry-less multiplication, 64 octets at a time, after "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009). A pair
// of constants folds 128 bits over a distance of D bits: x^(D+32) and
// x^(D-32) modulo the polynomial, reflected.

DATA fold2048<>+0(SB)/8, $0x00000000dcb17aa4
DATA fold2048<>+8(SB)/8, $0x00000000b9e02b86
GLOBL fold2048<>(SB), RODATA|NOPTR, $16
DATA fold1536<>+0(SB)/8, $0x00000000a87ab8a8
DATA fold1536<>+8(SB)/8, $0x00000000ab7aff2a
GLOBL fold1536<>(SB), RODATA|NOPTR, $16
DATA fold1024<>+0(SB)/8, $0x000000006992cea2
DATA fold1024<>+8(SB)/8, $0x000000000d3b6092
GLOBL fold1024<>(SB), RODATA|NOPTR, $16
DATA fold512<>+0(SB)/8, $0x00000000740eef02
DATA fold512<>+8(SB)/8, $0x000000009e4addf8
GLOBL fold512<>(SB), RODATA|NOPTR, $16

// The four quarters of a register fold over 384, 256, 128 and 0 bits; the
// last one is added as it is.
DATA quarters<>+0(SB)/8, $0x000000001c291d04
DATA quarters<>+8(SB)/8, $0x00000001d82c63da
DATA quarters<>+16(SB)/8, $0x00000001384aa63a
DATA quarters<>+24(SB)/8, $0x00000000ba4fc28e
DATA quarters<>+32(SB)/8, $0x00000000f20c0dfe
DATA quarters<>+40(SB)/8, $0x000000014cd00bd6
DATA quarters<>+48(SB)/8, $0
DATA quarters<>+56(SB)/8, $0
GLOBL quarters<>(SB), RODATA|NOPTR, $64

// func updateWide(crc uint32, p []byte) uint32
TEXT ·updateWide(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD AX, X4
	VPXORQ Z4, Z0, Z0
	ADDQ $256, SI
	SUBQ $256, CX
	VBROADCASTI32X4 fold2048<>(SB), Z8

blocks:
	CMPQ CX, $256
	JB merge
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ $256, SI
	SUBQ $256, CX
	JMP blocks

merge:
	VBROADCASTI32X4 fold1536<>(SB), Z9
	VBROADCASTI32X4 fold1024<>(SB), Z10
	VBROADCASTI32X4 fold512<>(SB), Z8
	VPCLMULQDQ $0x00, Z9, Z0, Z4
	VPCLMULQDQ $0x11, Z9, Z0, Z0
	VPCLMULQDQ $0x00, Z10, Z1, Z5
	VPCLMULQDQ $0x11, Z10, Z1, Z1
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPTERNLOGQ $0x96, Z4, Z0, Z3
	VPTERNLOGQ $0x96, Z5, Z1, Z6
	VPTERNLOGQ $0x96, Z6, Z2, Z3

block:
	CMPQ CX, $64
	JB last
	VPCLMULQDQ $0x00, Z8, Z3, Z4
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z3
	ADDQ $64, SI
	SUBQ $64, CX
	JMP block

last:
	VMOVDQU64 quarters<>(SB), Z8
	VPCLMULQDQ $0x00, Z8, Z3, Z4
	VPCLMULQDQ $0x11, Z8, Z3, Z5
	VPXORQ Z5, Z4, Z4
	VEXTRACTI32X4 $3, Z3, X0
	VEXTRACTI32X4 $1, Z4, X1
	VEXTRACTI32X4 $2, Z4, X2
	VPXOR X4, X0, X0
	VPXOR X2, X1, X1
	VPXOR X1, X0, X0
	VMOVQ X0, AX
	VPEXTRQ $1, X0, BX
	VZEROUPPER
	XORL R8, R8
	CRC32Q AX, R8
	CRC32Q BX, R8

words:
	CMPQ CX, $8
	JB octets
	CRC32Q (SI), R8
	ADDQ $8, SI
	SUBQ $8, CX
	JMP words

octets:
	TESTQ CX, CX
	JZ done
	CRC32B (SI), R8
	INCQ SI
	DECQ CX
	JMP octets

done:
	MOVL R8, ret+32(FP)
	RET

// func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
