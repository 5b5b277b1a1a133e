#include "textflag.h"

// Folding: the octets are a polynomial modulo the Castagnoli one, P. What lies
// n bits in front of a block is added to it after a multiplication by x^n.
// Four accumulators of 512 bits hide the latency of the multiplication. See
// Gopal and others, "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009.
//
// Each pair is x^(n+32) and x^(n-32) mod P, bits reversed, shifted left by
// one: the multipliers of a lane's lower and upper half.
DATA by2048<>+0(SB)/8, $0x0dcb17aa4
DATA by2048<>+8(SB)/8, $0x0b9e02b86
GLOBL by2048<>(SB), RODATA|NOPTR, $16

DATA by1536<>+0(SB)/8, $0x0a87ab8a8
DATA by1536<>+8(SB)/8, $0x0ab7aff2a
GLOBL by1536<>(SB), RODATA|NOPTR, $16

DATA by1024<>+0(SB)/8, $0x06992cea2
DATA by1024<>+8(SB)/8, $0x00d3b6092
GLOBL by1024<>(SB), RODATA|NOPTR, $16

DATA by512<>+0(SB)/8, $0x0740eef02
DATA by512<>+8(SB)/8, $0x09e4addf8
GLOBL by512<>(SB), RODATA|NOPTR, $16

// The lanes of an accumulator: n is 384, 256 and 128; the last stays.
DATA lanes<>+0(SB)/8, $0x01c291d04
DATA lanes<>+8(SB)/8, $0x1d82c63da
DATA lanes<>+16(SB)/8, $0x1384aa63a
DATA lanes<>+24(SB)/8, $0x0ba4fc28e
DATA lanes<>+32(SB)/8, $0x0f20c0dfe
DATA lanes<>+40(SB)/8, $0x14cd00bd6
DATA lanes<>+48(SB)/8, $0
DATA lanes<>+56(SB)/8, $0
GLOBL lanes<>(SB), RODATA|NOPTR, $64

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
	VBROADCASTI32X4 by1536<>(SB), Z16; \
	VBROADCASTI32X4 by1024<>(SB), Z17; \
	VBROADCASTI32X4 by512<>(SB), Z18; \
	VPCLMULQDQ      $0x00, Z16, Z0, Z4; \
	VPCLMULQDQ      $0x11, Z16, Z0, Z0; \
	VPCLMULQDQ      $0x00, Z17, Z1, Z5; \
	VPCLMULQDQ      $0x11, Z17, Z1, Z1; \
	VPCLMULQDQ      $0x00, Z18, Z2, Z6; \
	VPCLMULQDQ      $0x11, Z18, Z2, Z2; \
	VPTERNLOGQ      $0x96, Z4, Z0, Z3; \
	VPTERNLOGQ      $0x96, Z5, Z1, Z6; \
	VPTERNLOGQ      $0x96, Z6, Z2, Z3

// Makes the CRC of Z3 in AX: that of the 128 bits that are left is that of all.
#define REDUCE \
	VMOVDQU64     lanes<>(SB), Z16; \
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
	VZEROUPPER; \
	XORL   AX, AX; \
	CRC32Q BX, AX; \
	CRC32Q DX, AX

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
	VMOVD           AX, X4
	VMOVDQU64       (SI), Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VPXORQ          Z4, Z0, Z0
	VBROADCASTI32X4 by2048<>(SB), Z16
	ADDQ            $256, SI
	SUBQ            $512, CX
	JLT             merge

four:
	MULTIPLY
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ       $256, SI
	SUBQ       $256, CX
	JGE        four

merge:
	MERGE
	ADDQ            $192, CX
	JLT             reduce

single:
	VPCLMULQDQ $0x00, Z18, Z3, Z4
	VPCLMULQDQ $0x11, Z18, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z3
	ADDQ       $64, SI
	SUBQ       $64, CX
	JGE        single

reduce:
	REDUCE
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
	VMOVD           AX, X4
	VMOVDQU64       (SI), Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VMOVDQU64       Z0, (DI)
	VMOVDQU64       Z1, 64(DI)
	VMOVDQU64       Z2, 128(DI)
	VMOVDQU64       Z3, 192(DI)
	VPXORQ          Z4, Z0, Z0
	VBROADCASTI32X4 by2048<>(SB), Z16
	ADDQ            $256, SI
	ADDQ            $256, DI
	SUBQ            $512, CX
	JLT             merge

four:
	VMOVDQU64  (SI), Z8
	VMOVDQU64  64(SI), Z9
	VMOVDQU64  128(SI), Z10
	VMOVDQU64  192(SI), Z11
	VMOVDQU64  Z8, (DI)
	VMOVDQU64  Z9, 64(DI)
	VMOVDQU64  Z10, 128(DI)
	VMOVDQU64  Z11, 192(DI)
	MULTIPLY
	VPTERNLOGQ $0x96, Z8, Z4, Z0
	VPTERNLOGQ $0x96, Z9, Z5, Z1
	VPTERNLOGQ $0x96, Z10, Z6, Z2
	VPTERNLOGQ $0x96, Z11, Z7, Z3
	ADDQ       $256, SI
	ADDQ       $256, DI
	SUBQ       $256, CX
	JGE        four

merge:
	MERGE
	ADDQ $192, CX
	JLT  reduce

single:
	VMOVDQU64  (SI), Z8
	VMOVDQU64  Z8, (DI)
	VPCLMULQDQ $0x00, Z18, Z3, Z4
	VPCLMULQDQ $0x11, Z18, Z3, Z3
	VPTERNLOGQ $0x96, Z8, Z4, Z3
	ADDQ       $64, SI
	ADDQ       $64, DI
	SUBQ       $64, CX
	JGE        single

reduce:
	REDUCE
	MOVL AX, ret+64(FP)
	RET
