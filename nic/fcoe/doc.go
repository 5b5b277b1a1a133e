// Package fcoe is an end node of Fibre Channel over Ethernet (FC-BB-6): FIP with a
// fabric or, without one, with other end nodes (VN2VN); ports that log in to the fabric
// and to each other; and FCP (FCP-4), as an initiator and as a target over the units of
// package scsi. It has no clock and no threads: frames and the time go in, frames and the
// next deadline come out.
//
// Errors on the wire are made good by exchanges: a command that does not end in time is
// aborted (ABTS) and sent again, up to maxTries times.
//
// # Memory
//
// A node has at most maxRemotes remote ports for each of its own, maxTasks commands of
// initiators outstanding and maxHeld octets of their data, maxControl frames that wait to
// be sent besides data, and one exchange for each login, query and command.
package fcoe
