// Package script runs wire scripts: text files that play the peer of a NIC
// packet by packet and state what must come back, in the manner of
// packetdrill. A script runs in virtual time against the NIC's TCP offload
// engine; the same script always runs the same way. docs/scripts.md is the
// reference of the format.
//
// A script is parsed into settings and steps (parse.go). A step has a time, a
// connection and an action: a message that the peer sends or that the NIC
// must send, or a command of the application. Each kind of message has a
// grammar of its own (message.go); segment.go and icmp.go hold those there are.
package script
