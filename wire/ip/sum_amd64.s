#include "textflag.h"

// Adds the 32 octets in x to the sums of the lower and the upper halves of words
// of 64 bits. These cannot overflow, so there is no carry to wait for.
#define ADD(x, half, lower, upper) \
	VPAND  x, Y7, half; \
	VPSRLQ $32, x, x; \
	VPADDQ half, lower, lower; \
	VPADDQ x, upper, upper

// func sumWords(p []byte) uint64
TEXT ·sumWords(SB), NOSPLIT, $0-32
	MOVQ     p_base+0(FP), SI
	MOVQ     p_len+8(FP), CX
	VPXOR    Y0, Y0, Y0
	VPXOR    Y1, Y1, Y1
	VPXOR    Y2, Y2, Y2
	VPXOR    Y3, Y3, Y3
	VPCMPEQD Y7, Y7, Y7
	VPSRLQ   $32, Y7, Y7

block:
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	ADD(Y4, Y6, Y0, Y1)
	ADD(Y5, Y8, Y2, Y3)
	ADDQ    $64, SI
	SUBQ    $64, CX
	JNZ     block

	VPADDQ       Y1, Y0, Y0
	VPADDQ       Y3, Y2, Y2
	VPADDQ       Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDQ       X1, X0, X0
	VMOVQ        X0, AX
	VPEXTRQ      $1, X0, BX
	VZEROUPPER
	ADDQ         BX, AX
	MOVQ         AX, ret+24(FP)
	RET
