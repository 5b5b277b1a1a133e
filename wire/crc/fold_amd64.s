#include "textflag.h"

// Folding: the octets are a polynomial modulo that of the CRC, P. What lies
// n bits in front of a block is added to it after a multiplication by x^n.
// Four accumulators of 512 bits hide the latency of the multiplication. See
// Gopal and others, "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009.
//
// Each pair is x^(n+32) and x^(n-32) mod P, bits reversed, shifted left by
// one: the multipliers of a lane's lower and upper half. n is 2048, 1536, 1024 and
// 512, then 384, 256 and 128 for the lanes of an accumulator, the last of which stays.
DATA castagnoliBy<>+0(SB)/8, $0x0dcb17aa4
DATA castagnoliBy<>+8(SB)/8, $0x0b9e02b86
DATA castagnoliBy<>+16(SB)/8, $0x0a87ab8a8
DATA castagnoliBy<>+24(SB)/8, $0x0ab7aff2a
DATA castagnoliBy<>+32(SB)/8, $0x06992cea2
DATA castagnoliBy<>+40(SB)/8, $0x00d3b6092
DATA castagnoliBy<>+48(SB)/8, $0x0740eef02
DATA castagnoliBy<>+56(SB)/8, $0x09e4addf8
DATA castagnoliBy<>+64(SB)/8, $0x01c291d04
DATA castagnoliBy<>+72(SB)/8, $0x1d82c63da
DATA castagnoliBy<>+80(SB)/8, $0x1384aa63a
DATA castagnoliBy<>+88(SB)/8, $0x0ba4fc28e
DATA castagnoliBy<>+96(SB)/8, $0x0f20c0dfe
DATA castagnoliBy<>+104(SB)/8, $0x14cd00bd6
DATA castagnoliBy<>+112(SB)/8, $0
DATA castagnoliBy<>+120(SB)/8, $0
GLOBL castagnoliBy<>(SB), RODATA|NOPTR, $128

// The same of the polynomial of CRC-32.
DATA ieeeBy<>+0(SB)/8, $0x11542778a
DATA ieeeBy<>+8(SB)/8, $0x1322d1430
DATA ieeeBy<>+16(SB)/8, $0x1821d8bc0
DATA ieeeBy<>+24(SB)/8, $0x12e958ac4
DATA ieeeBy<>+32(SB)/8, $0x1e88ef372
DATA ieeeBy<>+40(SB)/8, $0x14a7fe880
DATA ieeeBy<>+48(SB)/8, $0x154442bd4
DATA ieeeBy<>+56(SB)/8, $0x1c6e41596
DATA ieeeBy<>+64(SB)/8, $0x03db1ecdc
DATA ieeeBy<>+72(SB)/8, $0x174359406
DATA ieeeBy<>+80(SB)/8, $0x0f1da05aa
DATA ieeeBy<>+88(SB)/8, $0x15a546366
DATA ieeeBy<>+96(SB)/8, $0x1751997d0
DATA ieeeBy<>+104(SB)/8, $0x0ccaa009e
DATA ieeeBy<>+112(SB)/8, $0
DATA ieeeBy<>+120(SB)/8, $0
GLOBL ieeeBy<>(SB), RODATA|NOPTR, $128

// Moves the four accumulators on by 2048 bits; their halves are in Z0 to Z3 and
// Z4 to Z7.
#define MULTIPLY \
	VPCLMULQDQ $0x00, Z16, Z0, Z4; \
	VPCLMULQDQ $0x00, Z16, Z1, Z5; \
	VPCLMULQDQ $0x00, Z16, Z2, Z6; \
	VPCLMULQDQ $0x00, Z16, Z3, Z7; \
	VPCLMULQDQ $0x11, Z16, Z0, Z0; \
	VPCLMULQDQ $0x11, Z16, Z1, Z1; \
	VPCLMULQDQ $0x11, Z16, Z2, Z2; \
	VPCLMULQDQ $0x11, Z16, Z3, Z3

