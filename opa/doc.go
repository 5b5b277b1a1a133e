// Package opa holds what crosses an Omni-Path fabric: LIDs, 16B and 9B
// packets with their invariant CRC, P_Keys, locally administered MAC addresses
// that carry a LID, the choice of entropy, SC, VL and RC, and the framings in
// which packets travel over Ethernet.
//
// A 16B packet carries one Ethernet frame:
//
//	octets 0-15   local route header, little-endian (LRH)
//	       16-17  reserved
//	       18-19  L4 header: the vESW id, little-endian
//	       20-    the Ethernet frame without FCS
//	       then   0 to 7 octets of pad, zero
//	       -5..-2 ICRC, little-endian
//	       -1     tail: the number of pad octets
//
// It is a multiple of 8 octets long; its length field counts all of it.
//
// No public text defines the ICRC of Omni-Path. The one here, version 1, is
// InfiniBand's CRC-32 over everything but the tail, with the fields set to
// ones that a fabric may change on the way; no claim is made that a real HFI
// computes the same.
//
// A packet enters and leaves a port in this order:
//
//  1. Encapsulate: header, pad, ICRC and tail around an Ethernet frame (packet.go)
//  2. Wrap: the framing that carries it over a TAP (framing.go)
//  3. Unwrap: out of the framing
//  4. Parse: every field is checked, the ICRC last
//  5. Decapsulate: the Ethernet frame alone
package opa
