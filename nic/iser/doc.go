// Package iser carries iSCSI by RDMA (RFC 7145) for the targets and initiators of nic/iscsi, over
// iWARP or RoCE. A connection is one queue pair, in iSER from its first message on: the login goes
// by Send, too, as Linux, tgt and libiscsi have it. The private data of a connection has four
// octets; the first says that addresses are advertised, and that Send with Invalidate is
// understood.
//
// Nothing here has a goroutine or a clock. All calls belong to the thread of the device.
//
// # Memory
//
// A connection has 144 receives of 8.5 KiB, as many as a peer may have PDUs under way, and 32
// buffers for longer messages that it sends. At most 512 work requests are posted, and 4096 wait.
package iser