// Adds the four accumulators up in Z3.
#define MERGE \
	VBROADCASTI32X4 16(R8), Z16; \
	VBROADCASTI32X4 32(R8), Z17; \
	VBROADCASTI32X4 48(R8), Z18; \
	VPCLMULQDQ      $0x00, Z16, Z0, Z4; \
	VPCLMULQDQ      $0x11, Z16, Z0, Z0; \
	VPCLMULQDQ      $0x00, Z17, Z1, Z5; \
	VPCLMULQDQ      $0x11, Z17, Z1, Z1; \
	VPCLMULQDQ      $0x00, Z18, Z2, Z6; \
	VPCLMULQDQ      $0x11, Z18, Z2, Z2; \
	VPTERNLOGQ      $0x96, Z4, Z0, Z3; \
	VPTERNLOGQ      $0x96, Z5, Z1, Z6; \
	VPTERNLOGQ      $0x96, Z6, Z2, Z3

// Makes 128 bits in BX and DX of Z3: their CRC is that of all.
#define REDUCE \
	VMOVDQU64     64(R8), Z16; \
	VPCLMULQDQ    $0x00, Z16, Z3, Z4; \
	VPCLMULQDQ    $0x11, Z16, Z3, Z5; \
	VEXTRACTI32X4 $3, Z3, X3; \
	VPXORQ        Z5, Z4, Z4; \
	VEXTRACTI64X4 $1, Z4, Y5; \
	VPXOR         Y5, Y4, Y4; \
	VEXTRACTI128  $1, Y4, X5; \
	VPXOR         X3, X4, X4; \
	VPXOR         X5, X4, X4; \
	VMOVQ         X4, BX; \
	VPEXTRQ       $1, X4, DX; \
	VZEROUPPER

// Makes the CRC of BX and DX in AX.
#define FINISH \
	XORL   AX, AX; \
	CRC32Q BX, AX; \
	CRC32Q DX, AX

// Folds CX octets at SI, a multiple of 64 and at least 256, into BX and DX. AX is the
// CRC before them, R8 the table of its polynomial.
#define FOLD \
	VMOVD           AX, X4; \
	VMOVDQU64       (SI), Z0; \
	VMOVDQU64       64(SI), Z1; \
	VMOVDQU64       128(SI), Z2; \
	VMOVDQU64       192(SI), Z3; \
	VPXORQ          Z4, Z0, Z0; \
	VBROADCASTI32X4 (R8), Z16; \
	ADDQ            $256, SI; \
	SUBQ            $512, CX; \
	JLT             merge; \
four: \
	MULTIPLY; \
	VPTERNLOGQ $0x96, (SI), Z4, Z0; \
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1; \
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2; \
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3; \
	ADDQ       $256, SI; \
	SUBQ       $256, CX; \
	JGE        four; \
merge: \
	MERGE; \
	ADDQ            $192, CX; \
	JLT             reduce; \
single: \
	VPCLMULQDQ $0x00, Z18, Z3, Z4; \
	VPCLMULQDQ $0x11, Z18, Z3, Z3; \
	VPTERNLOGQ $0x96, (SI), Z4, Z3; \
	ADDQ       $64, SI; \
	SUBQ       $64, CX; \
	JGE        single; \
reduce: \
	REDUCE

// The same, and copies them to DI.
#define FOLDCOPY \
	VMOVD           AX, X4; \
	VMOVDQU64       (SI), Z0; \
	VMOVDQU64       64(SI), Z1; \
	VMOVDQU64       128(SI), Z2; \
	VMOVDQU64       192(SI), Z3; \
	VMOVDQU64       Z0, (DI); \
	VMOVDQU64       Z1, 64(DI); \
	VMOVDQU64       Z2, 128(DI); \
	VMOVDQU64       Z3, 192(DI); \
	VPXORQ          Z4, Z0, Z0; \
	VBROADCASTI32X4 (R8), Z16; \
	ADDQ            $256, SI; \
	ADDQ            $256, DI; \
	SUBQ            $512, CX; \
	JLT             merge; \
four: \
	VMOVDQU64  (SI), Z8; \
	VMOVDQU64  64(SI), Z9; \
	VMOVDQU64  128(SI), Z10; \
	VMOVDQU64  192(SI), Z11; \
	VMOVDQU64  Z8, (DI); \
	VMOVDQU64  Z9, 64(DI); \
	VMOVDQU64  Z10, 128(DI); \
	VMOVDQU64  Z11, 192(DI); \
	MULTIPLY; \
	VPTERNLOGQ $0x96, Z8, Z4, Z0; \
	VPTERNLOGQ $0x96, Z9, Z5, Z1; \
	VPTERNLOGQ $0x96, Z10, Z6, Z2; \
	VPTERNLOGQ $0x96, Z11, Z7, Z3; \
	ADDQ       $256, SI; \
	ADDQ       $256, DI; \
	SUBQ       $256, CX; \
	JGE        four; \
