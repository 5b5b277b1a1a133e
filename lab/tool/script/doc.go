// Package script runs wire scripts: text files that play the peer of a NIC
// packet by packet and state what must come back, in the manner of
// packetdrill. A script runs in virtual time, against the NIC's TCP offload
// engine or, with "protocol iwarp", against a whole NIC with an application on
// it; the same script always runs the same way. "protocol 16b" and "protocol
// ptp" are about an HFI port with a virtual NIC and a PTP clock, "protocol roce"
// about a NIC with RoCE. Scripts of iWARP and RoCE also run against a live Linux
// machine. docs/reference/scripts.md is the reference of the format.
//
// A script is parsed into settings and steps (parse.go). A step has a time, a
// connection and an action: a message that the peer sends or that the NIC
// must send, or a command of the application. Each kind of message has a
// grammar of its own (message.go): segment.go, icmp.go; startup.go, rdma.go.
//
// A script of iWARP lives in a world (world.go): the machine, its application
// (connect.go, objects.go, observe.go) and memory (region.go). Each connection
// has an endpoint (endpoint.go), which plays TCP for the peer and takes the
// machine's stream apart. The machine is a NIC in virtual time (virtual.go) or a
// guest (live.go, judge.go; guest.go and guestqp.go speak with its application).
//
// The other protocols have messages of named fields (protocol.go): fabric.go,
// ptp.go, roce.go, whose machine is a NIC (rocenic.go) or a guest (roceguest.go).
package script
