// Package mpa is Marker PDU Aligned framing for TCP, RFC 5044, with the
// enhanced connection establishment of RFC 6581. It turns upper-layer PDUs
// (ULPDUs, opaque here) into framed PDUs (FPDUs) with optional CRC32C and
// markers, finds them again in a TCP byte stream however it was split, and
// negotiates a connection's parameters. It does no I/O and owns no clock:
// start-up timeouts belong to the caller.
//
// Two kinds of positions occur. A position in the *full operation stream*
// counts octets from the first one behind the peer's or one's own start-up
// frame; markers lie at its multiples of 512. All lengths are octets.
package mpa