merge: \
	MERGE; \
	ADDQ $192, CX; \
	JLT  reduce; \
single: \
	VMOVDQU64  (SI), Z8; \
	VMOVDQU64  Z8, (DI); \
	VPCLMULQDQ $0x00, Z18, Z3, Z4; \
	VPCLMULQDQ $0x11, Z18, Z3, Z3; \
	VPTERNLOGQ $0x96, Z8, Z4, Z3; \
	ADDQ       $64, SI; \
	ADDQ       $64, DI; \
	SUBQ       $64, CX; \
	JGE        single; \
reduce: \
	REDUCE

// func fold(crc uint32, p []byte) uint32
TEXT ·fold(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX

	// What is not a multiple of 64 octets comes first, by the CRC32
	// instruction.
	MOVQ CX, DX
	ANDQ $63, DX
	SUBQ DX, CX
	SUBQ $8, DX
	JLT  odd

eight:
	CRC32Q (SI), AX
	ADDQ   $8, SI
	SUBQ   $8, DX
	JGE    eight

odd:
	ADDQ   $4, DX
	JLT    octets
	CRC32L (SI), AX
	ADDQ   $4, SI
	SUBQ   $4, DX

octets:
	ADDQ $4, DX
	JZ   blocks

octet:
	CRC32B (SI), AX
	INCQ   SI
	DECQ   DX
	JNZ    octet

blocks:
	LEAQ castagnoliBy<>(SB), R8
	FOLD
	FINISH
	MOVL   AX, ret+32(FP)
	RET

// func foldCopy(crc uint32, dst []byte, at int, src []byte) uint32
TEXT ·foldCopy(SB), NOSPLIT, $0-68
	MOVL crc+0(FP), AX
	MOVQ dst_base+8(FP), DI
	MOVQ at+32(FP), DX
	MOVQ src_base+40(FP), SI
	MOVQ src_len+48(FP), CX
	JMP  more

lead:
	CRC32Q (DI), AX
	ADDQ   $8, DI

more:
	SUBQ $8, DX
	JGE  lead
	ADDQ $8, DX
	JZ   source

rest:
	CRC32B (DI), AX
	INCQ   DI
	DECQ   DX
	JNZ    rest

source:
	MOVQ CX, DX
	ANDQ $63, DX
	SUBQ DX, CX
	SUBQ $8, DX
	JLT  odd

eight:
	MOVQ   (SI), BX
	CRC32Q BX, AX
	MOVQ   BX, (DI)
	ADDQ   $8, SI
	ADDQ   $8, DI
	SUBQ   $8, DX
	JGE    eight

odd:
	ADDQ   $4, DX
	JLT    octets
	MOVL   (SI), BX
	CRC32L BX, AX
	MOVL   BX, (DI)
	ADDQ   $4, SI
	ADDQ   $4, DI
	SUBQ   $4, DX

octets:
	ADDQ $4, DX
	JZ   blocks

octet:
	MOVB   (SI), BX
	CRC32B BX, AX
	MOVB   BX, (DI)
	INCQ   SI
	INCQ   DI
	DECQ   DX
	JNZ    octet

blocks:
	LEAQ castagnoliBy<>(SB), R8
	FOLDCOPY
	FINISH
	MOVL AX, ret+64(FP)
	RET

// func foldIEEE(crc uint32, p []byte) (lower, upper uint64)
TEXT ·foldIEEE(SB), NOSPLIT, $0-48
	MOVL crc+0(FP), AX
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX
	LEAQ ieeeBy<>(SB), R8
	FOLD
	MOVQ BX, lower+32(FP)
	MOVQ DX, upper+40(FP)
	RET

// func foldIEEECopy(crc uint32, dst, src []byte) (lower, upper uint64)
TEXT ·foldIEEECopy(SB), NOSPLIT, $0-72
	MOVL crc+0(FP), AX
	MOVQ dst_base+8(FP), DI
	MOVQ src_base+32(FP), SI
	MOVQ src_len+40(FP), CX
	LEAQ ieeeBy<>(SB), R8
	FOLDCOPY
	MOVQ BX, lower+56(FP)
	MOVQ DX, upper+64(FP)
	RET
