package ip

import (
	"tapir/wire/frame"
	"tapir/wire/headers"
	"tapir/wire/ip"
)

// PlainlyHosts tells whether a frame is the operating system's, whatever the
// stages would find: nobody in the NIC wants datagrams unless a protocol has
// registered for them, and segments only the transport, of its connections and
// listeners.
func (l *Layer) PlainlyHosts(f *frame.Frame) bool {
	if !l.shared() {
		return false
	}
	switch proto, remote, local := headers.Peek(f.Bytes()); proto {
	case ip.ProtoUDP:
		return !l.registered(ip.ProtoUDP)
	case ip.ProtoTCP:
		t := l.transport(ip.ProtoTCP)
		return t != nil && !t.Owns(local, remote)
	}
	return false
}

// OwnsSent tells whether a frame of the operating system is a segment on a
// connection or port of the NIC's transport. The placeholder socket keeps
// programs away from those, but not the kernel itself: it may still answer with
// a RST what arrived just before the transport took the port.
func (l *Layer) OwnsSent(b []byte) bool {
	local, remote, ok := headers.TCPEnds(b)
	return ok && l.IsLocal(local.Addr()) && l.transport(ip.ProtoTCP).Owns(local, remote)
}

// OwnsReceived tells whether a frame of the wire is a segment of the NIC's
// transport.
func (l *Layer) OwnsReceived(b []byte) bool {
	remote, local, ok := headers.TCPEnds(b)
	return ok && l.transport(ip.ProtoTCP).Owns(local, remote)
}
