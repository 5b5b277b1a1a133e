// Package iscsi is an iSCSI target and an initiator (RFC 7143) without sockets, clock or
// threads: octets of connections and the time go in, octets and the next deadline come
// out. They have one connection per session and error recovery level 0, and both digests.
//
// # Memory
//
// A connection of a target has at most window commands outstanding, 16 immediate ones besides, and
// 128 MiB of their data until the peer has acknowledged it; a command beyond ends with
// TASK SET FULL. 4096 PDUs without data may wait for a peer that does not read. Login and
// text negotiations take 64 KiB, PDUs that came too early 4 MiB.
package iscsi
