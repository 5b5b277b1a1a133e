// Package rxe sets the RoCE transport against rxe, the Linux kernel's software RoCEv2, in a QEMU
// guest: the pingpong programs of libibverbs exchange queue pair numbers over TCP with the test,
// which moves its queue pairs by their attributes.
package rxe
