// Package toe is the NIC's TCP offload engine: RFC 9293 with the options of
// RFC 7323 and RFC 2018, loss recovery after RFC 8985 (RACK-TLP) and without
// SACK after RFC 6582, timeouts after RFC 6298, congestion control after RFC
// 5681 or 9438 with the marks of RFC 3168, path MTU after RFC 1191, 8201 and
// 4821, SYN cookies after RFC 4987, and the defences of RFC 5961 and 6528. It
// sends from a Source that can render any range of the stream again, one or
// more whole MPA FPDUs per segment (RFC 5044 annex A).
//
// # Memory
//
// Whatever peers send, memory stays within these bounds, which tests assert:
//
//   - A connection at rest takes at most 3 KiB, and up to 4 KiB more for the
//     packets of its beginning until SaveContext(false).
//   - Data received out of order takes at most 2*Config.RcvWnd and one frame
//     per connection, Config.MaxReassembly and one frame in all, however small
//     the pieces are.
//   - Segments in flight take 24 octets each, at most Config.SndWnd/512 of
//     them and one super-frame more; after a fall of the path MTU three times
//     as many.
//   - Half-open connections: at most the backlog of each listener,
//     Config.MaxHalfOpenPerPort and MaxHalfOpenPerHost; beyond, nothing is
//     kept (SYN cookies).
//   - Connections: Config.MaxConns, MaxConnsPerPort and MaxConnsPerHost.
//   - TIME-WAIT: a record of at most 96 octets and its place in a map, at
//     most Config.MaxTimeWait of them.
//   - Answers that wait for a Poll: 256; destinations with a path MTU: 1024.
//
// An acknowledgement is sent at most 10 times a second and connection for
// segments that carry no data and fit nowhere, and once per Poll for others.
package toe
