// Package peer runs a real iWARP peer for NICs: a Linux guest under QEMU whose
// kernel's siw driver speaks to them over a bridge.
//
// The guest is made from Debian packages alone, into a cache, and nothing is
// installed (Build). A guest sits behind a TAP that joins a bridge of the
// caller's network namespace (Start); commands run in it with their output and
// exit code (Guest.Run). It ends with the Guest, with the process that started
// it, or when its time is up, whichever comes first.
//
// Inside are librdmacm's programs (rping, ucmatose, rstream, ...), perftest,
// iperf3, the rdma, ip, tc, dcb, ss and ethtool tools, lldpad, busybox, and verify, which
// package verify documents. siw-load changes the driver's parameters at run time, and
// insmod /lib/dcbops.ko gives eth0 the operations that lldpad needs for DCBX.
package peer

import "embed"

// guest is what the image is made of.
//
//go:embed guest
var guest embed.FS
